"""The parts of a parsed CREATE TABLE: columns, and the clauses after them. Problems are collected in the source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from hivesink.core.table import Array, Column, Map, Primitive, Struct
from hivesink.core.typetext import parse_type
from hivesink.errors import TypeTextInvalid

if TYPE_CHECKING:
    from hivesink.hiveql.source import Source

CheckProperties = Callable[[Mapping[str, str]], Sequence[str]]
"""Returns problems in TBLPROPERTIES, one line each, which begins with the property: `hivesink.config.options.check`."""

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PARQUET_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PARQUET_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"

_USE_PARQUET = "use STORED AS PARQUET, the only supported format so far"

# Hive keeps a table's column names in one comma-separated property; Parquet readers refuse other characters.
_NAME = re.compile(r"[\w$-]+")

_REFUSED: Mapping[type[exp.Expression], tuple[str, str]] = {
    exp.ClusteredByProperty: ("CLUSTERED", "CLUSTERED BY: the sink doesn't write Hive's buckets; remove it"),
    exp.RowFormatDelimitedProperty: ("ROW", "ROW FORMAT DELIMITED is for text files; remove it"),
    exp.StorageHandlerProperty: (
        "STORED",
        f"STORED BY: storage handlers are not supported; {_USE_PARQUET}",
    ),
    exp.TemporaryProperty: ("TEMPORARY", "a TEMPORARY table exists in one Hive session only; remove TEMPORARY"),
    exp.LikeProperty: ("LIKE", "CREATE TABLE LIKE is not supported; list the columns"),
}
METASTORE_OWN = frozenset(
    {
        "COLUMN_STATS_ACCURATE",
        "bucketing_version",
        "last_modified_by",
        "last_modified_time",
        "numFiles",
        "numFilesErasureCoded",
        "numPartitions",
        "numRows",
        "rawDataSize",
        "totalSize",
        "transient_lastDdlTime",
        "TRANSLATED_TO_EXTERNAL",
    }
)
"""Properties that a metastore sets by itself, whatever the DDL says."""
_RESERVED = {
    "EXTERNAL": "write CREATE EXTERNAL TABLE instead",
    "comment": "write COMMENT '…' after the columns instead",
    "hivesink.not-null": "write NOT NULL at the column instead",
}


@dataclass(slots=True)
class Clauses:
    """The clauses after the columns; `format` is empty if none names it."""

    external: bool = False
    comment: str | None = None
    location: str | None = None
    format: str = ""
    partitioned_by: exp.PartitionedByProperty | None = None
    properties: dict[str, str] = field(default_factory=dict)


def read_clauses(source: Source, create: exp.Create, check_properties: CheckProperties) -> Clauses:
    """Read everything after the columns. A repeated clause is a problem; its last value counts."""
    found = Clauses()
    nodes: list[exp.Expression] = create.args["properties"].expressions if create.args.get("properties") else []
    lines: dict[str, int] = {}
    _once(source, nodes)
    for node in nodes:
        match node:
            case exp.ExternalProperty():
                found.external = True
            case exp.SchemaCommentProperty():
                found.comment = _text(source, node)
            case exp.LocationProperty():
                found.location = _location(source, node)
            case exp.PartitionedByProperty():
                found.partitioned_by = node
            case exp.FileFormatProperty() | exp.RowFormatSerdeProperty():
                _format(source, node, found)
            # Most clauses' classes derive from this one.
            case exp.Property() if type(node) is exp.Property:
                _property(source, node, found.properties, lines)
            case _:
                word, reason = _REFUSED.get(type(node), ("", f"{_sql(node)} is not supported"))
                source.problem(source.line_of_word(word) if word else source.line(node), reason)
    if not found.format:
        source.problem(create.this, f"without STORED AS, Hive creates a text table; {_USE_PARQUET}")
    _check(source, create, found.properties, lines, check_properties)
    return found


def _once(source: Source, nodes: Sequence[exp.Expression]) -> None:
    for kind in (exp.SchemaCommentProperty, exp.LocationProperty, exp.PartitionedByProperty, exp.FileFormatProperty):
        same = [node for node in nodes if isinstance(node, kind)]
        for extra in same[1:]:
            source.problem(extra, "this clause is repeated; remove it")


def _text(source: Source, node: exp.Expression) -> str:
    """A clause's string. sqlglot accepts a clause without one."""
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return node.this.name
    source.problem(node, f"{_sql(node) or 'a clause'} needs a text in quotes")
    return ""


def _location(source: Source, node: exp.LocationProperty) -> str:
    location = _text(source, node)
    if not re.match(r"/|[A-Za-z][\w+.-]*:/", location):
        source.problem(node, f"LOCATION {location!r} is not absolute; start it with / or a scheme such as hdfs://")
    return location


def _format(source: Source, node: exp.FileFormatProperty | exp.RowFormatSerdeProperty, found: Clauses) -> None:
    if isinstance(node, exp.RowFormatSerdeProperty):
        serde = _text(source, node)
        if serde != PARQUET_SERDE:
            source.problem(node, f"ROW FORMAT SERDE: the sink can't write {serde!r}; {_USE_PARQUET}")
        if node.args.get("serde_properties"):
            source.problem(node, "SERDEPROPERTIES are not supported; put the sink's settings into TBLPROPERTIES")
        return
    found.format = "parquet"
    classes = node.this
    if isinstance(classes, exp.InputOutputFormat):
        names = tuple(classes.args[side].name for side in ("input_format", "output_format") if classes.args.get(side))
        has_serde = node.parent is not None and node.parent.find(exp.RowFormatSerdeProperty)
        if names != (PARQUET_INPUT, PARQUET_OUTPUT) or not has_serde:
            source.problem(node, f"STORED AS INPUTFORMAT: only Parquet's SerDe and formats work; {_USE_PARQUET}")
    elif not node.args.get("hive_format"):
        source.problem(source.line_of_word("USING"), f"USING creates a Spark table, not a Hive table; {_USE_PARQUET}")
    elif (name := classes.name.upper() if classes is not None else "") != "PARQUET":
        line = source.line_of_word("STORED")
        source.problem(line, f"STORED AS {name} is not supported yet; use STORED AS PARQUET")


def _property(source: Source, node: exp.Property, properties: dict[str, str], lines: dict[str, int]) -> None:
    key, value = node.this, node.args["value"]
    if not all(isinstance(side, exp.Literal) and side.is_string for side in (key, value)):
        source.problem(node, f"TBLPROPERTIES: write {key.name!r}='{value.name}', both in quotes")
        return
    if key.name in properties:
        source.problem(key, f"property {key.name} is already set on line {lines[key.name]}")
    properties[key.name] = value.name
    lines.setdefault(key.name, source.line(key))


def _check(
    source: Source,
    create: exp.Create,
    properties: Mapping[str, str],
    lines: Mapping[str, int],
    check_properties: CheckProperties,
) -> None:
    for key, value in properties.items():
        if key in _RESERVED:
            source.problem(lines[key], f"property {key}: {_RESERVED[key]}")
        if key in METASTORE_OWN:
            source.problem(lines[key], f"property {key} belongs to the metastore; remove it")
        if key.lower() == "transactional" and value.lower() != "false":
            source.problem(lines[key], f"property {key}: the sink can't write to an ACID table; remove it")
        if key == "discover.partitions" and value.lower() != "false":
            source.problem(lines[key], "'discover.partitions' must be 'false', or the metastore adds folders by itself")
    for reason in check_properties(properties):
        named = re.split(r"[\s:=]", reason, maxsplit=1)[0]
        source.problem(lines.get(named) or source.line(create.this), reason)


def data_columns(source: Source, schema: exp.Schema) -> tuple[Column, ...]:
    """Columns in the order of the DDL, without those that have a problem."""
    if not schema.expressions:
        source.problem(schema, "the table has no data columns; a Parquet file needs at least one")
    return _columns(source, schema.expressions)


def partition_columns(source: Source, clause: exp.PartitionedByProperty, data: Sequence[Column]) -> tuple[Column, ...]:
    """Partition columns with types: Hive allows no expressions here, and no name of a data column."""
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
        what = f"partition column {column.name}"
        if column.name in names:
            source.problem(item, f"{what} is also a data column; remove it there")
        if isinstance(column.type, (Array, Map, Struct)) or column.type is Primitive.BINARY:
            source.problem(item, f"{what}: {column.type} has no partition value; use STRING or a number")
        if not column.nullable:
            source.problem(item, f"{what}: Hive has no NOT NULL here; set sink.bucket.on-null")
    return columns


def _columns(source: Source, items: Sequence[exp.Expression]) -> tuple[Column, ...]:
    found: list[Column] = []
    lines: dict[str, int] = {}
    for item in items:
        if not isinstance(item, exp.ColumnDef):
            source.problem(item, f"{_sql(item)} is not supported: neither Hive nor the sink enforces it")
            continue
        if "end" not in item.this.meta:
            source.problem(item, f"column {_sql(item.this)}: this is a keyword; put it in back-quotes")
            continue
        name = item.name.lower()
        if name in lines:
            source.problem(item, f"column {name} is already declared on line {lines[name]} (Hive ignores case)")
        lines.setdefault(name, source.line(item))
        if not _NAME.fullmatch(name):
            source.problem(item, f"column {name!r}: use letters, digits and _ only; some readers fail with others")
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
            source.problem(item, f"column {item.name}: {_sql(constraint)} is not supported; only NOT NULL is")
    text = source.type_text(item.this)
    if not text:
        source.problem(item, f"column {item.name} has no type")
        return None
    try:
        return Column(item.name.lower(), parse_type(text), comment, nullable)
    except TypeTextInvalid as error:
        source.problem(item, f"column {item.name}: {error.reason}")
        return None


def _sql(node: exp.Expression) -> str:
    return node.sql(dialect="hive", comments=False)
