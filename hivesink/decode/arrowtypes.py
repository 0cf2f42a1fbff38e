"""Hive types and Arrow types: what each column decodes to, and which types of a stream can become which columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from hivesink.config.options import SinkConfig
from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.values import TimeRules
from hivesink.errors import InvalidOption

INTEGER_BITS = {Primitive.TINYINT: 8, Primitive.SMALLINT: 16, Primitive.INT: 32, Primitive.BIGINT: 64}
# The widest integers that a float and a double hold exactly, in bits.
_EXACT_IN = {Primitive.FLOAT: 16, Primitive.DOUBLE: 32}

_PRIMITIVES: dict[Primitive, pa.DataType] = {
    Primitive.BOOLEAN: pa.bool_(),
    Primitive.TINYINT: pa.int8(),
    Primitive.SMALLINT: pa.int16(),
    Primitive.INT: pa.int32(),
    Primitive.BIGINT: pa.int64(),
    Primitive.FLOAT: pa.float32(),
    Primitive.DOUBLE: pa.float64(),
    Primitive.STRING: pa.string(),
    Primitive.BINARY: pa.binary(),
    Primitive.DATE: pa.date32(),
    # Hive's TIMESTAMP is a wall clock without a zone.
    Primitive.TIMESTAMP: pa.timestamp("us"),
}


def arrow_type(kind: HiveType) -> pa.DataType:
    """The Arrow type of a column of `kind`; everything nested is nullable."""
    match kind:
        case Primitive():
            return _PRIMITIVES[kind]
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Varchar() | Char():
            return pa.string()
        case Array():
            return pa.list_(arrow_type(kind.element))
        case Map():
            return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
        case Struct():
            return pa.struct([pa.field(name.lower(), arrow_type(field)) for name, field in kind.fields])


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns in DDL order under their lower-case names, all nullable, as Hive's own files have them."""
    return pa.schema([pa.field(column.name.lower(), arrow_type(column.type)) for column in columns])


def check_types(stream: pa.Schema, columns: Sequence[Column], config: SinkConfig) -> None:
    """Raises InvalidOption, naming every column of `columns` that `stream` lacks or has with a type that can't fit.

    A type fits if the conversion loses nothing. Where that depends on the value (BIGINT into INT, DECIMAL into a
    narrower one) the type is accepted and each row is checked; where it usually loses something (STRING into INT,
    DOUBLE into FLOAT) the type is refused. `stream` is as Spark's `to_arrow_schema` gives it; names match without
    regard to case.
    """
    problems, given = list[str](), pa.struct(list(stream))
    for column in columns:
        epoch = TimeRules.of(config, column.name.lower()).unit is not None
        unfit = mismatches("", given, Struct(((column.name, column.type),)), epoch=epoch)
        problems += [problem.removeprefix(".") for problem in unfit]
    if problems:
        raise InvalidOption((f"the stream doesn't fit the table: {'; '.join(problems)}",))


def mismatches(
    path: str, given: pa.DataType, kind: HiveType, *, epoch: bool = False, refits: bool = False
) -> list[str]:
    """Why values of type `given` can't be a Hive `kind`, each with its path; empty where they can.

    `epoch`: whole numbers may be times. `refits`: fields of structs may be missing, and whole numbers may be texts.
    """
    more = {"epoch": epoch, "refits": refits}
    match kind:
        case _ if types.is_null(given):
            return []
        case Array() if types.is_list(given) or types.is_large_list(given):
            return mismatches(f"{path}.element", given.value_type, kind.element, **more)
        case Map() if types.is_map(given):
            keys = mismatches(f"{path}.key", given.key_type, kind.key, **more)
            return keys + mismatches(f"{path}.value", given.item_type, kind.value, **more)
        case Struct() if types.is_struct(given):
            problems: list[str] = []
            for name, field in kind.fields:
                indexes = field_indexes(given, name)
                if len(indexes) == 1:
                    problems += mismatches(f"{path}.{name}", given.field(indexes[0]).type, field, **more)
                elif indexes or not refits:
                    problems.append(f"{path}.{name}: {'two fields differ only in case' if indexes else 'missing'}")
            return problems
        case Array() | Map() | Struct():
            fits = False
        case Primitive.STRING if refits and types.is_integer(given):
            fits = True
        case _:
            fits = _fits(given, kind, epoch=epoch)
    return [] if fits else [f"{path}: {given} can't be {kind}; cast it in the query"]


def field_indexes(struct: pa.StructType, name: str) -> list[int]:
    """The fields of this name, without regard to case."""
    return [index for index in range(struct.num_fields) if struct.field(index).name.lower() == name.lower()]


def _fits(given: pa.DataType, kind: Primitive | Decimal | Varchar | Char, *, epoch: bool) -> bool:
    match kind:
        case Decimal() | Primitive.TINYINT | Primitive.SMALLINT | Primitive.INT | Primitive.BIGINT:
            fits = types.is_integer(given) or types.is_decimal(given)
        case Primitive.FLOAT | Primitive.DOUBLE:
            is_exact = types.is_signed_integer(given) and given.bit_width <= _EXACT_IN[kind]
            fits = is_exact or types.is_float32(given) or (kind is Primitive.DOUBLE and types.is_float64(given))
        case Primitive.STRING | Varchar() | Char():
            fits = types.is_string(given) or types.is_large_string(given)
        case Primitive.BINARY:
            fits = types.is_binary(given) or types.is_large_binary(given)
        case Primitive.BOOLEAN:
            fits = types.is_boolean(given)
        case Primitive.DATE:
            fits = types.is_date32(given) or (epoch and _is_count(given))
        case Primitive.TIMESTAMP:
            fits = types.is_timestamp(given) or (epoch and _is_count(given))
    return bool(fits)


def _is_count(given: pa.DataType) -> bool:
    return bool(types.is_signed_integer(given) and given.bit_width >= INTEGER_BITS[Primitive.INT])
