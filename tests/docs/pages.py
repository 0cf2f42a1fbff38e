"""README and docs as text, and the code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block. `note` is the comment right before it, which readers don't see."""

    page: Path
    language: str
    text: str
    note: str | None

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text.partition(chr(10))[0]}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [Block(page, found["language"], found["text"], found["note"]) for found in _BLOCK.finditer(text)]


def block(page: str, beginning: str) -> Block:
    """The one block of a page that has this text."""
    (found,) = (one for one in blocks(ROOT / page) if beginning in one.text)
    return found


def commands(page: Path) -> Iterator[str]:
    """The commands of hivesink on a page: in blocks, in indented lines, and in running text."""
    text = page.read_text(encoding="utf-8")
    prose = _BLOCK.sub("", text)
    yield from re.findall(r"`(hivesink [^`]+)`", prose)
    lines = [line[4:] for line in prose.splitlines() if line.startswith("    ")]
    for one in blocks(page):
        # A backslash joins lines.
        lines += re.sub(r"\\\n\s*", " ", one.text).splitlines()
    found = (re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(hivesink .+)$", line) for line in lines)
    yield from (one[1] for one in found if one)


def make_commands(page: Path) -> set[str]:
    """The targets of `make` on a page, with their settings: in backquotes, and at the beginning of lines of code."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"(?:`|^ *)(make [a-z-]+(?: [A-Z]+=[^\s`]+)*)", text, re.MULTILINE)
    return {" ".join(command.split()) for command in found}
