"""Hive types as Arrow types: what rows are in between the decoder and the part files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar

if TYPE_CHECKING:
    from collections.abc import Sequence

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
