"""A strict JSON scanner (RFC 8259) that keeps each value's text as it stands in the input.

It decides what is JSON. It never recurses, so it scans values of any depth and length.
"""

from __future__ import annotations

import json
import re

from hivesink.decode.values import NUMBER

STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'

_WHITE = r"[ \t\n\r]*"
_SPACE = re.compile(_WHITE)
_SCALAR = rf"{STRING}|{NUMBER}|true|false|null"
_MEMBER = rf"({STRING}){_WHITE}:{_WHITE}"
_KEY = re.compile(_MEMBER)
_KEY_AND_SCALAR = re.compile(f"(?:{_MEMBER})?({_SCALAR})?")
_MARK = re.compile(rf"{_WHITE}([,\]}}]){_WHITE}")
_VALUE = re.compile(_SCALAR)
_FLAT_MEMBER = rf"{STRING}{_WHITE}:{_WHITE}(?:{_SCALAR}){_WHITE}"
_FLAT = re.compile(rf"\{{{_WHITE}(?:{_FLAT_MEMBER}(?:,{_WHITE}{_FLAT_MEMBER})*)?\}}")
"""An object of scalars alone."""


class NotJson(ValueError):
    """The text is not one JSON value."""


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise NotJson
    return match


def end_of_value(text: str, at: int) -> int:
    """Where the value that begins at `at` ends. Raises NotJson."""
    if flat := _FLAT.match(text, at):
        return flat.end()
    closers: list[str] = []
    while True:
        opener = text[at : at + 1]
        if opener in {"{", "["}:
            closer = "}" if opener == "{" else "]"
            at = _match(_SPACE, text, at + 1).end()
            if text[at : at + 1] != closer:
                closers.append(closer)
                at = _match(_KEY, text, at).end() if closer == "}" else at
                continue
            at += 1
        else:
            at = _match(_VALUE, text, at).end()
        while closers:
            mark = _match(_MARK, text, at)
            if mark[1] == ",":
                at = mark.end()
                at = _match(_KEY, text, at).end() if closers[-1] == "}" else at
                break
            if mark[1] != closers.pop():
                raise NotJson
            at = mark.end(1)
        else:
            return at


def document(text: str) -> str:
    """The one value that `text` is, without the white space around it. Raises NotJson."""
    begin = _match(_SPACE, text, 0).end()
    end = end_of_value(text, begin)
    if _match(_SPACE, text, end).end() != len(text):
        raise NotJson
    return text[begin:end]


def members(text: str) -> list[tuple[str, str, int]]:
    """The keys (still quoted) and values of an object's text, and where these begin, in input order, duplicates too.

    An array has no keys.
    """
    every: list[tuple[str, str, int]] = []
    at = _match(_SPACE, text, 1).end()
    while text[at] not in {"}", "]"}:
        match = _match(_KEY_AND_SCALAR, text, at)
        begin, end = match.span(2)
        if begin < 0:
            begin = match.end()
            end = end_of_value(text, begin)
        every.append((match[1], text[begin:end], begin))
        mark = _match(_MARK, text, end)
        at = mark.end() if mark[1] == "," else mark.start(1)
    return every


def unquote(quoted: str) -> str:
    """A JSON string's content. An escaped lone surrogate stays one; such text has no UTF-8 encoding."""
    return str(json.loads(quoted)) if "\\" in quoted else quoted[1:-1]
