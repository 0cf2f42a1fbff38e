"""A file's figures are those of its values; what readers would see otherwise isn't told."""

from __future__ import annotations

import io
import math
from datetime import date, datetime, timedelta
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.statistics import ColumnFigures, FileStatistics
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.formats.parquet import ParquetFormat
from hivesink.formats.statistics import BATCH_ROWS, measure

WHEN = datetime(1950, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001  a wall clock
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
CASES: list[tuple[str, list[Any], ColumnFigures]] = [
    ("boolean", [True, None, False, True], ColumnFigures(1, trues=2)),
    ("tinyint", [-128, 127], ColumnFigures(0, -128, 127)),
    ("smallint", [5, None], ColumnFigures(1, 5, 5)),
    ("int", [None, None], ColumnFigures(2)),
    ("bigint", [-(2**63), 2**63 - 1], ColumnFigures(0, -(2**63), 2**63 - 1)),
    ("float", [0.5, -0.25], ColumnFigures(0, -0.25, 0.5)),
    ("double", [0.0, 1e300], ColumnFigures(0, 0.0, 1e300)),
    ("string", ["aüb", None, "😀😀", ""], ColumnFigures(1, longest=3, length=5)),
    ("varchar(5)", ["ab"], ColumnFigures(0, longest=2, length=2)),
    ("char(5)", ["ab  ", "abc"], ColumnFigures(0, longest=3, length=5)),
    ("binary", [b"\xff\x00", None], ColumnFigures(1, longest=2, length=2)),
    ("decimal(20,4)", [Number("-1.5000"), Number(9)], ColumnFigures(0, Number("-1.5"), Number(9))),
    ("date", [date(1969, 12, 31), date(9999, 12, 31)], ColumnFigures(0, -1, 2932896)),
    ("timestamp", [WHEN, None], ColumnFigures(1, -631054555, -631054555)),
    ("timestamp", [LAST, datetime(1582, 10, 15)], ColumnFigures(0, -12219292800, 253402300799)),  # noqa: DTZ001
]


def written(kind: str, *groups: list[Any]) -> io.BytesIO:
    schema = arrow_schema([column(kind)])
    stream = io.BytesIO()
    records = ParquetFormat(schema).open(stream)
    for group in groups:
        records.write(pa.table({"c": pa.array(group, schema.field("c").type)}))
    records.close()
    return rewound(stream)


def rewound(stream: io.BytesIO) -> io.BytesIO:
    stream.seek(0)
    return stream


def column(kind: str) -> Column:
    return Column("c", parse_type(kind))


def told(stream: io.BytesIO, kind: str) -> ColumnFigures | None:
    return measure(stream, [column(kind)]).columns.get("c")


@pytest.mark.parametrize(("kind", "values", "wanted"), CASES)
def test_figures_of_every_type(kind: str, values: list[Any], wanted: ColumnFigures) -> None:
    found = told(written(kind, values), kind)
    assert found is not None
    assert found == ColumnFigures(
        wanted.nulls, wanted.low, wanted.high, wanted.longest, wanted.length, wanted.trues, found.sketch
    )
    distinct = len(set(values) - {None})
    assert found.distinct == (1 if kind in {"boolean", "binary"} else max(1, distinct))


@given(st.lists(st.none() | st.text()), st.lists(st.none() | st.text()))
def test_two_files_add_up_to_one(first: list[str | None], second: list[str | None]) -> None:
    both = measure(written("string", first), [column("string")]) + measure(
        written("string", second), [column("string")]
    )
    whole = measure(written("string", first, second), [column("string")])
    assert (both.rows, both.columns) == (whole.rows, whole.columns)


@pytest.mark.parametrize("kind", ["bigint", "string", "decimal(20,2)", "double", "timestamp"])
@pytest.mark.parametrize("count", [10, 1000, 150_000])
def test_estimates_are_within_five_percent(kind: str, count: int) -> None:
    make: dict[str, Any] = {
        "string": str,
        "double": lambda number: number / 7,
        "timestamp": lambda number: WHEN + timedelta(milliseconds=number),
    }
    values = [make.get(kind, int)(number) for number in range(count)] * 2
    found = told(written(kind, values), kind)
    assert found is not None
    assert len(values) > BATCH_ROWS or count < 150_000
    assert abs(found.distinct - count) <= max(1, 0.05 * count)


def test_without_columns_the_footer_is_enough() -> None:
    stream = written("string", ["a"] * 1000, ["b"])
    footer = pq.ParquetFile(stream).metadata
    raw = sum(footer.row_group(group).total_byte_size for group in range(2))
    assert measure(rewound(stream)) == FileStatistics(1001, raw)
    content = bytearray(stream.getvalue())
    content[4:100] = b"x" * 96
    assert measure(io.BytesIO(content)).rows == 1001
    with pytest.raises(ValueError, match=r"."):
        measure(io.BytesIO(content), [column("string")])


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" * 20])
def test_another_format_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"(?i)parquet"):
        measure(io.BytesIO(content))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", math.nan),
        ("float", -math.inf),
        ("double", 5e-324),
        ("date", date(1582, 10, 14)),
        ("timestamp", datetime(1582, 10, 14, 23, 59, 59)),  # noqa: DTZ001
        ("array<int>", [1]),
    ],
)
def test_what_readers_or_metastores_take_otherwise_is_left_out(kind: str, value: Any) -> None:
    assert told(written(kind, [None, value], [None]), kind) is None


def test_a_column_that_the_file_has_otherwise_is_left_out() -> None:
    assert told(written("bigint", [1]), "int") is None
    assert told(written("binary", [b"a"]), "string") is None
    assert told(written("decimal(20,4)", [1]), "decimal(20,2)") is None
    stream = io.BytesIO()
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["c", "C"]), stream)
    assert told(rewound(stream), "bigint") is None


def test_a_column_that_the_file_lacks_is_null_and_case_does_not_matter() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"C": [7, 8]}), stream)
    found = measure(rewound(stream), [column("bigint"), Column("d", parse_type("string"))]).columns
    assert (found["c"].low, found["c"].high, found["d"]) == (7, 8, ColumnFigures(2))


def test_timestamps_of_parquet_mr_are_shifted_by_readers_so_they_are_left_out() -> None:
    content = written("timestamp", [WHEN]).getvalue()
    assert content.count(b"parquet-cpp-arrow") == 1
    assert told(io.BytesIO(content), "timestamp") is not None
    assert told(io.BytesIO(content.replace(b"parquet-cpp-arrow", b"parquet-mr-hive__")), "timestamp") is None
