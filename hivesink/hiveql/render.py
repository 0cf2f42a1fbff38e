"""`TableSpec` to the CREATE TABLE text that Hive and Spark SQL take."""

from __future__ import annotations

import re

from hivesink.core.table import Array, Column, HiveType, Map, Struct, TableSpec

_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = re.compile(r"[\\'\x00-\x1f\x7f]")


def render(spec: TableSpec) -> str:
    """A statement without a final semicolon; `parse_ddl` reads it back as an equal spec.

    Hive before 3.0 has no NOT NULL in its grammar: `render(stored(spec))` is the same table without it.
    """
    name = f"{_quoted(spec.name.database)}.{_quoted(spec.name.table)}"
    lines = [
        f"CREATE {'EXTERNAL ' if spec.external else ''}TABLE {name} (",
        ",\n".join(f"  {_column(column)}" for column in spec.columns),
        ")",
    ]
    if spec.comment is not None:
        lines.append(f"COMMENT {literal(spec.comment)}")
    if spec.partition_columns:
        lines.append(f"PARTITIONED BY ({', '.join(_column(column) for column in spec.partition_columns)})")
    lines.append(f"STORED AS {spec.format.upper()}")
    if spec.location is not None:
        lines.append(f"LOCATION {literal(spec.location)}")
    if spec.properties:
        pairs = ",\n".join(f"  {literal(key)}={literal(value)}" for key, value in spec.properties)
        lines.append(f"TBLPROPERTIES (\n{pairs}\n)")
    return "\n".join(lines)


def literal(text: str) -> str:
    """A string literal with Hive's escapes (`BaseSemanticAnalyzer.unescapeSQLString`)."""
    return "'" + _SPECIAL.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04x}"), text) + "'"


def type_text(kind: HiveType) -> str:
    """`str(kind)` with the names of struct fields quoted: some are words that the grammar keeps."""
    match kind:
        case Array(element):
            return f"array<{type_text(element)}>"
        case Map(key, value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{_quoted(name)}:{type_text(part)}' for name, part in fields)}>"
        case _:
            return str(kind)


def _column(column: Column) -> str:
    not_null = "" if column.nullable else " NOT NULL"
    comment = "" if column.comment is None else f" COMMENT {literal(column.comment)}"
    return f"{_quoted(column.name)} {type_text(column.type)}{not_null}{comment}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
