"""Rows that wait, in the columns that their table has today: exactly, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.decode.arrowtypes import arrow_schema, arrow_type, field_indexes, is_list, mismatches, spark_name
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import Entries, convert
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
        found = rows.schema.get_field_index(column.name.lower())
        if found < 0:
            arrays.append(pa.nulls(rows.num_rows, arrow_type(column.type)))
        else:
            arrays.append(_column(rows.column(found), column, key))
    names = {column.name.lower() for column in columns}
    gone = [field for field in rows.schema if field.name.lower() not in names]
    arrays += [rows.column(field.name) for field in gone]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*arrow_schema(columns), *gone]))


def _column(array: pa.Array, column: Column, key: PartitionKey) -> pa.Array:
    shaped = _shaped(array, column.type)
    # TIMESTAMP_NTZ is Spark's name of Hive's TIMESTAMP.
    kinds = spark_name(array.type).replace("timestamp_ntz", "timestamp"), str(column.type)
    if problems := mismatches(column.name, shaped.type, column.type, epoch=False):
        path = problems[0].partition(": ")[0]
        raise RowsUnfit(*key, path, kinds, "hivesink doesn't convert between these types")
    fitting, bad = convert(shaped, column.type, _EXACT)
    for row in sorted(bad)[:1]:
        path = ".".join((column.name, *bad[row].path))
        raise RowsUnfit(*key, path, kinds, bad[row].reason)
    return fitting


def _shaped(array: pa.Array, kind: HiveType) -> pa.Array:
    """`array` with the struct fields that `kind` has, and texts for integers where it has a STRING."""
    match kind:
        case Primitive.STRING if types.is_integer(array.type):
            return array.cast(pa.string())
        case Array() if is_list(array.type):
            entries = Entries(array)
            return pa.ListArray.from_arrays(entries.offsets, _shaped(entries.of(array.values), kind.element))
        case Map() if types.is_map(array.type):
            entries = Entries(array)
            keys, items = entries.of(array.keys), entries.of(array.items)
            return pa.MapArray.from_arrays(entries.offsets, _shaped(keys, kind.key), _shaped(items, kind.value))
        case Struct() if types.is_struct(array.type):
            return _struct(array, kind)
        case _:
            return array


def _struct(array: pa.Array, kind: Struct) -> pa.Array:
    children, fields = array.flatten(), dict[str, pa.Array]()
    for name, field in kind.fields:
        indexes = field_indexes(array.type, name)
        known = _shaped(children[indexes[0]], field) if indexes else pa.nulls(len(array), arrow_type(field))
        fields[name.lower()] = known
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=pa.array(nulls(array)))
