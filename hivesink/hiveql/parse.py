"""Hive DDL files to `TableSpec`s: one CREATE TABLE per file. Reports all problems of all files at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile, pairwise
from logging import getLogger
from pathlib import Path

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from hivesink.config.formats import FORMATS, SUPPORTED
from hivesink.config.options import SinkConfig
from hivesink.core.log import PROPERTY
from hivesink.core.table import TableName, TableSpec
from hivesink.core.typetext import refusal
from hivesink.errors import DdlInvalid, InvalidOption
from hivesink.hiveql.ddltext import NOT_SUPPORTED, DdlProblem, DdlText, data_columns, partition_columns, sql

CheckTable = Callable[[TableSpec], Sequence[str]]
"""Returns what is wrong with a table, a line each, which begins with the property."""

_USE = f"use {SUPPORTED}"
_CLAUSES = {
    exp.ExternalProperty,
    exp.FileFormatProperty,
    exp.LocationProperty,
    exp.PartitionedByProperty,
    exp.RowFormatSerdeProperty,
    exp.SchemaCommentProperty,
}
_OWN = (
    "COLUMN_STATS_ACCURATE TRANSLATED_TO_EXTERNAL bucketing_version last_modified_by last_modified_time numFiles "
    "numFilesErasureCoded numPartitions numRows rawDataSize totalSize transient_lastDdlTime"
)
METASTORE_OWN = frozenset(_OWN.split())
"""Properties that a metastore sets by itself, whatever the DDL says."""
_RESERVED = {
    "EXTERNAL": "write CREATE EXTERNAL TABLE instead",
    "comment": "write COMMENT '…' after the columns instead",
    "hivesink.not-null": "write NOT NULL at the column instead",
    PROPERTY: "it names the log of the table that this text was taken from; remove it",
}
_ONE = "one CREATE TABLE per file"
_WORDS = (
    "CREATE EXTERNAL TEMPORARY TABLE IF NOT EXISTS PARTITIONED CLUSTERED SORTED BY INTO BUCKETS ROW FORMAT SERDE "
    "DELIMITED FIELDS TERMINATED LINES WITH SERDEPROPERTIES STORED AS INPUTFORMAT OUTPUTFORMAT COMMENT LOCATION "
    "TBLPROPERTIES"
)


def parse_path(path: str | Path, check_table: CheckTable | None = None) -> tuple[TableSpec, ...]:
    """The tables of a file, or of a folder's `*.sql` sorted by name. Raises DdlInvalid with all files' problems."""
    path = Path(path)
    files = sorted(path.glob("*.sql")) if path.is_dir() else [path]
    problems = [] if files else [DdlProblem(str(path), 0, "the folder holds no *.sql file")]
    specs: dict[TableName, TableSpec] = {}
    for file in files:
        try:
            spec = parse_ddl(file.read_text(encoding="utf-8"), str(file), check_table)
        except DdlInvalid as error:  # noqa: PERF203 -- all files' problems are told
            problems += error.problems
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            problems.append(DdlProblem(str(file), 0, f"can't be read: {why}"))
        else:
            if specs.setdefault(spec.name, spec) is not spec:
                problems.append(DdlProblem(str(file), 1, f"table {spec.name} is declared in another file too"))
    if problems:
        raise DdlInvalid(tuple(problems))
    return tuple(specs.values())


def parse_ddl(text: str, file: str, check_table: CheckTable | None = None) -> TableSpec:
    """The table that `text` creates. Raises DdlInvalid with all problems, sorted by line.

    `file` is the text's name in problems. Text that isn't SQL has only its first problem reported.
    """
    ddl = DdlText(file, text)
    create = _statement(ddl)
    spec = _table(ddl, create) if create is not None else None
    if spec is not None and not ddl.problems:
        for reason in check_table(spec) if check_table else ():
            ddl.problem(ddl.line_of_setting(reason) or 0, reason)
    if spec is None or ddl.problems:
        raise DdlInvalid(tuple(sorted(ddl.problems, key=lambda problem: problem.line)))
    return spec


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
            if not is_name and not set(token.text.upper().split()).issubset(hives):
                ddl.problem(token, f"not understood at {token.text!r} as Hive's CREATE TABLE")
                return None
        ddl.problem(first, "this CREATE has a part that isn't understood as Hive's CREATE TABLE")
    return None


def _table(ddl: DdlText, create: exp.Create) -> TableSpec | None:
    if create.args.get("replace"):
        ddl.problem(ddl.line_of_word("REPLACE"), "OR REPLACE would drop the table's data; remove it")
    if create.args.get("expression") is not None:
        ddl.problem(ddl.line_of_word("SELECT"), "CREATE TABLE AS SELECT is not supported; list the columns")
        return None
    clauses, properties = _clauses(ddl, create)
    schema = create.this
    location = _text(ddl, clauses.get(exp.LocationProperty))
    if location is not None and not re.match(r"/|[A-Za-z][\w+.-]*:/", location):
        reason = f"LOCATION {location!r} is not absolute; start it with / or a scheme such as hdfs://"
        ddl.problem(ddl.line_of_word("LOCATION"), reason)
    elif location is not None and re.fullmatch(r"([A-Za-z][\w+.-]*:(//[^/]*)?)?/*", location):
        ddl.problem(ddl.line_of_word("LOCATION"), f"LOCATION {location!r} is no folder; name one in it")
    reasons = [*_refused(properties)]
    try:
        SinkConfig.parse(properties)
    except InvalidOption as error:
        reasons += error.problems
    for reason in reasons:
        ddl.problem(ddl.line_of_setting(reason.removeprefix("property ")) or ddl.line(schema), reason)
    table = schema.this if isinstance(schema, exp.Schema) else schema
    parts = [part.name for part in table.parts]
    if len(parts) > 2 or not all(re.fullmatch(r"\w+", part, re.ASCII) for part in parts):  # noqa: PLR2004
        ddl.problem(table, f"{'.'.join(parts)!r} is not a table name; write database.table with letters, digits and _")
    form = _format(ddl, create, clauses)
    if not isinstance(schema, exp.Schema):
        ddl.problem(table, "the table has no columns; list them")
        return None
    columns = data_columns(ddl, schema)
    by = clauses.get(exp.PartitionedByProperty)
    return TableSpec(
        TableName(*(part.lower() for part in ("default", *parts)[-2:])),
        columns,
        partition_columns(ddl, by, columns) if isinstance(by, exp.PartitionedByProperty) else (),
        location,
        _text(ddl, clauses.get(exp.SchemaCommentProperty)),
        exp.ExternalProperty in clauses,
        form,
        tuple(sorted(properties.items())),
    )


def _clauses(ddl: DdlText, create: exp.Create) -> tuple[dict[type[exp.Expression], exp.Expression], dict[str, str]]:
    """The clauses after the columns by their kinds, and TBLPROPERTIES; of a repeated property, the last counts."""
    clauses: dict[type[exp.Expression], exp.Expression] = {}
    properties: dict[str, str] = {}
    for node in create.args["properties"].expressions if create.args.get("properties") else []:
        kind = type(node)
        if kind is exp.Property:
            key, value = node.this, node.args["value"]
            if not all(isinstance(side, exp.Literal) and side.is_string for side in (key, value)):
                ddl.problem(node, f"TBLPROPERTIES: write {key.name!r}='{value.name}', both in quotes")
                continue
            if key.name in properties:
                ddl.problem(key, f"property {key.name} is set twice; remove one")
            properties[key.name] = value.name
            continue
        if kind in clauses:
            ddl.problem(node, "this clause is repeated; remove it")
        if kind not in _CLAUSES:
            text = sql(node)
            ddl.problem(ddl.line_of_word(text.partition(" ")[0].upper()), f"{text} {NOT_SUPPORTED}")
        clauses[kind] = node
    return clauses, properties


def _text(ddl: DdlText, node: exp.Expression | None) -> str | None:
    """A clause's string; None without the clause. sqlglot accepts a clause without it."""
    if node is None:
        return None
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return node.this.name
    ddl.problem(node, f"{sql(node) or 'a clause'} needs a text in quotes")
    return ""


def _refused(properties: Mapping[str, str]) -> Iterator[str]:
    """Why properties can't be set, a line each that begins with `property` and the name."""
    for key, value in properties.items():
        is_wrong = value.lower() != "false"
        if key in _RESERVED:
            yield f"property {key}: {_RESERVED[key]}"
        elif key in METASTORE_OWN:
            yield f"property {key} belongs to the metastore; remove it"
        elif key.lower() == "transactional" and is_wrong:
            yield f"property {key}: the sink can't write to an ACID table; remove it"
        elif key == "discover.partitions" and is_wrong:
            yield f"property {key} must be 'false', or the metastore adds folders by itself"


def _format(ddl: DdlText, create: exp.Create, clauses: Mapping[type[exp.Expression], exp.Expression]) -> str:
    """The format's name; nothing where a problem was noted."""
    row, node = clauses.get(exp.RowFormatSerdeProperty), clauses.get(exp.FileFormatProperty)
    serde = _text(ddl, row)
    if row is not None and row.args.get("serde_properties"):
        ddl.problem(row, "SERDEPROPERTIES are not supported; put the sink's settings into TBLPROPERTIES")
    if node is None:
        ddl.problem(create.this, f"without STORED AS, Hive creates a text table; {_USE}")
        return ""
    sides = (node.this.args.get(side) for side in ("input_format", "output_format")) if node.this else ()
    classes = tuple(side.name for side in sides if side)
    name = node.this.name.upper() if node.this and node.args.get("hive_format") else ""
    for form in FORMATS.values():
        # Hive takes two classes and the statement's SerDe for the format that has all three.
        by_classes = ((form.input_format, form.output_format), form.serde)
        if (name == form.name and serde in {None, form.serde}) or (classes, serde) == by_classes:
            return form.name
    ddl.problem(ddl.line_of_word("STORED" if name or classes else "USING"), f"this format is not supported yet; {_USE}")
    return ""
