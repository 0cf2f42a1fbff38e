"""The figures of one Parquet file: rows and bytes from its footer, those of columns from their values.

Footers have no bounds of INT96, shortened ones of texts, and neither lengths nor distinct values. As these need the
values anyhow, all of a column's figures come from one pass, a batch at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from hivesink.core.statistics import REGISTER_BITS, ColumnFigures, FileStatistics
from hivesink.core.table import Char, Column, Decimal, HiveType, Primitive, Varchar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BATCH_ROWS = 1 << 16
READ_BYTES = 1 << 20
_SECOND = 1_000_000
_GREGORIAN = -141_427
_FIRST: dict[HiveType, int] = {Primitive.DATE: _GREGORIAN, Primitive.TIMESTAMP: _GREGORIAN * 86_400 * _SECOND}
"""1582-10-15. Before it Hive's readers find other days than are written (docs/timestamps.md)."""
_TINY = 1e-300
"""Derby, the embedded metastore's database, takes neither smaller doubles nor infinite ones."""

_FLOATS: dict[HiveType, pa.DataType] = {Primitive.FLOAT: pa.float32(), Primitive.DOUBLE: pa.float64()}
_INTEGERS: dict[HiveType, pa.DataType] = {
    Primitive.TINYINT: pa.int8(),
    Primitive.SMALLINT: pa.int16(),
    Primitive.INT: pa.int32(),
    Primitive.BIGINT: pa.int64(),
}
_OTHERS: dict[HiveType, pa.DataType] = {
    Primitive.BOOLEAN: pa.bool_(),
    Primitive.BINARY: pa.binary(),
    Primitive.DATE: pa.date32(),
}


def measure(stream: BinaryIO, columns: Sequence[Column] = ()) -> FileStatistics:
    """The file's rows and raw bytes, which are what Hive's ANALYZE takes for rawDataSize, and figures of `columns`.

    A column is left out where its figures wouldn't be what readers find: it is nested, has another type in the file,
    holds NaN or infinity, or days before 1582-10-15, or is a TIMESTAMP of parquet-mr, which readers shift by a zone.
    Raises ValueError if the file isn't Parquet, or is damaged.
    """
    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us", buffer_size=READ_BYTES)
    footer = file.metadata
    found = {column.name: _column(file, column) for column in columns}
    return FileStatistics(
        footer.num_rows,
        sum(footer.row_group(index).total_byte_size for index in range(footer.num_row_groups)),
        {name: figures for name, figures in found.items() if figures},
    )


def _column(file: pq.ParquetFile, column: Column) -> ColumnFigures | None:
    fields = [field for field in file.schema_arrow if field.name.lower() == column.name]
    if not fields:
        return ColumnFigures(nulls=file.metadata.num_rows)
    if len(fields) > 1 or not _is_own(fields[0].type, column.type):
        return None
    if column.type is Primitive.TIMESTAMP and (file.metadata.created_by or "").startswith("parquet-mr"):
        return None
    total = ColumnFigures(nulls=0)
    try:
        for batch in file.iter_batches(BATCH_ROWS, columns=[fields[0].name]):
            figures = _figures(batch.column(0), column.type)
            if figures is None:
                return None
            total += figures
    except OSError as error:
        # Streams raise StoreUnavailable for what may pass, so this is the file's content.
        raise ValueError(str(error)) from error
    return total


def _is_own(found: pa.DataType, kind: HiveType) -> bool:
    """Whether the file's type is the one in which Hive, Spark and this sink write `kind`."""
    match kind:
        case Primitive.STRING | Varchar() | Char():
            return bool(types.is_string(found))
        case Primitive.TIMESTAMP:
            return bool(types.is_timestamp(found) and found.tz is None)
        case Decimal():
            return bool(types.is_decimal(found) and found.scale == kind.scale)
        case Primitive():
            return bool(found == (_INTEGERS | _FLOATS | _OTHERS)[kind])
        case _:
            return False


def _figures(values: pa.Array, kind: HiveType) -> ColumnFigures | None:
    nulls, values = values.null_count, values.drop_null()
    match kind:
        case Primitive.BOOLEAN:
            return ColumnFigures(nulls, trues=values.true_count)
        case Primitive.BINARY:
            return _measured(nulls, pc.binary_length(values))
        case Primitive.STRING | Varchar() | Char():
            if isinstance(kind, Char):
                values = pc.utf8_rtrim(values, characters=" ")
            return _measured(nulls, pc.utf8_length(values), _sketch(_text_hashes(values)))
        case _:
            return _bounded(nulls, values, kind)


def _measured(nulls: int, lengths: pa.Array, sketch: bytes = b"") -> ColumnFigures:
    longest, total = pc.max(lengths).as_py() or 0, pc.sum(lengths).as_py() or 0
    return ColumnFigures(nulls, longest=longest, length=total, sketch=sketch)


def _bounded(nulls: int, values: pa.Array, kind: HiveType) -> ColumnFigures | None:
    """Figures of numbers, days and clocks; None where readers, or a metastore, don't take their bounds."""
    match kind:
        case Decimal():
            low, high = _bounds(values)
            return ColumnFigures(nulls, low, high, sketch=_sketch(_text_hashes(values.cast(pa.string()))))
        case Primitive.FLOAT | Primitive.DOUBLE:
            values = values.cast(pa.float64())
            # Bounds pass over NaN.
            if not pc.all(pc.is_finite(values), min_count=0).as_py():
                return None
        case Primitive.DATE:
            values = values.cast(pa.int32()).cast(pa.int64())
        case Primitive.TIMESTAMP:
            values = values.cast(pa.timestamp("us")).cast(pa.int64())
        case _:
            values = values.cast(pa.int64())
    low, high = _bounds(values)
    sketch = _sketch(_hashes(values.to_numpy()))
    if low is None:
        return ColumnFigures(nulls, sketch=sketch)
    if kind in _FIRST and low < _FIRST[kind]:
        return None
    if kind in _FLOATS and any(0 < abs(bound) < _TINY for bound in (low, high)):
        return None
    if kind is Primitive.TIMESTAMP:
        low, high = low // _SECOND, high // _SECOND
    return ColumnFigures(nulls, low, high, sketch=sketch)


def _bounds(values: pa.Array) -> tuple[Any, Any]:
    low, high = pc.min_max(values).as_py().values()
    return low, high


def _text_hashes(values: pa.Array) -> NDArray[np.uint64]:
    return _hashes(pc.unique(values.cast(pa.binary())).to_numpy(zero_copy_only=False))


def _hashes(values: NDArray[Any]) -> NDArray[np.uint64]:
    # Imported here, since tasks import this module, and don't need pandas.
    from pandas.util import hash_array

    return hash_array(values, categorize=False)


def _sketch(hashes: NDArray[np.uint64]) -> bytes:
    """A HyperLogLog: each register has the highest rank, the number of leading zeros and one, of its hashes."""
    bits = 64 - REGISTER_BITS
    registers = np.zeros(1 << REGISTER_BITS, np.uint8)
    rest = (hashes & np.uint64((1 << bits) - 1)).astype(np.float64)
    # As a float64 the rest is exact, so its exponent is the number of its bits.
    ranks = (bits + 1 - np.frexp(rest)[1]).astype(np.uint8)
    np.maximum.at(registers, (hashes >> np.uint64(bits)).astype(np.intp), ranks)
    return registers.tobytes()
