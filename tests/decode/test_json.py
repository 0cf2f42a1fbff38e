"""The decoder of JSON: kinds of input, tombstones, extremes. What becomes of a record is in cases/records.txt."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hivesink.config.options import OnTombstone
from hivesink.core.table import Column, HiveType, Primitive
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.values import DecodeOptions
from hivesink.ports import BadRow, DecodedRows

P = Primitive
PLAIN = DecodeOptions()
USERS = [Column("userid", P.INT), Column("username", P.STRING), Column("ts", P.BIGINT)]


def good(decoded: DecodedRows) -> list[int]:
    assert decoded.good is not None
    assert decoded.good.type == pa.int32()
    return [row for row in decoded.good.to_pylist() if row is not None]


def decoder(kind: HiveType, options: DecodeOptions = PLAIN) -> JsonDecoder:
    return JsonDecoder([Column("c", kind)], options)


def test_tombstones_are_skipped_or_bad() -> None:
    records = pa.array([None, b"{}", None])
    skipping = JsonDecoder(USERS, PLAIN).decode(records)
    assert (skipping.skipped, skipping.bad, good(skipping)) == (2, (), [1])
    strict = JsonDecoder(USERS, DecodeOptions(tombstone=OnTombstone.BAD_RECORD)).decode(records)
    assert [bad.index for bad in strict.bad] == [0, 2]
    assert (strict.skipped, strict.bad[0].reason) == (0, "no value (tombstone)")


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
