"""Hive DDL files to `TableSpec`s: one CREATE TABLE per file. Reports all problems of all files at once."""

from __future__ import annotations

import re
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from hivesink.core.table import TableName, TableSpec
from hivesink.core.typetext import refusal
from hivesink.errors import DdlInvalid
from hivesink.errors.base import meant
from hivesink.hiveql.clauses import CheckProperties, data_columns, partition_columns, read_clauses
from hivesink.hiveql.ddltext import DdlProblem, DdlText, nesting, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ONE = "one CREATE TABLE per file"
# Words that make sqlglot keep a whole CREATE TABLE as an opaque command.
_OPAQUE = {
    "SKEWED": "SKEWED BY: the sink doesn't write skewed folders; remove it",
    "TRANSACTIONAL": "the sink can't write to an ACID table; remove TRANSACTIONAL",
    "MANAGED": "a table without EXTERNAL is managed; remove MANAGED",
}
_WORDS = (
    "CREATE EXTERNAL TEMPORARY TABLE IF NOT EXISTS PARTITIONED CLUSTERED SORTED BY INTO BUCKETS ROW FORMAT SERDE "
    "DELIMITED FIELDS TERMINATED LINES WITH SERDEPROPERTIES STORED AS INPUTFORMAT OUTPUTFORMAT COMMENT LOCATION "
    "TBLPROPERTIES"
)
# What sqlglot takes from other databases' SQL, by two tokens in a row.
_NOT_IN_HIVE = {
    (TokenType.WITH, TokenType.L_PAREN): "WITH (…) is not valid in Hive; write TBLPROPERTIES (…)",
    (TokenType.COMMA, TokenType.R_PAREN): "a comma before ) is not valid in Hive; remove it",
}


def parse_path(
    path: str | Path,
    check_properties: CheckProperties,
    check_table: Callable[[TableSpec], Sequence[str]] = lambda _: (),
) -> tuple[TableSpec, ...]:
    """The tables of a file, or of a folder's `*.sql` sorted by name. `check_table` returns what is wrong with one.

    Raises DdlInvalid with all files' problems.
    """
    path = Path(path)
    files = sorted(path.glob("*.sql")) if path.is_dir() else [path]
    if path.suffix == ".py":
        raise DdlInvalid((DdlProblem(str(path), 0, "this is a job; name the table's .sql file, or a folder of them"),))
    if not files:
        raise DdlInvalid((DdlProblem(str(path), 0, "the folder holds no *.sql file"),))
    specs: dict[TableName, tuple[TableSpec, Path]] = {}
    problems: list[DdlProblem] = []
    for file in files:
        spec = _read(file, check_properties, check_table, problems)
        if spec is not None:
            _, earlier = specs.setdefault(spec.name, (spec, file))
            if earlier != file:
                problems.append(DdlProblem(str(file), 1, f"table {spec.name} is also declared in {earlier}"))
    if problems:
        raise DdlInvalid(tuple(problems))
    return tuple(spec for spec, _ in specs.values())


def parse_ddl(sql: str, file: str, check_properties: CheckProperties) -> TableSpec:
    """The table that `sql` creates. Raises DdlInvalid with all problems, sorted by line.

    `file` is the text's name in problems. Text that isn't SQL has only its first problem reported.
    """
    ddl = DdlText(file, sql)
    spec = _parsed(ddl, check_properties)
    if spec is None:
        raise DdlInvalid(ddl.sorted_problems())
    return spec


def _read(
    file: Path,
    check_properties: CheckProperties,
    check_table: Callable[[TableSpec], Sequence[str]],
    problems: list[DdlProblem],
) -> TableSpec | None:
    try:
        ddl = DdlText(str(file), file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        problems.append(DdlProblem(str(file), 0, f"can't be read: {why}"))
        return None
    spec = _parsed(ddl, check_properties)
    for reason in () if spec is None else check_table(spec):
        ddl.problem(ddl.line_of_setting(reason) or 0, reason)
    problems += ddl.sorted_problems()
    return spec


def _parsed(ddl: DdlText, check_properties: CheckProperties) -> TableSpec | None:
    """The table, or None, with what is wrong in `ddl.problems`."""
    create = _statement(ddl)
    spec = _table(ddl, create, check_properties) if create is not None else None
    return None if ddl.problems else spec


def _statement(ddl: DdlText) -> exp.Create | None:
    try:
        with quiet():
            parsed = sqlglot.parse(ddl.text, read="hive")
    except ParseError as error:
        _not_understood(ddl, error)
        return None
    except TokenError as error:
        unclosed = re.search(r"Missing (\S+) from (\d+):", str(error.__cause__))
        if unclosed:
            ddl.problem(int(unclosed[2]), f"unclosed {unclosed[1]}")
        else:
            ddl.problem(1, f"not understood: {error}")
        return None
    except RecursionError:
        ddl.problem(1, "nested too deeply")
        return None
    statements = [node for node in parsed if node is not None and not isinstance(node, exp.Semicolon)]
    if not statements:
        ddl.problem(1, f"no statement found; write {_ONE}")
        return None
    if len(statements) > 1:
        ddl.problem(_second(ddl), f"a second statement; write {_ONE}")
    return _create(ddl, statements[0])


def _not_understood(ddl: DdlText, error: ParseError) -> None:
    for problem in error.errors:
        word = problem["highlight"] or ""
        reason = f"not understood at {word!r}: {problem['description']}"
        hint = "write NOT NULL, or IF NOT EXISTS" if word.upper() == "NOT" else refusal(word)
        ddl.problem(int(problem["line"] or 1), f"{reason}; {hint}" if hint else reason)


def _second(ddl: DdlText) -> int:
    """The line of the first token of the second statement."""
    rest = dropwhile(lambda token: token.token_type != TokenType.SEMICOLON, ddl.tokens)
    return next((ddl.line(token) for token in rest if token.token_type != TokenType.SEMICOLON), ddl.first_line())


def _create(ddl: DdlText, statement: object) -> exp.Create | None:
    if isinstance(statement, exp.Create):
        kind = str(statement.args.get("kind") or "").upper()
        if kind != "TABLE":
            ddl.problem(ddl.first_line(), f"CREATE {kind} is not supported; write {_ONE}")
            return None
        return statement
    words = [(token.text.upper(), token) for token in ddl.tokens]
    known = [(token, _OPAQUE[word]) for word, token in words if word in _OPAQUE]
    if words[0][0] == "CREATE" and known:
        ddl.problem(*known[0])
    elif isinstance(statement, exp.Command) and words[0][0] == "CREATE":
        _odd(ddl)
    else:
        ddl.problem(ddl.first_line(), f"{words[0][0]} is not CREATE TABLE; write {_ONE}")
    return None


def _odd(ddl: DdlText) -> None:
    """Name the first token outside parentheses that no CREATE TABLE of Hive's has."""
    known, depth = _WORDS.split(), 0
    for before, token in pairwise(ddl.tokens):
        depth += nesting(token)
        is_value = depth or token.token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN}
        is_name = before.text.upper() in {"TABLE", "EXISTS", ".", "AS"} or token.text == "."
        words = token.text.upper().split()
        if not is_value and not is_name and not set(words).issubset(known):
            ddl.problem(token, f"not understood at {token.text!r} as Hive's CREATE TABLE{meant(words[0], known)}")
            return
    ddl.problem(ddl.first_line(), "this CREATE has a part that isn't understood as Hive's CREATE TABLE")


def _table(ddl: DdlText, create: exp.Create, check_properties: CheckProperties) -> TableSpec | None:
    if create.args.get("replace"):
        ddl.problem(ddl.line_of_word("REPLACE"), "OR REPLACE would drop the table's data; remove it")
    if create.args.get("expression") is not None:
        ddl.problem(ddl.line_of_word("SELECT"), "CREATE TABLE AS SELECT is not supported; list the columns")
        return None
    for token, following in zip(ddl.tokens, ddl.tokens[1:], strict=False):
        if problem := _NOT_IN_HIVE.get((token.token_type, following.token_type)):
            ddl.problem(token, problem)
    clauses = read_clauses(ddl, create, check_properties)
    schema = create.this
    table = schema.this if isinstance(schema, exp.Schema) else schema
    name = _name(ddl, table)
    if not isinstance(schema, exp.Schema):
        ddl.problem(table, "the table has no columns; list them")
        return None
    columns = data_columns(ddl, schema)
    by = clauses.partitioned_by
    return TableSpec(
        name,
        columns,
        partition_columns(ddl, by, columns) if by is not None else (),
        clauses.location,
        clauses.comment,
        clauses.external,
        clauses.format,
        tuple(sorted(clauses.properties.items())),
    )


def _name(ddl: DdlText, table: exp.Table) -> TableName:
    parts = [part.name for part in table.parts]
    names = ("default", *parts)[-2:]
    if len(parts) > 2 or not all(re.fullmatch(r"\w+", part, re.ASCII) for part in parts):  # noqa: PLR2004
        ddl.problem(table, f"{'.'.join(parts)!r} is not a table name; write database.table with letters, digits and _")
    return TableName(names[0].lower(), names[1].lower())
