"""JSON records to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from hivesink.config.options import OnTombstone
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.keyed import KeyedDecoder
from hivesink.decode.json.shaped import ShapedDecoder
from hivesink.decode.values import DecodeOptions, InvalidValue
from hivesink.ports import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hivesink.core.table import Column
    from hivesink.decode.json.shaped import Piece

# A chunk fits into a core's cache, unless its fixed cost would be too much for so few rows.
_MOST_ROWS, _FEW_ROWS = 16384, 8192
_CACHE_BYTES, _MOST_BYTES = 2 << 20, 8 << 20
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
        self._exact = ExactDecoder(columns, options)
        reader = JsonColumns(self._exact)
        self.schema = reader.schema
        self._shaped, self._keyed = ShapedDecoder(reader), KeyedDecoder(reader)
        self._mostly_bad = False
        """Whether of the last records without a shape most were bad: the keyed decoder would read such ones in vain."""

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
        pieces = self._shaped.decode(records)
        if sum(len(places) for places, _ in pieces) < len(records):
            rest = np.ones(len(records), dtype=np.bool_)
            for places, _ in pieces:
                rest[places] = False
            left = np.flatnonzero(rest)
            pieces += self._unshaped(records.take(pa.array(left)) if pieces else records, left, rows, bad)
        if not pieces:
            return pa.RecordBatch.from_pylist([], schema=self.schema), rows[:0]
        if len(pieces) == 1:
            ((places, batch),) = pieces
            return batch, rows if len(places) == len(rows) else rows[places]
        order = np.concatenate([places for places, _ in pieces])
        both = pa.Table.from_batches([batch for _, batch in pieces], self.schema)
        merged = both.take(pa.array(np.argsort(order, kind="stable"))).combine_chunks()
        (batch,) = merged.to_batches()
        return batch, rows[np.sort(order)]

    def _unshaped(self, records: pa.StringArray, places: Rows, rows: Rows, bad: list[BadRow]) -> list[Piece]:
        """The good rows of `records`, which are those at `places` of a chunk."""
        pieces: list[Piece] = []
        doubtful = np.arange(len(records))
        if not self._mostly_bad:
            batch, doubt = self._keyed.decode(records)
            sure, doubtful = np.flatnonzero(~doubt), np.flatnonzero(doubt)
            if not len(doubtful):
                return [(places, batch)]
            if len(sure):
                pieces.append((places[sure], batch.take(pa.array(sure))))
        exact: list[list[Any]] = []
        fitting: list[int] = []
        again = records.view(pa.binary()).take(pa.array(doubtful)).to_pylist()
        for place, record in zip(places[doubtful].tolist(), again, strict=True):
            try:
                exact.append(self._exact.row(record))
                fitting.append(place)
            except InvalidValue as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append(error.bad_row(int(rows[place])))
        self._mostly_bad = 2 * (len(doubtful) - len(fitting)) > len(records)
        return [*pieces, (np.array(fitting, np.int64), exact_batch(exact, self.schema))] if exact else pieces


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
        size = max(1, whole.nbytes / max(1, len(whole)))
        rows = max(1, int(min(_MOST_ROWS, max(_FEW_ROWS, _CACHE_BYTES / size), _MOST_BYTES / size)))
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
