"""Columns that come from a path in the record, or from what surrounds it."""

from __future__ import annotations

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from hivesink.config.options import OnUnknownField
from hivesink.core.column_source import Header, JsonPath, parse_source
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.reader import RowsReader
from hivesink.decode.values import DecodeOptions

if TYPE_CHECKING:
    from hivesink.ports.rows import DecodedRows

ARRIVAL = datetime(2024, 6, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMES = pa.timestamp("us", "UTC")


def read(
    sources: dict[str, str],
    kinds: dict[str, str],
    columns: dict[str, pa.Array],
    value: str | None = "value",
    **options: Any,
) -> DecodedRows:
    """Types of columns by their names; `!` after one: NOT NULL."""
    declared = [
        Column(name, parse_type(kind.removesuffix("!")), nullable=not kind.endswith("!"))
        for name, kind in kinds.items()
    ]
    chosen = DecodeOptions(sources={name: parse_source(text) for name, text in sources.items()}, **options)
    return RowsReader(declared, value, chosen, ARRIVAL, 7).read(pa.RecordBatch.from_pydict(columns))


def records(*texts: str) -> dict[str, pa.Array]:
    return {"value": pa.array([text.encode() for text in texts], pa.binary())}


def bad(rows: DecodedRows) -> list[tuple[int, str | None, str]]:
    return [(row.index, row.field, row.reason) for row in rows.bad]


@pytest.mark.parametrize(
    ("text", "steps"),
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
    ],
)
def test_a_path(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_source(text) == JsonPath(steps)


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
        ("$" + ".a" * 101, "101 steps; write 100 at most"),
        ("kafka.headers.", "write a JSON path such as"),
        ("kafka.kye", "or one of kafka.key, kafka.topic"),
        ("", "write a JSON path"),
    ],
)
def test_what_is_no_source(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_source(text)


def test_columns_by_path_and_by_name() -> None:
    rows = read(
        {"id": "$.user.id", "first": "$.Items[0].sku", "copy": "$.user.id", "name": "$.userName"},
        {"id": "int", "first": "string", "copy": "string", "name": "string", "note": "string"},
        records(
            '{"user": {"id": 1, "x": 2}, "items": [{"sku": "a"}, 5], "userName": "n", "note": "o", "name": "not me"}',
            '{"USER": {"ID": 9007199254740993.0e-15}, "items": []}',
            '{"user": {"id": "2"}, "items": null}',
            "{}",
            '{"user": null}',
        ),
    )
    assert rows.table.to_pylist() == [
        {"id": 1, "first": "a", "copy": "1", "name": "n", "note": "o"},
        {"id": 2, "first": None, "copy": "2", "name": None, "note": None},
        *[dict.fromkeys(("id", "first", "copy", "name", "note"))] * 2,
    ]
    assert bad(rows) == [(1, "id", "not a whole number")]


def test_a_path_that_leads_into_something_else() -> None:
    rows = read(
        {"a": "$.x.y", "b": "$.z[1]"},
        {"a": "int!", "b": "int"},
        records('{"x": 5}', '{"x": {"y": 1}, "z": {}}', '{"x": {"y": 1, "Y": 2}}', '{"x": {}}', '{"x": {"y": null}}'),
    )
    assert bad(rows) == [
        (0, "x", "wrong type: number, not an object"),
        (1, "z", "wrong type: object, not an array"),
        (2, "x.y", "duplicate field"),
        (3, "a", "missing"),
        (4, "a", "null"),
    ]


def test_fields_that_paths_read_are_known_and_the_columns_own_name_is_not() -> None:
    rows = read(
        {"id": "$.user.id"},
        {"id": "int"},
        records('{"user": {"id": 1, "other": 2}}', '{"user": {"id": 1}, "id": 5}'),
        unknown_field=OnUnknownField.BAD_RECORD,
    )
    assert (rows.table.to_pylist(), bad(rows)) == ([{"id": 1}], [(1, "id", "unknown field")])


def kafka(**given: list[Any]) -> dict[str, pa.Array]:
    kinds = {
        "key": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": TIMES,
        "headers": HEADERS, "_path": pa.string(), "_line": pa.int64(), "value": pa.binary(),
    }  # fmt: skip
    return {name: pa.array(values, kinds[name]) for name, values in given.items()}


def test_what_kafka_says_of_a_record() -> None:
    sources = {
        "k": "kafka.key", "t": "kafka.topic", "p": "kafka.partition", "o": "kafka.offset", "o_text": "kafka.offset",
        "at": "kafka.timestamp", "ms": "kafka.timestamp", "day": "kafka.timestamp", "file": "file.path",
        "arrived": "arrival-time", "arrived_ms": "arrival-time", "batch": "batch.id", "line": "file.line",
    }  # fmt: skip
    kinds = {
        "k": "binary", "t": "string", "p": "int", "o": "bigint", "o_text": "string", "at": "timestamp", "ms": "bigint",
        "day": "date", "file": "string", "arrived": "timestamp", "arrived_ms": "bigint", "batch": "bigint", "id": "int",
        "line": "int",
    }  # fmt: skip
    given = kafka(
        value=[b"bad", b'{"id": 1}'], key=[b"x", b"\xff"], topic=["t", "t"], partition=[0, 3], offset=[1, 2**40],
        timestamp=[datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 1, 1, 23, 30, tzinfo=timezone.utc)],
        _path=["a", "file:/b"], _line=[1, 2],
    )  # fmt: skip
    rows = read(sources, kinds, given, timestamp_zone=ZoneInfo("Europe/Berlin"))
    assert bad(rows) == [(0, None, "not JSON")]
    assert rows.good is not None
    assert rows.good.to_pylist() == [1]
    assert rows.table.to_pylist() == [
        {
            "k": b"\xff", "t": "t", "p": 3, "o": 2**40, "o_text": str(2**40), "at": datetime(2024, 1, 2, 0, 30),
            "ms": 1704151800000, "day": date(2024, 1, 2), "file": "file:/b",
            "arrived": datetime(2024, 6, 1, 14, 0, 0, 123456), "arrived_ms": 1717243200123, "batch": 7, "id": 1,
            "line": 2,
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


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("map<string,binary>", [[("b", b"\xff"), ("a", b"3")], None]),
        ("map<string,string>", [None]),
        ("array<struct<key:string,value:binary>>", [
            [{"key": "a", "value": b"1"}, {"key": "b", "value": b"\xff"}, {"key": "a", "value": b"3"}], None,
        ]),
        ("array<struct<key:string,value:string>>", [None]),
    ],
)  # fmt: skip
def test_all_headers_of_a_record(kind: str, found: list[object]) -> None:
    """A map has the last one of each name; without any there is no list."""
    pairs = [{"key": "a", "value": b"1"}, {"key": "b", "value": b"\xff"}, {"key": "a", "value": b"3"}]
    rows = read(
        {"h": "kafka.headers"}, {"h": kind, "d": "int"}, kafka(value=[b"x", b"{}", b"{}"], headers=[None, pairs, None])
    )
    assert rows.table.column("h").to_pylist() == found
    assert [row.reason for row in rows.bad] == ["not JSON", *(["not UTF-8"] if len(found) == 1 else [])]
    nulls = read({"h": "kafka.headers"}, {"h": kind}, kafka(headers=[[], [{"key": "a", "value": None}]]), None)
    assert nulls.table.column("h").to_pylist() == [
        [],
        [("a", None)] if kind[0] == "m" else [{"key": "a", "value": None}],
    ]


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


def test_no_rows() -> None:
    rows = read(
        {"k": "kafka.key", "h": "kafka.headers"},
        {"k": "int", "h": "map<string,string>"},
        kafka(key=[], headers=[]),
        None,
    )
    assert rows.table.num_rows == 0
