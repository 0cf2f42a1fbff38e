"""Parsers of the settings' texts: each returns a value, or raises ValueError with what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hivesink.core.table import SortKey

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its default as text (None: no default), and the parser of its text, which raises ValueError."""

    default: str | None
    parse: Callable[[str], Any]


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_TIMES = {"ms": _SECOND / 1000, "s": _SECOND, "sec": _SECOND, "m": _MINUTE, "min": _MINUTE}
_TIMES |= {"h": timedelta(hours=1), "d": timedelta(days=1)}
_LONGEST = timedelta(days=36_500)
"""From any time now, a century is still within what Python and Spark can tell as a time."""
_QUANTITY = re.compile(r"(\d+)\s*([a-z]*)")


def size(text: str) -> int:
    """Bytes of `128MB`, `64 kb`, `1000`; ValueError otherwise."""
    quantity = _QUANTITY.fullmatch(text.strip().lower())
    if quantity is None or quantity[2] not in _UNITS or int(quantity[1]) == 0:
        message = "write a size such as 128MB"
        raise ValueError(message)
    return int(quantity[1]) * _UNITS[quantity[2]]


def duration(text: str) -> timedelta:
    """The duration of `30min`, `5 s`, `1h`; ValueError otherwise."""
    quantity = _QUANTITY.fullmatch(text.strip().lower())
    if quantity is None or quantity[2] not in _TIMES:
        message = "write a duration such as 30min, 10s or 1h"
        raise ValueError(message)
    # First, since a timedelta may overflow.
    if int(quantity[1]) > _LONGEST / _TIMES[quantity[2]]:
        message = f"write a shorter duration: {_LONGEST.days}d at most"
        raise ValueError(message)
    return int(quantity[1]) * _TIMES[quantity[2]]


def interval(text: str) -> timedelta:
    """A duration above 0; ValueError otherwise."""
    length = duration(text)
    if not length:
        message = "write a duration above 0, such as 30s"
        raise ValueError(message)
    return length


def zone(text: str) -> ZoneInfo:
    """A zone of the IANA database; ValueError otherwise."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = "write a zone of the IANA database such as Europe/Berlin or UTC"
        raise ValueError(message) from error


_E = TypeVar("_E", bound=Enum)


def one_of(kind: type[_E]) -> Callable[[str], _E]:
    """A parser of `kind`'s values."""

    def parse(text: str) -> _E:
        try:
            return kind(text.strip().lower())
        except ValueError:
            message = "write " + " or ".join(member.value for member in kind)
            raise ValueError(message) from None

    return parse


def matching(pattern: str | re.Pattern[str], problem: str, made: Callable[[str], Any] = str) -> Callable[[str], Any]:
    """A parser that returns what is `made` of a text that matches as a whole; `problem` says what to write instead."""

    def parse(text: str) -> Any:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(problem)
        return made(text)

    return parse


flag = matching(r"(?i)\s*(true|false)\s*", "write true or false", lambda text: text.strip().lower() == "true")


def sort_keys(text: str) -> tuple[SortKey, ...]:
    """`a, b desc`; ValueError otherwise."""
    items = [re.fullmatch(r"\s*(.*?)(?:\s+(asc|desc))?\s*", item.lower()) for item in text.split(",")]
    keys = tuple(SortKey(item[1], item[2] == "desc") for item in items if item and item[1])
    if len({key.column for key in keys}) < len(items):
        message = "write columns, separated by commas, each once: a, b desc"
        raise ValueError(message)
    return keys
