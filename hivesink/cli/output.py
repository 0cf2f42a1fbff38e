"""What a command prints: a report, as text or as a JSON document, and errors in a line."""

from __future__ import annotations

import json
import os
import re
import sys
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from json import dumps
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hivesink.core import table
from hivesink.core.table import Array, Map, Primitive, Struct
from hivesink.errors import DdlInvalid, HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from hivesink.core.table import HiveType

_SECRETS = (
    (re.compile(r"//[^/@\s]+@"), "//***@"),
    (
        re.compile(
            r"""(?ix) (\b[\w.-]* (?:password|passwd|secret|token|credential) [\w.-]* \s*[=:]\s*)
            ("[^"]*" | [^\s,;]+)"""
        ),
        r"\1***",
    ),
)

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal: control characters, ends of lines, the direction of text. And halves of characters."""

_NARROWEST = 8
"""Characters of a column, with its frame."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, in a style of rich's."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; the columns in `right` are right-aligned. A cell is a Line where it has a style."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Report:
    """A command's result: `data` is the JSON document, `blocks` are the text."""

    data: Mapping[str, Any]
    blocks: Sequence[Line | Grid]


def tell(line: str) -> None:
    """Say `line` on standard error, if anybody still reads that: what a command does goes on all the same."""
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence(sys.stderr)


def silence(*streams: TextIO) -> None:
    """Nobody reads them any more. Without this the interpreter complains when it exits."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class TextOutput:
    """For people: a report on standard output; on standard error a line per error, or per problem in DDL files."""

    is_json = False

    def show(self, report: Report) -> None:
        console = _console(sys.stdout)
        for block in report.blocks:
            if isinstance(block, Line):
                console.print(_text(block), soft_wrap=True)
            elif block.rows:
                is_wide = len(block.columns) * _NARROWEST > console.width
                console.print(_records(block) if is_wide else _grid(block))

    def fail(self, error: BaseException) -> None:
        code = f" [{error.code}]" if isinstance(error, HiveSinkError) else ""
        for line in error_lines(error):
            said = Text.assemble(("hivesink: ", "bold red"), printable(line), (code, "dim"))
            _console(sys.stderr).print(said, soft_wrap=True)


class JsonOutput:
    """For programs: a JSON document on standard output, and an error as a line of JSON on standard error."""

    is_json = True

    def show(self, report: Report) -> None:
        print(json.dumps(report.data, default=jsonable, indent=2, ensure_ascii=False))

    def fail(self, error: BaseException) -> None:
        fields = {
            "type": type(error).__name__,
            "code": error.code if isinstance(error, HiveSinkError) else None,
            "message": "\n".join(error_lines(error)),
            "retryable": isinstance(error, HiveSinkError) and error.retryable,
        }
        print(json.dumps({"error": fields}, ensure_ascii=False), file=sys.stderr)


Output = TextOutput | JsonOutput


def output(*, as_json: bool) -> Output:
    """The output that `--json` chooses."""
    return JsonOutput() if as_json else TextOutput()


def error_lines(error: BaseException) -> list[str]:
    """An error's message without secrets: a line, or a line for each problem in DDL files."""
    text = redact(str(error)) or type(error).__name__
    if isinstance(error, DdlInvalid):
        return text.splitlines()
    notes: list[str] = getattr(error, "__notes__", [])
    if not isinstance(error, HiveSinkError) and type(error).__name__ not in text:
        text = f"{type(error).__name__}: {text}"
    return [" ".join(filter(None, map(str.strip, "; ".join([text, *map(redact, notes)]).splitlines())))]


def redact(text: str) -> str:
    """Replace what looks like a password, in an address or as the value of a setting."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def printable(text: str) -> str:
    """`text` with JSON's escapes for what would steer a terminal."""
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def jsonable(value: object) -> Any:  # noqa: PLR0911  a return for each type
    """Values that JSON lacks: times as ISO 8601, decimals, NaN and infinity as text, bytes as base64."""
    match value:
        case float() if isfinite(value):
            return value
        case float():
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            # Without an exponent: str() shows a 0 of DECIMAL(10,8) as 0E-8.
            return format(value, "f")
        case bytes() | bytearray():
            return b64encode(value).decode()
        case Enum():
            return value.value
        case set() | frozenset():
            return sorted(value)
    return str(value)


def _console(stream: TextIO) -> Console:
    # Outside a terminal paths must not wrap.
    width = None if stream.isatty() else 250
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


def _grid(block: Grid) -> Table:
    table = Table(title=block.title or None, title_justify="left", title_style="bold")
    for column in block.columns:
        table.add_column(column, justify="right" if column in block.right else "left", overflow="fold")
    for row in block.rows:
        table.add_row(*map(_text, row))
    return table


def _records(block: Grid) -> Table:
    """The grid turned: a line for each value, since its columns would be too narrow to read."""
    table = Table(title=block.title or None, title_justify="left", title_style="bold", show_header=False)
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for row in block.rows:
        for name, value in zip(block.columns, row, strict=True):
            table.add_row(_text(name), _text(value))
        table.add_section()
    return table


def _text(value: object) -> Text:
    line = value if isinstance(value, Line) else Line("" if value is None else str(value))
    return Text("\n".join(map(printable, line.text.split("\n"))), style=line.style)


def plain(cell: Any, kind: HiveType | None = None) -> Any:  # noqa: PLR0911  one per type
    """As JSON: its objects have only text keys, Hive's maps have any primitive.

    Without a `kind`, what it would tell is left as it is: a FLOAT has the digits of the double that Python holds
    (0.10000000149011612 for 0.1), a map in Arrow's form stays a list of pairs, and a time that came as text is text.
    """
    match cell:
        case str():
            return _read(cell, kind)
        case dict() if isinstance(kind, Struct):
            return {name: plain(part, of) for (name, part), (_, of) in zip(cell.items(), kind.fields, strict=True)}
        case dict():
            key_kind, value_kind = (kind.key, kind.value) if isinstance(kind, Map) else (None, None)
            return {_key(key, key_kind): plain(part, value_kind) for key, part in cell.items()}
        case tuple() if hasattr(cell, "__fields__"):
            # A struct of Spark's, whose field names keep their case.
            kinds = [part for _, part in kind.fields] if isinstance(kind, Struct) else [None] * len(cell)
            return {name: plain(part, of) for name, part, of in zip(cell.__fields__, cell, kinds, strict=True)}
        case list() if isinstance(kind, Map):
            return plain(dict(cell), kind)
        case list():
            element = kind.element if isinstance(kind, Array) else None
            return [plain(part, element) for part in cell]
        case bytearray():
            # PySpark before 4.1 hands out a BINARY so.
            return bytes(cell)
        case float():
            # NumPy knows the fewest digits of a FLOAT. Not at the top: it would slow the start of every command.
            import numpy as np

            return jsonable(float(str(np.float32(cell))) if kind is Primitive.FLOAT else cell)
    return cell


def shown(cell: Any) -> str:
    """The text of a plain cell: what JSON has, but NULL, and a time with a space in its middle.

    A text that would look like a null, like nothing or like one in quotes is in JSON's quotes; so is one that has
    blanks at an end, or would break the row.
    """
    match cell:
        case None:
            return "NULL"
        case str():
            is_odd = cell in ("", "NULL") or cell.startswith('"') or cell != cell.strip() or UNSAFE.search(cell)
            return _quoted(cell) if is_odd else cell
        case datetime():
            return cell.isoformat(" ")
        case bool() | list() | dict():
            return _quoted(cell)
        case int():
            return str(cell)
    return str(jsonable(cell))


def _quoted(cell: Any) -> str:
    # JSON escapes only a part of what a terminal acts on.
    return printable(dumps(cell, default=jsonable, ensure_ascii=False))


def _key(key: Any, kind: HiveType | None) -> str:
    """As the same value is printed in JSON elsewhere."""
    text = plain(key, kind)
    return text if isinstance(text, str) else dumps(text, default=jsonable).strip('"')


def _read(text: str, kind: HiveType | None) -> Any:
    """The value of a date, a timestamp or a decimal that came as text; text where Python has no such year."""
    match kind:
        case Primitive.DATE:
            with suppress(ValueError):
                return date.fromisoformat(text)
        case Primitive.TIMESTAMP:
            seconds, _, fraction = text.partition(".")
            with suppress(ValueError):
                return datetime.fromisoformat(f"{seconds}.{fraction[:6].ljust(6, '0')}")
        case table.Decimal():
            return Decimal(text)
    return text
