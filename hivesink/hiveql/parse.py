"""Hive DDL files to `TableSpec`s: one CREATE TABLE per file. Reports all problems of all files at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hivesink.config.formats import FORMATS, SUPPORTED
from hivesink.config.options import check
from hivesink.core.log import PROPERTY
from hivesink.core.table import Array, Column, Map, Primitive, Struct, TableName, TableSpec
from hivesink.core.typetext import parse_type
from hivesink.errors import DdlInvalid, TypeTextInvalid
from hivesink.hiveql.reader import DdlProblem, Reader, UnreadableError

CheckTable = Callable[[TableSpec], Sequence[str]]
"""Returns what is wrong with a table, a line each, which begins with the property."""

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
_DEPTHS = {"<": 1, "(": 1, ">": -1, ")": -1}
# Hive keeps a table's column names in a comma-separated property; Parquet readers refuse other characters.
_NAME = re.compile(r"[\w$-]+")


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

    `file` is the text's name in problems. What comes behind a word that isn't understood isn't read.
    """
    ddl = _Ddl(file, text)
    spec = None
    with suppress(UnreadableError):
        spec = ddl.table()
        if not ddl.problems:
            for reason in check_table(spec) if check_table else ():
                ddl.setting(reason)
    if spec is None or ddl.problems:
        raise DdlInvalid(tuple(sorted(ddl.problems, key=lambda problem: problem.line)))
    return spec


@dataclass(slots=True)
class _Ddl(Reader):
    places: dict[str, int] = field(default_factory=lambda: {"": 0})
    """Where things are: the table by no name, a property by its own in lower case, a clause by its first word."""
    taken: frozenset[str] = frozenset()
    """The names of the data columns, once they are read."""

    def setting(self, reason: str) -> None:
        """A problem at the property that `reason` begins with, whatever its case, or else at the table."""
        name = re.split(r"[\s:=]", reason.removeprefix("property "), maxsplit=1)[0].lower()
        self.problem(self.places.get(name, self.places[""]), reason)

    def table(self) -> TableSpec:
        """The statement, and nothing else."""
        while self.skip(";"):
            pass
        kind, first, start = self.token
        if not self.skip("CREATE"):
            what = "no statement found" if kind == "end" else f"{first.upper()} is not CREATE TABLE"
            self.problem(start, f"{what}; write {_ONE}")
            raise UnreadableError
        external = self.skip("EXTERNAL")
        self.expect("TABLE")
        self.skip("IF NOT EXISTS")
        name = self.table_name()
        columns = self.columns()
        self.taken = frozenset(column.name for column in columns)
        clauses = self.clauses()
        if self.token.kind != "end":
            self.expect(";")
            while self.skip(";"):
                pass
        if self.token.kind != "end":
            self.problem(self.token.start, f"a second statement; write {_ONE}")
        location, properties = clauses.get("LOCATION"), clauses.get("TBLPROPERTIES", {})
        if location is not None and not re.match(r"/|[A-Za-z][\w+.-]*:/", location):
            reason = f"LOCATION {location!r} is not absolute; start it with / or a scheme such as hdfs://"
            self.problem(self.places["LOCATION"], reason)
        elif location is not None and re.fullmatch(r"([A-Za-z][\w+.-]*:(//[^/]*)?)?/*", location):
            self.problem(self.places["LOCATION"], f"LOCATION {location!r} is no folder; name one in it")
        for reason in (*_refused(properties), *check(properties)):
            self.setting(reason)
        return TableSpec(
            name,
            columns,
            clauses.get("PARTITIONED", ()),
            location,
            clauses.get("COMMENT"),
            external,
            self.format(clauses),
            tuple(sorted(properties.items())),
        )

    def table_name(self) -> TableName:
        start = self.places[""] = self.token.start
        parts = [self.name()]
        while self.skip("."):
            parts.append(self.name())
        if len(parts) > 2 or not all(re.fullmatch(r"\w+", part, re.ASCII) for part in parts):  # noqa: PLR2004
            shown = ".".join(parts)
            self.problem(start, f"{shown!r} is not a table name; write database.table with letters, digits and _")
        return TableName(*(part.lower() for part in ("default", *parts)[-2:]))

    def clauses(self) -> dict[str, Any]:
        """The clauses after the columns by their first words; of a repeated one, the last."""
        clauses: dict[str, Any] = {}
        while self.token.kind == "word":
            start = self.token.start
            words = next((words for words in _CLAUSES if self.skip(words)), None)
            if words is None:
                self.fail()
            key = words.partition(" ")[0]
            if key in clauses:
                self.problem(start, "this clause is repeated; remove it")
            clauses[key], self.places[key] = _CLAUSES[words](self), start
        return clauses

    def format(self, clauses: Mapping[str, Any]) -> str:
        """The format's name; nothing where that is a problem."""
        stored, serde = clauses.get("STORED"), clauses.get("ROW")
        for form in FORMATS.values():
            # Hive takes these classes and the statement's SerDe for the format that has all three.
            classes = (form.input_format, form.output_format)
            if (stored == form.name and serde in {None, form.serde}) or (stored, serde) == (classes, form.serde):
                return form.name
        what = "Hive creates a text table without STORED AS" if stored is None else "this format is not supported yet"
        self.problem(self.places.get("STORED", self.places[""]), f"{what}; use {SUPPORTED}")
        return ""

    def columns(self, *, is_partition: bool = False) -> tuple[Column, ...]:
        """The columns in parentheses, without those whose type is a problem."""
        self.expect("(")
        columns: list[Column] = []
        lines: dict[str, int] = {}
        while not lines or self.skip(","):
            start, name = self.token.start, self.name().lower()
            if name in lines:
                self.problem(start, f"column {name} is already declared on line {lines[name]} (Hive ignores case)")
            lines.setdefault(name, self.line(start))
            if not _NAME.fullmatch(name):
                self.problem(start, f"column {name!r}: use letters, digits and _ only; some readers fail with others")
            text, comment, nullable = self.type_text(), None, True
            while self.token.text.upper() in {"COMMENT", "NOT"}:
                if self.skip("COMMENT"):
                    comment = self.string()
                else:
                    self.expect("NOT NULL")
                    nullable = False
            try:
                column = Column(name, parse_type(text), comment, nullable)
            except TypeTextInvalid as error:
                self.problem(start, f"column {name}: {error.reason}")
                continue
            columns.append(column)
            for reason in self.refusals(column) if is_partition else ():
                self.problem(start, f"partition column {name}{reason}")
        self.expect(")")
        return tuple(columns)

    def type_text(self) -> str:
        """A type as written, without comments of struct fields (Hive drops those)."""
        texts, depth = list[str](), 0
        while (token := self.token).kind != "end" and depth >= 0:
            word = token.text.upper()
            if depth == 0 and word in {",", ")", "COMMENT", "NOT"}:
                break
            self.at += 1
            if word == "COMMENT" and self.token.kind == "text":
                self.at += 1
            else:
                depth += _DEPTHS.get(word, 0)
                texts.append(token.text)
        return " ".join(texts)

    def refusals(self, column: Column) -> Iterator[str]:
        """Why a table can't be partitioned by it."""
        if column.name in self.taken:
            yield " is also a data column; remove it there"
        if isinstance(column.type, (Array, Map, Struct)) or column.type is Primitive.BINARY:
            yield f": {column.type} has no partition value; use STRING or a number"
        if not column.nullable:
            yield ": Hive has no NOT NULL here; set sink.bucket.on-null"

    def properties(self) -> dict[str, str]:
        self.expect("(")
        properties: dict[str, str] = {}
        while not properties or self.skip(","):
            start, key = self.token.start, self.string()
            self.expect("=")
            if key in properties:
                self.problem(start, f"property {key} is set twice; remove one")
            properties[key], self.places[key.lower()] = self.string(), start
        self.expect(")")
        return properties


_CLAUSES: Mapping[str, Callable[[_Ddl], Any]] = {
    "COMMENT": _Ddl.string,
    "PARTITIONED BY": lambda ddl: ddl.columns(is_partition=True),
    "ROW FORMAT SERDE": _Ddl.string,
    "STORED AS INPUTFORMAT": lambda ddl: (ddl.string(), ddl.string("OUTPUTFORMAT")),
    "STORED AS": lambda ddl: ddl.take("word").upper(),
    "LOCATION": _Ddl.string,
    "TBLPROPERTIES": _Ddl.properties,
}


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
