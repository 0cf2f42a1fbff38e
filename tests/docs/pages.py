"""README and docs as text, and the code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$"
    r"|^(?:<!-- (?P<indented_note>[^\n]+) -->\n)?\n(?P<indented>(?:^    [^\n]*\n(?:\n(?=    ))?)+)",
    re.MULTILINE | re.DOTALL,
)
_NOTE_OF_INDENTED = re.compile(r"^<!-- indented: (.+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, fenced or indented. `note` is the comment right before it, which readers don't see."""

    page: Path
    language: str
    text: str
    note: str | None

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text.partition(chr(10))[0]}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page. `<!-- indented: … -->` is the note of all indented ones that have none of their own."""
    text = page.read_text(encoding="utf-8")
    usual = _NOTE_OF_INDENTED.search(text)
    return [
        Block(page, found["language"], found["text"], found["note"])
        if found["indented"] is None
        else Block(page, "", dedent(found["indented"]), _own(found["indented_note"]) or (usual and usual[1]))
        for found in _BLOCK.finditer(text)
    ]


def _own(note: str | None) -> str | None:
    return note.removeprefix("indented: ") if note else None


def blocks_run_by(test: str, page: str) -> list[Block]:
    """The blocks of a page that name this test file as the one that runs them, in order."""
    name = Path(test).relative_to(ROOT).as_posix()
    return [one for one in blocks(ROOT / page) if one.note == f"run by {name}"]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def block(page: str, beginning: str) -> Block:
    """The one block of a page that has this text."""
    (found,) = (one for one in blocks(ROOT / page) if beginning in one.text)
    return found


def commands(page: Path) -> Iterator[str]:
    """The commands of hivesink on a page: in blocks, in indented lines, and in running text."""
    yield from re.findall(r"`(hivesink [^`]+)`", prose(page))
    # A backslash joins lines.
    lines = [line for one in blocks(page) for line in re.sub(r"\\\n\s*", " ", one.text).splitlines()]
    found = (re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(hivesink .+)$", line) for line in lines)
    yield from (one[1] for one in found if one)


def make_commands(page: Path) -> set[str]:
    """The targets of `make` on a page, with their settings: in backquotes, and at the beginning of lines of code."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"(?:`|^ *)(make [a-z-]+(?: [A-Z]+=[^\s`]+)*)", text, re.MULTILINE)
    return {" ".join(command.split()) for command in found}
