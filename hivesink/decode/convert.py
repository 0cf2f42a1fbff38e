"""Decoded columns to Hive types, whole arrays at a time, with the rows that don't fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hivesink.core.partition import PartitionKey
from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.core.time_format import EpochUnit
from hivesink.decode import clocks
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema, arrow_type, field_indexes, mismatches
from hivesink.decode.clocks import Mask, mask_of, nulls
from hivesink.decode.values import InvalidValue, TimeRules
from hivesink.errors import RowsUnfit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNITS = {"s": EpochUnit.SECONDS, "ms": EpochUnit.MILLIS, "us": EpochUnit.MICROS, "ns": EpochUnit.NANOS}
_WHOLE = pa.decimal128(38, 0)

Converted: TypeAlias = tuple[pa.Array, dict[int, InvalidValue]]
"""Values, and why those of some rows don't fit; what stands in their place means nothing."""


def convert(array: pa.Array, kind: HiveType, times: TimeRules) -> Converted:  # noqa: PLR0911 -- one a type
    """`array` in the Hive type `kind`; instants become wall clocks in the zone of `times`."""
    wanted = arrow_type(kind)
    if types.is_null(array.type):
        return pa.nulls(len(array), wanted), {}
    match kind:
        case Array():
            offsets, edges, values = _entries(array, array.values)
            items, bad = convert(values, kind.element, times)
            return pa.ListArray.from_arrays(offsets, items).cast(wanted), first_items(bad, edges)
        case Map():
            return _maps(array, kind, times)
        case Struct():
            return _structs(array, kind, times)
        case Primitive.STRING | Varchar() | Char():
            # Spark takes any bytes for text, as from a file in another encoding, and Arrow validates only on request.
            texts = array.cast(wanted)
            texts, bad = _without(texts, clocks.not_utf8(texts), "not UTF-8")
            if kind is Primitive.STRING:
                return texts, bad
            texts, beyond = _without(*clocks.bounded(texts, kind), f"longer than {kind}")
            return texts, bad | beyond
        case Decimal():
            return _decimals(array, kind)
        case Primitive.TIMESTAMP | Primitive.DATE:
            return _clocks(array, times, kind)
        case _ if kind in INTEGER_BITS:
            numbers, bad = (
                (array, {}) if types.is_integer(array.type) else _exactly(array, _WHOLE, "not a whole number")
            )
            numbers, beyond = _exactly(numbers, wanted, f"out of range for {kind}")
            return numbers, beyond | bad
    return array.cast(wanted), {}


def cells(array: pa.Array, parse: Callable[[Any], Any], kind: HiveType) -> Converted:
    """What `parse` makes of each value that isn't null, in the Hive type `kind`.

    What it raises InvalidValue for doesn't fit, nor does what isn't UTF-8.
    """
    values, bad = [], dict[int, InvalidValue]()
    for row, cell in enumerate(array.to_pylist()):
        try:
            values.append(None if cell is None else parse(cell))
        except (InvalidValue, UnicodeDecodeError) as error:  # noqa: PERF203 -- must not keep the others back
            values.append(None)
            bad[row] = error if isinstance(error, InvalidValue) else InvalidValue("not UTF-8")
    return pa.array(values, arrow_type(kind)), bad


def _without(array: pa.Array, doubt: Mask, reason: str) -> Converted:
    """`array` with 0 or an empty text where `doubt` is set: null could not be a map's key."""
    bad = {row: InvalidValue(reason) for row in np.flatnonzero(doubt).tolist()}
    blank = pa.scalar("" if types.is_string(array.type) else 0, array.type)
    return (pc.if_else(pa.array(doubt), blank, array) if bad else array), bad


def _exactly(array: pa.Array, wanted: pa.DataType, reason: str) -> Converted:
    """Numbers in the type `wanted`, if that changes none of them."""
    try:
        return array.cast(wanted), {}
    except pa.ArrowInvalid:
        back = array.cast(wanted, safe=False).cast(array.type, safe=False)
    fitting, bad = _without(array, mask_of(pc.not_equal(back, array)), reason)
    return fitting.cast(wanted), bad


def _decimals(array: pa.Array, kind: Decimal) -> Converted:
    bad: dict[int, InvalidValue] = {}
    numbers = array.cast(pa.decimal128(20, 0)) if types.is_integer(array.type) else array
    if numbers.type.scale > kind.scale:
        reason = f"more decimal places than {kind}" if kind.scale else "not a whole number"
        numbers, bad = _exactly(numbers, pa.decimal128(38, kind.scale), reason)
    # Arrow's cast checks after multiplying: a product beyond 128 bits wraps to one that seems to fit.
    limit = 10 ** (kind.precision - kind.scale)
    if any(value is not None and value.copy_abs() >= limit for value in pc.min_max(numbers).as_py().values()):
        doubt = np.array([value is not None and value.copy_abs() >= limit for value in numbers.to_pylist()])
        numbers, beyond = _without(numbers, doubt, f"out of range for {kind}")
        bad = beyond | bad
    return numbers.cast(arrow_type(kind)), bad


def _clocks(array: pa.Array, times: TimeRules, kind: HiveType) -> Converted:
    """Instants (with a zone, or counted from 1970) and wall clocks as wall clocks, or as their dates."""
    unit, too_far = times.unit or EpochUnit.MILLIS, f"out of range for {kind}"
    if types.is_integer(array.type):
        too_far = unit.too_far
    else:
        unit = EpochUnit.DAYS if types.is_date(array.type) else _UNITS[array.type.unit]
        is_instant = types.is_timestamp(array.type) and array.type.tz is not None
        times = replace(times, zone=times.zone if is_instant else ZoneInfo("UTC"), is_sure=True)
    counts = array.cast(pa.int32()) if types.is_date(array.type) else array
    shown, unfit = clocks.counted(counts.cast(pa.int64()), unit, arrow_type(kind), times)
    reasons = ((mask, too_far if why == unit.too_far else why) for mask, why in unfit)
    return shown, {row: InvalidValue(why) for mask, why in reasons for row in np.flatnonzero(mask).tolist()}


def _entries(array: pa.Array, *children: pa.Array) -> tuple[Any, ...]:
    """Of lists or maps the offsets, null for a null list, where their items begin, both from 0 on, and the items."""
    edges = array.offsets.cast(pa.int64()).to_numpy()
    items = [child.slice(int(edges[0]), int(edges[-1] - edges[0])) for child in children]
    edges = edges - edges[0]
    return pa.array(edges, pa.int32(), mask=np.append(nulls(array), False)), edges, *items


def first_items(bad: dict[int, InvalidValue], edges: NDArray[np.int64]) -> dict[int, InvalidValue]:
    """The first of the `bad` items between two edges each, named by its number there."""
    first: dict[int, InvalidValue] = {}
    for item, error in sorted(bad.items()):
        row = int(np.searchsorted(edges, item, side="right")) - 1
        first.setdefault(row, error.within(str(item - int(edges[row]))))
    return first


def _maps(array: pa.Array, kind: Map, times: TimeRules) -> Converted:
    offsets, edges, names, items = _entries(array, array.keys, array.items)
    keys, bad_keys = convert(names, kind.key, times)
    values, bad = convert(items, kind.value, times)
    maps = pa.MapArray.from_arrays(offsets, keys, values).cast(arrow_type(kind))
    return maps, first_items(bad | bad_keys, edges)


def _structs(array: pa.Array, kind: Struct, times: TimeRules) -> Converted:
    # Flattened, a child of a null struct is null, whatever its buffer holds.
    children = array.flatten()
    fields, bad = [], dict[int, InvalidValue]()
    for name, field in kind.fields:
        indexes = field_indexes(array.type, name)
        values, wrong = convert(children[indexes[0]] if indexes else pa.nulls(len(array)), field, times)
        fields.append(values)
        bad = {row: error.within(name.lower()) for row, error in wrong.items()} | bad
    return pa.StructArray.from_arrays(fields, fields=list(arrow_type(kind)), mask=pa.array(nulls(array))), bad


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
        array = rows.column(place) if place >= 0 else pa.nulls(rows.num_rows)
        kinds = str(array.type), str(column.type)
        for problem in mismatches(column.name, array.type, column.type, refits=True):
            path = problem.partition(": ")[0]
            raise RowsUnfit(*key, path, kinds, "hivesink doesn't convert between these types")
        fitting, bad = convert(array, column.type, _EXACT)
        for row in sorted(bad):
            path = ".".join((column.name, *bad[row].path))
            raise RowsUnfit(*key, path, kinds, bad[row].reason)
        arrays.append(fitting)
    names = {column.name.lower() for column in columns}
    gone = [field for field in rows.schema if field.name.lower() not in names]
    arrays += [rows.column(field.name) for field in gone]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*arrow_schema(columns), *gone]))
