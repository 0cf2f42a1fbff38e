"""The decoder of JSON: kinds of input, tombstones, extremes. What becomes of a record is in cases/records.txt."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hivesink.core.table import Column, HiveType, Primitive
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.values import DecodeOptions

P = Primitive
PLAIN = DecodeOptions()
USERS = [Column("userid", P.INT), Column("username", P.STRING), Column("ts", P.BIGINT)]


def decoder(kind: HiveType, options: DecodeOptions = PLAIN) -> JsonDecoder:
    return JsonDecoder([Column("c", kind)], options)


def test_very_deep_and_very_long_values() -> None:
    deep = '{"c": "x", "other": ' + "[" * 100_000 + "]" * 100_000 + "}"
    long = '{"c": "' + "\\u00e4" * 1_000_000 + '"}'
    text = '{"c": ' + "[" * 5_000 + "]" * 5_000 + "}"
    decoded = decoder(P.STRING).decode(pa.array([deep, long, text, '{"c": 1' + "0" * 100_000 + "}"]))
    assert decoded.bad == ()
    lengths = [len(value) for value in decoded.table.column("c").to_pylist()]
    assert lengths == [1, 1_000_000, 10_000, 100_001]


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="not int64"):
        JsonDecoder(USERS, PLAIN).decode(pa.array([1]))
    with pytest.raises(ValueError, match="without columns"):
        JsonDecoder([], PLAIN)
