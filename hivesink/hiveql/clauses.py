"""The parts of a parsed CREATE TABLE: columns, and the clauses after them. `DdlText` collects their problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sqlglot import Token, TokenType, exp

from hivesink.config.formats import FORMATS, SUPPORTED
from hivesink.core.log import PROPERTY
from hivesink.core.table import Array, Column, Map, Primitive, Struct
from hivesink.core.typetext import parse_type
from hivesink.errors import TypeTextInvalid

CheckProperties = Callable[[Mapping[str, str]], Sequence[str]]
"""Returns problems in TBLPROPERTIES, a line each, which begins with the property: `hivesink.config.options.check`."""

_USE = f"use {SUPPORTED}"
_NOT = "is not supported: neither Hive nor the sink would honour it; remove it"

# Hive keeps a table's column names in a comma-separated property; Parquet readers refuse other characters.
_NAME = re.compile(r"[\w$-]+")

METASTORE_OWN = frozenset(
    {
        "COLUMN_STATS_ACCURATE",
        "TRANSLATED_TO_EXTERNAL",
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
    }
)
"""Properties that a metastore sets by itself, whatever the DDL says."""
_RESERVED = {
    "EXTERNAL": "write CREATE EXTERNAL TABLE instead",
    "comment": "write COMMENT '…' after the columns instead",
    "hivesink.not-null": "write NOT NULL at the column instead",
    PROPERTY: "it names the log of the table that this text was taken from; remove it",
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


def read_clauses(ddl: DdlText, create: exp.Create, check_properties: CheckProperties) -> Clauses:
    """Read everything after the columns. A repeated clause is a problem; its last value counts."""
    clauses = Clauses()
    nodes: list[exp.Expression] = create.args["properties"].expressions if create.args.get("properties") else []
    kinds: set[type[exp.Expression]] = set()
    for node in nodes:
        kind = type(node)
        if kind in kinds and kind is not exp.Property:
            ddl.problem(node, "this clause is repeated; remove it")
        kinds.add(kind)
        match node:
            case exp.ExternalProperty():
                clauses.external = True
            case exp.SchemaCommentProperty():
                clauses.comment = _text(ddl, node)
            case exp.LocationProperty():
                clauses.location = _text(ddl, node)
            case exp.PartitionedByProperty():
                clauses.partitioned_by = node
            case exp.FileFormatProperty():
                clauses.format = _format(ddl, node)
            case exp.RowFormatSerdeProperty():
                _check_serde(ddl, node)
            # Most clauses' classes derive from this.
            case exp.Property() if kind is exp.Property:
                _property(ddl, node, clauses)
            case _:
                text = _sql(node)
                ddl.problem(ddl.line_of_word(text.partition(" ")[0].upper()), f"{text} {_NOT}")
    _check(ddl, create, clauses, check_properties)
    return clauses


def _text(ddl: DdlText, node: exp.Expression) -> str:
    """A clause's string. sqlglot accepts a clause without it."""
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return node.this.name
    ddl.problem(node, f"{_sql(node) or 'a clause'} needs a text in quotes")
    return ""


def _check_serde(ddl: DdlText, node: exp.RowFormatSerdeProperty) -> None:
    serde = _text(ddl, node)
    if serde not in {format_.serde for format_ in FORMATS.values()}:
        ddl.problem(node, f"ROW FORMAT SERDE: the sink can't write {serde!r}; {_USE}")
    if node.args.get("serde_properties"):
        ddl.problem(node, "SERDEPROPERTIES are not supported; put the sink's settings into TBLPROPERTIES")


def _format(ddl: DdlText, node: exp.FileFormatProperty) -> str:
    """The format's name, or `other` where a problem was noted."""
    classes = node.this
    if isinstance(classes, exp.InputOutputFormat):
        # Hive takes these classes and the statement's SerDe for the format that has all three.
        serde = node.parent.find(exp.RowFormatSerdeProperty) if node.parent else None
        parts = (classes.args.get("input_format"), classes.args.get("output_format"), serde and serde.this)
        wanted = tuple(part.name if part else "" for part in parts)
        for format_ in FORMATS.values():
            if (format_.input_format, format_.output_format, format_.serde) == wanted:
                return format_.name
        ddl.problem(node, f"STORED AS INPUTFORMAT: Hive has no supported format of these three classes; {_USE}")
        return "other"
    name = classes.name.upper() if classes is not None else "other"
    if not node.args.get("hive_format"):
        ddl.problem(ddl.line_of_word("USING"), f"USING creates a Spark table, not a Hive table; {_USE}")
    elif name not in FORMATS:
        ddl.problem(ddl.line_of_word("STORED"), f"STORED AS {name} is not supported yet; {_USE}")
    return name


def _property(ddl: DdlText, node: exp.Property, clauses: Clauses) -> None:
    key, value = node.this, node.args["value"]
    if not all(isinstance(side, exp.Literal) and side.is_string for side in (key, value)):
        ddl.problem(node, f"TBLPROPERTIES: write {key.name!r}='{value.name}', both in quotes")
        return
    if key.name in clauses.properties:
        ddl.problem(key, f"property {key.name} is set twice; remove one")
    clauses.properties[key.name] = value.name


def _check(ddl: DdlText, create: exp.Create, clauses: Clauses, check_properties: CheckProperties) -> None:
    if not clauses.format:
        ddl.problem(create.this, f"without STORED AS, Hive creates a text table; {_USE}")
    location = clauses.location
    if location is not None and not re.match(r"/|[A-Za-z][\w+.-]*:/", location):
        reason = f"LOCATION {location!r} is not absolute; start it with / or a scheme such as hdfs://"
        ddl.problem(ddl.line_of_word("LOCATION"), reason)
    for key, value in clauses.properties.items():
        is_wrong = value.lower() != "false"
        if key in _RESERVED:
            reason = f"property {key}: {_RESERVED[key]}"
        elif key in METASTORE_OWN:
            reason = f"property {key} belongs to the metastore; remove it"
        elif key.lower() == "transactional" and is_wrong:
            reason = f"property {key}: the sink can't write to an ACID table; remove it"
        elif key == "discover.partitions" and is_wrong:
            reason = f"property {key} must be 'false', or the metastore adds folders by itself"
        else:
            continue
        ddl.problem(ddl.line_of_setting(key) or ddl.line(create.this), reason)
    for reason in check_properties(clauses.properties):
        ddl.problem(ddl.line_of_setting(reason) or ddl.line(create.this), reason)


def data_columns(ddl: DdlText, schema: exp.Schema) -> tuple[Column, ...]:
    """Columns in the order of the DDL, without those that have a problem."""
    if not schema.expressions:
        ddl.problem(schema, "the table has no data columns; a Parquet file needs at least one")
    return _columns(ddl, schema.expressions)


def partition_columns(ddl: DdlText, clause: exp.PartitionedByProperty, data: Sequence[Column]) -> tuple[Column, ...]:
    """Partition columns with types: Hive allows no expressions here, and no name of a data column."""
    schema = clause.this
    if not isinstance(schema, exp.Schema) or not all(isinstance(item, exp.ColumnDef) for item in schema.expressions):
        ddl.problem(clause, "PARTITIONED BY needs names with types, as in PARTITIONED BY (dt STRING)")
        return ()
    columns = _columns(ddl, schema.expressions)
    names = {column.name for column in data}
    by_name = {column.name: column for column in columns}
    for item in schema.expressions:
        column = by_name.get(item.name.lower())
        if column is None:
            continue
        what = f"partition column {column.name}"
        if column.name in names:
            ddl.problem(item, f"{what} is also a data column; remove it there")
        if isinstance(column.type, (Array, Map, Struct)) or column.type is Primitive.BINARY:
            ddl.problem(item, f"{what}: {column.type} has no partition value; use STRING or a number")
        if not column.nullable:
            ddl.problem(item, f"{what}: Hive has no NOT NULL here; set sink.bucket.on-null")
    return columns


def _columns(ddl: DdlText, items: Sequence[exp.Expression]) -> tuple[Column, ...]:
    columns: list[Column] = []
    lines: dict[str, int] = {}
    for item in items:
        if not isinstance(item, exp.ColumnDef):
            ddl.problem(item, f"{_sql(item)} {_NOT}")
            continue
        if "end" not in item.this.meta:
            ddl.problem(item, f"column {_sql(item.this)}: this is a keyword; put it in back-quotes")
            continue
        name = item.name.lower()
        if name in lines:
            ddl.problem(item, f"column {name} is already declared on line {lines[name]} (Hive ignores case)")
        lines.setdefault(name, ddl.line(item))
        if not _NAME.fullmatch(name):
            ddl.problem(item, f"column {name!r}: use letters, digits and _ only; some readers fail with others")
        column = _column(ddl, item)
        if column is not None:
            columns.append(column)
    return tuple(columns)


def _column(ddl: DdlText, item: exp.ColumnDef) -> Column | None:
    comment: str | None = None
    nullable = True
    for constraint in item.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.CommentColumnConstraint):
            comment = kind.this.name
        elif isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
            nullable = False
        else:
            ddl.problem(item, f"column {item.name}: {_sql(constraint)} {_NOT}")
    text = ddl.type_text(item.this)
    if not text:
        ddl.problem(item, f"column {item.name} has no type")
        return None
    try:
        return Column(item.name.lower(), parse_type(text), comment, nullable)
    except TypeTextInvalid as error:
        ddl.problem(item, f"column {item.name}: {error.reason}")
        return None


def _sql(node: exp.Expression) -> str:
    return node.sql(dialect="hive", comments=False)


_OPENING = {TokenType.L_PAREN: 1, TokenType.LT: 1, TokenType.R_PAREN: -1, TokenType.GT: -1}
# What may follow a type in a column definition.
_AFTER_TYPE = re.compile(
    r"(?:CHECK|COLLATE|COMMENT|CONSTRAINT|DEFAULT|DISABLE|ENABLE|ENCODE|GENERATED|NOT|NULL|PRIMARY|REFERENCES|UNIQUE)"
    r"(?: .*)?",  # Some tokens have two words, such as PRIMARY KEY.
    re.DOTALL,
)


class DdlProblem(NamedTuple):
    """One mistake in a DDL file; `line` counts from 1, and 0 means the file as a whole."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' * bool(self.line)}: {self.reason}"


@dataclass(slots=True)
class DdlText:
    """One file's text. Lines count from 1."""

    file: str
    text: str
    problems: list[DdlProblem] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)

    def __post_init__(self) -> None:
        # As Python reads text files; sqlglot also counts a lone \r as a line.
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")

    def problem(self, at: exp.Expression | Token | int, reason: str) -> None:
        """`at`: a node, a token or a line."""
        line = at if isinstance(at, int) else self.line(at)
        self.problems.append(DdlProblem(self.file, line, " ".join(reason.split())))

    def line(self, at: exp.Expression | Token) -> int:
        """The line of a node's first token, or of the statement if the node has no tokens."""
        starts = [at.start] if isinstance(at, Token) else [n.meta["start"] for n in at.walk() if "start" in n.meta]
        return self.text.count("\n", 0, min(starts, default=self.tokens[0].start)) + 1

    def line_of_word(self, word: str) -> int:
        """The line of a keyword (in upper case) outside parentheses, or of the statement if it isn't there."""
        outside = (token for token in self.outside() if token.token_type != TokenType.STRING)
        return self.line(next((token for token in outside if token.text.upper() == word), self.tokens[0]))

    def outside(self) -> list[Token]:
        """The tokens outside parentheses and angle brackets."""
        tokens, depth = [], 0
        for token in self.tokens:
            change = _OPENING.get(token.token_type, 0)
            depth += change
            if depth == 0 and not change:
                tokens.append(token)
        return tokens

    def line_of_setting(self, problem: str) -> int | None:
        """The line of the property that `problem` begins with, whatever its case, as it is set last; None: nowhere."""
        name = re.split(r"[\s:=]", problem, maxsplit=1)[0].lower()
        lines = [
            self.line(token)
            for token, following in pairwise(self.tokens)
            if (token.token_type, following.token_type) == (TokenType.STRING, TokenType.EQ)
            and token.text.lower() == name
        ]
        return lines[-1] if lines else None

    def type_text(self, column: exp.Identifier) -> str:
        """The type after a column's name as written, without comments of struct fields (Hive drops those)."""
        texts, depth = [], 0
        tokens = [token for token in self.tokens if token.start > column.meta["end"]]
        for token, following in pairwise([*tokens, tokens[-1]]):
            is_end = token.token_type != TokenType.IDENTIFIER and _AFTER_TYPE.fullmatch(token.text.upper())
            if depth == 0 and (token.token_type == TokenType.COMMA or is_end):
                break
            depth += _OPENING.get(token.token_type, 0)
            if depth < 0:
                break
            is_comment = (token.token_type, following.token_type) == (TokenType.COMMENT, TokenType.STRING)
            if not is_comment and token.token_type != TokenType.STRING:
                texts.append(self.text[token.start : token.end + 1])
        return " ".join(texts)
