"""Which Arrow types of a stream can become which Hive types, told before the first row is read.

What loses nothing is accepted. Where that depends on the value (BIGINT into INT, DECIMAL into a narrower one) each
row is looked at; where it never fits, or as a rule loses something (STRING into INT, DOUBLE into FLOAT), the type is
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.result import DecodeOptions
from hivesink.errors import ColumnsDontFit

if TYPE_CHECKING:
    from collections.abc import Sequence

INTEGERS = {Primitive.TINYINT: 8, Primitive.SMALLINT: 16, Primitive.INT: 32, Primitive.BIGINT: 64}
# The widest integers that a float and a double hold exactly, in bits.
_EXACT_IN = {Primitive.FLOAT: 16, Primitive.DOUBLE: 32}


def check_types(stream: pa.Schema, columns: Sequence[Column], options: DecodeOptions | None = None) -> None:
    """Raises ColumnsDontFit, naming every column of `columns` that `stream` lacks or has with a type that can't fit.

    `stream` is as Spark's `to_arrow_schema` gives it; names match without regard to case.
    """
    chosen = options or DecodeOptions()
    problems: list[str] = []
    for column in columns:
        found = [field for field in stream if field.name.lower() == column.name.lower()]
        if len(found) != 1:
            many = ", ".join(field.name for field in found)
            problems.append(f"{column.name}: {f'{many} differ only in case' if found else 'missing'}")
            continue
        epoch = chosen.is_epoch(column.name.lower())
        problems += [
            f"{'.'.join((column.name, *path))}: {reason}"
            for path, reason in unfit(found[0].type, column.type, epoch=epoch)
        ]
    if problems:
        raise ColumnsDontFit(tuple(problems))


def unfit(found: pa.DataType, kind: HiveType, *, epoch: bool) -> list[tuple[tuple[str, ...], str]]:
    """Why values of type `found` can't be a Hive `kind`, by the path below the column; empty where they can."""
    if types.is_null(found):
        return []
    match kind:
        case Array() if is_list(found):
            return _below("element", unfit(found.value_type, kind.element, epoch=epoch))
        case Map() if types.is_map(found):
            keys = _below("key", unfit(found.key_type, kind.key, epoch=epoch))
            return keys + _below("value", unfit(found.item_type, kind.value, epoch=epoch))
        case Struct() if types.is_struct(found):
            return _struct(found, kind, epoch=epoch)
        case Array() | Map() | Struct():
            fits = False
        case _:
            fits = _fits(found, kind, epoch=epoch)
    return [] if fits else [((), f"{shown(found)} can't be {kind}; cast it in the query")]


def _below(step: str, problems: list[tuple[tuple[str, ...], str]]) -> list[tuple[tuple[str, ...], str]]:
    return [((step, *path), reason) for path, reason in problems]


def _struct(found: pa.StructType, kind: Struct, *, epoch: bool) -> list[tuple[tuple[str, ...], str]]:
    problems = []
    for name, field in kind.fields:
        places = field_places(found, name)
        if len(places) == 1:
            problems += _below(name, unfit(found.field(places[0]).type, field, epoch=epoch))
        else:
            problems.append(((name,), "two fields differ only in case" if places else "missing"))
    return problems


def field_places(found: pa.StructType, name: str) -> list[int]:
    """Where `found` has fields of this name, without regard to case."""
    return [place for place in range(found.num_fields) if found.field(place).name.lower() == name.lower()]


def _fits(found: pa.DataType, kind: Primitive | Decimal | Varchar | Char, *, epoch: bool) -> bool:
    match kind:
        case Decimal() | Primitive.TINYINT | Primitive.SMALLINT | Primitive.INT | Primitive.BIGINT:
            fits = types.is_integer(found) or types.is_decimal(found)
        case Primitive.FLOAT | Primitive.DOUBLE:
            fits = _fits_float(found, kind)
        case Primitive.STRING | Varchar() | Char():
            fits = types.is_string(found) or types.is_large_string(found)
        case Primitive.BINARY:
            fits = types.is_binary(found) or types.is_large_binary(found)
        case Primitive.BOOLEAN:
            fits = types.is_boolean(found)
        case Primitive.DATE:
            fits = types.is_date32(found) or (epoch and found.equals(pa.int64()))
        case Primitive.TIMESTAMP:
            fits = types.is_timestamp(found) or (epoch and found.equals(pa.int64()))
    return bool(fits)


def _fits_float(found: pa.DataType, kind: Primitive) -> bool:
    if types.is_float64(found):
        return kind is Primitive.DOUBLE
    if types.is_signed_integer(found):
        return bool(found.bit_width <= _EXACT_IN[kind])
    return bool(types.is_float32(found))


def is_list(found: pa.DataType) -> bool:
    """A list of any number of elements, whatever the width of its offsets."""
    return bool(types.is_list(found) or types.is_large_list(found))


_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.large_string(): "string",
    pa.large_binary(): "binary",
}


def shown(found: pa.DataType) -> str:
    """An Arrow type in Spark's words."""
    if types.is_timestamp(found):
        return "timestamp" if found.tz else "timestamp_ntz"
    if types.is_decimal(found):
        return f"decimal({found.precision},{found.scale})"
    if is_list(found):
        return f"array<{shown(found.value_type)}>"
    if types.is_map(found):
        return f"map<{shown(found.key_type)},{shown(found.item_type)}>"
    if types.is_struct(found):
        fields = (found.field(place) for place in range(found.num_fields))
        return f"struct<{','.join(f'{field.name}:{shown(field.type)}' for field in fields)}>"
    return _NAMES.get(found, str(found))
