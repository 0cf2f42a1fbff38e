"""Hive's types as DuckDB and Flink spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.table import Array, Map, Primitive, Struct

if TYPE_CHECKING:
    from hivesink.core.table import HiveType

_DUCKDB = {Primitive.INT: "INTEGER", Primitive.STRING: "VARCHAR"}
_FLINK = {Primitive.TIMESTAMP: "TIMESTAMP(3)"}


def duckdb_type(kind: HiveType) -> str:
    if isinstance(kind, Struct):
        return f"STRUCT({', '.join(f'{name} {duckdb_type(one)}' for name, one in kind.fields)})"
    if isinstance(kind, Array):
        return f"{duckdb_type(kind.element)}[]"
    if isinstance(kind, Map):
        return f"MAP({duckdb_type(kind.key)}, {duckdb_type(kind.value)})"
    return _DUCKDB.get(kind, str(kind).upper()) if isinstance(kind, Primitive) else str(kind)


def flink_type(kind: HiveType) -> str:
    if isinstance(kind, Struct):
        return f"ROW<{', '.join(f'`{name}` {flink_type(one)}' for name, one in kind.fields)}>"
    if isinstance(kind, Array):
        return f"ARRAY<{flink_type(kind.element)}>"
    if isinstance(kind, Map):
        return f"MAP<{flink_type(kind.key)}, {flink_type(kind.value)}>"
    return _FLINK.get(kind, str(kind).upper()) if isinstance(kind, Primitive) else str(kind)


def unordered(value: str, kind: HiveType) -> str:
    """SQL of DuckDB that is the same for two equal maps: engines keep their entries in any order."""
    return f"list_sort(map_entries({value}))" if isinstance(kind, Map) else value
