"""Column definitions of a parsed CREATE TABLE to `Column`s; what is wrong goes to the source's problems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from hivesink.core.table import Array, Column, Map, Primitive, Struct
from hivesink.core.typetext import parse_type
from hivesink.errors import TypeTextInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.hiveql.source import Source

# Hive keeps the names of a table's columns in one comma-separated property; Parquet's readers refuse the others.
_NAME = re.compile(r"[\w$-]+")


def data_columns(source: Source, schema: exp.Schema) -> tuple[Column, ...]:
    """Columns in the order of the DDL, without those that have a problem."""
    found = _columns(source, schema.expressions)
    if not schema.expressions:
        source.problem(schema, "the table has no data columns; a Parquet file needs at least one")
    return found


def partition_columns(source: Source, clause: exp.PartitionedByProperty, data: Sequence[Column]) -> tuple[Column, ...]:
    """Partition columns are columns of their own: Hive takes no expressions here, and no repeated name."""
    schema = clause.this
    if not isinstance(schema, exp.Schema) or not all(isinstance(item, exp.ColumnDef) for item in schema.expressions):
        source.problem(clause, "PARTITIONED BY needs names with types, as in PARTITIONED BY (dt STRING)")
        return ()
    columns = _columns(source, schema.expressions)
    names = {column.name for column in data}
    by_name = {column.name: column for column in columns}
    for item in schema.expressions:
        column = by_name.get(item.name.lower())
        if column is None:
            continue
        if column.name in names:
            source.problem(item, f"partition column {column.name} is among the columns too; leave it out there")
        if isinstance(column.type, (Array, Map, Struct)) or column.type is Primitive.BINARY:
            source.problem(
                item,
                f"partition column {column.name}: {column.type} has no partition value; use STRING or a number",
            )
        if not column.nullable:
            source.problem(
                item, f"partition column {column.name}: Hive knows no NOT NULL here; set sink.bucket.on-null"
            )
    return columns


def _columns(source: Source, items: Sequence[exp.Expression]) -> tuple[Column, ...]:
    found: list[Column] = []
    lines: dict[str, int] = {}
    for item in items:
        if not isinstance(item, exp.ColumnDef):
            source.problem(item, f"{_words(item)} is not supported: Hive doesn't enforce it and the sink can't either")
            continue
        if "end" not in item.this.meta:
            source.problem(item, f"column {_words(item.this)}: this word needs back-quotes to be a name")
            continue
        name = item.name.lower()
        if name in lines:
            source.problem(item, f"column {name} is there already, on line {lines[name]} (Hive ignores case)")
        lines.setdefault(name, source.line(item))
        if not _NAME.fullmatch(name):
            source.problem(item, f"column {name!r}: use letters, digits and _ only; not every reader takes the rest")
        column = _column(source, item)
        if column is not None:
            found.append(column)
    return tuple(found)


def _column(source: Source, item: exp.ColumnDef) -> Column | None:
    comment: str | None = None
    nullable = True
    for constraint in item.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.CommentColumnConstraint):
            comment = kind.this.name
        elif isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
            nullable = False
        else:
            source.problem(item, f"column {item.name}: {_words(constraint)} is not supported; only NOT NULL is")
    text = source.type_text(item.this)
    if not text:
        source.problem(item, f"column {item.name} has no type")
        return None
    try:
        return Column(item.name.lower(), parse_type(text), comment, nullable)
    except TypeTextInvalid as error:
        source.problem(item, f"column {item.name}: {error.reason}")
        return None


def _words(node: exp.Expression) -> str:
    return node.sql(dialect="hive", comments=False)
