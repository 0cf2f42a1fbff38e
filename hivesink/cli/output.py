"""What a command prints: text or a JSON document, an error in a line, and values alike whoever read them."""

from __future__ import annotations

import json
import os
import re
import sys
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite, isnan
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hivesink.core import table
from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.errors import DdlInvalid, HiveSinkError

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

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal: control characters, ends of lines, the direction of text. And halves of characters."""

_WHOLE = 20
"""Characters of a cell that are never cut: a time has 19."""
_FRAME = 3
"""Characters of a column besides its cells."""
_ENDLESS = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, in a style of rich's."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; the columns in `right` are right-aligned. A cell is a Line where it has a style; None is `-`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: Collection[str] = ()

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, object]], *right: str) -> Grid:
        """One with the same objects as the JSON document: their keys are the columns."""
        columns = [*dict.fromkeys(name for row in rows for name in row)]
        return cls(title, columns, [[row.get(name) for name in columns] for row in rows], right)


MOST = 20
"""Rows of a kind that are printed, where there may be thousands."""


def first(title: str, rows: Sequence[Mapping[str, object]], what: str, *right: str) -> Iterator[Line | Grid]:
    """The first of `rows`, and a line for how many more of `what` there are."""
    yield Grid.of(title, rows[:MOST], *right)
    if len(rows) > MOST:
        yield Line(f"… and {len(rows) - MOST:,} more {what}")


@dataclass(frozen=True, slots=True)
class Output:
    """For people text; with `is_json` for programs a document on standard output, and errors as JSON."""

    is_json: bool = False

    def show(self, data: Mapping[str, Any], blocks: Iterable[Line | Grid]) -> None:
        """Print a command's result: `data` is the JSON document, `blocks` are the text."""
        if self.is_json:
            print(json.dumps(data, default=jsonable, indent=2, ensure_ascii=False))
            return
        console = _console(sys.stdout)
        for block in blocks:
            if isinstance(block, Line):
                console.print(_text(block), soft_wrap=True)
            elif block.rows:
                console.print(_table(block, console.width))

    def fail(self, error: BaseException) -> None:
        """Tell an error on standard error: in a line, or in one for each problem in DDL files."""
        ours = error if isinstance(error, HiveSinkError) else None
        lines, code = error_lines(error), ours and ours.code
        if self.is_json:
            fields = {"type": type(error).__name__, "code": code, "message": "\n".join(lines)}
            retryable = {"retryable": ours is not None and ours.retryable}
            print(json.dumps({"error": {**fields, **retryable}}, ensure_ascii=False), file=sys.stderr)
            return
        for line in lines:
            said = Text.assemble(("hivesink: ", "bold red"), printable(line), (f" [{code}]" if code else "", "dim"))
            _console(sys.stderr).print(said, soft_wrap=True)


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


def error_lines(error: BaseException) -> list[str]:
    """An error's message without secrets: a line, or a line for each problem in DDL files."""
    text = redact(str(error)) or type(error).__name__
    if isinstance(error, DdlInvalid):
        return text.splitlines()
    notes: list[str] = getattr(error, "__notes__", [])
    if not isinstance(error, HiveSinkError):
        text = f"unexpected {type(error).__name__}: {text}; --debug shows the stack trace"
    return [" ".join(filter(None, map(str.strip, "; ".join([text, *map(redact, notes)]).splitlines())))]


def redact(text: str) -> str:
    """Replace what looks like a password, in an address or as the value of a setting."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def printable(text: str) -> str:
    """`text` with JSON's escapes for what would steer a terminal."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


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
    return str(value)


def plain(cell: Any, kind: HiveType | None = None) -> Any:  # noqa: PLR0911  one per type
    """A row's value as JSON: its objects have only text keys, Hive's maps have any primitive.

    Without a `kind`, what it would tell is left as it is: a FLOAT has the digits of the double that Python holds
    (0.10000000149011612 for 0.1), a map in Arrow's form stays a list of pairs, and a time that came as text is text.
    """
    match cell:
        case str() if kind is Primitive.DATE:
            # Python has no years beyond 9999: such a time stays text.
            with suppress(ValueError):
                return date.fromisoformat(cell)
        case str() if kind is Primitive.TIMESTAMP:
            seconds, _, fraction = cell.partition(".")
            with suppress(ValueError):
                return datetime.fromisoformat(f"{seconds}.{fraction[:6].ljust(6, '0')}")
        case str() if isinstance(kind, table.Decimal):
            return Decimal(cell)
        case dict() if isinstance(kind, Struct):
            return {name: plain(part, of) for (name, part), (_, of) in zip(cell.items(), kind.fields, strict=True)}
        case dict():
            key_kind, value_kind = (kind.key, kind.value) if isinstance(kind, Map) else (None, None)
            keys = (plain(key, key_kind) for key in cell)
            texts = (key if isinstance(key, str) else json.dumps(key, default=jsonable).strip('"') for key in keys)
            return {text: plain(part, value_kind) for text, part in zip(texts, cell.values(), strict=True)}
        case list() if isinstance(kind, Map):
            return plain(dict(cell), kind)
        case list():
            element = kind.element if isinstance(kind, Array) else None
            return [plain(part, element) for part in cell]
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
        case str() if not (cell in {"", "NULL"} or cell[0] == '"' or cell != cell.strip() or _UNSAFE.search(cell)):
            return cell
        case datetime():
            return cell.isoformat(" ")
        case str() | bool() | list() | dict():
            # JSON escapes only a part of what a terminal acts on.
            return printable(json.dumps(cell, default=jsonable, ensure_ascii=False))
        case int():
            return str(cell)
    return str(jsonable(cell))


def cell_text(value: object) -> str:
    """A cell's text: times to the second, fractions rounded, None as `-`, what is nested by its parts."""
    match value:
        case None:
            return "-"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case float():
            return f"{value:,.0f}"
        case dict():
            return ", ".join(f"{name} {cell_text(part)}" for name, part in value.items())
        case list() | tuple():
            return ", ".join(part if isinstance(part, str) else json.dumps(part) for part in value) or "none"
    return str(value)


def _console(stream: TextIO) -> Console:
    # Outside a terminal a line is never cut, and a row is a line.
    width = None if stream.isatty() else _ENDLESS
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


def _table(block: Grid, width: int) -> Table:
    """Turned, with a line for each value, where columns would be too narrow to read, as psql does."""
    rows = [[*map(_text, row)] for row in block.rows]
    cells = zip(map(Text, block.columns), *rows, strict=True)
    least = sum(_FRAME + min(_WHOLE, max(cell.cell_len for cell in column)) for column in cells)
    is_turned = least >= width
    drawn = Table(title=block.title or None, title_justify="left", title_style="bold", show_header=not is_turned)
    if is_turned:
        drawn.add_column(justify="right")
        drawn.add_column(overflow="fold")
    else:
        for column in block.columns:
            drawn.add_column(column, justify="right" if column in block.right else "left", overflow="fold")
    for row in rows:
        if not is_turned:
            drawn.add_row(*row)
            continue
        for name, value in zip(block.columns, row, strict=True):
            drawn.add_row(_text(name), value)
        drawn.add_section()
    return drawn


def _text(value: object) -> Text:
    line = value if isinstance(value, Line) else Line(cell_text(value))
    return Text("\n".join(map(printable, line.text.split("\n"))), style=line.style)
