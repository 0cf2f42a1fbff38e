"""What Hive 4 and 3.1 themselves read of the sink's files, asked of HiveServer2, on its engine and by its mere fetches.

`everytype` is the list that Hive 2.3's SerDe reads in `tests/integration/test_types.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hivesink.config.formats import FORMATS
from hivesink.config.site import Site
from hivesink.core.partition import DEFAULT_PARTITION, escape
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_type
from hivesink.jvm.java import find_java
from hivesink.metastore.hiveserver2 import literal
from jobs.cluster import Cluster
from tests.cli.site import command, hivesink
from tests.cluster.conftest import Place, of_cluster
from tests.cluster.ingest import Addresses, Hive
from tests.integration.everytype import BEFORE, CLOCKS, EVERYTHING, FILTERED, Typed, held
from tests.metastore.live import NOSASL

DAYS = ("2024-01-01", "2024-01-02")
ODD = [
    "a/b",
    "a:b",
    "100%",
    "%2F",
    "a b",
    " ",
    "äß漢字🙂",
    'say "hi"',
    "it's",
    "a=b",
    "a#b?c&d",
    "[x]{y}^*",
    "back\\slash",
    "<>|~`!@$();,+",
    "tab\tand\x01",
    ".hidden",
    "_under",
    "NULL",
]
SUMMED = {"tinyint", "smallint", "int", "bigint", "decimal(9,2)"}
ZONE = "hive.local.time.zone"
VECTORIZED = "hive.vectorized.execution.enabled"
FETCH = "hive.fetch.task.conversion"
SCALARS = {name: typed for name, typed in EVERYTHING.items() if not typed.nested}
ORDERED = {
    name: typed
    for name, typed in SCALARS.items()
    # Hive has no order of bytes, and NaN is nobody's maximum.
    if typed.hive not in {"binary", "float", "double"}
}


@pytest.fixture(scope="module", params=["4.0.1", pytest.param("3.1.3", marks=pytest.mark.long)])
def addresses(request: pytest.FixtureRequest) -> Addresses:
    """Of Hive 4.0.1 on HDFS, or of Hive 3.1.3 on this machine's disk."""
    if request.param == "4.0.1":
        return of_cluster(request.getfixturevalue("cluster"))
    metastore, server = request.getfixturevalue("hive3")
    server.start()
    return Addresses(metastore.uri, server.address, (metastore.folder / "proofs").as_uri(), Site(hive=NOSASL))


@pytest.fixture
def is_older(request: pytest.FixtureRequest) -> bool:
    """Whether it is Hive 3.1.3."""
    return "3.1.3" in request.node.callspec.id


@pytest.fixture
def hive(hive: Hive) -> Iterator[Hive]:
    """The session, whose settings are put back."""
    yield hive
    for name in (FETCH, VECTORIZED, ZONE):
        hive.ask(f"RESET {name}")


def texts(typed: Typed) -> list[str | None]:
    return typed.hive4 or [text for _, text in typed.values]


def shown(name: str, typed: Typed, *, is_older: bool) -> str:
    if is_older and name == "a_wide_decimal":
        # The CAST of 38 digits is NULL in Hive 3.1.3.
        return f"concat('', {name})"
    # HiveServer2 gives nested values as JSON by itself.
    return name if typed.nested else typed.text.format(name)


def everything(addresses: Addresses, place: Place, hive: Hive, options: Mapping[str, str], form: str) -> int:
    """Two partitions with the same rows; how many rows each has."""
    declared = ", ".join(f"{name} {typed.hive}" for name, typed in EVERYTHING.items())
    hive.ask(place.ddl(f"id INT, {declared}", "dt STRING", form=form))
    count = max(len(typed.values) for typed in EVERYTHING.values())
    columns = {"id": pa.array(range(count), pa.int32())}
    for name, typed in EVERYTHING.items():
        values = [value for value, _ in typed.values]
        columns[name] = pa.array(values + [None] * (count - len(values)), typed.source)
    ingest = addresses.ingest(place.table, options=options)
    for day in DAYS:
        ingest.put(pa.RecordBatch.from_pydict({**columns, "dt": pa.array([day] * count)}))
    return count


def aggregates(*, is_older: bool) -> tuple[list[str], list[Any]]:
    """Aggregates over every column that has them, and what they must be in one partition."""
    asked: list[str] = []
    told: list[Any] = []
    for name, typed in SCALARS.items():
        values = [value for value, _ in typed.values if value is not None]
        asked += [f"count({name})", f"count(DISTINCT {name})"]
        told += [len(values), len(set(values))]
        if name in ORDERED:
            known = {value: text for (value, _), text in zip(typed.values, texts(typed), strict=True)}
            low, high = min(values, key=_order), max(values, key=_order)
            text = "concat('', {}({}))" if is_older and name == "a_wide_decimal" else "CAST({}({}) AS STRING)"
            asked += [text.format(extreme, name) for extreme in ("min", "max")]
            told += [known[low], known[high]]
        if typed.hive in SUMMED:
            asked.append(f"sum({name})")
            told.append(sum(values))
    return asked, told


def _order(value: Any) -> Any:
    # Hive compares texts by their bytes.
    return value.encode() if isinstance(value, str) else value


LAID_OUT = {"sink.sort-by": f"id,{','.join(SCALARS)}"}


@pytest.mark.parametrize(
    ("form", "options"),
    [
        pytest.param("PARQUET", {}, id="plain"),
        pytest.param("PARQUET", LAID_OUT, id="laid out", marks=pytest.mark.long),
        pytest.param("ORC", {}, id="ORC"),
    ],
)
def test_every_type(  # noqa: PLR0917
    addresses: Addresses, place: Place, hive: Hive, is_older: bool, form: str, options: Mapping[str, str]
) -> None:
    """Fetched from the files, and by the engine: vectorized and row by row, value by value and aggregated."""
    count = everything(addresses, place, hive, options, form)
    columns = ", ".join(shown(name, typed, is_older=is_older) for name, typed in EVERYTHING.items())
    expected = {name: texts(typed) + [None] * (count - len(typed.values)) for name, typed in EVERYTHING.items()}
    asked, told = aggregates(is_older=is_older)
    for conversion, vectorized in (("more", "true"), ("none", "true"), ("none", "false")):
        hive.ask(f"SET {FETCH}={conversion}")
        hive.ask(f"SET {VECTORIZED}={vectorized}")
        order = "" if conversion == "more" else "ORDER BY id"
        found = hive.ask(f"SELECT {columns} FROM {place.table} WHERE dt = '{DAYS[1]}' {order}")
        assert dict(zip(EVERYTHING, map(list, zip(*found, strict=True)), strict=True)) == expected, vectorized
        if order:
            found = hive.ask(f"SELECT dt, count(*), {', '.join(asked)} FROM {place.table} GROUP BY dt ORDER BY dt")
            names = ["dt", "count(*)", *asked]
            assert [dict(zip(names, row, strict=True)) for row in found] == [
                dict(zip(names, [day, count, *told], strict=True)) for day in DAYS
            ]


@pytest.mark.parametrize("form", FORMATS)
def test_every_wall_clock(addresses: Addresses, place: Place, hive: Hive, is_older: bool, form: str) -> None:
    """From 1582-10-15 to the end of 9999 as they are; before that, Hive 4 counts in the Julian calendar, as 2.3 did.

    Hive 3.1.3 does so for vectorized dates only. An ORC file says which calendar is meant, to Hive 4.
    """
    hive.ask(place.ddl("k STRING, ts TIMESTAMP, d DATE, one STRUCT<at:TIMESTAMP>, many ARRAY<TIMESTAMP>", form=form))
    texts = [text for text in CLOCKS if held(text, form)]
    clocks = [datetime.fromisoformat(text) for text in texts]
    kind = pa.timestamp("us")
    addresses.ingest(place.table).put(
        pa.RecordBatch.from_pydict(
            {
                "k": pa.array(texts),
                "ts": pa.array(clocks, kind),
                "d": pa.array([clock.date() for clock in clocks], pa.date32()),
                "one": pa.array([{"at": clock} for clock in clocks], pa.struct([("at", kind)])),
                "many": pa.array([[clock] for clock in clocks], pa.list_(kind)),
            }
        )
    )
    times = BEFORE if form == "PARQUET" and not is_older else {}
    hive.ask(f"SET {FETCH}=none")
    for vectorized, zone in (("true", "UTC"), ("false", "America/Los_Angeles")):
        hive.ask(f"SET {VECTORIZED}={vectorized}")
        days = BEFORE if (vectorized == "true" if is_older else form == "PARQUET") else {}
        expected = {k: (there := times.get(k, k), days.get(k, k)[:10], there) for k in texts}
        # A TIMESTAMP is a wall clock: no session's zone moves it.
        hive.ask(f"SET {ZONE}={zone}")
        # Hive 4.0.1's vectorized reader refuses an array of timestamps, whoever wrote it.
        inner = "one.at" if vectorized == "true" else "many[0]"
        found = hive.ask(
            f"SELECT k, CAST(ts AS STRING), CAST(d AS STRING), CAST({inner} AS STRING) FROM {place.table} ORDER BY k"
        )
        assert {k: tuple(rest) for k, *rest in found} == expected
    gregorian = [clock for clock in texts if clock >= "1582-10-15"]
    since = f"FROM {place.table} WHERE ts >= '1582-10-15 00:00:00'"
    (figures,) = hive.ask(
        f"SELECT count(*), count(DISTINCT ts), min(ts), max(ts), min(d), max(d), max(year(ts)) {since}"
    )
    assert figures == (
        len(gregorian),
        len(gregorian),
        datetime.fromisoformat(gregorian[0]),
        datetime.fromisoformat(gregorian[-1]),
        "1582-10-15",
        "9999-12-31",
        9999,
    )


def test_what_orc_says_of_its_values_hides_none(addresses: Addresses, place: Place, hive: Hive, is_older: bool) -> None:
    """Bounds and bloom filters, which Hive asks for a predicate."""
    declared = ", ".join(f"{name} {kind}" for name, (kind, *_) in FILTERED.items())
    hive.ask(place.ddl(f"id INT, {declared}", form="ORC"))
    columns = {name: pa.array(values, arrow_type(parse_type(kind))) for name, (kind, values, _) in FILTERED.items()}
    ingest = addresses.ingest(place.table, options={"orc.bloom.filter.columns": ",".join(FILTERED)})
    ingest.put(pa.RecordBatch.from_pydict({"id": pa.array([0, 1], pa.int32()), **columns}))
    hive.ask(f"SET {FETCH}=none")
    hive.ask("SET hive.optimize.index.filter=true")
    # For Hive, NaN is no larger than a number.
    due = {text: ids for *_, asked in FILTERED.values() for text, ids in asked.items() if not text.endswith("> 5")}
    if is_older:
        # It misses rows beside a NaN that comes first, in its own files too, and has another calendar before 1582.
        del due["nan_first = 1"], due["day = DATE '1500-01-01'"]
    for predicate, ids in due.items():
        rows = hive.ask(f"SELECT id FROM {place.table} WHERE {predicate} ORDER BY id")
        assert rows == [(number,) for number in ids], predicate


@pytest.mark.parametrize("addresses", ["4.0.1"], indirect=True)
def test_int64_timestamps(addresses: Addresses, place: Place, hive: Hive) -> None:
    """Hive 4 reads them as they are, whatever the session's zone."""
    hive.ask(place.ddl("k STRING, ts TIMESTAMP"))
    kept = [clock for clock in CLOCKS if clock >= "1582-10-15"]
    clocks = pa.array([datetime.fromisoformat(text) for text in kept], pa.timestamp("us"))
    ingest = addresses.ingest(place.table, options={"sink.parquet.timestamp": "micros"})
    ingest.put(pa.RecordBatch.from_pydict({"k": pa.array(kept), "ts": clocks}))
    hive.ask(f"SET {FETCH}=none")
    for vectorized, zone in (("true", "UTC"), ("false", "America/Los_Angeles")):
        hive.ask(f"SET {VECTORIZED}={vectorized}")
        hive.ask(f"SET {ZONE}={zone}")
        assert dict(hive.ask(f"SELECT k, CAST(ts AS STRING) FROM {place.table}")) == {clock: clock for clock in kept}


def test_hive_itself_keeps_to_the_same_partitions(addresses: Addresses, place: Place, hive: Hive) -> None:
    """Values with every character that Hive escapes, and some that it doesn't, two deep, and null."""
    hive.ask(place.ddl("id BIGINT", "p STRING, n INT"))
    values = [None, *ODD]
    rows = {
        "id": pa.array(range(len(values)), pa.int64()),
        "p": pa.array(values, pa.string()),
        "n": pa.array([None if number % 5 == 1 else -number for number in range(len(values))], pa.int32()),
    }
    ingest = addresses.ingest(place.table)
    ingest.put(pa.RecordBatch.from_pydict(rows))
    names = [
        f"p={escape(p or DEFAULT_PARTITION)}/n={DEFAULT_PARTITION if n is None else n}"
        for p, n in zip(values, rows["n"].to_pylist(), strict=True)
    ]
    assert sorted(name for (name,) in hive.ask(f"SHOW PARTITIONS {place.table}")) == sorted(names)
    # One job of Hive's own writes into each partition once more: where it escapes otherwise, there are more of them.
    hive.ask("SET hive.exec.dynamic.partition.mode=nonstrict")
    hive.ask(f"INSERT INTO {place.table} PARTITION (p, n) SELECT id + 1000, p, n FROM {place.table}")
    ingest.put(pa.RecordBatch.from_pydict({**rows, "id": pa.array(range(2000, 2000 + len(values)), pa.int64())}))
    assert sorted(name for (name,) in hive.ask(f"SHOW PARTITIONS {place.table}")) == sorted(names)
    hive.ask(f"SET {FETCH}=none")
    found = hive.ask(f"SELECT p, n, count(*), min(id), max(id), sum(id) FROM {place.table} GROUP BY p, n")
    # A null in a STRING column of partitions reads as its folder's name, in Hive's own partitions as well.
    shown = [p or DEFAULT_PARTITION for p in values]
    assert {(p, n): rest for p, n, *rest in found} == {
        (p, n): [3, number, number + 2000, 3 * number + 3000]
        for number, (p, n) in enumerate(zip(shown, rows["n"].to_pylist(), strict=True))
    }
    hive.ask(f"SET {FETCH}=more")
    for number, value in enumerate(shown):
        found = hive.ask(f"SELECT id FROM {place.table} WHERE p = {literal(value)}")
        assert sorted(found) == [(number,), (number + 1000,), (number + 2000,)], value
    assert len(hive.ask(f"SELECT id FROM {place.table} WHERE n IS NULL")) == 3 * rows["n"].null_count


@pytest.mark.parametrize("cascade", [pytest.param("", marks=pytest.mark.long), "CASCADE"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_table_whose_columns_have_changed(
    addresses: Addresses, place: Place, hive: Hive, cascade: str, form: str
) -> None:
    """A column more, a struct and the structs of an array with a field more, a wider DECIMAL."""
    hive.ask(place.ddl("id BIGINT, s STRUCT<x:INT>, l ARRAY<STRUCT<a:INT>>, m DECIMAL(6,2)", "dt STRING", form=form))
    ingest = addresses.ingest(place.table)
    x, y = ("x", pa.int32()), ("y", pa.string())
    old = pa.struct([x]), pa.list_(pa.struct([("a", pa.int32())])), pa.decimal128(6, 2)
    new_item = pa.struct([("a", pa.int32()), ("b", pa.string())])
    new = pa.struct([x, y]), pa.list_(new_item), pa.decimal128(10, 2), pa.string(), pa.list_(pa.string())

    def put(first: int, kinds: tuple[pa.DataType, ...], *rows: tuple[Any, ...]) -> None:
        cells = zip(("s", "l", "m", "name", "tags"), zip(*rows, strict=True), kinds, strict=False)
        columns = {name: pa.array(values, kind) for name, values, kind in cells}
        ids = pa.array(range(first, first + len(rows)), pa.int64())
        days = pa.array([DAYS[1], "2024-01-03"] if first == 20 else DAYS[: len(rows)])
        ingest.put(pa.RecordBatch.from_pydict({"id": ids, **columns, "dt": days}))

    put(0, old, ({"x": 1}, [{"a": 1}, None], Decimal("1.25")), (None, [], None))
    for column in ("s s STRUCT<x:INT,y:STRING>", "l l ARRAY<STRUCT<a:INT,b:STRING>>", "m m DECIMAL(10,2)"):
        hive.ask(f"ALTER TABLE {place.table} CHANGE COLUMN {column} {cascade}")
    hive.ask(f"ALTER TABLE {place.table} ADD COLUMNS (name STRING, tags ARRAY<STRING>) {cascade}")
    # The job that runs goes on with the columns that it knows; the next run knows the new ones.
    put(10, old, ({"x": 10}, [{"a": 10}], Decimal("-9999.99")))
    ingest = ingest.again()
    later = {"x": 2, "y": "new"}, [{"a": 2, "b": "new"}], Decimal("10000003.25"), "é", ["a", None]
    put(20, new, later, ({"x": None, "y": ""}, None, None, None, []))
    hive.ask(f"SET {FETCH}=none")
    (figures,) = hive.ask(f"SELECT count(*), count(name), min(name), max(dt) FROM {place.table}")
    assert figures == (5, 1, "é", "2024-01-03")
    expected = [
        (0, DAYS[0], None, '{"x":1,"y":null}', '[{"a":1,"b":null},null]', Decimal("1.25"), None),
        (1, DAYS[1], None, None, "[]", None, None),
        (10, DAYS[0], None, '{"x":10,"y":null}', '[{"a":10,"b":null}]', Decimal("-9999.99"), None),
        # An old partition, whose columns the sink has brought up to the table's.
        (20, DAYS[1], "é", '{"x":2,"y":"new"}', '[{"a":2,"b":"new"}]', Decimal("10000003.25"), '["a",null]'),
        (21, "2024-01-03", None, '{"x":null,"y":""}', None, None, "[]"),
    ]
    # Hive 4.0.1's vectorized reader refuses files without an array that was added later, whoever wrote them.
    for vectorized, columns in (("false", "id, dt, name, s, l, m, tags"), ("true", "id, dt, name, s, l, m")):
        hive.ask(f"SET {VECTORIZED}={vectorized}")
        rows = hive.ask(f"SELECT {columns} FROM {place.table} ORDER BY id")
        assert rows == [row[: len(columns.split(","))] for row in expected], vectorized


NAN, INF = float("nan"), float("inf")
NOON = datetime(2024, 3, 31, 2, 30, 0, 500000)  # noqa: DTZ001  a Hive TIMESTAMP has no zone
WHO = {"userid": 7, "tags": ["a,b", None]}

# By column: Hive's type, Arrow's type, two values, the same in JSON.
ALL: dict[str, tuple[str, pa.DataType, list[Any], list[Any]]] = {
    "id": ("INT", pa.int32(), [1, 2], [1, 2]),
    "zero": ("DECIMAL(10,8)", pa.decimal128(10, 8), [Decimal("1E-8"), Decimal("-1.5")], ["0.00000001", "-1.50000000"]),
    "x": ("DOUBLE", pa.float64(), [NAN, INF], ["NaN", "Infinity"]),
    "f": ("FLOAT", pa.float32(), [0.1, -INF], [0.1, "-Infinity"]),
    "ok": ("BOOLEAN", pa.bool_(), [True, False], [True, False]),
    "name": ("STRING", pa.string(), ['é "q" \\', ""], ['é "q" \\', ""]),
    "raw": ("BINARY", pa.binary(), [b"\x00\xff", b""], ["AP8=", ""]),
    "born": ("DATE", pa.date32(), [date(2024, 2, 29), date(9999, 12, 31)], ["2024-02-29", "9999-12-31"]),
    "noon": ("TIMESTAMP", pa.timestamp("us"), [NOON, datetime(1970, 1, 1)],  # noqa: DTZ001
        ["2024-03-31T02:30:00.500000", "1970-01-01T00:00:00"]),
    "who": ("STRUCT<userid:INT,tags:ARRAY<STRING>>",
        pa.struct([("userid", pa.int32()), ("tags", pa.list_(pa.string()))]),
        [WHO, {"userid": None, "tags": None}], [WHO, {"userid": None, "tags": None}]),
    "many": ("ARRAY<ARRAY<FLOAT>>", pa.list_(pa.list_(pa.float32())), [[[NAN, -INF, 0.1], [], None], []],
        [[["NaN", "-Infinity", 0.1], [], None], []]),
    "seen": ("MAP<STRING,ARRAY<DATE>>", pa.map_(pa.string(), pa.list_(pa.date32())),
        [[("a b", [date(2024, 2, 29), None])], []], [{"a b": ["2024-02-29", None]}, {}]),
    "counts": ("MAP<INT,DECIMAL(10,8)>", pa.map_(pa.int32(), pa.decimal128(10, 8)),
        [[(1, Decimal(0)), (2, None)], []], [{"1": "0.00000000", "2": None}, {}]),
    "clocks": ("ARRAY<STRUCT<clock:TIMESTAMP>>", pa.list_(pa.struct([("clock", pa.timestamp("us"))])),
        [[{"clock": NOON}, None], []], [[{"clock": "2024-03-31T02:30:00.500000"}, None], []]),
}  # fmt: skip


@pytest.mark.parametrize("addresses", ["4.0.1"], indirect=True)
def test_three_engines_answer_alike(
    place: Place, cluster: Cluster, addresses: Addresses, hive: Hive, capsys: pytest.CaptureFixture[str]
) -> None:
    hive.ask(place.ddl(", ".join(f"{name} {kind}" for name, (kind, *_) in ALL.items()), "dt DATE"))
    # The last row is null but for its number.
    rows = {name: pa.array([*values, 3 if name == "id" else None], kind) for name, (_, kind, values, _) in ALL.items()}
    addresses.ingest(place.table).put(pa.RecordBatch.from_pydict({**rows, "dt": pa.array([date(2024, 1, 2)] * 3)}))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HADOOP_CONF_DIR", "HIVE_CONF_DIR"):
            patched.setenv(name, str(cluster.conf))
        patched.setenv("HIVESINK_METASTORE", addresses.metastore)
        _check(place.table, addresses.hiveserver2, capsys)


def _check(table: str, hiveserver2: str, capsys: pytest.CaptureFixture[str]) -> None:
    # One file's rows come in its order, and Hive fetches them without its engine.
    statement = ["query", f"SELECT {', '.join(ALL)}, dt FROM {table}", "--json"]
    by_duckdb = hivesink(capsys, *statement)
    assert by_duckdb.err == "engine: duckdb\n"
    by_hive = hivesink(capsys, *statement, "--hiveserver2", hiveserver2)
    by_spark = command(*statement, "--engine", "spark", more={"JAVA_HOME": str(find_java().home)})
    assert by_spark.returncode == 0, by_spark.stderr
    rows_of = [[*(values[at] for *_, values in ALL.values()), "2024-01-02"] for at in range(2)]
    expected = [*rows_of, [3, *[None] * (len(ALL) - 1), "2024-01-02"]]
    assert by_duckdb.data["rows"] == expected
    assert json.loads(by_spark.stdout)["rows"] == expected
    # HiveServer2 sends nested values as its own text.
    first_nested = [*ALL].index("who")
    assert [row[:first_nested] for row in by_hive.data["rows"]] == [row[:first_nested] for row in expected]
    assert by_hive.data["rows"][0][first_nested] == '{"userid":7,"tags":["a,b",null]}'

    joined = f"SELECT a.who.tags[0], count(*) FROM {table} a JOIN {table} b USING (id) WHERE a.who.userid = 7"
    grouped = hivesink(capsys, "query", f"{joined} AND a.dt = '2024-01-02' GROUP BY 1", "--engine", "duckdb", "--json")
    assert grouped.data["rows"] == [["a,b", 1]]
