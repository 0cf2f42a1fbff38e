"""Partition values: the one text that Hive gives each."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime, timezone
from decimal import Decimal as Number
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition import parse_path, partition_path
from hivesink.core.partition_value import canonical
from hivesink.core.table import Char, Decimal, HiveType, Primitive
from hivesink.core.typetext import parse_type
from hivesink.errors import PartitionInvalid

P = Primitive


FILE = Path(__file__).parent / "cases/partition_values.txt"
WORDS = {"Number": Number, "date": date, "datetime": datetime, "timezone": timezone, "math": math, "struct": struct}


def cases() -> list[tuple[HiveType, str, str]]:
    kind: HiveType = P.STRING
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines()[2:]:
        if line.startswith("-- "):
            kind = parse_type(line[3:])
        else:
            value, expected = line.split(" => ")
            found.append((kind, value, expected))
    return found


@pytest.mark.parametrize(("kind", "value", "expected"), cases())
def test_the_folder_of_each_value(kind: HiveType, value: str, expected: str) -> None:
    given = eval(value, WORDS)  # noqa: S307  a file of this repository
    if expected.startswith("! "):
        with pytest.raises(PartitionInvalid, match=f"of type {re.escape(str(kind))} ") as caught:
            canonical(given, kind)
        assert expected[2:] in str(caught.value)
    else:
        text = canonical(given, kind)
        path = partition_path(["p"], [text])
        assert path == f"p={expected}"
        assert parse_path(path) == (("p", text),)
        assert text is None or canonical(text, kind) == text


def test_an_error_does_not_repeat_a_megabyte() -> None:
    with pytest.raises(PartitionInvalid) as caught:
        canonical("x" * 1_000_000, Char(3))
    assert len(str(caught.value)) < 300


@given(st.floats())
def test_a_double_reads_back(value: float) -> None:
    text = canonical(value, P.DOUBLE)
    assert text is not None
    assert struct.pack("d", float(text)) == struct.pack("d", value) or math.isnan(value)
    assert canonical(text, P.DOUBLE) == text


@given(st.floats(width=32))
def test_a_float_reads_back(value: float) -> None:
    text = canonical(value, P.FLOAT)
    assert text is not None
    assert struct.pack("<f", float(text)) == struct.pack("<f", value) or math.isnan(value)
    assert canonical(text, P.FLOAT) == text


@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))), st.data())
def test_a_decimal_has_one_text(shape: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = shape
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Number((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    text = canonical(value, Decimal(precision, scale))
    assert text is not None
    assert Number(text) == value
    assert "E" not in text
    assert not ("." in text and text.endswith("0"))
    assert canonical(f"{value:f}000" if scale else f"{value}.000", Decimal(precision, scale)) == text


@given(st.datetimes())
def test_a_timestamp_has_one_text(value: datetime) -> None:
    text = canonical(value, P.TIMESTAMP)
    assert text is not None
    assert canonical(text, P.TIMESTAMP) == text
    assert datetime.fromisoformat(text.ljust(26, "0") if "." in text else text) == value
