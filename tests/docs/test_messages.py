"""The messages that docs/operations.md quotes, in italics, are those that the code makes."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs.pages import ROOT, prose

_SPAN = re.compile(r"(?<![*`])\*(?=`)((?:(?!\n\n).)+?)(?<=[`)])\*(?!\*)", re.DOTALL)
_VALUE = re.compile(r"\S*…\S*|\b[MNXY]\b|\bdemo\.flights\b|\bdt=\w+|\b\d+\b")
"""What stands for a value in a quoted message."""


def _quoted() -> list[str]:
    spans = _SPAN.findall(prose(ROOT / "docs" / "operations.md"))
    return list(dict.fromkeys(" ".join(text.split()) for span in spans for text in re.findall(r"`([^`]+)`", span)))


@cache
def _constants() -> str:
    """The constant pieces of all texts in the code, one a line: f-strings are cut where a value comes in."""
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "hivesink").rglob("*.py")]
    nodes = [node for text in code for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    texts = [node.value.replace("\n", " ") for node in nodes if isinstance(node.value, str)]
    pieces = {piece for text in texts for piece in re.split(r"\{\w*\}", text)}
    return "\n".join(["", *sorted(pieces), ""])


def _is_made(piece: str, begun: str = r"(?<!\w)") -> bool:
    """Whether one text of the code has it, or it goes on in another one that begins where the first ends."""

    def is_there(part: str, end: str) -> bool:
        return re.search(begun + re.escape(part) + end, _constants()) is not None

    cuts = [found.start() for found in re.finditer(r"\b", piece) if 0 < found.start() < len(piece)]
    goes_on = (is_there(piece[:at], r"\n") and _is_made(piece[at:], r"\n") for at in cuts)
    return is_there(piece, r"(?!\w)") or any(goes_on)


@pytest.mark.parametrize("message", _quoted())
def test_a_quoted_message_is_one_of_the_code(message: str) -> None:
    pieces = [piece.strip(" ,.:;(){}'\"") for piece in _VALUE.split(message)]
    assert [piece for piece in pieces if piece and not _is_made(piece)] == []
