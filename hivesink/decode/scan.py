"""A strict JSON scanner (RFC 8259) that keeps each value's text as it stands in the input.

It decides what is JSON. It never recurses, so it scans values of any depth and length.
"""

from __future__ import annotations

import json
import re

STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(STRING)
_SCALAR = re.compile(f"{STRING}|{NUMBER}|true|false|null")


class NotJson(ValueError):
    """The text is not one JSON value."""


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _match(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise NotJson
    return match.end()


def _key(text: str, at: int) -> int:
    """From a member's key to the beginning of its value."""
    at = _space(text, _match(_STRING, text, at))
    if text[at : at + 1] != ":":
        raise NotJson
    return _space(text, at + 1)


def end_of_value(text: str, at: int) -> int:
    """Where the value that begins at `at` ends. Raises NotJson."""
    closers: list[str] = []
    while True:
        opener = text[at : at + 1]
        if opener in {"{", "["}:
            closer = "}" if opener == "{" else "]"
            at = _space(text, at + 1)
            if text[at : at + 1] != closer:
                closers.append(closer)
                at = _key(text, at) if closer == "}" else at
                continue
            at += 1
        else:
            at = _match(_SCALAR, text, at)
        while closers:
            at = _space(text, at)
            mark = text[at : at + 1]
            if mark == ",":
                at = _space(text, at + 1)
                at = _key(text, at) if closers[-1] == "}" else at
                break
            if mark != closers[-1]:
                raise NotJson
            closers.pop()
            at += 1
        else:
            return at


def document(text: str) -> str:
    """The one value that `text` is, without the white space around it. Raises NotJson."""
    begin = _space(text, 0)
    end = end_of_value(text, begin)
    if _space(text, end) != len(text):
        raise NotJson
    return text[begin:end]


def members(text: str) -> list[tuple[str, str]]:
    """The keys (still quoted) and values of an object's text, in input order, duplicates too."""
    pairs: list[tuple[str, str]] = []
    at = _space(text, 1)
    while text[at] != "}":
        begin = _key(text, at)
        end = end_of_value(text, begin)
        pairs.append((text[at : _match(_STRING, text, at)], text[begin:end]))
        at = _space(text, end)
        at = _space(text, at + 1) if text[at] == "," else at
    return pairs


def elements(text: str) -> list[str]:
    """The values of an array's text."""
    values: list[str] = []
    at = _space(text, 1)
    while text[at] != "]":
        end = end_of_value(text, at)
        values.append(text[at:end])
        at = _space(text, end)
        at = _space(text, at + 1) if text[at] == "," else at
    return values


def unquote(quoted: str) -> str:
    """A JSON string's content. An escaped lone surrogate stays one; such text has no UTF-8 encoding."""
    return str(json.loads(quoted)) if "\\" in quoted else quoted[1:-1]
