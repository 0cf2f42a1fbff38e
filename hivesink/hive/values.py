"""Values as HiveServer2 sends them, to Python's own.

Array, map and struct come as one text. Hive's (`SerDeUtils.getJSONString`) is nearly JSON: keys of maps are as bare as
numbers, decimals lose their last zeros, NaN and Infinity are words, and binary is bare text without any quoting.
Spark's (`HiveResult.toHiveString`) quotes strings without escaping what is in them, and no dates.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context
from decimal import Decimal as Number
from itertools import islice
from typing import TYPE_CHECKING, Any

from hivesink.core.table import Array, Char, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Part = Callable[[int, int], Iterator[tuple[Any, int]]]

_EXACT = Context(prec=76)
_BARE = re.compile(r"[^,:\]}]+")
_DATE = re.compile(r"[+-]?\d+-\d\d-\d\d")
_TIMESTAMP = re.compile(r"[+-]?\d+-\d\d-\d\d \d\d:\d\d:[\d.]+")
"""Hive writes the seconds twice where the year has more than four digits: 23:59:5959."""
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ENDS = re.compile(r"(?=[,:\]}])")
_QUOTE_ENDS = re.compile(r'"(?=[,:\]}])')
_MICROSECONDS = 6


def day(text: str) -> date | str:
    """Text where Python has no such day: its years are 1 to 9999."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def moment(text: str) -> datetime | str:
    """Without zone, as Hive's TIMESTAMP is; cut to microseconds. Text where Python has no such year."""
    seconds, _, fraction = text.partition(".")
    try:
        return datetime.fromisoformat(f"{seconds}.{fraction[:_MICROSECONDS].ljust(_MICROSECONDS, '0')}")
    except ValueError:
        return text


def nested(text: str, kind: HiveType, *, spark: bool) -> Any:
    """The list, dict (of a map or a struct) that `text` shows.

    A nested string of Spark's that holds `","` reads as two: its server doesn't escape. Raises Unsupported where
    nested binary can't be told from what is around it, and for a text that isn't of type `kind`.
    """
    found = (value for value, end in _Reader(text, spark).values(kind, 0) if end == len(text))
    first = list(islice(found, 2 if _has_binary(kind) else 1))
    if len(first) != 1 or (_has_binary(kind) and "\ufffd" in text):
        msg = f"the value {text[:60]!r} of type {kind}"
        raise Unsupported(msg, "HiveServer2 doesn't send it unambiguously", "select its parts, binary by base64(…)")
    return first[0]


def _has_binary(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _has_binary(element)
        case Map(key, value):
            return _has_binary(key) or _has_binary(value)
        case Struct(fields):
            return any(_has_binary(part) for _, part in fields)
    return kind is Primitive.BINARY


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads every value that may begin at a position, with where it ends: the likeliest first."""

    text: str
    spark: bool

    def values(self, kind: HiveType, at: int) -> Iterator[tuple[Any, int]]:
        if self.text.startswith("null", at) and self.text[at + 4 : at + 5] in {"", *",:]}"}:
            yield None, at + 4
            return
        match kind:
            case Array(element):
                yield from self._sequence(at, "[]", lambda _, start: self.values(element, start))
            case Map(key, value):
                for pairs, end in self._sequence(at, "{}", lambda _, start: self._pair(key, value, start)):
                    yield dict(pairs), end
            case Struct(fields):
                names = [name for name, _ in fields]
                part: Part = lambda index, start: self._field(*fields[index], start)  # noqa: E731
                for values, end in self._sequence(at, "{}", part, len(fields)):
                    yield dict(zip(names, values, strict=True)), end
            case _:
                yield from self._leaf(kind, at)

    def _sequence(self, at: int, brackets: str, part: Part, exactly: int | None = None) -> Iterator[tuple[Any, int]]:
        text, found = self.text, list[Any]()
        if not text.startswith(brackets[0], at):
            return
        if text.startswith(brackets[1], at + 1) and exactly is None:
            yield [], at + 2
            return
        tries = [part(0, at + 1)]
        while tries:
            del found[len(tries) - 1 :]
            step = next(tries[-1], None)
            if step is None:
                tries.pop()
                continue
            found.append(step[0])
            follows = text[step[1] : step[1] + 1]
            if follows == "," and len(found) != exactly:
                tries.append(part(len(found), step[1] + 1))
            elif follows == brackets[1] and exactly in {None, len(found)}:
                yield list(found), step[1] + 1

    def _pair(self, key: HiveType, value: HiveType, at: int) -> Iterator[tuple[Any, int]]:
        for name, middle in self.values(key, at):
            if self.text.startswith(":", middle):
                for found, end in self.values(value, middle + 1):
                    yield (name, found), end

    def _field(self, name: str, kind: HiveType, at: int) -> Iterator[tuple[Any, int]]:
        label = f'"{name}":'
        if self.text[at : at + len(label)].lower() == label.lower():
            yield from self.values(kind, at + len(label))

    def _leaf(self, kind: HiveType, at: int) -> Iterator[tuple[Any, int]]:
        match kind:
            case Primitive.BINARY:
                # An empty one may stand before the very delimiter.
                for end in _ENDS.finditer(self.text, at):
                    yield self.text[at : end.start()].encode(), end.start()
            case Primitive.STRING | Varchar() | Char():
                yield from self._string(at)
            case Primitive.DATE:
                yield from self._timely(_DATE, day, at)
            case Primitive.TIMESTAMP:
                yield from self._timely(_TIMESTAMP, moment, at)
            case _:
                found = _BARE.match(self.text, at)
                if found is not None:
                    yield _plain(found[0], kind), found.end()

    def _string(self, at: int) -> Iterator[tuple[str, int]]:
        if self.spark:
            if self.text.startswith('"', at):
                for end in _QUOTE_ENDS.finditer(self.text, at + 1):
                    yield self.text[at + 1 : end.start()], end.end()
        elif (found := _JSON_STRING.match(self.text, at)) is not None:
            yield json.loads(found[0], strict=False), found.end()

    def _timely(self, shape: re.Pattern[str], read: Callable[[str], Any], at: int) -> Iterator[tuple[Any, int]]:
        quote = 0 if self.spark else 1
        found = shape.match(self.text, at + quote)
        if found is not None:
            yield read(found[0]), found.end() + quote


def _plain(text: str, kind: HiveType) -> Any:
    match kind:
        case Primitive.BOOLEAN:
            return text == "true"
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float(text)
        case Decimal(_, scale):
            return Number(text).quantize(Number(1).scaleb(-scale), context=_EXACT)
    return int(text)
