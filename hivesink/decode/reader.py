"""Input batches of either kind, raw or decoded, to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.decode.arrowtypes import arrow_schema, check_types
from hivesink.decode.convert import convert, converted
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.metadata import MetadataReader
from hivesink.errors import InvalidOption
from hivesink.ports import DecodedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.table import Column
    from hivesink.decode.values import DecodeOptions, InvalidValue
    from hivesink.ports import Decoder


DECODERS: Mapping[str, Callable[[Sequence[Column], DecodeOptions], Decoder]] = {"json": JsonDecoder}
"""By the values of `sink.record-format`: each makes a decoder for columns, by their table's settings."""


class RowsReader:
    """Reads `columns` from the raw column `value` (records in bytes or text), or, without it, from columns.

    `options.sources` says which are read from elsewhere. `arrival` (UTC) and `number` are the batch's.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        value: str | None,
        options: DecodeOptions,
        arrival: datetime | None = None,
        number: int | None = None,
    ) -> None:
        self._value = value
        self._schema = arrow_schema(columns)
        self._metadata = MetadataReader(columns, options, arrival, number)
        given = [column for column in columns if column not in self._metadata.columns]
        self._decoder = None if value is None else _decoder(given, options)
        self._columns = ColumnsReader(given, options)

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises ColumnsDontFit for decoded rows whose types can't fit."""
        if self._decoder is None:
            decoded = self._columns.read(batch)
        else:
            decoded = self._decoder.decode(batch.column(batch.schema.get_field_index(self._value)))
        return self._with_metadata(batch, decoded) if self._metadata.columns else decoded

    def _with_metadata(self, batch: pa.RecordBatch, decoded: DecodedRows) -> DecodedRows:
        columns, wrong = self._metadata.read(batch, decoded.good)
        arrays = {**dict(zip(decoded.table.column_names, decoded.table.columns, strict=True)), **columns}
        table = pa.Table.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        return _without(wrong, DecodedRows(table, decoded.good, decoded.bad, decoded.skipped))


def _without(wrong: Mapping[int, InvalidValue], rows: DecodedRows) -> DecodedRows:
    """`rows`, those that are `wrong` among the bad ones; `wrong` counts good rows."""
    if not wrong:
        return rows
    good = np.arange(rows.table.num_rows) if rows.good is None else rows.good.to_numpy()
    bad = [*rows.bad, *(error.bad_row(int(good[row])) for row, error in wrong.items())]
    kept = np.delete(np.arange(len(good)), list(wrong))
    in_order = tuple(sorted(bad, key=lambda row: row.index))
    return DecodedRows(rows.table.take(pa.array(kept)), pa.array(good[kept], pa.int32()), in_order, rows.skipped)


def _decoder(columns: Sequence[Column], options: DecodeOptions) -> Decoder:
    if options.format not in DECODERS:
        message = f"sink.record-format = {options.format!r}: write one of {', '.join(DECODERS)}"
        raise InvalidOption((message,))
    return DECODERS[options.format](columns, options)


class ColumnsReader:
    """Rows that come decoded: columns matched by name without regard to case, in DDL order, in the table's types.

    A value that doesn't fit makes a bad row. Timestamps with a zone are instants and become wall clocks in
    `options.timestamp_zone`; TIMESTAMP_NTZ is a wall clock already.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        self._columns = tuple(columns)
        self._options = options
        self._schema = arrow_schema(columns)
        self._checked: pa.Schema | None = None

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises ColumnsDontFit where the batch lacks a column or has it in a type that can't fit."""
        if batch.schema is not self._checked:
            check_types(batch.schema, self._columns, self._options)
            self._checked = batch.schema
        indexes = {name.lower(): index for index, name in enumerate(batch.schema.names)}
        arrays, wrong = converted(
            (column, convert(batch.column(indexes[name]), column.type, self._options.times(name)))
            for column, name in zip(self._columns, self._schema.names, strict=True)
        )
        table = pa.Table.from_arrays(list(arrays.values()), schema=self._schema)
        return _without(wrong, DecodedRows(table, None, (), 0))
