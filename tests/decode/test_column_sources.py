"""Columns that come from a path in the record, or from what surrounds it."""

from __future__ import annotations

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import Header, JsonPath, parse_source
from hivesink.decode.reader import RowsReader
from hivesink.errors import InvalidOption
from hivesink.ports.rows import DecodedRows
from tests.contracts.test_decoder import Both
from tests.decode.settings import bad, declared, decoding

ARRIVAL = datetime(2024, 6, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMES = pa.timestamp("us", "UTC")


def read(
    sources: dict[str, str],
    kinds: dict[str, str],
    given: dict[str, pa.Array],
    value: str | None = "value",
    **options: Any,
) -> DecodedRows:
    columns = declared(", ".join(map(" ".join, kinds.items())))
    chosen = decoding(sources={name: parse_source(text) for name, text in sources.items()}, **options)
    return RowsReader(columns, value, chosen, ARRIVAL).read(pa.RecordBatch.from_pydict(given))


def test_a_table_of_nothing_but_what_surrounds_the_records() -> None:
    records = [b'{"a":1}', b"bad", b"{}", None, b'{"b":2}']
    columns = {"value": pa.array(records, pa.binary()), "key": pa.array([b"%d" % n for n in range(5)])}
    rows = read({"k": "kafka.key"}, {"k": "STRING"}, columns)
    assert (rows.table.to_pydict(), [row.index for row in rows.bad]) == ({"k": ["0", "2", "4"]}, [1])


@pytest.mark.parametrize(
    "case",
    [
        ("$.user.id", ("user", "id")),
        ("$.userId", ("userid",)),
        ("$['odd name']", ("odd name",)),
        ('$["it\'s"].x', ("it's", "x")),
        (r"$['it\'s']", ("it's",)),
        (r"$['a\\b']", ("a\\b",)),
        ("$.items[0].sku", ("items", 0, "sku")),
        ("$.a-b[10]['[0]']", ("a-b", 10, "[0]")),
        ("$.größe", ("größe",)),
        ("$.after.id , $.before['i,d'],$.id", ("after", "id"), ("before", "i,d"), ("id",)),
    ],
)
def test_a_path(case: tuple[Any, ...]) -> None:
    text, steps, *others = case
    assert parse_source(text) == JsonPath(steps, tuple(others))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$", "a path begins with a name"),
        ("$[0]", "a path begins with a name"),
        ("$.", r"not a path from '\.' on"),
        ("$..a", r"not a path from '\.\.a' on"),
        ("$.a[*]", r"not a path from '\[\*\]' on"),
        ("$.a[-1]", r"not a path from '\[-1\]' on"),
        ("$.odd name", "not a path from ' name' on"),
        ("$['a", "not a path from"),
        ("$user", "not a path from 'user' on"),
        ("kafka.headers.", "write a JSON path such as"),
        ("kafka.kye", "or one of kafka.key, kafka.topic"),
        ("", "write a JSON path"),
        ("$.a,", r"not a path from ',' on"),
        ("$.a, b", r"not a path from ', b' on"),
        ("$.a $.b", r"not a path from ' \$\.b' on"),
        ("$.a, $", "a path begins with a name"),
        ("kafka.key.$", "a path begins with a name"),
    ],
)
def test_what_is_no_source(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_source(text)


def kafka(**given: list[Any]) -> dict[str, pa.Array]:
    kinds = {
        "key": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": TIMES,
        "headers": HEADERS, "_path": pa.string(), "value": pa.binary(),
    }  # fmt: skip
    return {name: pa.array(values, kinds[name]) for name, values in given.items()}


def test_what_kafka_says_of_a_record() -> None:
    sources = {
        "k": "kafka.key", "t": "kafka.topic", "p": "kafka.partition", "o": "kafka.offset", "o_text": "kafka.offset",
        "at": "kafka.timestamp", "ms": "kafka.timestamp", "day": "kafka.timestamp", "file": "file.path",
        "arrived": "arrival-time", "arrived_ms": "arrival-time",
    }  # fmt: skip
    kinds = {
        "k": "binary", "t": "string", "p": "int", "o": "bigint", "o_text": "string", "at": "timestamp", "ms": "bigint",
        "day": "date", "file": "string", "arrived": "timestamp", "arrived_ms": "bigint", "id": "int",
    }  # fmt: skip
    given = kafka(
        value=[b"bad", b'{"id": 1}'], key=[b"x", b"\xff"], topic=["t", "t"], partition=[0, 3], offset=[1, 2**40],
        timestamp=[datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 1, 1, 23, 30, tzinfo=timezone.utc)],
        _path=["a", "file:/b"],
    )  # fmt: skip
    rows = read(sources, kinds, given, zone=ZoneInfo("Europe/Berlin"))
    assert bad(rows) == [(0, None, "not JSON")]
    assert rows.good is not None
    assert rows.good.to_pylist() == [1]
    assert rows.table.to_pylist() == [
        {
            "k": b"\xff", "t": "t", "p": 3, "o": 2**40, "o_text": str(2**40), "at": datetime(2024, 1, 2, 0, 30),
            "ms": 1704151800000, "day": date(2024, 1, 2), "file": "file:/b",
            "arrived": datetime(2024, 6, 1, 14, 0, 0, 123456), "arrived_ms": 1717243200123, "id": 1,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "key", "found"),
    [
        ("string", "é".encode(), "é"),
        ("string", b"\xff", "not UTF-8"),
        ("varchar(2)", b"abc", "longer than varchar(2)"),
        ("char(3)", b"ab ", "ab"),
        ("int", b"42", 42),
        ("int", b"4.2", "not a whole number"),
        ("int", b"x", "wrong type: text into int"),
        ("int", b"\xff", "not UTF-8"),
        ("int", None, None),
        ("decimal(5,1)", b"1e2", Decimal("100.0")),
        ("boolean", b"true", True),
        ("date", b"2024-01-02", date(2024, 1, 2)),
        ("timestamp", b"2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5)),
        ("timestamp!", None, "null"),
    ],
)
@pytest.mark.parametrize("source", ["kafka.key", "kafka.headers.k"])
def test_a_key_or_a_header_as_each_type(source: str, kind: str, key: bytes | None, found: object) -> None:
    headers = [[{"key": "k", "value": b"first"}, {"key": "K", "value": b"other"}, {"key": "k", "value": key}]]
    given = kafka(value=[b"{}"], key=[key], headers=headers)
    rows = read({"c": source}, {"c": kind, "d": "int"}, given)
    if rows.bad:
        assert bad(rows) == [(0, "c", found)]
    else:
        assert rows.table.to_pylist() == [{"c": found, "d": None}]


HEADERS_OF = {
    "map<string,binary>": ([("b", b"\xff"), ("a", b"3")], [("a", None)]),
    "array<struct<key:string,value:binary>>": (
        [{"key": "a", "value": b"1"}, {"key": "b", "value": b"\xff"}, {"key": "a", "value": b"3"}],
        [{"key": "a", "value": None}],
    ),
    "map<string,string>": (None, [("a", None)]),
    "array<struct<key:string,value:string>>": (None, [{"key": "a", "value": None}]),
}


@pytest.mark.parametrize("kind", HEADERS_OF)
def test_all_headers_of_a_record(kind: str) -> None:
    """A map has the last one of each name; without any there is no list."""
    three, null = HEADERS_OF[kind]
    pairs = [{"key": "a", "value": b"1"}, {"key": "b", "value": b"\xff"}, {"key": "a", "value": b"3"}]
    given = kafka(value=[b"x", *[b"{}"] * 4], headers=[None, pairs, None, [], [{"key": "a", "value": None}]])
    rows = read({"h": "kafka.headers"}, {"h": kind, "d": "int"}, given)
    assert rows.table.column("h").to_pylist() == [*([three] if three else []), None, [], null]
    assert [row.reason for row in rows.bad] == ["not JSON", *["not UTF-8"] * (three is None)]
    assert read({"h": "kafka.headers"}, {"h": kind}, kafka(headers=[]), None).table.num_rows == 0


def test_a_header_that_is_not_there() -> None:
    headers = [None, [], [{"key": "b", "value": b"1"}], [{"key": "a", "value": b"2"}]]
    assert parse_source("kafka.headers.x y") == Header("x y")
    rows = read({"h": "kafka.headers.a"}, {"h": "int"}, kafka(headers=headers), None)
    assert rows.table.column("h").to_pylist() == [None, None, None, 2]


def test_rows_that_come_as_columns_have_metadata_beside_them() -> None:
    given = {**kafka(offset=[1, 2**31, 3]), "id": pa.array([1, 2, 2**40])}
    rows = read({"o": "kafka.offset"}, {"id": "int", "o": "int"}, given, None)
    assert rows.table.to_pylist() == [{"id": 1, "o": 1}]
    assert bad(rows) == [(1, "o", "out of range for int"), (2, "id", "out of range for int")]


KEYED = {
    "sink.column.k.from": "kafka.key.$.id",
    "sink.column.when.from": "kafka.key.$.at.ts, $.ts",
    "sink.timestamp-format": "when=epoch-millis",
}


def read_keyed(keys: list[bytes | None], values: list[bytes | None], *, k: str = "INT", **options: str) -> DecodedRows:
    config = SinkConfig.parse({**KEYED, **options})
    reader = RowsReader(declared(f"a INT, k {k}, when TIMESTAMP"), "value", config, schemas=Both)
    return reader.read(pa.RecordBatch.from_pydict(kafka(value=values, key=keys)))


def test_columns_from_a_decoded_key() -> None:
    values: list[bytes | None] = [b'{"a":1}', b"bad", None, b'{"a":2}', b'{"a":3}', b'{"a":4}', b'{"a":5}', b'{"a":6}']
    keys = [
        b'{"ID":7,"ts":86400000000,"more":1}',
        b"bad",
        b"bad",
        None,
        b"bad",
        b'{"id":"x"}',
        b"{}",
        b'{"at":{"ts":0}}',
    ]
    rows = read_keyed(keys, values, **{"sink.on-unknown-field": "bad-record"})
    first, second = datetime(1972, 9, 27), datetime(1970, 1, 1)
    shown = [tuple(row.values()) for row in rows.table.to_pylist()]
    assert shown == [(1, 7, first), (2, None, None), (5, None, None), (6, None, second)]
    assert rows.good is not None
    assert rows.good.to_pylist() == [0, 3, 6, 7]
    assert bad(rows) == [(1, None, "not JSON"), (4, "kafka.key", "not JSON"), (5, "k", "wrong type: text into int")]
    assert rows.skipped == 1
    rows = read_keyed(keys, values, k="INT!")
    assert bad(rows)[1:] == [
        (3, "k", "null"),
        *bad(read_keyed(keys, values))[1:],
        (6, "k", "missing"),
        (7, "k", "missing"),
    ]


def test_a_key_has_a_format_and_settings_of_its_own() -> None:
    rows = read_keyed(
        # A key has no header line to skip.
        [b"1717243200000;7", b"0;8;9", b"ts;id"],
        [b"5", b"6", b"7"],
        **{"sink.value.format": "csv", "sink.key.format": "csv", "sink.key.csv.field-delimiter": ";"},
        **{"sink.key.csv.header": "ts;id", "sink.column.when.from": "kafka.key.$.ts"},
    )
    assert rows.table.to_pylist() == [{"a": 5, "k": 7, "when": datetime(2024, 6, 1, 12)}]
    assert bad(rows) == [(1, "kafka.key", "more fields than 2"), (2, "k", "wrong type: text into int")]
    registry = {f"sink.{of}.{name}": "avro-confluent" for of, name in (("key", "format"), ("value", "format"))}
    url = "sink.{}.avro-confluent.url".format
    with pytest.raises(InvalidOption, match="keys and records must be of the same registry, not http://b and http://a"):
        read_keyed([], [], **registry, **{url("value"): "http://a", url("key"): "http://b"})
    with pytest.raises(InvalidOption, match=r"sink.key.format = 'morse': write one of json"):
        read_keyed([], [], **{"sink.key.format": "morse"})
    with pytest.raises(InvalidOption, match=r"sink.key.format = 'avro': dead letters don't name the file"):
        read_keyed([], [], **{"sink.key.format": "avro", "sink.key.avro.schema-file": "/k.avsc"})
    with pytest.raises(InvalidOption, match=r"column when: sink.key.csv.header must have its field 'at'"):
        read_keyed([], [], **{"sink.key.format": "csv", "sink.key.csv.header": "id,ts"})
    with pytest.raises(InvalidOption, match=r"sink.key.csv.colour is not a setting"):
        SinkConfig.parse({"sink.key.csv.colour": "red"})
