"""Figures of files add up, in any order and grouping."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.statistics import ColumnFigures, FileStatistics

COLUMNS = st.builds(
    ColumnFigures,
    st.integers(0, 9),
    st.none() | st.integers(),
    st.none() | st.integers(),
    st.integers(0, 9),
    st.integers(0, 99),
    st.integers(0, 9),
    st.just(b"") | st.binary(min_size=4, max_size=4),
)
BY_NAME = st.dictionaries(st.sampled_from("ab"), COLUMNS)
FILES = st.builds(FileStatistics, st.integers(0, 3), st.integers(0, 99), BY_NAME)


def with_rows(file: FileStatistics) -> FileStatistics:
    """A file without rows has nothing to tell of its columns."""
    return file if file.rows else FileStatistics(0, file.raw_bytes)


@given(FILES.map(with_rows), FILES.map(with_rows), FILES.map(with_rows))
def test_sums_are_a_monoid(a: FileStatistics, b: FileStatistics, c: FileStatistics) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert FileStatistics() + a == a


def test_figures_of_both() -> None:
    one = ColumnFigures(1, Decimal("-1.50"), Decimal(2), longest=3, length=5, trues=1, sketch=bytes([0, 7]))
    other = ColumnFigures(2, Decimal(-3), Decimal(1), longest=4, length=6, trues=2, sketch=bytes([9, 1]))
    assert one + other == ColumnFigures(3, Decimal(-3), Decimal(2), 4, 11, 3, bytes([9, 7]))
    assert one + ColumnFigures(5) == ColumnFigures(6, one.low, one.high, 3, 5, 1, one.sketch)


def test_a_column_that_one_file_can_not_tell_is_not_told() -> None:
    both = FileStatistics(1, 1, {"a": ColumnFigures(0), "b": ColumnFigures(0)}) + FileStatistics(
        1, 1, {"a": ColumnFigures(1)}
    )
    assert both == FileStatistics(2, 2, {"a": ColumnFigures(1)})


@pytest.mark.parametrize("sketch", [b"", bytes(4096)])
def test_a_column_of_nulls_has_one_value_as_in_hive(sketch: bytes) -> None:
    assert ColumnFigures(3, sketch=sketch).distinct == 1
