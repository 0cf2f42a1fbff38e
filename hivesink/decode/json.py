"""JSON records to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from hivesink.config.options import OnTombstone
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.exact import ExactDecoder
from hivesink.decode.fast import FastDecoder
from hivesink.decode.values import DecodeOptions, InvalidValue
from hivesink.ports import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hivesink.core.table import Column

# Small enough for the CPU's caches, large enough for the fixed cost of a chunk.
CHUNK_ROWS = 8192
CHUNK_BYTES = 8 << 20
Rows: TypeAlias = "NDArray[np.int64]"


class JsonDecoder:
    """Decodes records, each one JSON object, into `columns`, names matched without regard to case.

    It learns from the stream, so keep one for a whole task.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        """Raises ValueError without columns."""
        if not columns:
            message = "a table without columns has no rows"
            raise ValueError(message)
        self._options = options
        self.schema = arrow_schema(columns)
        self._exact = ExactDecoder(columns, options)
        self._fast = FastDecoder(self._exact)

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRows:
        """`values` are binary, string or their large forms; null is a tombstone. Raises TypeError for other types."""
        batches: list[pa.RecordBatch] = []
        good: list[Rows] = [np.empty(0, np.int64)]
        bad: list[BadRow] = []
        skipped = 0
        for start, chunk in _chunks(values):
            present, records = _without_nulls(chunk)
            absent = len(chunk) - len(records)
            if absent and self._options.tombstone is OnTombstone.SKIP:
                skipped += absent
            elif absent:
                tombstones = np.setdiff1d(np.arange(len(chunk)), present)
                bad += [BadRow(start + int(row), None, "no value (tombstone)") for row in tombstones]
            if len(records):
                batch, rows = self._chunk(records, start + present, bad)
                batches.append(batch)
                good.append(rows)
        table = pa.Table.from_batches(batches, self.schema)
        everything = table.num_rows == len(values)
        good_rows = None if everything else pa.array(np.concatenate(good), pa.int32())
        return DecodedRows(table, good_rows, tuple(sorted(bad, key=lambda row: row.index)), skipped)

    def _chunk(self, records: pa.StringArray, rows: Rows, bad: list[BadRow]) -> tuple[pa.RecordBatch, Rows]:
        """The good rows of `records`, whose input rows are `rows`, and their input rows; the others go to `bad`."""
        arrays, doubt = self._fast.decode(records)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not doubt.any():
            return batch, rows
        exact: list[list[Any]] = []
        indexes: list[int] = []
        doubtful = np.flatnonzero(doubt)
        again = records.view(pa.binary()).take(pa.array(doubtful)).to_pylist()
        for index, record in zip(doubtful.tolist(), again, strict=True):
            try:
                exact.append(self._exact.row(record))
                indexes.append(index)
            except InvalidValue as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append(error.bad_row(int(rows[index])))
        sure = np.flatnonzero(~doubt)
        batch = batch.take(pa.array(sure))
        if not exact:
            return batch, rows[sure]
        order = np.concatenate([sure, indexes])
        both = pa.Table.from_batches([batch, exact_batch(exact, self.schema)])
        merged = both.take(pa.array(np.argsort(order, kind="stable")))
        return merged.combine_chunks().to_batches()[0], rows[np.sort(order)]


def exact_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the exact decoder as Arrow."""
    arrays = [pa.array(list(values), field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(values: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """Slices that are small in rows and bytes, each with the index of its first row."""
    start = 0
    for whole in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        if whole.type not in {pa.binary(), pa.string(), pa.large_binary(), pa.large_string()}:
            message = f"records are bytes or text, not {whole.type}"
            raise TypeError(message)
        rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES * len(whole) // max(1, whole.nbytes)))
        for at in range(0, len(whole), rows):
            yield start + at, whole.slice(at, rows)
        start += len(whole)


def _without_nulls(chunk: pa.Array) -> tuple[Any, pa.StringArray]:
    """The indexes of the records that have a value, and these as text that may still hold any bytes."""
    present: Any = np.arange(len(chunk))
    if chunk.null_count:
        present = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
        chunk = chunk.drop_null()
    if pa.types.is_large_binary(chunk.type) or pa.types.is_large_string(chunk.type):
        chunk = chunk.cast(pa.binary() if pa.types.is_large_binary(chunk.type) else pa.string())
    return present, chunk.view(pa.string())
