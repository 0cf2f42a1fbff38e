"""Input batches of either kind, raw or decoded, to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.decode.arrowtypes import arrow_schema, check_types
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import convert
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.metadata import MetadataReader
from hivesink.errors import InvalidOption
from hivesink.ports import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.table import Column
    from hivesink.decode.values import DecodeOptions
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
        own = [column for column in columns if column not in self._metadata.columns]
        self._decoder = None if value is None else _decoder(own, options)
        self._columns = ColumnsReader(own, options)

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises ColumnsDontFit for decoded rows whose types can't fit."""
        if self._decoder is None:
            decoded = self._columns.read(batch)
        else:
            decoded = self._decoder.decode(batch.column(batch.schema.get_field_index(self._value)))
        return self._with_metadata(batch, decoded) if self._metadata.columns else decoded

    def _with_metadata(self, batch: pa.RecordBatch, decoded: DecodedRows) -> DecodedRows:
        good = np.arange(batch.num_rows) if decoded.good is None else decoded.good.to_numpy()
        columns, wrong = self._metadata.read(batch, decoded.good)
        arrays = {**dict(zip(decoded.table.column_names, decoded.table.columns, strict=True)), **columns}
        table = pa.Table.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        if not wrong:
            return DecodedRows(table, decoded.good, decoded.bad, decoded.skipped)
        bad = [*decoded.bad, *(error.bad_row(int(good[row])) for row, error in wrong.items())]
        kept = np.delete(np.arange(len(good)), list(wrong))
        rows = pa.array(good[kept], pa.int32())
        return DecodedRows(
            table.take(pa.array(kept)), rows, tuple(sorted(bad, key=lambda row: row.index)), decoded.skipped
        )


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
        bad: dict[int, BadRow] = {}
        arrays = []
        for column in self._columns:
            name = column.name.lower()
            array, wrong = convert(batch.column(indexes[name]), column.type, self._options.times(name))
            arrays.append(array)
            for index, error in wrong.items():
                bad.setdefault(index, error.within(name).bad_row(index))
            if not column.nullable and array.null_count:
                for index in np.flatnonzero(nulls(array)).tolist():
                    bad.setdefault(index, BadRow(index, name, "null"))
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        if not bad:
            return DecodedRows(table, None, (), 0)
        good = pa.array(np.delete(np.arange(table.num_rows), list(bad)), pa.int32())
        return DecodedRows(table.take(good), good, tuple(bad[row] for row in sorted(bad)), 0)
