"""JSON records to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hivesink.config.values import OnTombstone
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.exact import ExactDecoder
from hivesink.decode.fast import FastDecoder
from hivesink.decode.result import BadRecord, Decoded
from hivesink.decode.unfit import Unfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.core.table import Column
    from hivesink.decode.clocks import Mask
    from hivesink.decode.result import DecodeOptions

# Small enough for the CPU's caches, large enough for the fixed cost of a chunk.
CHUNK_ROWS = 8192
CHUNK_BYTES = 8 << 20


class JsonDecoder:
    """Decodes a JSON object a record into `columns`, names matched without regard to case.

    It learns a stream's habits, so keep one for a whole task. Pickled, it begins anew.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        """Raises ValueError without columns."""
        if not columns:
            message = "a table without columns has no rows"
            raise ValueError(message)
        self._columns = tuple(columns)
        self._options = options
        self.schema = arrow_schema(columns)
        self._exact = ExactDecoder(self._columns, options)
        self._fast = FastDecoder(self._exact)

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[tuple[Column, ...], DecodeOptions]]:
        return (JsonDecoder, (self._columns, self._options))

    def decode(self, values: pa.Array | pa.ChunkedArray) -> Decoded:
        """`values` are binary, string or their large forms; null is a tombstone. Raises TypeError for other types."""
        batches: list[pa.RecordBatch] = []
        places: list[Any] = []
        bad: list[BadRecord] = []
        skipped = 0
        for start, chunk in _chunks(values):
            present, records = _without_nulls(chunk)
            absent = len(chunk) - len(records)
            if absent and self._options.tombstone is OnTombstone.SKIP:
                skipped += absent
            elif absent:
                gone = np.setdiff1d(np.arange(len(chunk)), present)
                bad += [BadRecord(start + int(row), None, "no value (tombstone)") for row in gone]
            if len(records):
                batch, good, unfit = self._chunk(records)
                batches.append(batch)
                places.append(start + present[good])
                bad += [BadRecord(start + int(present[row]), field, reason) for row, field, reason in unfit]
        table = pa.Table.from_batches(batches, self.schema)
        everything = table.num_rows == len(values)
        good_rows = None if everything else pa.array(np.concatenate([np.empty(0, np.int64), *places]), pa.int32())
        return Decoded(table, good_rows, tuple(sorted(bad, key=lambda record: record.index)), skipped)

    def _chunk(self, records: pa.StringArray) -> tuple[pa.RecordBatch, Any, list[tuple[int, str | None, str]]]:
        """The good rows, their places in `records`, and the bad ones."""
        arrays, doubt = self._fast.decode(records)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not doubt.any():
            return batch, np.arange(len(records)), []
        return self._resolve(batch, doubt, records)

    def _resolve(
        self, batch: pa.RecordBatch, doubt: Mask, records: pa.StringArray
    ) -> tuple[pa.RecordBatch, Any, list[tuple[int, str | None, str]]]:
        """Decode the records in doubt exactly, and put the good ones in their places."""
        rows: list[list[Any]] = []
        places: list[int] = []
        bad: list[tuple[int, str | None, str]] = []
        doubtful = np.flatnonzero(doubt)
        for place, record in zip(
            doubtful.tolist(), records.view(pa.binary()).take(pa.array(doubtful)).to_pylist(), strict=True
        ):
            try:
                rows.append(self._exact.row(record))
                places.append(place)
            except Unfit as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append((place, ".".join(error.path) or None, error.reason))
        sure = np.flatnonzero(~doubt)
        found = batch.take(pa.array(sure))
        if rows:
            exact = exact_batch(rows, self.schema)
            merged = pa.Table.from_batches([found, exact]).take(
                pa.array(np.argsort(np.concatenate([sure, places]), kind="stable"))
            )
            found = merged.combine_chunks().to_batches()[0]
        return found, np.sort(np.concatenate([sure, np.array(places, dtype=sure.dtype)])), bad


def exact_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the exact decoder as Arrow."""
    arrays = [pa.array(list(values), field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(values: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """Slices that are small in rows and bytes, each with its first row's place."""
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
    """The places of the records that have a value, and these as text that may still hold any bytes."""
    present = np.arange(len(chunk))
    if chunk.null_count:
        present = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
        chunk = chunk.drop_null()
    if pa.types.is_large_binary(chunk.type) or pa.types.is_large_string(chunk.type):
        chunk = chunk.cast(pa.binary() if pa.types.is_large_binary(chunk.type) else pa.string())
    return present, chunk.view(pa.string())
