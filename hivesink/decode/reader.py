"""Input batches of either kind, raw or decoded, to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.decode.arrowtypes import arrow_schema, check_types
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import convert
from hivesink.decode.json import JsonDecoder
from hivesink.ports import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.table import Column
    from hivesink.decode.result import DecodeOptions


class RowsReader:
    """Reads `columns` from the raw column `value` (JSON in bytes or text), or, without it, from columns."""

    def __init__(self, columns: Sequence[Column], value: str | None, options: DecodeOptions) -> None:
        self._value = value
        self._json = JsonDecoder(columns, options) if value is not None else None
        self._columns = ColumnsReader(columns, options)

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises ColumnsDontFit for decoded rows whose types can't fit."""
        if self._json is None:
            return self._columns.read(batch)
        return self._json.decode(batch.column(batch.schema.get_field_index(self._value)))


class ColumnsReader:
    """Rows that come decoded: columns matched by name without regard to case, in DDL order, in the table's types.

    Nothing is rounded, cut or shifted: a value that doesn't fit makes a bad row. Timestamps with a zone are
    instants and become wall clocks in `options.timestamp_zone`; TIMESTAMP_NTZ is a wall clock already.
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
            array, wrong = convert(batch.column(indexes[name]), column.type, self._options.timestamp_zone)
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
