"""The tables that samples give: golden DDL, partitions by size and span, and whatever JSON comes."""

from __future__ import annotations

import bz2
import gzip
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink import wiring
from hivesink.config.site import NO_SITE
from hivesink.core.column_source import PATH
from hivesink.core.partfile import Finished
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.decode.avro.schema import Type, parse
from hivesink.errors import InvalidOption
from hivesink.hiveql.parse import parse_ddl
from hivesink.hiveql.render import render
from hivesink.sample.infer import infer
from hivesink.sample.schemas import columns_of
from hivesink.sample.source import FilesSource, Sample, TopicSource, source_of
from hivesink.sample.tables import ARRIVAL, RECORD, Proposal, granularity, preview, propose
from hivesink.sink.task.messages import InputShape
from tests.decode.settings import Given
from tests.decode.test_protobuf import FRAME, NEW, message

NOW = datetime(2026, 11, 23, tzinfo=timezone.utc)
NAME = TableName("demo", "events")
AT = "2024-01-02T03:04:05Z"
TABLES = Path(__file__).with_name("tables.txt").read_text(encoding="utf-8")
CASES = dict(block.split("\n", 1) for block in TABLES.removeprefix("=== ").split("\n=== "))
GB = 1 << 30
YEAR = timedelta(days=365)


def _of_lines(lines: list[bytes], size: int = 0) -> Sample:
    columns = {"value": pa.array(lines, pa.binary()), PATH: pa.array(["file:/f"] * len(lines), pa.string())}
    columns["_line"] = pa.array(range(1, len(lines) + 1), pa.int64())
    shape = InputShape(value="value", path=PATH)
    return Sample(pa.RecordBatch.from_pydict(columns), shape, size)


def _proposed(
    *records: dict[str, object], time: str | None = None, every: str | None = None, size: int = 0
) -> Proposal:
    sample = _of_lines([json.dumps(record).encode() for record in records], size)
    return propose(sample, NAME, "f", NOW, time=time, every=every)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    lines, _, expected = CASES[name].partition("---\n")
    made = propose(_of_lines(lines.encode().splitlines()), NAME, "f", NOW, time=None, every="none")
    assert made.ddl.partition("\n")[2].strip() == expected.strip()
    assert parse_ddl(made.ddl, "t.sql") == made.spec


def test_formats_that_settings_name(tmp_path: Path) -> None:
    lines = [b"id,name,odd name,at", b'1,"a, b",2.5,2024-01-02T03:04:05Z', b"2,,,", b'3,"torn', b"4"]
    csv = {"sink.value.format": "csv"}
    made = propose(_of_lines(lines), NAME, "f", NOW, time=None, every="none", settings=csv)
    assert [(column.name, str(column.type)) for column in made.spec.columns] == [
        ("id", "bigint"), ("name", "string"), ("odd_name", "double"), ("at", "timestamp"),
    ]  # fmt: skip
    assert made.checked.rows.slice(1).to_pylist() == [{"id": 2, "name": None, "odd_name": None, "at": None}]
    assert ([row["line"] for row in made.checked.bad], made.checked.skipped) == ([4, 5], 1)

    schema = {"type": "record", "name": "R", "fields": [
        {"name": "Id", "type": "long", "aliases": ["uid"]},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "child", "type": ["null", "R"]},
        {"name": "either", "type": ["int", "string"]},
    ]}  # fmt: skip
    (tmp_path / "s.avsc").write_text(json.dumps(schema))
    avro = {"sink.value.format": "avro", "sink.value.avro.schema-file": str(tmp_path / "s.avsc")}
    made = propose(_of_lines([b"\2\0\0\0\2"]), NAME, "f", NOW, time=None, every="none", settings=avro)
    assert made.checked.rows.to_pylist() == [{"id": 1, "tags": [], "child": None}]
    left = [note.removeprefix("No column holds all values of ") for note in made.notes[:3]]
    assert left == ["child.child (union)", "child.either (union)", "either (union)"]
    with pytest.raises(
        InvalidOption, match=r"sink.value.format = 'morse': init makes tables of json, csv, debezium-json"
    ):
        propose(_of_lines([]), NAME, "f", NOW, time=None, every=None, settings={"sink.value.format": "morse"})


def test_files_of_other_headers_are_no_table() -> None:
    sample = _of_lines([b"nr;name", b"1;a", b"name;nr", b"b;2"])
    numbers = pa.array([1, 2, 1, 2])
    sample = replace(sample, batch=sample.batch.set_column(2, "_line", numbers))
    settings = {"sink.value.format": "csv", "sink.value.csv.field-delimiter": ";"}
    with pytest.raises(
        InvalidOption, match=r"files begin with other lines, such as 'nr;name' and 'name;nr', and a tab"
    ):
        propose(sample, NAME, "f", NOW, time=None, every=None, settings=settings)
    named = {**settings, "sink.value.csv.header": "nr;name"}
    assert len(propose(sample, NAME, "f", NOW, time=None, every=None, settings=named).checked.rows) == 3


def test_columns_read_all_schemas_of_a_sample() -> None:
    def schema(*fields: tuple[str, str, str]) -> Type:
        parts = [{"name": name, "type": kind, "aliases": former.split()} for name, kind, former in fields]
        return parse((json.dumps({"type": "record", "name": "R", "fields": parts}),))

    new = schema(("id", "long", ""), ("client", "string", "customer buyer"), ("state", "int", "phase"))
    middle = schema(("id", "long", ""), ("customer", "string", "buyer"), ("phase", "int", ""), ("state", "string", ""))
    old = schema(("id", "int", ""), ("buyer", "string", ""), ("note", "string", ""))
    columns, notes = columns_of(old, middle, new)
    assert [(column.name, str(column.type)) for column in columns] == [
        # By a former name a column reads a field of each schema; `state` was another field than `phase`.
        ("id", "bigint"), ("buyer", "string"), ("note", "string"), ("phase", "int"), ("state", "int"),
    ]  # fmt: skip
    assert notes == ()
    between = schema(("id", "long", ""), ("client", "string", ""))
    columns, _ = columns_of(schema(("customer", "string", "")), between, new)
    assert [column.name for column in columns] == ["customer", "id", "client", "state"]


def test_messages_of_protobuf() -> None:
    sample = _of_lines(
        [FRAME, FRAME + message(NEW, i=1, u=2**64 - 1, m={"a": {"n": 1}}, mb={True: 7}).SerializeToString()]
    )
    with mock.patch.object(wiring, "schemas", return_value=lambda *_: Given(NEW)):
        settings = {"sink.value.format": "protobuf-confluent"}
        made = propose(sample, NAME, "f", NOW, time=None, every="none", settings=settings)
    kinds = {column.name: str(column.type) for column in made.spec.columns}
    assert (made.checked.bad, len(made.checked.rows)) == ((), 2)
    assert {name: kinds[name] for name in ("i", "k", "u", "v", "ks", "m", "mb", "t", "g", "w", "date")} == {
        "i": "int", "k": "string", "u": "decimal(20,0)", "v": "bigint", "ks": "array<string>", "t": "timestamp",
        "m": "map<string,struct<n:int,c:string>>", "mb": "map<boolean,decimal(20,0)>", "g": "string", "w": "bigint",
        "date": "struct<year:int,month:int,day:int>",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("size", "span", "expected"),
    [
        (13_492 * 300, 13 * YEAR, "none"),
        (GB, 13 * YEAR, "none"),
        (50 * GB, 13 * YEAR, "month"),
        (500 << 20, timedelta(days=30), "month"),
        (10 * GB, timedelta(days=30), "day"),
        (5 * GB, timedelta(days=1), "day"),
        (10 * GB, timedelta(days=1), "hour"),
        (1000 * GB, timedelta(hours=1), "hour"),
        # Less than an hour says nothing about a rate: it counts as an hour.
        (1000, timedelta(0), "none"),
        (100 << 20, timedelta(seconds=1), "day"),
        (300 << 20, timedelta(minutes=1), "hour"),
    ],
)
def test_a_partition_holds_megabytes(size: int, span: timedelta, expected: str) -> None:
    assert granularity(size, span) == expected


@pytest.mark.parametrize(
    ("record", "time"),
    [
        ({"id": 1, "created_at": AT, "ts": AT}, "ts"),
        ({"updated": AT, "event_time": 1704164645000}, "event_time"),
        ({"day": "2024-01-02", "at": AT}, "at"),
        ({"runtime": 17, "day": "2024-01-02"}, "day"),
        ({"id": 1704150000000}, ARRIVAL),
        ({"at": "2024-03-05T06:07:08.123456789Z"}, "at"),
        ({"at": "05/Mar/2024:06:07:08 +0000"}, "at"),
    ],
)
def test_the_likeliest_time_decides(record: dict[str, object], time: str) -> None:
    made = _proposed(record, every="day")
    assert made.spec.options.get("sink.bucket.time-column", ARRIVAL) == time
    assert made.checked.partitions[0] in {"dt=2024-01-02", "dt=2024-03-05", "dt=2026-11-23"}


def test_a_time_that_few_records_have_is_less_likely() -> None:
    records: list[dict[str, object]] = [{"ts": AT}, {"at": AT}, {"at": AT}]
    records += [{"ts": AT, "at": AT}] * 20
    assert _proposed(*records, every="day").spec.options["sink.bucket.time-column"] == "at"
    named = _proposed(*records, time="TS")
    assert named.spec.options["sink.bucket.time-pattern"] == "yyyy-MM"
    assert named.checked.partitions.count("dt=__HIVE_DEFAULT_PARTITION__") == 2


def test_a_time_that_most_records_lack_decides_nothing() -> None:
    assert "sink.bucket.time-column" not in _proposed({"ts": AT}, {"a": 1}, {"a": 2}, every="day").spec.options


def test_a_few_times_far_away_change_no_rate() -> None:
    records: list[dict[str, object]] = [{"ts": f"2024-01-02T03:{minute:02}:00Z"} for minute in range(40)]
    far: list[dict[str, object]] = [{"ts": "9999-12-31T00:00:00Z"}, {"ts": "1970-01-01T00:00:00Z"}]
    assert _proposed(*records, *far, size=GB).spec.options["sink.bucket.time-pattern"] == "yyyy-MM-dd--HH"


def test_days_are_no_hours_and_fields_keep_their_names() -> None:
    made = _proposed({"day": "2024-01-02", "dt": 1}, size=1000 * GB)
    (partition,) = made.spec.partition_columns
    assert (partition.name, partition.comment) == ("event_dt", "day of day in UTC, yyyy-MM-dd")


def test_the_records_own_time_of_kafka() -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b'{"a": 1}', None]), "timestamp": pa.array([NOW, NOW])})
    sample = Sample(batch, InputShape(value="value", timestamp="timestamp"), GB)
    made = propose(sample, NAME, "kafka://h/t", NOW, time=None, every=None)
    assert made.spec.partition_columns[0].comment == "hour of the Kafka record's timestamp in UTC, yyyy-MM-dd--HH"
    assert (made.checked.partitions, made.checked.skipped) == (("dt=2026-11-23--00",), 1)
    assert made.spec.options["sink.bucket.time-column"] == RECORD
    # A column of that name hides it, also where it holds no time.
    hidden = Sample(batch.set_column(0, "value", pa.array([b'{"timestamp": "soon"}', None])), sample.shape, GB)
    assert "sink.bucket.time-column" not in propose(hidden, NAME, "t", NOW, time=None, every="day").spec.options


@pytest.mark.parametrize(
    ("lines", "problem"),
    [([], "the first record is none"), ([b"no", b"[1]"], "the first record is b'no'. Write one JSON object a line")],
)
def test_what_holds_no_records_gives_no_table(lines: list[bytes], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem.replace("[", "\\[")):
        propose(_of_lines(lines), NAME, "f", NOW, time=None, every=None)


_texts = st.text(max_size=8) | st.sampled_from(
    ["2024-01-02", "2024-01-02T03:04:05Z", "0001-01-01T00:00+01:00", "9999-12-31 23:59", "7", "", "select", "NaN"]
)
_names = st.text(max_size=6) | st.sampled_from(
    ["a", "A", "b", "at", "value", "select", "1", "x y", "x.y", "é", "É", "ß", "İ", "\u212a", "k"]
)
_numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5)
_scalars = st.none() | st.booleans() | _numbers | _texts
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4), max_leaves=8
)


@given(st.lists(st.dictionaries(_names, _json, max_size=4), max_size=6))
def test_the_columns_decode_whatever_they_were_inferred_from(records: list[dict[str, object]]) -> None:
    sample = _of_lines([json.dumps(record).encode() for record in records])
    columns, properties = infer(records)
    if columns:
        spec = TableSpec(NAME, columns, properties=tuple(sorted(properties.items())))
        assert parse_ddl(render(spec), "t.sql") == spec
        made = preview(sample, spec, NOW)
        assert {row["reason"] for row in made.bad} <= {"duplicate field"}
        odd = [records[row["line"] - 1] for row in made.bad]
        assert all(len({name.lower() for name in record}) < len(record) for record in odd)
        if not made.bad:
            assert not any(name.isprintable() for name in made.unknown)


def _sample(path: Path, most: int = 1000) -> Sample:
    source = source_of(str(path), NO_SITE)
    assert isinstance(source, FilesSource)
    return source.sample(most, NO_SITE)


def _places(sample: Sample) -> list[str]:
    places = map(sample.place, range(sample.batch.num_rows))
    return [f"{Path(str(place['file'])).name} line {place['line']}" for place in places]


def test_lines_are_those_that_hadoop_splits(tmp_path: Path) -> None:
    octets = b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": 2}\r{"a": "\xff"}\n{"a": 3}'
    for name, data in (("a.json", octets), ("b.json.gz", gzip.compress(octets)), ("c.json.bz2", bz2.compress(octets))):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "_hidden").write_bytes(b"{}")
    (tmp_path / ".hidden").write_bytes(b"{}")
    (tmp_path / "below").mkdir()
    (tmp_path / "empty.json").touch()
    sample = _sample(tmp_path)
    assert sample.records() == [b'{"a": 1}', b"", b'{"a": 2}', b'{"a": "\xff"}', b'{"a": 3}'] * 3
    assert _places(sample)[4:6] == ["a.json line 5", "b.json.gz line 1"]


def test_each_file_gives_a_like_share(tmp_path: Path) -> None:
    for name, lines in (("a", 1), ("b", 50), ("c", 50)):
        (tmp_path / name).write_text("".join(f"{number:09}\n" for number in range(lines)))
    assert [line.split()[0] for line in _places(_sample(tmp_path, 9))] == ["a"] + ["b"] * 3 + ["c"] * 3


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({"a": b"12345678\n" * 100}, 90),
        ({"a": b"12345678\n" * 8}, 72),
        ({"a": b"1\n", "b.gz": gzip.compress(b"2\n")}, 2 + 5 * len(gzip.compress(b"2\n"))),
    ],
)
def test_the_size_of_the_whole_input(tmp_path: Path, files: dict[str, bytes], size: int) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert _sample(tmp_path, 10).size == size


def test_a_folder_of_folders_is_read_to_its_depths_and_a_file_alone(tmp_path: Path) -> None:
    for day in ("1", "2"):
        (tmp_path / "days" / day).mkdir(parents=True)
        (tmp_path / "days" / day / "a.json").write_text("{}\n")
    deep = source_of(str(tmp_path), NO_SITE)
    assert isinstance(deep, FilesSource)
    paths = [str(tmp_path / "days" / day / "a.json") for day in ("1", "2")]
    assert (deep.is_deep, sorted(file.path for file in deep.files)) == (True, paths)
    alone = source_of((tmp_path / "days" / "1" / "a.json").as_uri(), NO_SITE)
    assert alone == FilesSource(f"{tmp_path}/days/1", [Finished(paths[0], 3)])


@pytest.mark.parametrize(
    ("text", "servers"), [("kafka://h:1/a.b-c", "h:1"), ("kafka://h:1,[::1]:2/a.b-c/", "h:1,[::1]:2")]
)
def test_a_topic_may_have_several_servers(text: str, servers: str) -> None:
    assert source_of(text, NO_SITE) == TopicSource(servers, "a.b-c")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafka://h", "write kafka://HOST:PORT/TOPIC"),
        ("s3://bucket/key", "s3://bucket/key: hivesink supports only "),
        ("not there", "no file that Spark reads"),
        ("empty", "no file that Spark reads; it skips names that begin with . or _"),
    ],
)
def test_what_is_no_source(text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_hidden").touch()
    with pytest.raises(InvalidOption) as error:
        source_of(text, NO_SITE)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [("broken.gz", b"no gzip"), ("short.gz", gzip.compress(b"{}", mtime=0)[:-5]), ("short.bz2", b"BZh9")],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidOption, match=f"{tmp_path}/{name} can't be read: "):
        _sample(tmp_path)


@pytest.mark.parametrize(
    ("options", "lines", "rows", "bad", "unknown"),
    [
        (
            {"sink.json.explode": "$.r", "sink.column.who.from": "$.r.user.id", "sink.column.n.from": "$.n"},
            [b'{"n": 7, "r": [{"id": 1, "user": {"id": 2}, "more": 3}, {"id": "x"}]}', b"{", b'{"r": [{"id": 4}]}'],
            [{"id": 1, "who": 2, "n": 7}, {"id": 4, "who": None, "n": None}],
            [(0, "id"), (1, None)],
            {},
        ),
        (
            {"sink.value.format": "debezium-json", "sink.column.who.from": "$.source.id"},
            [b'{"op": "c", "after": {"id": 1, "n": 2}, "source": {"id": 3}}', b'{"op": "t"}'],
            [{"id": 1, "who": 3, "n": 2}],
            [(1, None)],
            {},
        ),
    ],
)
def test_records_that_are_no_plain_rows(
    options: dict[str, str], lines: list[bytes], rows: object, bad: object, unknown: object
) -> None:
    """What is bad is told by its record."""
    columns = tuple(Column(name, Primitive.INT) for name in ("id", "who", "n"))
    made = preview(_of_lines(lines), TableSpec(NAME, columns, properties=tuple(options.items())), NOW)
    assert (made.rows.to_pylist(), [(row["line"] - 1, row["field"]) for row in made.bad]) == (rows, bad)
    assert made.unknown == unknown
