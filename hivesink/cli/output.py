"""What a command says: one report, as text by rich or as one JSON document."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hivesink.errors import DdlDiffers, DdlInvalid, HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

_PIPED_WIDTH = 250
"""Columns where the output is no terminal: a path must not be broken up."""

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


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text; `style` is rich's."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; columns in `right` are aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Report:
    """One command's answer: `data` is the JSON document, `blocks` the text."""

    data: Mapping[str, Any]
    blocks: Sequence[Line | Grid]


class Output(Protocol):
    """Where a command's answer and its errors go."""

    def show(self, report: Report) -> None:
        """Print `report` on standard output."""
        ...

    def fail(self, error: BaseException) -> None:
        """Print `error` on standard error: one line (one for each problem of DDL files), no secrets."""
        ...


class TextOutput:
    """For people."""

    def show(self, report: Report) -> None:
        console = _console(sys.stdout)
        for block in report.blocks:
            if isinstance(block, Line):
                console.print(Text(block.text, style=block.style), soft_wrap=True)
            elif block.rows:
                console.print(_grid(block))

    def fail(self, error: BaseException) -> None:
        for line in error_lines(error):
            _console(sys.stderr).print(Text.assemble(("hivesink: ", "bold red"), line), soft_wrap=True)


class JsonOutput:
    """For programs: one document on standard output; errors are one line of JSON on standard error."""

    def show(self, report: Report) -> None:
        print(json.dumps(report.data, default=jsonable, indent=2, ensure_ascii=False))

    def fail(self, error: BaseException) -> None:
        found = {
            "type": type(error).__name__,
            "message": "\n".join(error_lines(error)),
            "retryable": isinstance(error, HiveSinkError) and error.retryable,
        }
        print(json.dumps({"error": found}, ensure_ascii=False), file=sys.stderr)


def error_lines(error: BaseException) -> list[str]:
    """What an error says, without secrets: one line, but one for each problem of DDL files."""
    text = redact(str(error)) or type(error).__name__
    if isinstance(error, (DdlInvalid, DdlDiffers)):
        return text.splitlines()
    notes: list[str] = getattr(error, "__notes__", [])
    if not isinstance(error, HiveSinkError) and type(error).__name__ not in text:
        text = f"{type(error).__name__}: {text}"
    return [" ".join("; ".join([text, *map(redact, notes)]).split())]


def redact(text: str) -> str:
    """`text` without what looks like a password: in an address, or as the value of a setting."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def jsonable(value: object) -> Any:
    """What JSON has no word for: times as ISO 8601, decimals as text, bytes as base64."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return b64encode(value).decode()
        case Enum():
            return value.value
        case set() | frozenset():
            return sorted(value)
    return str(value)


def _console(stream: TextIO) -> Console:
    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if stream.isatty() else _PIPED_WIDTH,
    )


def _grid(block: Grid) -> Table:
    table = Table(title=block.title or None, title_justify="left", title_style="bold")
    for column in block.columns:
        right = column in block.right
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in block.rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return table
