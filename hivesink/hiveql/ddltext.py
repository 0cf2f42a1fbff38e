"""A DDL file's text: the lines of its parsed parts, its columns, the spelling of their types, and its problems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sqlglot import Token, TokenType, exp

from hivesink.core.table import Array, Column, Map, Primitive, Struct
from hivesink.core.typetext import parse_type
from hivesink.errors import TypeTextInvalid

NOT_SUPPORTED = "is not supported: neither Hive nor the sink would honour it; remove it"

# Hive keeps a table's column names in a comma-separated property; Parquet readers refuse other characters.
_NAME = re.compile(r"[\w$-]+")
_OPENING = {TokenType.L_PAREN: 1, TokenType.LT: 1, TokenType.R_PAREN: -1, TokenType.GT: -1}
# What may follow a type in a column definition.
_AFTER_TYPE = re.compile(
    r"(?:CHECK|COLLATE|COMMENT|CONSTRAINT|DEFAULT|DISABLE|ENABLE|ENCODE|GENERATED|NOT|NULL|PRIMARY|REFERENCES|UNIQUE)"
    r"(?: .*)?",  # Some tokens have two words, such as PRIMARY KEY.
    re.DOTALL,
)


class DdlProblem(NamedTuple):
    """A mistake in a DDL file; `line` counts from 1, and 0 means the file as a whole."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' * bool(self.line)}: {self.reason}"


@dataclass(slots=True)
class DdlText:
    """A file's text as Python reads it, where a line feed ends each line. Lines count from 1."""

    file: str
    text: str
    problems: list[DdlProblem] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)

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


def data_columns(ddl: DdlText, schema: exp.Schema) -> tuple[Column, ...]:
    """Columns in the order of the DDL, without those that have a problem."""
    if not schema.expressions:
        ddl.problem(schema, "the table has no data columns; a Parquet file needs at least one")
    return tuple(column for _, column in _columns(ddl, schema.expressions))


def partition_columns(ddl: DdlText, clause: exp.PartitionedByProperty, data: Sequence[Column]) -> tuple[Column, ...]:
    """Partition columns with types: Hive allows no expressions here, and no name of a data column."""
    schema = clause.this
    if not isinstance(schema, exp.Schema) or not all(isinstance(item, exp.ColumnDef) for item in schema.expressions):
        ddl.problem(clause, "PARTITIONED BY needs names with types, as in PARTITIONED BY (dt STRING)")
        return ()
    columns = _columns(ddl, schema.expressions)
    names = {column.name for column in data}
    for item, column in columns:
        what = f"partition column {column.name}"
        if column.name in names:
            ddl.problem(item, f"{what} is also a data column; remove it there")
        if isinstance(column.type, (Array, Map, Struct)) or column.type is Primitive.BINARY:
            ddl.problem(item, f"{what}: {column.type} has no partition value; use STRING or a number")
        if not column.nullable:
            ddl.problem(item, f"{what}: Hive has no NOT NULL here; set sink.bucket.on-null")
    return tuple(column for _, column in columns)


def _columns(ddl: DdlText, items: Sequence[exp.Expression]) -> list[tuple[exp.ColumnDef, Column]]:
    columns: list[tuple[exp.ColumnDef, Column]] = []
    lines: dict[str, int] = {}
    for item in items:
        if not isinstance(item, exp.ColumnDef):
            ddl.problem(item, f"{sql(item)} {NOT_SUPPORTED}")
            continue
        if "end" not in item.this.meta:
            ddl.problem(item, f"column {sql(item.this)}: this is a keyword; put it in back-quotes")
            continue
        name = item.name.lower()
        if name in lines:
            ddl.problem(item, f"column {name} is already declared on line {lines[name]} (Hive ignores case)")
        lines.setdefault(name, ddl.line(item))
        if not _NAME.fullmatch(name):
            ddl.problem(item, f"column {name!r}: use letters, digits and _ only; some readers fail with others")
        comment, nullable = _constraints(ddl, item)
        if not (text := ddl.type_text(item.this)):
            ddl.problem(item, f"column {item.name} has no type")
            continue
        try:
            columns.append((item, Column(name, parse_type(text), comment, nullable)))
        except TypeTextInvalid as error:
            ddl.problem(item, f"column {item.name}: {error.reason}")
    return columns


def _constraints(ddl: DdlText, item: exp.ColumnDef) -> tuple[str | None, bool]:
    """A column's comment, and whether it may be null."""
    comment: str | None = None
    nullable = True
    for constraint in item.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.CommentColumnConstraint):
            comment = kind.this.name
        elif isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
            nullable = False
        else:
            ddl.problem(item, f"column {item.name}: {sql(constraint)} {NOT_SUPPORTED}")
    return comment, nullable


def sql(node: exp.Expression) -> str:
    """The node as Hive's SQL, for messages."""
    return node.sql(dialect="hive", comments=False)
