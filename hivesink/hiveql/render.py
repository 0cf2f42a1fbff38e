"""`TableSpec` as CREATE TABLE text for Hive and Spark SQL, and in the form that a metastore stores.

Metastores before Hive 3 have no NOT NULL, and later ones keep it apart from the table. So it travels in TBLPROPERTIES:
`hivesink.not-null` has the columns' names.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hivesink.core.table import Column, TableSpec, quoted

_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_FIELD = re.compile(r"[^<>,:]+(?=:)")
_SPECIAL = re.compile(r"[\\'\x00-\x1f\x7f]")

NOT_NULL = "hivesink.not-null"


def render(spec: TableSpec) -> str:
    """A statement without a final semicolon; `parse_ddl` reads it back as an equal spec.

    Hive's grammar before 3.0 has no NOT NULL: for such a Hive, use `render(stored(spec))`.
    """
    lines = [
        f"CREATE {'EXTERNAL ' if spec.external else ''}TABLE {spec.name.quoted} (",
        ",\n".join(f"  {column_text(column)}" for column in spec.columns),
        ")",
    ]
    if spec.comment is not None:
        lines.append(f"COMMENT {literal(spec.comment)}")
    if spec.partition_columns:
        lines.append(f"PARTITIONED BY ({', '.join(column_text(column) for column in spec.partition_columns)})")
    lines.append(f"STORED AS {spec.format}")
    if spec.location is not None:
        lines.append(f"LOCATION {literal(spec.location)}")
    if spec.properties:
        pairs = ",\n".join(f"  {literal(key)}={literal(value)}" for key, value in spec.properties)
        lines.append(f"TBLPROPERTIES (\n{pairs}\n)")
    return "\n".join(lines)


def literal(text: str) -> str:
    """A string literal with Hive's escapes (`BaseSemanticAnalyzer.unescapeSQLString`)."""
    return "'" + _SPECIAL.sub(lambda char: _ESCAPES.get(char[0], f"\\u{ord(char[0]):04x}"), text) + "'"


def column_text(column: Column) -> str:
    """The column as CREATE TABLE declares it."""
    not_null = "" if column.nullable else " NOT NULL"
    comment = "" if column.comment is None else f" COMMENT {literal(column.comment)}"
    # Some names of struct fields are reserved words.
    kind = _FIELD.sub(lambda name: quoted(name[0]), str(column.type))
    return f"{quoted(column.name)} {kind}{not_null}{comment}"


def stored(declared: TableSpec) -> TableSpec:
    """`declared` as `ddl apply` writes it: NOT NULL as a property, and no partition discovery by the metastore."""
    properties = declared.options
    properties.setdefault("discover.partitions", "false")
    names = [column.name for column in declared.columns if not column.nullable]
    if names:
        properties[NOT_NULL] = ",".join(names)
    columns = tuple(replace(column, nullable=True) for column in declared.columns)
    return replace(declared, columns=columns, properties=tuple(sorted(properties.items())))


def declared(stored: TableSpec) -> TableSpec:
    """Restore the columns' NOT NULL of a table from the metastore: undoes `stored`, except for the properties."""
    names = frozenset(stored.options.get(NOT_NULL, "").split(","))
    columns = tuple(replace(column, nullable=column.nullable and column.name not in names) for column in stored.columns)
    return replace(stored, columns=columns)
