"""Avro's records against fastavro, which reads each by itself, and against the vectors of Avro's project."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Iterator
from decimal import Decimal as Number
from typing import Any, TypeAlias
from unittest import mock
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hivesink.config.options import SinkConfig
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.core.typetext import parse_type
from hivesink.decode.avro import columns as avro_columns
from hivesink.decode.avro.decoder import AvroDecoder, ConfluentDecoder
from hivesink.errors import InvalidOption
from hivesink.ports.rows import DecodedRows
from tests.decode.settings import Given, declared, with_damage

UTC = dt.timezone.utc


def record(**fields: Any) -> dict[str, Any]:
    given = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": given}


def items(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def inner(**fields: Any) -> dict[str, Any]:
    """A record within another."""
    return {**record(**fields), "name": "Inner"}


def logical(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def decoded(schema: Any, wanted: str | list[Column], records: list[bytes | None], **options: str) -> DecodedRows:
    wanted = declared(wanted) if isinstance(wanted, str) else wanted
    decoder = AvroDecoder(wanted, SinkConfig.parse(options), Given(schema))
    return decoder.decode(pa.array(records, pa.binary()))


def column_of(kind: Any, value: Any, wanted: str, **options: str) -> Any:
    """What a column of a type becomes, or why it doesn't."""
    schema = record(a=kind)
    rows = decoded(schema, f"a {wanted}", [written(schema, {"a": value})], **options)
    return rows.table["a"][0].as_py() if rows.good is None else (rows.bad[0].field, rows.bad[0].reason)


def wrong(kind: str, wanted: str) -> tuple[str, str]:
    return "a", f"wrong type: {kind} into {wanted}"


INSTANT = dt.datetime(2026, 7, 1, 12, 30, 0, 123456, tzinfo=UTC)
MILLIS = INSTANT.replace(microsecond=123000)
WALL = INSTANT.replace(tzinfo=None)
FIXED = {"type": "fixed", "name": "F", "size": 3}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
BYTES_9_2 = logical("decimal", "bytes", precision=9, scale=2)
BYTES_50 = logical("decimal", "bytes", precision=50)
FIXED_38 = {**logical("decimal", "fixed", precision=38, scale=10), "name": "D", "size": 16}
LONGEST = Number("-1234567890123456789012345678.9")
OF_MILLIS = logical("timestamp-millis", "long")
LONGS = {"type": "map", "values": "long"}
MANY = ["null", "long", "string", ENUM]

CONVERSIONS: list[tuple[Any, Any, str, Any]] = [
    ("null", None, "int", None),
    ("boolean", True, "boolean", True),
    ("boolean", True, "int", wrong("boolean", "int")),
    ("int", -(2**31), "int", -(2**31)),
    ("int", 7, "bigint", 7),
    ("int", 128, "tinyint", ("a", "out of range for tinyint")),
    ("int", 7, "double", 7.0),
    ("int", 7, "decimal(5,2)", Number("7.00")),
    ("int", 7, "string", wrong("int", "string")),
    ("long", 2**63 - 1, "bigint", 2**63 - 1),
    ("long", 2**31, "int", ("a", "out of range for int")),
    ("long", 7, "double", wrong("long", "double")),
    ("float", 0.5, "double", 0.5),
    ("double", -0.0, "double", -0.0),
    ("double", float("inf"), "double", float("inf")),
    ("double", 0.5, "float", wrong("double", "float")),
    ("string", "ä", "string", "ä"),
    ("string", "abcd", "varchar(3)", ("a", "longer than varchar(3)")),
    ("string", "7", "int", wrong("string", "int")),
    ("bytes", b"\xff", "binary", b"\xff"),
    ("bytes", b"a", "string", wrong("bytes", "string")),
    (FIXED, b"abc", "binary", b"abc"),
    (ENUM, "B", "string", "B"),
    (BYTES_9_2, Number("-1.25"), "decimal(9,2)", Number("-1.25")),
    (BYTES_9_2, Number("1.20"), "decimal(9,1)", Number("1.2")),
    (BYTES_9_2, Number("1.25"), "decimal(9,1)", ("a", "more decimal places than decimal(9,1)")),
    (BYTES_9_2, Number("7.00"), "int", 7),
    (BYTES_9_2, Number(7), "binary", wrong("decimal", "binary")),
    (FIXED_38, LONGEST, "decimal(38,10)", LONGEST),
    (BYTES_50, Number(10**38), "decimal(38,0)", ("a", "out of range for decimal(38,0)")),
    (logical("date", "int"), dt.date(9999, 12, 31), "date", dt.date(9999, 12, 31)),
    (logical("date", "int"), dt.date(2026, 1, 1), "int", wrong("date", "int")),
    (logical("timestamp-micros", "long"), INSTANT, "timestamp", WALL.replace(hour=14)),
    (OF_MILLIS, MILLIS, "timestamp", MILLIS.replace(hour=14, tzinfo=None)),
    (OF_MILLIS, MILLIS, "bigint", 1782909000123),
    (logical("timestamp-micros", "long"), INSTANT, "bigint", wrong("timestamp-micros", "bigint")),
    (logical("timestamp-micros", "long"), INSTANT, "date", wrong("timestamp-micros", "date")),
    (logical("timestamp-nanos", "long"), 1782909000123456789, "timestamp", WALL.replace(hour=14)),
    (logical("local-timestamp-micros", "long"), WALL, "timestamp", WALL),
    (logical("time-micros", "long"), dt.time(0, 0, 1), "bigint", 1_000_000),
    (logical("time-millis", "int"), dt.time(0, 0, 1), "int", 1000),
    (logical("time-millis", "int"), dt.time(0, 0, 1), "double", wrong("time-millis", "double")),
    ({**logical("uuid", "fixed"), "name": "U", "size": 0}, b"", "binary", b""),
    ({**logical("uuid", "fixed"), "name": "U", "size": 0}, b"", "string", wrong("fixed", "string")),
    (logical("uuid", "string"), UUID(int=5), "string", str(UUID(int=5))),
    (logical("unheard-of", "long"), 5, "bigint", 5),
    (logical("date", "long"), 5, "bigint", 5),
    (MANY, None, "string", None),
    (MANY, "x", "string", "x"),
    (MANY, 5, "string", wrong("long", "string")),
    (MANY, 5, "bigint", 5),
    (items(["null", "int"]), [1, None, 3], "array<int>", [1, None, 3]),
    (items("int"), [], "array<bigint>", []),
    (items("int"), [1, 200], "array<tinyint>", ("a.1", "out of range for tinyint")),
    (items("null"), [None] * 50, "array<int>", [None] * 50),
    (LONGS, {"k": 1, "ä": 2}, "map<string,bigint>", [("k", 1), ("ä", 2)]),
    (LONGS, {}, "map<int,bigint>", []),
    (LONGS, {"k": 1}, "map<int,bigint>", ("a.0", "wrong type: string into int")),
    (LONGS, {"k": 1}, "array<bigint>", wrong("map", "array<bigint>")),
    (["null", inner(x="int")], None, "struct<x:int>", None),
    (["null", inner(X="int", y="int")], {"X": 1, "y": 2}, "struct<y:int,x:int,z:int>", {"y": 2, "x": 1, "z": None}),
    (inner(x="int"), {"x": 300}, "struct<x:tinyint>", ("a.x", "out of range for tinyint")),
    (inner(x="int"), {"x": 1}, "string", wrong("record", "string")),
]


@pytest.mark.parametrize(("kind", "value", "wanted", "expected"), CONVERSIONS)
def test_each_conversion_is_exact_or_a_bad_record(kind: Any, value: Any, wanted: str, expected: Any) -> None:
    result = column_of(kind, value, wanted, **{"sink.timestamp-zone": "Europe/Berlin"})
    assert (result, type(result)) == (expected, type(expected))


def test_an_uuid_of_sixteen_bytes_is_its_text_or_its_bytes() -> None:
    schema = record(a={**logical("uuid", "fixed"), "name": "U", "size": 16})
    octets = UUID(int=5).bytes
    assert decoded(schema, "a string", [octets]).table.to_pylist() == [{"a": str(UUID(int=5))}]
    assert decoded(schema, "a binary", [octets]).table.to_pylist() == [{"a": octets}]


def test_a_decimal_of_more_digits_than_its_bytes_have_means_nothing() -> None:
    schema = record(a={**logical("decimal", "fixed", precision=5), "name": "D", "size": 2})
    assert decoded(schema, "a binary", [b"ab"]).table.to_pylist() == [{"a": b"ab"}]


def test_fields_are_taken_by_name_by_former_name_and_by_path() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "UserId", "type": "int", "aliases": ["uid", "UID", "name"]},
            {"name": "name", "type": "string"},
            {"name": "after", "type": ["null", inner(id="long", name="string")]},
            {"name": "before", "type": ["null", "Inner"]},
            {"name": "X", "type": "int"},
            {"name": "x", "type": "int"},
        ],
    }
    value = {"UserId": 1, "name": "n", "after": {"id": 7, "name": "z"}, "before": None, "X": 1, "x": 2}
    records: list[bytes | None] = [written(schema, value)]
    options = {
        "sink.column.new.from": "$.after.id",
        "sink.column.old.from": "$.before.id",
        "sink.column.key.from": "$.before.id, $.gone, $.after.id, $.name",
    }
    wanted = "uid bigint, userid int, name string, "
    wanted += "new bigint, old bigint, after struct<name:string>, missing int, key bigint"
    assert decoded(schema, wanted, records, **options).table.to_pylist() == [
        {
            "uid": 1,
            "userid": 1,
            "name": "n",
            "new": 7,
            "old": None,
            "after": {"name": "z"},
            "missing": None,
            "key": 7,
        }
    ]
    for text, why in (("x int", ("x", "duplicate field")), ("missing int!", ("missing", "missing"))):
        assert [(bad.field, bad.reason) for bad in decoded(schema, text, records).bad] == [why]
    for path, why in (
        ("$.name.first", ("name", "wrong type: string, not a record")),
        ("$.after[0]", ("after", "wrong type: record, not an array")),
        ("$.after.id[0]", ("after.id", "wrong type: long, not a record")),
    ):
        beyond = decoded(schema, "a int", records, **{"sink.column.a.from": path}).bad
        assert [(bad.field, bad.reason) for bad in beyond] == [why]


def test_paths_lead_into_lists() -> None:
    schema = record(items=items(["null", inner(sku="string", n="int")]), id="int")
    lists: list[list[str | None]] = [["a", "b", "c"], [], [None, "d"], ["e"]]
    values = [[sku and {"sku": sku, "n": n} for n, sku in enumerate(skus, 126)] for skus in lists]
    given: list[bytes | None] = [written(schema, {"items": some, "id": n}) for n, some in enumerate(values)]
    paths = {f"sink.column.{name}.from": path for name, path in (("sku", "$.items[1].sku"), ("n", "$.items[2].n"))}
    rows = decoded(schema, "id int, sku string, n tinyint", given, **paths)
    assert [(bad.index, bad.field, bad.reason) for bad in rows.bad] == [(0, "items.2.n", "out of range for tinyint")]
    assert [row["sku"] for row in rows.table.to_pylist()] == [None, "d", None]


def test_a_field_that_no_column_takes_may_be_bad() -> None:
    schema = record(id="int", name="string")
    schema["fields"][0]["aliases"] = ["uid"]
    octets, strict = written(schema, {"id": 1, "name": "x"}), {"sink.on-unknown-field": "bad-record"}
    rows = decoded(schema, "uid int", [octets, None], **strict)
    assert [(bad.index, bad.field, bad.reason) for bad in rows.bad] == [(0, "name", "unknown field")]
    assert decoded(schema, "uid int, name string", [octets], **strict).bad == ()


def test_a_time_of_day_is_no_instant() -> None:
    schema = record(a=logical("time-millis", "int"), b=logical("time-micros", "long"))
    octets = written(schema, {"a": dt.time(1), "b": dt.time(1)})
    for name, kind in (("a", "time-millis"), ("b", "time-micros")):
        bad = decoded(schema, f"{name} timestamp", [octets], **{"sink.timestamp-format": "epoch-seconds"}).bad
        assert [(row.field, row.reason) for row in bad] == [(name, f"wrong type: {kind} into timestamp")]


@pytest.mark.parametrize("name", ["date", "uuid", "time-millis", "timestamp-micros"])
def test_a_type_may_be_named_as_a_logical_one(name: str) -> None:
    born = {"type": "record", "name": name.replace("-", "_"), "fields": [{"name": "y", "type": "int"}]}
    schema = record(born=born, died=["null", born["name"]], x="int")
    octets = written(schema, {"born": {"y": 1900}, "died": {"y": 2000}, "x": 7})
    # What other writers let pass.
    schema = json.loads(json.dumps(schema).replace(str(born["name"]), name))
    rows = decoded(schema, "died struct<y:int>, x int", [octets])
    assert rows.table.to_pylist() == [{"died": {"y": 2000}, "x": 7}]


VECTORS = [
    ('"long"', "80808080808080808080"),
    ('"int"', "8080808080"),
    ('{"type":"array","items":"int"}', "ffffffffffffffffff0102"),
    ('"bytes"', "01"),
    ('"string"', "01"),
    ('["null","int"]', "01"),
    ('["null","int"]', "0a"),
    ('{"type":"enum","name":"E","symbols":["A","B"]}', "01"),
    ('{"type":"enum","name":"E","symbols":["A","B"]}', "0a"),
]
"""Avro's share/test/data/binary-rejections.json (AVRO-4304): a schema and bytes that every reader must refuse."""


@pytest.mark.parametrize(("kind", "octets"), VECTORS)
def test_what_every_reader_must_refuse_is_a_bad_record(kind: str, octets: str) -> None:
    schema = record(a=json.loads(kind), b="int")
    for rest in ("", "00", "02"):
        rows = decoded(schema, "b int", [bytes.fromhex(octets + rest)])
        assert [(bad.field, bad.reason) for bad in rows.bad] == [(None, "not of its schema")]


@pytest.mark.parametrize("wanted", ["b int", "a int, b int"])
@pytest.mark.parametrize("count", [1, 50])
def test_an_int_of_more_than_32_bits_is_a_bad_record_read_singly_or_not(wanted: str, count: int) -> None:
    schema = record(a="int", b="int")
    largest, larger = bytes.fromhex("ffffffff0f02"), bytes.fromhex("808080801002")
    rows = decoded(schema, wanted, [larger, largest] * count)
    assert [(bad.index, bad.reason) for bad in rows.bad] == [(2 * n, "not of its schema") for n in range(count)]
    assert rows.table["b"].to_pylist() == [1] * count
    assert "a" not in rows.table.column_names or set(rows.table["a"].to_pylist()) == {-(2**31)}


def test_rows_of_a_unions_branches_stay_in_order() -> None:
    schema, values = record(a=["int", "null", "long"]), [5, None, 2**40, 7, None, 2**41, 6]
    rows = decoded(schema, "a bigint", [written(schema, {"a": value}) for value in values])
    assert rows.table["a"].to_pylist() == values


def test_records_of_avros_own_project() -> None:
    """Its share/test/data/messageV1, without the header, and weather.avro, without the container."""
    message = record(id="long", name="string", tags=items("string"))
    octets = bytes.fromhex("540842696c6c0412646f675f6c6f766572126361745f686174657200")
    assert decoded(message, "tags array<string>, id bigint, name string", [octets]).table.to_pylist() == [
        {"tags": ["dog_lover", "cat_hater"], "id": 42, "name": "Bill"}
    ]
    weather = record(station="string", time="long", temp="int")
    expected = {
        "183031313939302d3939393939ffa390e8872400": ("011990-99999", -619524000000, 0),
        "183031313939302d3939393939ff81fbd687242c": ("011990-99999", -619506000000, 22),
        "183031313939302d3939393939ffa5aec2872415": ("011990-99999", -619484400000, -11),
        "183031323635302d3939393939ffb7a28b9426de01": ("012650-99999", -655531200000, 111),
        "183031323635302d3939393939ffdbd5f693269c01": ("012650-99999", -655509600000, 78),
    }
    rows = decoded(weather, "station string, time bigint, temp int", [bytes.fromhex(one) for one in expected])
    assert [tuple(row.values()) for row in rows.table.to_pylist()] == list(expected.values())


def test_records_of_two_schemas_keep_their_order() -> None:
    """A mixed rollout, with one of an unknown schema and one without a frame."""
    old, new = record(id="int", name="string"), record(name=["null", "string"], extra="double", id="long")
    frames = [
        b"\0\0\0\0\0" + written(old, {"id": 1, "name": "a"}),
        b"\0\0\0\0\1" + written(new, {"id": 2, "name": None, "extra": 0.5}),
        None,
        b"\0\0\0\0\7junk",
        b"{}",
        b"\0\0\0\0\0" + written(old, {"id": 3, "name": "c"}) + b"\0",
        b"\0\0\0\0\0" + written(old, {"id": 4, "name": "d"}),
    ]
    decoder = ConfluentDecoder(declared("id bigint, name string"), SinkConfig.parse({}), Given(old, new))
    rows = decoder.decode(pa.array(frames, pa.binary()))
    assert rows.table.to_pydict() == {"id": [1, 2, 4], "name": ["a", None, "d"]}
    assert rows.good is not None
    assert rows.good.to_pylist() == [0, 1, 6]
    assert rows.skipped == 1
    assert [(bad.index, bad.reason) for bad in rows.bad] == [
        (3, "its schema is not in the registry"),
        (4, "no schema number: not of Confluent's format"),
        (5, "not of its schema"),
    ]


NO_SCHEMAS = [
    "{",
    "7",
    "[]",
    "[" * 5000,
    '"unheard"',
    '"date"',
    '"enum"',
    '{"type": "record"}',
    '[{"type": "fixed", "name": "\\ud800", "size": 1}, {"type": "fixed", "name": "\\ud800", "size": 1}]',
    '{"type": "enum", "name": "E"}',
    '{"type": "enum", "name": "E", "symbols": ["\\ud800"]}',
    '{"type": "enum", "name": "E", "symbols": [1]}',
    '{"type": "array", "items": []}',
    *(
        f'{{"type": "fixed", "name": "F", "size": {size}}}'
        for size in ("-1", "1e999", "true", "2.0", '"3"', 2**31, 2**63 - 1, "9" * 30)
    ),
]


@pytest.mark.parametrize("text", NO_SCHEMAS, ids=lambda text: text[:60])
def test_a_schema_that_is_none_makes_bad_records(text: str) -> None:
    schemas = Given(text)
    rows = ConfluentDecoder(declared("a int"), SinkConfig.parse({}), schemas).decode(pa.array([b"\0\0\0\0\0\2"]))
    assert [bad.reason.encode().partition(b":")[0] for bad in rows.bad] == [b"not an Avro schema"]
    with pytest.raises(InvalidOption, match=r"sink.value.avro.schema-file: not an Avro schema: "):
        AvroDecoder(declared("a int"), SinkConfig.parse({}), schemas)


def test_a_record_may_hold_its_own_kind_as_deep_as_no_table_is() -> None:
    schema = record(id="int", next=["null", "R"])
    value: dict[str, Any] = {"id": 0, "next": None}
    for depth in range(1, 200):
        value = {"id": depth, "next": value if depth != 150 else None}
    octets = written(schema, value)
    assert decoded(schema, "id int, next struct<id:int>", [octets]).table.to_pylist() == [
        {"id": 199, "next": {"id": 198}}
    ]
    deep = decoded(schema, "id int", [b"\2\2" * 200 + b"\2\0", b"\2\0"])
    assert ([bad.reason for bad in deep.bad], deep.table.num_rows) == (["not of its schema"], 1)


def doubled(times: int) -> dict[str, Any]:
    """A record of two records of two records …, all without a byte."""
    kind: dict[str, Any] = {"type": "record", "name": "E", "fields": []}
    for n in range(times):
        kind = {**record(a=kind, b=kind["name"]), "name": f"E{n}"}
    return kind


TREE = record(l=["R", "null"], r=["R", "null"], v="long")
LEAF = b"\2\2\2"
MANY_NULLS = b"\xc8\1"
"""The begin of a block of 100."""


BOUNDED: list[tuple[Any, bytes, bool]] = [
    (TREE, b"\0" + LEAF + b"\0" + LEAF + b"\2", True),
    (TREE, b"\0" * 40 + LEAF + b"\2\2" * 40, True),
    (TREE, b"\0" * 40 + LEAF + b"\2\2" * 39, False),
    (TREE, b"", False),
    (record(b="int", v="long"), b"\x80\x80\x80\x80\x80\0\2", True),
    (record(a="R", b="R"), b"", False),
    (record(b=doubled(40), v="long"), b"\2", True),
    (record(b=items(doubled(40)), v="long"), b"\2\0\2", True),
    (record(a=items(items("int")), v="long"), b"\2\xc0\x9a\x0c" + b"\2" * 100000 + b"\0\0\2", True),
    (record(a=items(items("int")), v="long"), b"\2\2\2\0" * 20000 + b"\0\2", True),
    (record(a=items(items("null")), v="long"), b"\2" + MANY_NULLS + b"\0\0\2", True),
    (record(a=items(items("null")), v="long"), b"\2" + MANY_NULLS * 50000 + b"\0\0\2", False),
    (record(a=items(items("null")), v="long"), b"\2" + b"\2\xf8\x2a\0" * 5 + b"\0\2", False),
]


@pytest.mark.parametrize(("schema", "octets", "is_good"), BOUNDED, ids=range(len(BOUNDED)))
def test_a_record_takes_no_more_steps_than_it_has_bytes(schema: Any, octets: bytes, *, is_good: bool) -> None:
    """That it ends is the test: without a bound it takes minutes, or as many steps as 2 to the power of 40."""
    has_lists = schema["fields"][0]["name"] == "a" and octets[:1]
    for wanted in ("v bigint", "v bigint, a array<array<int>>") if has_lists else ("v bigint",):
        rows = decoded(schema, wanted, [octets] * 2)
        reasons = [] if is_good else ["not of its schema"] * 2
        assert (rows.table.num_rows, [bad.reason for bad in rows.bad]) == (2 * is_good, reasons)


INSTANTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
CENTS = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Number(f"{n}e-2"))
SIMPLE: list[tuple[Any, str, st.SearchStrategy[Any]]] = [
    ("boolean", "boolean", st.booleans()),
    ("int", "int", st.integers(-(2**31), 2**31 - 1)),
    ("long", "bigint", st.integers(-(2**63), 2**63 - 1)),
    ("float", "float", st.floats(width=32, allow_nan=False)),
    ("double", "double", st.floats(allow_nan=False)),
    ("string", "string", st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    ("bytes", "binary", st.binary(max_size=20)),
    (logical("decimal", "bytes", precision=38, scale=2), "decimal(38,2)", CENTS),
    (logical("date", "int"), "date", st.dates()),
    (logical("timestamp-micros", "long"), "timestamp", INSTANTS),
]


Kind: TypeAlias = "tuple[Any, HiveType, Any]"
"""A schema, the type of its column, and values."""


def _deeper(simple: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    def array(of: Kind) -> Kind:
        return items(of[0]), Array(of[1]), st.lists(of[2], max_size=4)

    def mapped(of: Kind) -> Kind:
        values = st.dictionaries(st.text("abäz", max_size=3), of[2], max_size=4)
        return {"type": "map", "values": of[0]}, Map(Primitive.STRING, of[1]), values

    def fields(of: list[Kind]) -> Kind:
        named = {f"f{n}": part for n, part in enumerate(of)}
        schema = inner(**{name: part[0] for name, part in named.items()})
        kind = Struct(tuple((name, part[1]) for name, part in named.items()))
        return schema, kind, st.fixed_dictionaries({name: part[2] for name, part in named.items()})

    def nullable(of: Kind) -> Kind:
        return of if isinstance(of[0], list) else (["null", of[0]], of[1], st.none() | of[2])

    some = st.lists(simple, min_size=1, max_size=3)
    return simple.map(array) | simple.map(mapped) | some.map(fields) | simple.map(nullable)


KINDS = st.recursive(
    st.sampled_from([(kind, parse_type(text), values) for kind, text, values in SIMPLE]), _deeper, max_leaves=5
)


def _named_apart(schema: Any, count: list[int]) -> Any:
    """With another name for each record."""
    if isinstance(schema, list):
        return [_named_apart(branch, count) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {
        key: _named_apart(value, count) if key in {"items", "values", "type"} else value
        for key, value in schema.items()
    }
    if "fields" in schema:
        count[0] += 1
        schema["name"] = f"R{count[0]}"
        schema["fields"] = [{**field, "type": _named_apart(field["type"], count)} for field in schema["fields"]]
    return schema


def as_column(value: Any, kind: HiveType) -> Any:
    """Fastavro's value as Arrow gives it back."""
    match kind, value:
        case _, None:
            return None
        case Array(), _:
            return [as_column(item, kind.element) for item in value]
        case Map(), _:
            return [(key, as_column(item, kind.value)) for key, item in value.items()]
        case Struct(), _:
            return {name: as_column(value[name], part) for name, part in kind.fields}
        case Primitive.TIMESTAMP, _:
            return value.replace(tzinfo=None)
    return value


@pytest.fixture(scope="module", params=[0, 32])
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """How many values are passed over one by one: none, or all that a test has."""
    with mock.patch.object(avro_columns, "_FEW", request.param):
        yield


@pytest.mark.usefixtures("few")
@settings(max_examples=60, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=4), st.data())
def test_every_row_is_fastavros_beside_damaged_ones(kinds: list[Kind], data: st.DataObject) -> None:
    """A damaged record changes no other, and is a row only where fastavro reads all of it to that very row."""
    schema = _named_apart(record(**{f"c{n}": kind for n, (kind, _, _) in enumerate(kinds)}), [0])
    wanted = [Column(f"c{n}", kind) for n, (_, kind, _) in enumerate(kinds)]
    values = [
        {f"c{n}": data.draw(strategy) for n, (_, _, strategy) in enumerate(kinds)}
        for _ in range(data.draw(st.integers(1, 6)))
    ]
    records = [written(schema, value) for value in values]
    expected = [{column.name: as_column(value[column.name], column.type) for column in wanted} for value in values]
    assert decoded(schema, wanted, list(records)).table.to_pylist() == expected
    place, octets = with_damage(records, data)
    rows = decoded(schema, wanted, [*records[:place], octets, *records[place + 1 :]])
    unread = decoded(schema, "unheard int", [octets]).bad
    assert [bad.reason for bad in unread] == [bad.reason for bad in rows.bad if bad.field is None]
    others = [*expected[:place], *expected[place + 1 :]]
    if rows.bad:
        assert ([bad.index for bad in rows.bad], rows.table.to_pylist()) == ([place], others)
        return
    stream = io.BytesIO(octets)
    value: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.tell() == len(octets)
    own = {column.name: as_column(value[column.name], column.type) for column in wanted}
    assert rows.table.to_pylist() == [*expected[:place], own, *expected[place + 1 :]]


@pytest.mark.usefixtures("few")
@example(b"\0")
@given(st.binary(max_size=40))
def test_any_bytes_are_a_row_or_a_bad_record(octets: bytes) -> None:
    schema = record(a=["null", items({"type": "map", "values": MANY})], b="double")
    rows = decoded(schema, "a array<map<string,string>>, b double", [octets])
    assert rows.table.num_rows + len(rows.bad) == 1
