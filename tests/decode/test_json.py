# ruff: noqa: DTZ001 -- Hive's TIMESTAMP is a wall clock without a zone
"""Each line of the table in docs/decoding.md: input, result."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal as Number
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from hivesink.config.options import OnTombstone, OnUnknownField
from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.json import JsonDecoder
from hivesink.decode.values import DecodeOptions
from hivesink.ports import BadRow, DecodedRows

P = Primitive
BERLIN = DecodeOptions(timestamp_zone=ZoneInfo("Europe/Berlin"))
LOS_ANGELES = DecodeOptions(timestamp_zone=ZoneInfo("America/Los_Angeles"))
EPOCH = DecodeOptions(timestamp_format={"c": "epoch-millis"})
EPOCH_BERLIN = DecodeOptions(timestamp_zone=ZoneInfo("Europe/Berlin"), timestamp_format={"": "epoch-millis"})
PLAIN = DecodeOptions()
USERS = [Column("userid", P.INT), Column("username", P.STRING), Column("ts", P.BIGINT)]

HALFWAY_OUT = f"{2**128 - 2**103 - 1}"
"""The last whole number before the middle of the largest FLOAT and 2**128."""

GOOD: list[tuple[HiveType, str, Any, DecodeOptions]] = [
    (P.STRING, "5", "5", PLAIN),
    (P.STRING, "1.50", "1.50", PLAIN),
    (P.STRING, "-0e+00", "-0e+00", PLAIN),
    (P.STRING, '{"b": [1,  2.0], "a":null}', '{"b": [1,  2.0], "a":null}', PLAIN),
    (P.STRING, "[ ]", "[ ]", PLAIN),
    (P.STRING, "true", "true", PLAIN),
    (P.STRING, "null", None, PLAIN),
    (P.STRING, r'"a\u0000b\n\"\\\/\ud83d\ude00\u0022"', 'a\0b\n"\\/\N{GRINNING FACE}"', PLAIN),
    (P.INT, "1.0", 1, PLAIN),
    (P.INT, "1e2", 100, PLAIN),
    (P.INT, "100e-2", 1, PLAIN),
    (P.INT, '"7"', 7, PLAIN),
    (P.INT, '"-1.0e1"', -10, PLAIN),
    (P.INT, "-0", 0, PLAIN),
    (P.INT, "0e99999999999999999999", 0, PLAIN),
    (P.TINYINT, "-128", -128, PLAIN),
    (P.SMALLINT, "32767", 32767, PLAIN),
    (P.INT, "-2147483648", -(2**31), PLAIN),
    (P.BIGINT, "9007199254740993", 2**53 + 1, PLAIN),
    (P.BIGINT, "9007199254740993.0", 2**53 + 1, PLAIN),
    (P.BIGINT, "-9223372036854775808", -(2**63), PLAIN),
    (P.DOUBLE, "1", 1.0, PLAIN),
    (P.DOUBLE, '"1.5"', 1.5, PLAIN),
    (P.DOUBLE, "1e-400", 0.0, PLAIN),
    (P.FLOAT, "0.5", 0.5, PLAIN),
    # Rounded twice: the nearest DOUBLE is halfway between two FLOATs, of which the nearer one is 1.0000001.
    (P.FLOAT, "1.00000017881393432617187499", 1.000000238418579, PLAIN),
    (P.FLOAT, "3.4028235677973362e38", 3.4028234663852886e38, PLAIN),
    (P.BOOLEAN, "true", True, PLAIN),
    (P.BOOLEAN, "false", False, PLAIN),
    (Decimal(9, 2), "1.23", Number("1.23"), PLAIN),
    (Decimal(9, 2), "1.230", Number("1.23"), PLAIN),
    (Decimal(9, 2), '"-1234567.89"', Number("-1234567.89"), PLAIN),
    (Decimal(9, 2), "1e2", Number("100.00"), PLAIN),
    (Decimal(38, 0), "9" * 38, Number("9" * 38), PLAIN),
    (P.BINARY, '"aGk="', b"hi", PLAIN),
    (P.BINARY, '""', b"", PLAIN),
    (Varchar(3), '"äöü"', "äöü", PLAIN),
    (Char(3), '"abc   "', "abc", PLAIN),
    (P.DATE, '"2024-02-29"', date(2024, 2, 29), PLAIN),
    (P.DATE, '"0001-01-01"', date(1, 1, 1), PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05"', datetime(2024, 1, 2, 3, 4, 5), BERLIN),
    (P.TIMESTAMP, '"2024-01-02 03:04:05.123456"', datetime(2024, 1, 2, 3, 4, 5, 123456), LOS_ANGELES),
    (P.TIMESTAMP, '"2024-01-02 03:04:05.123456000"', datetime(2024, 1, 2, 3, 4, 5, 123456), PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04"', datetime(2024, 1, 2, 3, 4), PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05+02:00"', datetime(2024, 1, 2, 1, 4, 5), PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05+02:00"', datetime(2024, 1, 2, 2, 4, 5), BERLIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05+02:00"', datetime(2024, 1, 1, 17, 4, 5), LOS_ANGELES),
    (P.TIMESTAMP, '"2024-07-02T03:04:05Z"', datetime(2024, 7, 2, 5, 4, 5), BERLIN),
    (P.TIMESTAMP, '"1500-02-28T00:00:00Z"', datetime(1500, 2, 28, 0, 53, 28), BERLIN),
    (P.TIMESTAMP, '"9999-12-31T23:59:59.999999"', datetime(9999, 12, 31, 23, 59, 59, 999999), BERLIN),
    (P.TIMESTAMP, '"0001-01-01 00:00:00"', datetime(1, 1, 1), LOS_ANGELES),
    (P.TIMESTAMP, "1795132800123", datetime(2026, 11, 20, 0, 0, 0, 123000), EPOCH),
    (P.TIMESTAMP, "1795132800000", datetime(2026, 11, 20, 1), EPOCH_BERLIN),
    (P.TIMESTAMP, "0.001", datetime(1970, 1, 1, 0, 0, 0, 1), EPOCH),
    (P.TIMESTAMP, "-62135596800000", datetime(1, 1, 1), EPOCH),
    (P.TIMESTAMP, '"1795132800000"', datetime(2026, 11, 20), EPOCH),
    (P.TIMESTAMP, '"2024-01-02T03:04:05"', datetime(2024, 1, 2, 3, 4, 5), EPOCH),
    (P.DATE, "1795132800000", date(2026, 11, 20), EPOCH),
    (P.DATE, "1795132799999", date(2026, 11, 19), EPOCH),
    (P.DATE, "1795132799999", date(2026, 11, 20), EPOCH_BERLIN),
    (Array(P.INT), '[1, null, "2"]', [1, None, 2], PLAIN),
    (Array(Array(P.STRING)), '[["a"], [], null]', [["a"], [], None], PLAIN),
    (Map(P.STRING, P.INT), '{"a": 1, "A": null}', [("a", 1), ("A", None)], PLAIN),
    (Map(P.INT, P.STRING), '{"1": "x"}', [(1, "x")], PLAIN),
    (Map(P.BOOLEAN, P.INT), '{"true": 1}', [(True, 1)], PLAIN),
    (Struct((("a", P.INT), ("b", P.STRING))), '{"B": "x", "z": 1}', {"a": None, "b": "x"}, PLAIN),
]
BAD: list[tuple[HiveType, str, str, DecodeOptions]] = [
    (P.INT, '"x"', "wrong type: text into int", PLAIN),
    (P.INT, '" 7"', "wrong type: text into int", PLAIN),
    (P.INT, '"1_0"', "wrong type: text into int", PLAIN),
    (P.INT, '"\u0667"', "wrong type: text into int", PLAIN),
    (P.INT, '"07"', "wrong type: text into int", PLAIN),
    (P.INT, '""', "wrong type: text into int", PLAIN),
    (P.INT, "99999999999", "out of range for int", PLAIN),
    (P.TINYINT, "128", "out of range for tinyint", PLAIN),
    (P.BIGINT, "9223372036854775808", "out of range for bigint", PLAIN),
    (P.BIGINT, "1e400", "out of range for bigint", PLAIN),
    (P.BIGINT, "1e99999999999999999999", "out of range for bigint", PLAIN),
    (P.INT, "1e-99999999999999999999", "not a whole number", PLAIN),
    (P.INT, "1.7", "not a whole number", PLAIN),
    (P.INT, "true", "wrong type: boolean into int", PLAIN),
    (P.INT, "[1]", "wrong type: array into int", PLAIN),
    (P.INT, "{}", "wrong type: object into int", PLAIN),
    (P.BOOLEAN, "1", "wrong type: number into boolean", PLAIN),
    (P.BOOLEAN, '"true"', "wrong type: text into boolean", PLAIN),
    (P.DOUBLE, "1e400", "out of range for double", PLAIN),
    (P.DOUBLE, '"NaN"', "wrong type: text into double", PLAIN),
    (P.DOUBLE, '"Infinity"', "wrong type: text into double", PLAIN),
    (P.FLOAT, "1e39", "out of range for float", PLAIN),
    # The nearest FLOAT is the largest one, but the nearest DOUBLE is halfway to the next power of two.
    (P.FLOAT, HALFWAY_OUT, "out of range for float", PLAIN),
    (P.FLOAT, f'"{HALFWAY_OUT}"', "out of range for float", PLAIN),
    (Decimal(9, 2), "1.239", "more decimal places than decimal(9,2)", PLAIN),
    (Decimal(9, 2), "12345678.9", "out of range for decimal(9,2)", PLAIN),
    (Decimal(9, 2), '"NaN"', "wrong type: text into decimal(9,2)", PLAIN),
    (P.STRING, r'"\ud800"', "lone surrogate", PLAIN),
    (P.BINARY, '"a"', "not base64", PLAIN),
    (P.BINARY, '"aGk"', "not base64", PLAIN),
    (P.BINARY, '"aGl="', "not base64", PLAIN),
    (P.BINARY, '"aG k="', "not base64", PLAIN),
    (P.BINARY, "5", "wrong type: number into binary", PLAIN),
    (Varchar(3), '"abc "', "longer than varchar(3)", PLAIN),
    (Char(3), '"abcd"', "longer than char(3)", PLAIN),
    (Varchar(3), "1234", "longer than varchar(3)", PLAIN),
    (P.DATE, "20000", "wrong type: number into date", PLAIN),
    (P.DATE, '"2023-02-29"', "not a date", PLAIN),
    (P.DATE, '"0000-01-01"', "not a date", PLAIN),
    (P.DATE, '"2024-01-02T00:00:00"', "not a date", PLAIN),
    (P.TIMESTAMP, "1795132800000", "wrong type: number into timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03+02:00"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T24:00:00"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:60"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05 Z"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05+24:00"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"0000-01-01T00:00:00"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05.1234567"', "finer than microseconds", PLAIN),
    (P.TIMESTAMP, '"2024-01-02T03:04:05.0000000000"', "not a timestamp", PLAIN),
    (P.TIMESTAMP, '"9999-12-31T23:59:59Z"', "out of range for timestamp", BERLIN),
    (P.TIMESTAMP, '"0001-01-01T00:00:00+01:00"', "out of range for timestamp", PLAIN),
    (P.TIMESTAMP, "253402300800000", "out of range for timestamp", EPOCH),
    (P.TIMESTAMP, "1e99", "out of range for timestamp", EPOCH),
    (P.TIMESTAMP, "0.0001", "finer than microseconds", EPOCH),
    (P.DATE, "253402300799999", "out of range for date", EPOCH_BERLIN),
    (Array(P.INT), "5", "wrong type: number into array<int>", PLAIN),
    (Map(P.STRING, P.INT), "[]", "wrong type: array into map<string,int>", PLAIN),
]


def good(decoded: DecodedRows) -> list[int]:
    assert decoded.good is not None
    assert decoded.good.type == pa.int32()
    return [row for row in decoded.good.to_pylist() if row is not None]


def decoder(kind: HiveType, options: DecodeOptions = PLAIN) -> JsonDecoder:
    return JsonDecoder([Column("c", kind)], options)


@pytest.mark.parametrize(("kind", "value", "expected", "options"), GOOD)
def test_a_value_that_fits(kind: HiveType, value: str, expected: Any, options: DecodeOptions) -> None:
    decoded = decoder(kind, options).decode(pa.array([f'{{"c": {value}}}'.encode()]))
    assert decoded.bad == ()
    assert decoded.table.column("c").to_pylist() == [expected]
    assert decoded.good is None


@pytest.mark.parametrize(("kind", "value", "reason", "options"), BAD)
def test_a_value_that_does_not_fit(kind: HiveType, value: str, reason: str, options: DecodeOptions) -> None:
    decoded = decoder(kind, options).decode(pa.array([b"{}", f'{{"C": {value}}}'.encode()]))
    assert decoded.bad == (BadRow(1, "c", reason),)
    assert good(decoded) == [0]


@pytest.mark.parametrize(
    ("record", "field", "reason"),
    [
        (b"not json", None, "not JSON"),
        (b"", None, "empty, not JSON"),
        (b" ", None, "empty, not JSON"),
        (b'\xef\xbb\xbf{"userId": 1}', None, "not JSON"),
        (b'{"userId": 1} {"userId": 2}', None, "not JSON"),
        (b'{"userId": 1}{"userId": 2}', None, "not JSON"),
        (b'{"userId": 01}', None, "not JSON"),
        (b'{"other": NaN}', None, "not JSON"),
        (b'{"other": -Infinity}', None, "not JSON"),
        (b'{"userName": "a\nb"}', None, "not JSON"),
        (b'{"userId": 1,}', None, "not JSON"),
        (b"{'userId': 1}", None, "not JSON"),
        (b'{"userId": 1}\x00', None, "not JSON"),
        (b'{"userName": "\xff"}', None, "not UTF-8"),
        (b'{"other": "\xed\xa0\x80"}', None, "not UTF-8"),
        (b"[1]", None, "not a JSON object"),
        (b'"s"', None, "not a JSON object"),
        (b"null", None, "not a JSON object"),
        (b'{"userId": 1, "userId": 2}', "userid", "duplicate field"),
        (b'{"userId": 1, "userId": 1}', "userid", "duplicate field"),
        (b'{"userId": 1, "USERID": 2}', "userid", "duplicate field"),
        (b'{"userId": 1, "\\u0075serId": 2}', "userid", "duplicate field"),
        (b'{"userId": null, "userid": null}', "userid", "duplicate field"),
    ],
)
def test_a_record_that_is_bad_as_a_whole(record: bytes, field: str | None, reason: str) -> None:
    decoded = JsonDecoder(USERS, PLAIN).decode(pa.array([record]))
    assert decoded.bad == (BadRow(0, field, reason),)
    assert decoded.table.num_rows == 0


@pytest.mark.parametrize("name", ["userId", "USERID", "userid", "\\u0075serId"])
def test_names_match_without_regard_to_case(name: str) -> None:
    decoded = JsonDecoder(USERS, PLAIN).decode(pa.array([f' \r\n{{"{name}" : 7}}\t']))
    assert decoded.table.to_pylist() == [{"userid": 7, "username": None, "ts": None}]


def test_a_missing_field_is_null_unless_the_column_forbids_it() -> None:
    columns = [Column("a", P.INT, nullable=False), Column("b", P.INT)]
    decoded = JsonDecoder(columns, PLAIN).decode(pa.array(['{"a": 1}', '{"b": 1}', '{"a": null}']))
    assert decoded.table.to_pylist() == [{"a": 1, "b": None}]
    assert decoded.bad == (BadRow(1, "a", "missing"), BadRow(2, "a", "null"))


def test_tombstones_are_skipped_or_bad() -> None:
    records = pa.array([None, b"{}", None])
    skipping = JsonDecoder(USERS, PLAIN).decode(records)
    assert (skipping.skipped, skipping.bad, good(skipping)) == (2, (), [1])
    strict = JsonDecoder(USERS, DecodeOptions(tombstone=OnTombstone.BAD_RECORD)).decode(records)
    assert [bad.index for bad in strict.bad] == [0, 2]
    assert (strict.skipped, strict.bad[0].reason) == (0, "no value (tombstone)")


@pytest.mark.parametrize("name", ["\\\\", "a\\\\b", "\\u005c", "\\/", '\\"', "\\n"])
def test_an_unknown_field_may_have_any_name(name: str) -> None:
    decoder = JsonDecoder([Column("a", Primitive.BIGINT)], DecodeOptions())
    records = [f'{{"a": {number}, "{name}": {number}}}'.encode() for number in range(3)]
    decoded = decoder.decode(pa.array(records, pa.binary()))
    assert (decoded.table.column("a").to_pylist(), decoded.bad) == ([0, 1, 2], ())


def test_unknown_fields_are_ignored_or_bad() -> None:
    records = pa.array(['{"x": {"y": [1]}, "userId": 1}', '{"userId": 2, "X": 1, "x": 2, "X": 3}'])
    assert JsonDecoder(USERS, PLAIN).decode(records).table.column("userid").to_pylist() == [1, 2]
    strict = JsonDecoder(USERS, DecodeOptions(unknown_field=OnUnknownField.BAD_RECORD)).decode(records)
    assert strict.bad == (BadRow(0, "x", "unknown field"), BadRow(1, "x", "unknown field"))


def test_nested_fields_are_named_by_their_path() -> None:
    kind = Array(Struct((("n", Map(P.STRING, P.TINYINT)),)))
    records = ['{"c": [null, {"N": {"k": 999}}]}', '{"c": [{"n": 1, "N": 2}]}', '{"c": [{"n": {"k": 1, "k": 2}}]}']
    assert decoder(kind).decode(pa.array(records)).bad == (
        BadRow(0, "c.1.n.k", "out of range for tinyint"),
        BadRow(1, "c.0.n", "duplicate field"),
        BadRow(2, "c.0.n.k", "duplicate key"),
    )


def test_keys_of_a_map_are_compared_as_they_are_kept() -> None:
    records = pa.array(['{"c": {"16777216": 1, "16777217": 2}}'])
    assert decoder(Map(P.FLOAT, P.INT)).decode(records).bad == (BadRow(0, "c.16777217", "duplicate key"),)
    assert not decoder(Map(P.DOUBLE, P.INT)).decode(records).bad


def test_very_deep_and_very_long_values() -> None:
    deep = '{"c": "x", "other": ' + "[" * 100_000 + "]" * 100_000 + "}"
    long = '{"c": "' + "\\u00e4" * 1_000_000 + '"}'
    text = '{"c": ' + "[" * 5_000 + "]" * 5_000 + "}"
    decoded = decoder(P.STRING).decode(pa.array([deep, long, text, '{"c": 1' + "0" * 100_000 + "}"]))
    assert decoded.bad == ()
    lengths = [len(value) for value in decoded.table.column("c").to_pylist()]
    assert lengths == [1, 1_000_000, 10_000, 100_001]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_every_kind_of_input(kind: pa.DataType) -> None:
    whole = pa.array(["zz", '{"userId": 1}', None, '{"userId": 2}', "x", '{"userId": 3}'], kind)
    chunked = pa.chunked_array([whole.slice(1, 3), whole.slice(0, 0), whole.slice(4)])
    decoded = JsonDecoder(USERS, PLAIN).decode(chunked)
    assert decoded.table.column("userid").to_pylist() == [1, 2, 3]
    assert (good(decoded), decoded.skipped) == ([0, 2, 4], 1)
    assert decoded.bad == (BadRow(3, None, "not JSON"),)


def test_no_records_make_no_rows() -> None:
    decoded = JsonDecoder(USERS, PLAIN).decode(pa.array([], pa.binary()))
    assert (decoded.table.num_rows, decoded.bad, decoded.skipped) == (0, (), 0)
    assert decoded.table.schema.names == ["userid", "username", "ts"]


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="not int64"):
        JsonDecoder(USERS, PLAIN).decode(pa.array([1]))
    with pytest.raises(ValueError, match="without columns"):
        JsonDecoder([], PLAIN)
