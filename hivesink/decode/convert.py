"""One decoded column to its Hive type: whole arrays at a time, and value by value where one doesn't fit.

`convert_array` is quick and says only that something doesn't fit; `convert_value` says what, for one value. Both
give the same values; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hivesink.core.table import Array, Char, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type, field_indexes
from hivesink.decode.clocks import DAY, FIRST_MICROS, LAST_MICROS, Micros, nulls, wall_micros
from hivesink.decode.result import InvalidValue, RejectedRow
from hivesink.decode.values import bounded, decimal_of, instant_of, integer, wall_clock

if TYPE_CHECKING:
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

_MICROS_PER = {"s": 1_000_000, "ms": 1000, "us": 1}
_NANOS = 1000
# Below this many rows, looking at each costs less than another split.
_FEW = 64


@dataclass(frozen=True, slots=True)
class Conversion:
    """Of the column `name` to the Hive type `kind`; instants become wall clocks in `zone`."""

    name: str
    kind: HiveType
    zone: ZoneInfo

    def apply(self, array: pa.Array) -> tuple[pa.Array, list[RejectedRow]]:
        """`array` in the column's type, null where a row doesn't fit, and those rows."""
        rejected: list[RejectedRow] = []
        pieces = self._pieces(array, 0, rejected)
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces), rejected

    def _pieces(self, array: pa.Array, start: int, rejected: list[RejectedRow]) -> list[pa.Array]:
        try:
            return [convert_array(array, self.kind, self.zone)]
        except (pa.ArrowInvalid, InvalidValue):
            size = len(array)
        if size <= _FEW:
            return [self._value_by_value(array, start, rejected)]
        half = size // 2
        return [
            *self._pieces(array.slice(0, half), start, rejected),
            *self._pieces(array.slice(half), start + half, rejected),
        ]

    def _value_by_value(self, array: pa.Array, start: int, rejected: list[RejectedRow]) -> pa.Array:
        values = []
        for row, scalar in enumerate(array, start):
            try:
                values.append(convert_value(scalar, self.kind, self.zone))
            except InvalidValue as error:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
                values.append(None)
                rejected.append(RejectedRow.of(row, error.within(self.name)))
        return pa.array(values, arrow_type(self.kind))


def convert_array(array: pa.Array, kind: HiveType, zone: ZoneInfo) -> pa.Array:  # noqa: PLR0911 -- one a type
    """Raises pa.ArrowInvalid or InvalidValue where any value doesn't fit."""
    wanted = arrow_type(kind)
    if types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    match kind:
        case Array():
            return _lists(array, kind, zone)
        case Map():
            return _maps(array, kind, zone)
        case Struct():
            return _structs(array, kind, zone)
        case Primitive.STRING:
            return _utf8(array.cast(wanted))
        case Varchar() | Char():
            return _bounded_texts(_utf8(array.cast(wanted)), kind)
        case Decimal():
            return _decimals(array, kind, wanted)
        case Primitive.TIMESTAMP:
            return _clocks(array, zone, wanted)
        case Primitive.DATE:
            return _dates(array, zone, wanted)
        case _:
            return array if array.type.equals(wanted) else array.cast(wanted)


def _decimals(array: pa.Array, kind: Decimal, wanted: pa.DataType) -> pa.Array:
    numbers = array.cast(pa.decimal128(20, 0)) if types.is_integer(array.type) else array
    if numbers.type.equals(wanted):
        return numbers
    # Arrow's cast checks after multiplying: a product beyond 128 bits wraps to one that seems to fit.
    extremes = pc.min_max(numbers).as_py()
    if any(
        value is not None and value.copy_abs() >= 10 ** (kind.precision - kind.scale) for value in extremes.values()
    ):
        raise InvalidValue(reason=f"out of range for {kind}")
    return numbers.cast(wanted)


def _utf8(texts: pa.Array) -> pa.Array:
    # Spark takes any bytes for text, as from a file in another encoding, and Arrow validates only on request.
    texts.validate(full=True)
    return texts


def _bounded_texts(texts: pa.Array, kind: Varchar | Char) -> pa.Array:
    if isinstance(kind, Char):
        texts = pc.utf8_rtrim(texts, characters=" ")
    if (pc.max(pc.utf8_length(texts)).as_py() or 0) > kind.length:
        raise InvalidValue(reason=f"longer than {kind}")
    return texts


def _clocks(array: pa.Array, zone: ZoneInfo, wanted: pa.DataType) -> pa.Array:
    """Instants (with a zone, or epoch milliseconds) and wall clocks as wall clocks."""
    unit = "ms" if types.is_integer(array.type) else array.type.unit
    numbers = pc.cast(array, pa.int64())
    micros = _in_micros(numbers.fill_null(0).to_numpy(zero_copy_only=False), unit)
    outside = (micros < FIRST_MICROS) | (micros > LAST_MICROS)
    if types.is_integer(array.type) or array.type.tz is not None:
        micros, outside = wall_micros(micros, zone)
    absent = nulls(array)
    if (outside & ~absent).any():
        raise InvalidValue(reason="out of range for timestamp")
    return pa.array(micros, pa.int64(), mask=absent).cast(wanted)


def _in_micros(numbers: Micros, unit: str) -> Micros:
    if unit == "ns":
        micros, rest = np.divmod(numbers, _NANOS)
        if rest.any():
            raise InvalidValue(reason="finer than microseconds")
        return micros
    factor = _MICROS_PER[unit]
    # Clipped to what is out of range anyway, the product can't overflow.
    product: Micros = np.clip(numbers, FIRST_MICROS // factor - 1, LAST_MICROS // factor + 1) * factor
    return product


def _dates(array: pa.Array, zone: ZoneInfo, wanted: pa.DataType) -> pa.Array:
    if types.is_integer(array.type):
        clocks = _clocks(array, zone, pa.timestamp("us"))
        return pc.floor_temporal(clocks, unit="day").cast(wanted)
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    if ((days < FIRST_MICROS // DAY) | (days > LAST_MICROS // DAY)).any():
        raise InvalidValue(reason="out of range for date")
    return array


def _entries(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets that begin at 0, null for a null list, and the range of child values that they cover."""
    edges = array.offsets.cast(pa.int64()).to_numpy()
    mask = np.append(nulls(array), False)
    return pa.array(edges - edges[0], pa.int32(), mask=mask), int(edges[0]), int(edges[-1] - edges[0])


def _lists(array: pa.Array, kind: Array, zone: ZoneInfo) -> pa.Array:
    offsets, start, size = _entries(array)
    return pa.ListArray.from_arrays(offsets, convert_array(array.values.slice(start, size), kind.element, zone)).cast(
        arrow_type(kind)
    )


def _maps(array: pa.Array, kind: Map, zone: ZoneInfo) -> pa.Array:
    offsets, start, size = _entries(array)
    keys = convert_array(array.keys.slice(start, size), kind.key, zone)
    values = convert_array(array.items.slice(start, size), kind.value, zone)
    return pa.MapArray.from_arrays(offsets, keys, values).cast(arrow_type(kind))


def _structs(array: pa.Array, kind: Struct, zone: ZoneInfo) -> pa.Array:
    # Flattened, a child of a null struct is null, whatever its buffer holds.
    children = array.flatten()
    fields = [convert_array(children[field_indexes(array.type, name)[0]], field, zone) for name, field in kind.fields]
    return pa.StructArray.from_arrays(fields, fields=list(arrow_type(kind)), mask=pa.array(nulls(array)))


def convert_value(scalar: pa.Scalar, kind: HiveType, zone: ZoneInfo) -> Any:  # noqa: PLR0911 -- one a type
    """One value, as `pa.array` takes it. Raises InvalidValue with the path below the column."""
    if not scalar.is_valid:
        return None
    match kind:
        case Array():
            return [_at(str(index), item, kind.element, zone) for index, item in enumerate(scalar.values)]
        case Map():
            return [_entry(item, kind, zone) for item in scalar.values]
        case Struct():
            return _members(scalar, kind, zone)
        case Varchar() | Char():
            return bounded(_value(scalar), kind)
        case Decimal():
            return decimal_of(_digits(scalar), kind)
        case Primitive.TIMESTAMP:
            return _clock(scalar, zone, kind)
        case Primitive.DATE:
            return _clock(scalar, zone, kind).date() if types.is_integer(scalar.type) else _date(scalar.value)
        case _ if kind in INTEGER_BITS:
            return integer(_digits(scalar), INTEGER_BITS[kind], str(kind))
        case _:
            return _value(scalar)


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise InvalidValue(reason="not UTF-8") from None


def _digits(scalar: pa.Scalar) -> str:
    return format(scalar.as_py(), "f" if types.is_decimal(scalar.type) else "d")


def _at(step: str, scalar: pa.Scalar, kind: HiveType, zone: ZoneInfo) -> Any:
    try:
        return convert_value(scalar, kind, zone)
    except InvalidValue as error:
        raise error.within(step) from None


def _entry(item: pa.Scalar, kind: Map, zone: ZoneInfo) -> tuple[Any, Any]:
    step = _shown(item["key"])
    return _at(step, item["key"], kind.key, zone), _at(step, item["value"], kind.value, zone)


def _shown(key: pa.Scalar) -> str:
    try:
        return str(key)
    except (OverflowError, ValueError):
        # Not UTF-8, or a time beyond the years 1 to 9999.
        return "key"


def _members(scalar: pa.Scalar, kind: Struct, zone: ZoneInfo) -> dict[str, Any]:
    return {
        name.lower(): _at(name.lower(), scalar[field_indexes(scalar.type, name)[0]], field, zone)
        for name, field in kind.fields
    }


def _clock(scalar: pa.Scalar, zone: ZoneInfo, kind: Primitive) -> datetime:
    number, unit = (scalar.as_py(), "ms") if types.is_integer(scalar.type) else (scalar.value, scalar.type.unit)
    if unit == "ns" and number % _NANOS:
        raise InvalidValue(reason="finer than microseconds")
    micros = number // _NANOS if unit == "ns" else number * _MICROS_PER[unit]
    try:
        instant = instant_of(micros)
        is_wall_clock = types.is_timestamp(scalar.type) and scalar.type.tz is None
        return instant.replace(tzinfo=None) if is_wall_clock else wall_clock(instant, zone)
    except InvalidValue:
        raise InvalidValue(reason=f"out of range for {kind}") from None


def _date(days: int) -> date:
    try:
        return instant_of(days * DAY).date()
    except InvalidValue:
        raise InvalidValue(reason="out of range for date") from None
