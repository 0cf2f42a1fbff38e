"""Hive DDL files to `TableSpec`s: one CREATE TABLE per file. Reports all problems of all files at once."""

from __future__ import annotations

import re
from itertools import dropwhile, pairwise
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from hivesink.core.table import TableName, TableSpec
from hivesink.core.typetext import refusal
from hivesink.errors import DdlInvalid
from hivesink.errors.base import meant
from hivesink.hiveql.clauses import CheckProperties, DdlProblem, DdlText, data_columns, partition_columns, read_clauses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ONE = "one CREATE TABLE per file"
_WORDS = (
    "CREATE EXTERNAL TEMPORARY TABLE IF NOT EXISTS PARTITIONED CLUSTERED SORTED BY INTO BUCKETS ROW FORMAT SERDE "
    "DELIMITED FIELDS TERMINATED LINES WITH SERDEPROPERTIES STORED AS INPUTFORMAT OUTPUTFORMAT COMMENT LOCATION "
    "TBLPROPERTIES"
)


def parse_path(
    path: str | Path,
    check_properties: CheckProperties,
    check_table: Callable[[TableSpec], Sequence[str]] = lambda _: (),
) -> tuple[TableSpec, ...]:
    """The tables of a file, or of a folder's `*.sql` sorted by name. `check_table` returns what is wrong with a table.

    Raises DdlInvalid with all files' problems.
    """
    path = Path(path)
    files = sorted(path.glob("*.sql")) if path.is_dir() else [path]
    problems = [] if files else [DdlProblem(str(path), 0, "the folder holds no *.sql file")]
    specs: dict[TableName, TableSpec] = {}
    for file in files:
        try:
            ddl = DdlText(str(file), file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            problems.append(DdlProblem(str(file), 0, f"can't be read: {why}"))
            continue
        spec = _parsed(ddl, check_properties)
        if spec is not None:
            for reason in check_table(spec):
                ddl.problem(ddl.line_of_setting(reason) or 0, reason)
            if specs.setdefault(spec.name, spec) is not spec:
                ddl.problem(1, f"table {spec.name} is declared in another file too")
        problems += sorted(ddl.problems, key=lambda problem: problem.line)
    if problems:
        raise DdlInvalid(tuple(problems))
    return tuple(specs.values())


def parse_ddl(sql: str, file: str, check_properties: CheckProperties) -> TableSpec:
    """The table that `sql` creates. Raises DdlInvalid with all problems, sorted by line.

    `file` is the text's name in problems. Text that isn't SQL has only its first problem reported.
    """
    ddl = DdlText(file, sql)
    spec = _parsed(ddl, check_properties)
    if spec is None:
        raise DdlInvalid(tuple(sorted(ddl.problems, key=lambda problem: problem.line)))
    return spec


def _parsed(ddl: DdlText, check_properties: CheckProperties) -> TableSpec | None:
    """The table, or None, with what is wrong in `ddl.problems`."""
    create = _statement(ddl)
    spec = _table(ddl, create, check_properties) if create is not None else None
    return None if ddl.problems else spec


def _statement(ddl: DdlText) -> exp.Create | None:
    # sqlglot logs syntax that it keeps as an opaque command, which becomes a problem with a line here.
    logger = getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        parsed = sqlglot.parse(ddl.text, read="hive")
        ddl.tokens = sqlglot.tokenize(ddl.text, read="hive")
    except ParseError as error:
        for problem in error.errors:
            word = problem["highlight"] or ""
            reason = f"not understood at {word!r}: {problem['description']}"
            ddl.problem(int(problem["line"] or 1), "; ".join(filter(None, (reason, refusal(word)))))
        return None
    except TokenError as error:
        unclosed = re.search(r"Missing (\S+) from (\d+):", str(error.__cause__))
        ddl.problem(*(int(unclosed[2]), f"unclosed {unclosed[1]}") if unclosed else (1, f"not understood: {error}"))
        return None
    except RecursionError:
        ddl.problem(1, "nested too deeply")
        return None
    finally:
        logger.disabled = before
    statements = [node for node in parsed if node is not None and not isinstance(node, exp.Semicolon)]
    if not statements:
        ddl.problem(1, f"no statement found; write {_ONE}")
        return None
    if len(statements) > 1:
        rest = dropwhile(lambda token: token.token_type != TokenType.SEMICOLON, ddl.tokens)
        second = (token for token in rest if token.token_type != TokenType.SEMICOLON)
        ddl.problem(next(second, ddl.tokens[0]), f"a second statement; write {_ONE}")
    return _create(ddl, statements[0])


def _create(ddl: DdlText, statement: object) -> exp.Create | None:
    first = ddl.tokens[0]
    if isinstance(statement, exp.Create):
        kind = str(statement.args.get("kind") or "").upper()
        if kind == "TABLE":
            return statement
        ddl.problem(first, f"CREATE {kind} is not supported; write {_ONE}")
    elif first.text.upper() != "CREATE":
        ddl.problem(first, f"{first.text.upper()} is not CREATE TABLE; write {_ONE}")
    else:
        # sqlglot keeps a CREATE that it doesn't understand as it is: name the first word that Hive's hasn't.
        words = [token for token in ddl.outside() if token.token_type not in {TokenType.STRING, TokenType.NUMBER}]
        hives, names = _WORDS.split(), {"TABLE", "EXISTS", ".", "AS"}
        for before, token in pairwise(words):
            is_name = before.text.upper() in names or token.text == "."
            parts = token.text.upper().split()
            if not is_name and not set(parts).issubset(hives):
                ddl.problem(token, f"not understood at {token.text!r} as Hive's CREATE TABLE{meant(parts[0], hives)}")
                return None
        ddl.problem(first, "this CREATE has a part that isn't understood as Hive's CREATE TABLE")
    return None


def _table(ddl: DdlText, create: exp.Create, check_properties: CheckProperties) -> TableSpec | None:
    if create.args.get("replace"):
        ddl.problem(ddl.line_of_word("REPLACE"), "OR REPLACE would drop the table's data; remove it")
    if create.args.get("expression") is not None:
        ddl.problem(ddl.line_of_word("SELECT"), "CREATE TABLE AS SELECT is not supported; list the columns")
        return None
    clauses = read_clauses(ddl, create, check_properties)
    schema = create.this
    table = schema.this if isinstance(schema, exp.Schema) else schema
    parts = [part.name for part in table.parts]
    if len(parts) > 2 or not all(re.fullmatch(r"\w+", part, re.ASCII) for part in parts):  # noqa: PLR2004
        ddl.problem(table, f"{'.'.join(parts)!r} is not a table name; write database.table with letters, digits and _")
    if not isinstance(schema, exp.Schema):
        ddl.problem(table, "the table has no columns; list them")
        return None
    columns = data_columns(ddl, schema)
    by = clauses.partitioned_by
    return TableSpec(
        TableName(*(part.lower() for part in ("default", *parts)[-2:])),
        columns,
        partition_columns(ddl, by, columns) if by is not None else (),
        clauses.location,
        clauses.comment,
        clauses.external,
        clauses.format,
        tuple(sorted(clauses.properties.items())),
    )
