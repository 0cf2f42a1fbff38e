"""Partition values: the one text that Hive gives each."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime, timezone
from decimal import Decimal as Number

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition import DEFAULT_PARTITION
from hivesink.core.partition_value import canonical
from hivesink.core.table import Array, Char, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.errors import ValueUnfit

P = Primitive


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, P.INT, None),
        ("", P.STRING, None),
        ("", P.INT, None),
        ("   ", Char(5), None),
        (" a ", P.STRING, " a "),
        ("01", P.INT, "1"),
        ("+7", P.TINYINT, "7"),
        ("-0", P.BIGINT, "0"),
        (-(2**63), P.BIGINT, "-9223372036854775808"),
        (True, P.BOOLEAN, "true"),
        ("FALSE", P.BOOLEAN, "false"),
        (date(2024, 1, 2), P.DATE, "2024-01-02"),
        (date(7, 1, 2), P.DATE, "0007-01-02"),
        ("2024-1-2", P.DATE, "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5), P.TIMESTAMP, "2024-01-02 03:04:05"),  # noqa: DTZ001  a wall clock
        (datetime(2024, 1, 2, 3, 4, 5, 120000), P.TIMESTAMP, "2024-01-02 03:04:05.12"),  # noqa: DTZ001
        (datetime(7, 1, 2), P.TIMESTAMP, "0007-01-02 00:00:00"),  # noqa: DTZ001
        ("2024-01-02T03:04:05.123456789", P.TIMESTAMP, "2024-01-02 03:04:05.123456789"),
        ("2024-01-02 03:04", P.TIMESTAMP, "2024-01-02 03:04:00"),
        ("2024-01-02", P.TIMESTAMP, "2024-01-02 00:00:00"),
        (Number("1.50"), Decimal(10, 2), "1.5"),
        (Number("100.00"), Decimal(10, 2), "100"),
        (Number("-0.00"), Decimal(10, 2), "0"),
        ("1e2", Decimal(3, 0), "100"),
        ("1.500000", Decimal(2, 1), "1.5"),
        (7, Decimal(1, 0), "7"),
        (Number("9" * 38), Decimal(38, 0), "9" * 38),
        (Number("0." + "0" * 37 + "1"), Decimal(38, 38), "0." + "0" * 37 + "1"),
        ("ab  ", Char(2), "ab"),
        ("ab", Varchar(2), "ab"),
        ("ab ", Varchar(3), "ab "),
        (1.0, P.DOUBLE, "1.0"),
        (1, P.DOUBLE, "1.0"),
        ("0.1", P.DOUBLE, "0.1"),
        (-0.0, P.DOUBLE, "-0.0"),
        (0.001, P.DOUBLE, "0.001"),
        (0.000999, P.DOUBLE, "9.99E-4"),
        (9999999.0, P.DOUBLE, "9999999.0"),
        (1e7, P.DOUBLE, "1.0E7"),
        (123456789.5, P.DOUBLE, "1.234567895E8"),
        (120.0, P.DOUBLE, "120.0"),
        (1.7976931348623157e308, P.DOUBLE, "1.7976931348623157E308"),
        (math.nan, P.DOUBLE, "NaN"),
        (-math.inf, P.DOUBLE, "-Infinity"),
        (0.1, P.FLOAT, "0.1"),
        (struct.unpack("<f", struct.pack("<f", 0.1))[0], P.FLOAT, "0.1"),
        (16777216.0, P.FLOAT, "1.6777216E7"),
        (3.4028234663852886e38, P.FLOAT, "3.4028235E38"),
        (math.inf, P.FLOAT, "Infinity"),
    ],
)
def test_canonical(value: object, kind: HiveType, text: str | None) -> None:
    assert canonical(value, kind) == text


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ("x", P.INT, "expected a whole number"),
        ("1.0", P.INT, "expected a whole number"),
        (True, P.INT, "expected a whole number"),
        (1.0, P.INT, "expected a whole number"),
        ("१", P.INT, "expected a whole number"),
        (128, P.TINYINT, "out of range -128 to 127"),
        (-32769, P.SMALLINT, "out of range"),
        ("9" * 41, P.BIGINT, "expected a whole number"),
        (2**63, P.BIGINT, "out of range"),
        (1, P.BOOLEAN, "expected true or false"),
        ("yes", P.BOOLEAN, "expected true or false"),
        (datetime(2024, 1, 2), P.DATE, "expected a date"),  # noqa: DTZ001
        ("2024-02-30", P.DATE, "day is out of range|day 30 must be"),
        ("20240102", P.DATE, "expected a date"),
        (datetime(2024, 1, 2, tzinfo=timezone.utc), P.TIMESTAMP, "without a zone"),
        ("2024-01-02T03:04:05Z", P.TIMESTAMP, "without a zone"),
        ("2024-01-02 25:00:00", P.TIMESTAMP, "hour must be"),
        (Number("1.234"), Decimal(10, 2), "more digits than decimal"),
        (Number(123456789), Decimal(10, 2), "more digits than decimal"),
        (Number("1E+999999"), Decimal(38, 0), "more digits than decimal"),
        (Number("1E-999999"), Decimal(38, 38), "more digits than decimal"),
        (Number("1." + "0" * 200 + "1"), Decimal(38, 2), "more digits than decimal"),
        (Number("NaN"), Decimal(), "not a finite number"),
        (1.5, Decimal(10, 2), "exact decimal"),
        ("abc", Char(2), "3 characters"),
        ("abc", Varchar(2), "3 characters"),
        (7, P.STRING, "expected a text"),
        ("\ud800", P.STRING, "lone surrogate"),
        (DEFAULT_PARTITION, P.STRING, "Hive keeps this text for null"),
        ("x", P.DOUBLE, "expected a number"),
        (10**400, P.DOUBLE, "out of range"),
        (1e39, P.FLOAT, "out of range"),
        (b"a", P.BINARY, "BINARY has no partition value"),
        ([1], Array(P.INT), "no partitions by complex types"),
        ({}, Map(P.INT, P.INT), "no partitions by complex types"),
        ({"a": 1}, Struct((("a", P.INT),)), "no partitions by complex types"),
    ],
)
def test_values_that_do_not_fit(value: object, kind: HiveType, reason: str) -> None:
    with pytest.raises(ValueUnfit, match=f"of type {re.escape(str(kind))}: .*{reason}"):
        canonical(value, kind)


def test_an_error_does_not_repeat_a_megabyte() -> None:
    with pytest.raises(ValueUnfit) as caught:
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
