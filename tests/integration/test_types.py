"""Every Hive type through the sink's own task path, read back through Hive's reader in two zones.

`docs/types.md` says in words what the second half of this file shows.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal as Number
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink.config.formats import FORMATS
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_type
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.hiveql.apply import is_safe
from hivesink.sink.task.messages import InputShape
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.integration.everytype import BEFORE, CLOCKS, EVERYTHING, FILTERED, GAPS, exists, held, shown
from tests.integration.readback import in_zone
from tests.sink.task.taskrun import Run, publish

pytestmark = pytest.mark.spark

ZONES = ("Europe/Berlin", "America/Los_Angeles")
HIVE, SPARK = (
    {f"spark.sql.hive.convertMetastore{form}": own for form in ("Parquet", "Orc")} for own in ("false", "true")
)
CONVERTED = {**SPARK, "spark.sql.parquet.int96TimestampConversion": "true"}


def write(location: Path, columns: dict[str, tuple[str, pa.Array]], form: str, **options: str) -> list[str]:
    run = Run(
        RenameFileStore(LocalFileSystem()),
        str(location),
        tuple(Column(name, parse_type(hive)) for name, (hive, _) in columns.items()),
        shape=InputShape(),
        options=options,
        format=form,
    )
    report = run(pa.RecordBatch.from_arrays([array for _, array in columns.values()], list(columns)))
    assert report.bad is None
    return publish(run.store, report)


def create(table: str, location: Path, columns: dict[str, str], form: str) -> dict[str, Any]:
    declared = ", ".join(f"{name} {hive}" for name, hive in columns.items())
    stored = f"STORED AS {form} LOCATION '{location.as_uri()}'"
    return {"sql": f"CREATE TABLE IF NOT EXISTS types.{table}_{form} ({declared}) {stored}"}


class Wider(NamedTuple):
    """A change of a column's type: two values and a NULL under the old one, and what the new one shows."""

    old: str
    new: str
    values: pa.Array
    texts: tuple[str, str]


TINY = pa.array([-128, 127, None], pa.int8()), ("-128", "127")
SMALL = pa.array([-32768, 32767, None], pa.int16()), ("-32768", "32767")
INT = pa.array([-(2**31), 2**31 - 1, None], pa.int32()), ("-2147483648", "2147483647")
TEXT = pa.array(["äß漢字🙂", "ab  ", None]), ("äß漢字🙂", "ab  ")
NUMBER = pa.array([Number("-9999999.99"), Number("0.01"), None], pa.decimal128(9, 2))
# The safe changes of docs/ddl.md.
WIDER = [
    *(Wider("tinyint", new, *TINY) for new in ("smallint", "int", "bigint")),
    *(Wider("smallint", new, *SMALL) for new in ("int", "bigint")),
    Wider("int", "bigint", *INT),
    Wider("tinyint", "double", TINY[0], ("-128.0", "127.0")),
    Wider("smallint", "double", SMALL[0], ("-32768.0", "32767.0")),
    Wider("float", "double", pa.array([0.1, -0.5, None], pa.float32()), ("0.10000000149011612", "-0.5")),
    Wider("decimal(9,2)", "decimal(12,2)", NUMBER, ("-9999999.99", "0.01")),
    Wider("decimal(9,2)", "decimal(38,4)", NUMBER, ("-9999999.9900", "0.0100")),
    *(Wider("varchar(5)", new, *TEXT) for new in ("varchar(20)", "string")),
]


def within(old: str, new: str, values: list[Any], texts: tuple[str, str]) -> Wider:
    return Wider(old, new, pa.array([*values, None], arrow_type(parse_type(old))), texts)


# Those within nested values, which Spark's own reader takes, too.
NESTED = [
    within("struct<x:int>", "struct<x:int,y:string>", [{"x": 1}, {"x": None}], ("{1, null}", "{null, null}")),
    within(
        "array<struct<a:int>>", "array<struct<a:int,b:string>>", [[{"a": 1}, None], []], ("[{1, null}, null]", "[]")
    ),
    within(
        "struct<s:struct<x:int>,n:int>",
        "struct<s:struct<x:int,y:array<int>>,n:int>",
        [{"s": {"x": 1}, "n": 2}, {"s": None, "n": 3}],
        ("{{1, null}, 2}", "{null, 3}"),
    ),
    within(
        "struct<m:decimal(6,2)>",
        "struct<m:decimal(10,2),y:date>",
        [{"m": Number("1.25")}, {"m": Number("-9999.99")}],
        ("{1.25, null}", "{-9999.99, null}"),
    ),
    within("array<decimal(6,2)>", "array<decimal(10,2)>", [[Number("1.25")], []], ("[1.25]", "[]")),
    within("struct<x:int>", "struct<x:bigint>", [{"x": 1}, {"x": -(2**31)}], ("{1}", "{-2147483648}")),
]


Read: TypeAlias = "dict[str, list[list[Any]] | str]"
"""What one JVM read of a format's files, by step: rows, or an error's text."""

FORMS = tuple(FORMATS)
READERS: dict[str, dict[str, str]] = {
    "hive": HIVE,
    "hive, conversion forced": HIVE,
    "spark": SPARK,
    "spark, converted": CONVERTED,
    "spark, legacy": {**CONVERTED, "spark.sql.parquet.int96RebaseModeInRead": "LEGACY"},
    "spark, exception": {**CONVERTED, "spark.sql.parquet.int96RebaseModeInRead": "EXCEPTION"},
    "hive, session in UTC": {**HIVE, "spark.sql.session.timeZone": "UTC"},
}

READERS_OF_MICROS: dict[str, dict[str, str]] = {
    "hive": HIVE,
    "spark": CONVERTED,
    "spark, as TIMESTAMP_NTZ": {**SPARK, "spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "spark, session in UTC": {**SPARK, "spark.sql.session.timeZone": "UTC"},
}


PREDICATES = {predicate: ids for *_, due in FILTERED.values() for predicate, ids in due.items()}


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders `everything`, `clocks` and so on of each format, written by the sink's task."""
    base = tmp_path_factory.mktemp("types")
    rows = max(len(typed.values) for typed in EVERYTHING.values())
    columns = {"id": ("int", pa.array(range(rows), pa.int32()))}
    for name, typed in EVERYTHING.items():
        values = [value for value, _ in typed.values]
        columns[name] = (typed.hive, pa.array(values + [None] * (rows - len(values)), typed.source))
    for form in FORMS:
        write(base / form / "everything", columns, form)
        for name, changes in (("widened", WIDER), ("nested", NESTED)):
            changed = {f"c{number}": (one.old, one.values) for number, one in enumerate(changes)}
            write(base / form / name, changed, form)
        texts = [text for text in CLOCKS if held(text, form)]
        clocks = [datetime.fromisoformat(text) for text in texts]
        stored = {"k": ("string", pa.array(texts)), "ts": ("timestamp", pa.array(clocks, pa.timestamp("us")))}
        inner = pa.array([[clock] for clock in clocks], pa.list_(pa.timestamp("us")))
        days = pa.array([clock.date() for clock in clocks], pa.date32())
        write(base / form / "clocks", {**stored, "inner": ("array<timestamp>", inner), "d": ("date", days)}, form)
        if form == "PARQUET":
            write(base / form / "micros", stored, form, **{"sink.parquet.timestamp": "micros"})
        filtered = {
            name: (hive, pa.array(values, arrow_type(parse_type(hive)))) for name, (hive, values, _) in FILTERED.items()
        }
        bloom = {"orc.bloom.filter.columns": ",".join(FILTERED)}
        write(base / form / "filtered", {"id": ("int", pa.array([0, 1], pa.int32())), **filtered}, form, **bloom)
    return base


# Each zone is a JVM of its own.
@pytest.fixture(scope="module", params=[ZONES[0], pytest.param(ZONES[1], marks=pytest.mark.long)])
def zone(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def by_form(zone: str, location: Path, metastore: EmbeddedMetastore) -> dict[str, Read]:
    """What Spark and Hive's reader in it give, JVM and session in `zone`, by format and step."""
    steps: dict[tuple[str, str], dict[str, Any]] = {("", "database"): {"sql": "CREATE DATABASE IF NOT EXISTS types"}}
    for form in FORMS:
        steps |= {(form, name): step for name, step in steps_of(form, zone, location / form).items()}
    answers = zip(steps, in_zone(zone, metastore.uri, metastore.warehouse, [*steps.values()]), strict=True)
    found: dict[str, Read] = {form: {} for form in ("", *FORMS)}
    for (form, name), answer in answers:
        found[form][name] = answer
    return found


def readers_of(form: str) -> dict[str, dict[str, str]]:
    return {name: READERS[name] for name in ("hive", "spark")} if form == "ORC" else READERS


def steps_of(form: str, zone: str, location: Path) -> dict[str, dict[str, Any]]:
    skip = "hive.parquet.timestamp.skip.conversion"
    every = {"id": "int", **{name: typed.hive for name, typed in EVERYTHING.items()}}
    tables = {
        "everything": every,
        "copied": every,
        "clocks": {"k": "string", "ts": "timestamp", "inner": "array<timestamp>", "d": "date"},
        "widened": {f"c{number}": change.new for number, change in enumerate(WIDER)},
        "nested": {f"c{number}": change.new for number, change in enumerate(NESTED)},
    }
    tables["filtered"] = {"id": "int", **{name: hive for name, (hive, *_) in FILTERED.items()}}
    if form == "PARQUET":
        tables["micros"] = {"k": "string", "ts": "timestamp"}
    texts = ", ".join(typed.text.format(name) for name, typed in EVERYTHING.items())
    clocks = f"SELECT k, CAST(ts AS STRING), CAST(inner[0] AS STRING), CAST(d AS STRING) FROM types.clocks_{form}"

    def cast(table: str) -> str:
        return f"SELECT {', '.join(f'CAST({name} AS STRING)' for name in tables[table])} FROM types.{table}_{form}"

    steps = {f"create {name}": create(name, location / name, columns, form) for name, columns in tables.items()}
    steps["everything"] = {"sql": f"SELECT {texts} FROM types.everything_{form} ORDER BY id", "conf": HIVE}
    steps["everything by spark"] = {**steps["everything"], "conf": SPARK}
    for reader, conf in readers_of(form).items():
        forced = reader == "hive, conversion forced"
        steps |= {f"force {reader}": {"sql": f"SET {skip}=false"}} if forced else {}
        steps[reader] = {"sql": clocks, "conf": conf}
        steps |= {f"unforce {reader}": {"sql": f"SET {skip}=true"}} if forced else {}
    copy = f"INSERT OVERWRITE TABLE types.copied_{form} SELECT * FROM types.everything_{form}"
    steps["copy"] = {"sql": copy, "conf": SPARK}
    steps["copied"] = {"sql": f"SELECT {texts} FROM types.copied_{form} ORDER BY id", "conf": HIVE}
    steps["widened"] = {"sql": cast("widened"), "conf": HIVE}
    steps |= {f"nested {reader}": {"sql": cast("nested"), "conf": READERS[reader]} for reader in ("hive", "spark")}
    selects = [
        f"SELECT {number} AS n, id FROM types.filtered_{form} WHERE {text}" for number, text in enumerate(PREDICATES)
    ]
    for reader in ("hive", "spark") if form == "ORC" else ():
        conf = {**READERS[reader], "spark.sql.orc.filterPushdown": "true"}
        steps[f"filtered {reader}"] = {"sql": " UNION ALL ".join(selects), "conf": conf}
    for reader, conf in READERS_OF_MICROS.items() if form == "PARQUET" else ():
        zoned = {"spark.sql.session.timeZone": zone, **conf}
        steps[f"micros {reader}"] = {"sql": f"SELECT k, CAST(ts AS STRING) FROM types.micros_{form}", "conf": zoned}
    return steps


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def of_any(by_form: dict[str, Read], form: str) -> Read:
    return by_form[form]


@pytest.fixture
def read(by_form: dict[str, Read]) -> Read:
    """Of Parquet."""
    return by_form["PARQUET"]


@pytest.fixture
def of_orc(by_form: dict[str, Read]) -> Read:
    return by_form["ORC"]


def rows(read: Read, step: str) -> list[list[Any]]:
    found = read[step]
    assert isinstance(found, list), found
    return found


def clocks_of(read: Read, reader: str) -> dict[str, tuple[str, ...]]:
    """TIMESTAMP, the same within an ARRAY, and DATE by the clock that was written; of `micros` the first."""
    return {clock: tuple(rest) for clock, *rest in rows(read, reader)}


def stamps(read: Read, reader: str) -> dict[str, str]:
    return {clock: stamp for clock, (stamp, *_) in clocks_of(read, reader).items()}


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_type_reads_back_through_hives_reader(name: str, of_any: Read) -> None:
    place = list(EVERYTHING).index(name)
    expected = [text for _, text in EVERYTHING[name].values]
    assert [row[place] for row in rows(of_any, "everything")[: len(expected)]] == expected


@pytest.mark.parametrize("step", ["everything by spark", "copied"])
def test_sparks_own_reader_and_what_it_copies_give_every_type_alike(step: str, of_any: Read) -> None:
    assert of_any[step] == of_any["everything"]


def test_what_orc_says_of_its_values_hides_none(of_orc: Read) -> None:
    """Bounds and bloom filters."""
    for reader in ("hive", "spark"):
        found = rows(of_orc, f"filtered {reader}")
        ids = [sorted(id_ for n, id_ in found if n == number) for number in range(len(PREDICATES))]
        assert dict(zip(PREDICATES, ids, strict=True)) == PREDICATES, reader


@pytest.mark.parametrize(
    ("step", "changes"),
    [("widened", WIDER), ("nested hive", NESTED), ("nested spark", NESTED)],
    ids=["wider", "hive", "spark"],
)
def test_old_files_read_right_under_a_wider_type_and_a_struct_of_more_fields(
    of_any: Read, step: str, changes: list[Wider]
) -> None:
    found = rows(of_any, step)
    for number, one in enumerate(changes):
        assert [row[number] for row in found] == [*one.texts, None], one
        assert is_safe(parse_type(one.old), parse_type(one.new)), one


def test_hives_reader_gives_back_every_wall_clock(of_any: Read, form: str, zone: str) -> None:
    """All that a clock of the reader's zone can show, from 1582-10-15 to the end of 9999."""
    found = clocks_of(of_any, "hive")
    first = "1582-10-15" + " 14:00" * (form == "ORC")
    clocks = [clock for clock in CLOCKS if clock >= first and exists(clock, zone) and held(clock, form)]
    assert len(clocks) > 300
    assert {clock: found[clock] for clock in clocks} == {clock: (clock, clock, clock[:10]) for clock in clocks}


def test_orc_says_in_which_calendar_it_counts(of_orc: Read, zone: str) -> None:
    """So both readers of Spark show all that it can hold; but, east of UTC, where the calendars begin."""
    begins = {"0001-01-01 00:00:00", "1582-10-15 00:00:00"} if zone == ZONES[0] else set()
    for reader in ("hive", "spark"):
        found = clocks_of(of_orc, reader)
        assert all(found[clock] != (clock, clock, clock[:10]) for clock in begins)
        clocks = [clock for clock in found if exists(clock, zone) and clock not in begins]
        assert {*BEFORE} - begins < {*clocks}
        assert {clock: found[clock] for clock in clocks} == {clock: (clock, clock, clock[:10]) for clock in clocks}


def test_a_wall_clock_in_the_readers_missing_hour_moves_by_an_hour(by_form: dict[str, Read], zone: str) -> None:
    gap = GAPS[zone]
    readers = [("PARQUET", "hive"), ("PARQUET", "spark, converted"), ("ORC", "hive"), ("ORC", "spark")]
    for form, reader in readers:
        there = " 01:" if form == "ORC" and zone == ZONES[1] else " 03:"
        assert stamps(by_form[form], reader)[gap] == gap.replace(" 02:", there), reader


def test_before_the_gregorian_calendar_hives_reader_counts_in_the_julian(read: Read) -> None:
    found = clocks_of(read, "hive")
    assert {clock: found[clock] for clock in BEFORE} == {
        clock: (there, there, there[:10]) for clock, there in BEFORE.items()
    }


LATER = {"Europe/Berlin": "1970-01-01 01:00:00", "America/Los_Angeles": "1969-12-31 16:00:00"}
EARLIER = {"Europe/Berlin": "1969-12-31 23:00:00", "America/Los_Angeles": "1970-01-01 08:00:00"}


SHIFTED = {
    # Spark's own reader takes it for an instant in UTC, unless it is told to convert.
    "spark": LATER,
    "micros spark": LATER,
    "hive, conversion forced": LATER,
    # In Spark alone: it takes Hive's wall clock as an instant of the JVM's zone.
    "hive, session in UTC": EARLIER,
}


def test_who_shifts_a_wall_clock(read: Read, zone: str) -> None:
    found = {reader: stamps(read, reader)["1970-01-01 00:00:00"] for reader in SHIFTED}
    assert found == {reader: shown_as[zone] for reader, shown_as in SHIFTED.items()}


def test_with_the_conversion_sparks_own_reader_gives_every_wall_clock(read: Read, zone: str) -> None:
    """Before 1582 too."""
    clocks = [clock for clock in CLOCKS if exists(clock, zone)]
    converted = stamps(read, "spark, converted")
    assert {clock: converted[clock] for clock in clocks} == {clock: clock for clock in clocks}


def test_sparks_rebase_modes(read: Read) -> None:
    """LEGACY reads early ones as Julian; EXCEPTION, the default until Spark 4, refuses those before 1900."""
    legacy = stamps(read, "spark, legacy")
    assert legacy["1900-01-01 00:00:00"] == "1900-01-01 00:00:00"
    assert legacy["1500-01-01 00:00:00"].startswith(("1499-12-22", "1499-12-23"))
    assert "READ_ANCIENT_DATETIME" in read["spark, exception"]


def test_int64_timestamps_by_reader(read: Read) -> None:
    """Hive 2.3 can't read them (HIVE-21215); Spark takes them for instants, but for TIMESTAMP_NTZ or in UTC."""
    assert isinstance(read["micros hive"], str)
    for reader in ("spark, as TIMESTAMP_NTZ", "spark, session in UTC"):
        assert stamps(read, f"micros {reader}") == {clock: clock for clock in CLOCKS}


def test_pyarrow_gives_back_every_wall_clock_in_microseconds(location: Path) -> None:
    (part,) = (location / "PARQUET" / "clocks").glob("part-*")
    table = pq.read_table(part, coerce_int96_timestamp_unit="us")
    assert [shown(clock) for clock in table.column("ts").to_pylist()] == table.column("k").to_pylist()
    # By default they are nanoseconds, which end in 2262, and wrap.
    wrapped = pq.read_table(part).column("ts").cast(pa.timestamp("us"), safe=False)
    assert wrapped.to_pylist() != table.column("ts").to_pylist()
