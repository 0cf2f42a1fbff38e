"""The clauses after a CREATE TABLE's columns; what the sink can't honour goes to the source's problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from hivesink.hiveql.source import Source

CheckProperties = Callable[[Mapping[str, str]], Sequence[str]]
"""Problems of TBLPROPERTIES, one line each, beginning with the property's name: `hivesink.config.options.check`."""

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PARQUET_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PARQUET_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"

_USE_PARQUET = "add STORED AS PARQUET, the one format supported so far"

_REFUSED: Mapping[type[exp.Expression], tuple[str, str]] = {
    exp.ClusteredByProperty: ("CLUSTERED", "CLUSTERED BY: the sink doesn't write Hive's buckets"),
    exp.RowFormatDelimitedProperty: ("ROW", "ROW FORMAT DELIMITED is for text files; remove it"),
    exp.StorageHandlerProperty: (
        "STORED",
        f"STORED BY: tables of a storage handler can't be written; {_USE_PARQUET}",
    ),
    exp.TemporaryProperty: ("TEMPORARY", "a TEMPORARY table lives in one Hive session; remove TEMPORARY"),
    exp.LikeProperty: (
        "LIKE",
        "CREATE TABLE LIKE: write the columns out, so that the file says what the table is",
    ),
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
"""Properties that a metastore writes by itself, whatever the DDL says."""
_RESERVED = {
    "EXTERNAL": "write CREATE EXTERNAL TABLE instead",
    "comment": "write COMMENT '…' behind the columns instead",
    "hivesink.not-null": "write NOT NULL at the column instead",
}


@dataclass(slots=True)
class Clauses:
    """What the clauses say; `format` is empty until one names it."""

    external: bool = False
    comment: str | None = None
    location: str | None = None
    format: str = ""
    partitioned_by: exp.PartitionedByProperty | None = None
    properties: dict[str, str] = field(default_factory=dict)


def read_clauses(source: Source, create: exp.Create, check_properties: CheckProperties) -> Clauses:
    """Everything behind the columns; the last of two equal clauses counts, and is a problem."""
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
                unknown = f"{node.sql(dialect='hive', comments=False)} is not supported"
                word, reason = _REFUSED.get(type(node), ("", unknown))
                source.problem(source.line_of_word(word) if word else source.line(node), reason)
    if not found.format:
        source.problem(create.this, f"without STORED AS, Hive makes a text table; {_USE_PARQUET}")
    _check(source, create, found.properties, lines, check_properties)
    return found


def _once(source: Source, nodes: Sequence[exp.Expression]) -> None:
    for kind in (
        exp.SchemaCommentProperty,
        exp.LocationProperty,
        exp.PartitionedByProperty,
        exp.FileFormatProperty,
    ):
        same = [node for node in nodes if isinstance(node, kind)]
        for extra in same[1:]:
            source.problem(extra, "this clause is there already")


def _text(source: Source, node: exp.Expression) -> str:
    """A clause's string; sqlglot passes one that is missing."""
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return node.this.name
    source.problem(node, f"{node.sql(dialect='hive', comments=False) or 'a clause'} needs a text in quotes")
    return ""


def _location(source: Source, node: exp.LocationProperty) -> str:
    location = _text(source, node)
    if not re.match(r"/|[A-Za-z][\w+.-]*:/", location):
        source.problem(node, f"LOCATION {location!r} is not absolute; begin with / or a scheme such as hdfs://")
    return location


def _format(source: Source, node: exp.FileFormatProperty | exp.RowFormatSerdeProperty, found: Clauses) -> None:
    if isinstance(node, exp.RowFormatSerdeProperty):
        serde = _text(source, node)
        if serde != PARQUET_SERDE:
            source.problem(node, f"ROW FORMAT SERDE {serde!r} can't be written; {_USE_PARQUET}")
        if node.args.get("serde_properties"):
            source.problem(node, "SERDEPROPERTIES are not supported; what the sink knows goes into TBLPROPERTIES")
        return
    found.format = "parquet"
    classes = node.this
    if isinstance(classes, exp.InputOutputFormat):
        names = tuple(classes.args[side].name for side in ("input_format", "output_format") if classes.args.get(side))
        if (
            names != (PARQUET_INPUT, PARQUET_OUTPUT)
            or not node.parent
            or not node.parent.find(exp.RowFormatSerdeProperty)
        ):
            source.problem(node, f"STORED AS INPUTFORMAT: only Parquet's SerDe and formats are known; {_USE_PARQUET}")
    elif not node.args.get("hive_format"):
        source.problem(source.line_of_word("USING"), f"USING makes a table of Spark, not of Hive; {_USE_PARQUET}")
    elif (name := classes.name.upper() if classes is not None else "") != "PARQUET":
        line = source.line_of_word("STORED")
        source.problem(line, f"STORED AS {name} is not supported yet; use STORED AS PARQUET")


def _property(source: Source, node: exp.Property, properties: dict[str, str], lines: dict[str, int]) -> None:
    key, value = node.this, node.args["value"]
    if not all(isinstance(side, exp.Literal) and side.is_string for side in (key, value)):
        source.problem(node, f"TBLPROPERTIES: write {key.name!r}='{value.name}', both in quotes")
        return
    if key.name in properties:
        source.problem(key, f"property {key.name} is there already, on line {lines[key.name]}")
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
            source.problem(lines[key], f"property {key} is the metastore's own; remove it")
        if key.lower() == "transactional" and value.lower() != "false":
            source.problem(lines[key], "an ACID table ('transactional'='true') takes no files from outside Hive")
        if key == "discover.partitions" and value.lower() != "false":
            source.problem(
                lines[key], "'discover.partitions' must be 'false': else the metastore adds folders by itself"
            )
    for reason in check_properties(properties):
        named = re.split(r"[\s:=]", reason, maxsplit=1)[0]
        source.problem(lines.get(named) or source.line(create.this), reason)
