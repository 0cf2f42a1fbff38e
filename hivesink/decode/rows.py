"""Decoded rows, as Spark hands them over in Arrow batches, to rows of a Hive table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import Conversion, Problem
from hivesink.decode.fit import check_types
from hivesink.decode.result import BadRecord, Decoded, DecodeOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.table import Column


class ColumnsReader:
    """Rows that come decoded: columns found by name without regard to case, in DDL order, in the table's types.

    Nothing is rounded, cut or shifted: a value that doesn't fit makes a bad row. Timestamps with a zone are
    instants and become wall clocks in `options.timestamp_zone`; TIMESTAMP_NTZ is a wall clock already.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        self._columns = tuple(columns)
        self._options = options
        self._schema = arrow_schema(columns)
        self._checked: pa.Schema | None = None

    def read(self, batch: pa.RecordBatch) -> Decoded:
        """Raises ColumnsDontFit where the batch lacks a column or has it in a type that can't fit."""
        if batch.schema is not self._checked:
            check_types(batch.schema, self._columns, self._options)
            self._checked = batch.schema
        places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
        bad: dict[int, BadRecord] = {}
        arrays = []
        for column in self._columns:
            name = column.name.lower()
            conversion = Conversion(column.type, self._options.timestamp_zone)
            array, problems = conversion.column(batch.column(places[name]))
            arrays.append(array)
            for row, problem in sorted({**_missing(array, column), **problems}.items()):
                bad.setdefault(row, BadRecord(row, ".".join((name, *problem.path)), problem.reason))
        return _decoded(pa.Table.from_arrays(arrays, schema=self._schema), bad)


def _missing(array: pa.Array, column: Column) -> dict[int, Problem]:
    if column.nullable or not array.null_count:
        return {}
    return {row: Problem((), "null") for row in np.flatnonzero(nulls(array)).tolist()}


def _decoded(table: pa.Table, bad: dict[int, BadRecord]) -> Decoded:
    if not bad:
        return Decoded(table, None, (), 0)
    fits = np.ones(table.num_rows, dtype=np.bool_)
    fits[list(bad)] = False
    good = pa.array(np.flatnonzero(fits), pa.int32())
    return Decoded(table.take(good), good, tuple(bad[row] for row in sorted(bad)), 0)
