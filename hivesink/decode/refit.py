"""Rows that wait, in the columns that their table has today: exactly, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hivesink.decode.arrowtypes import arrow_schema, arrow_type, mismatches, spark_name
from hivesink.decode.convert import convert
from hivesink.decode.values import TimeRules
from hivesink.errors import RowsUnfit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.partition import PartitionKey
    from hivesink.core.table import Column

_EXACT = TimeRules(exact=True)
"""No column of a table is an instant, so no zone is used."""


def refit(rows: pa.RecordBatch, columns: Sequence[Column], key: PartitionKey) -> pa.RecordBatch:
    """Implements `ports.Refit` by the rules of a decoded stream: no value is rounded, cut or shifted.

    Two more kinds of change lose nothing: a field of a struct may come or go, and an integer may become a STRING.
    Columns that the table no longer has come last, as they are.
    """
    arrays = []
    for column in columns:
        place = rows.schema.get_field_index(column.name.lower())
        if place < 0:
            arrays.append(pa.nulls(rows.num_rows, arrow_type(column.type)))
        else:
            arrays.append(_column(rows.column(place), column, key))
    names = {column.name.lower() for column in columns}
    gone = [field for field in rows.schema if field.name.lower() not in names]
    arrays += [rows.column(field.name) for field in gone]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*arrow_schema(columns), *gone]))


def _column(array: pa.Array, column: Column, key: PartitionKey) -> pa.Array:
    # TIMESTAMP_NTZ is Spark's name of Hive's TIMESTAMP.
    kinds = spark_name(array.type).replace("timestamp_ntz", "timestamp"), str(column.type)
    if problems := mismatches(column.name, array.type, column.type, refits=True):
        path = problems[0].partition(": ")[0]
        raise RowsUnfit(*key, path, kinds, "hivesink doesn't convert between these types")
    fitting, bad = convert(array, column.type, _EXACT)
    for row in sorted(bad)[:1]:
        path = ".".join((column.name, *bad[row].path))
        raise RowsUnfit(*key, path, kinds, bad[row].reason)
    return fitting
