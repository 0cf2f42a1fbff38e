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
        pieces: list[Piece] = []
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
                pieces += self._pieces(records, start + present, bad)
        table = pa.Table.from_batches([batch for _, batch in pieces], self.schema)
        good = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in pieces)])
        if (good[1:] < good[:-1]).any():
            order = np.argsort(good, kind="stable")
            table, good = table.take(pa.array(order)), good[order]
        good_rows = None if len(good) == len(values) else pa.array(good, pa.int32())
        return DecodedRows(table, good_rows, tuple(sorted(bad, key=lambda row: row.index)), skipped)

    def _pieces(self, records: pa.StringArray, rows: Rows, bad: list[BadRow]) -> Iterator[Piece]:
        """The good rows of `records`, whose input rows are `rows`; the others go to `bad`."""
        left = np.ones(len(records), dtype=np.bool_)
        for places, batch in self._shaped.decode(records):
            yield rows[places], batch
            left[places] = False
        unshaped = np.flatnonzero(left)
        if len(unshaped) and not self._mostly_bad:
            some = records if len(unshaped) == len(records) else records.take(pa.array(unshaped))
            batch, doubt = self._keyed.decode(some)
            if not doubt.all():
                yield rows[unshaped[~doubt]], batch.filter(pa.array(~doubt)) if doubt.any() else batch
            left[unshaped] = doubt
        doubtful = np.flatnonzero(left)
        exact: list[list[Any]] = []
        fitting: list[int] = []
        again = records.view(pa.binary()).take(pa.array(doubtful)).to_pylist()
        for row, record in zip(rows[doubtful].tolist(), again, strict=True):
            try:
                exact.append(self._exact.row(record))
                fitting.append(row)
            except InvalidValue as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append(error.bad_row(row))
        if len(unshaped):
            self._mostly_bad = 2 * (len(doubtful) - len(fitting)) > len(unshaped)
        if exact:
            yield np.array(fitting, np.int64), exact_batch(exact, self.schema)


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
