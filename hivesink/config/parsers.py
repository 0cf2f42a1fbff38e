"""What the texts of settings mean: each parser raises ValueError that says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hivesink.core.partition_commit import PolicyKind
from hivesink.core.table import SortKey


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


def zone(text: str) -> ZoneInfo:
    """A zone of the IANA database; ValueError otherwise."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = "write a zone of the IANA database such as Europe/Berlin or UTC"
        raise ValueError(message) from error


def matching(pattern: str | re.Pattern[str], problem: str, made: Callable[[str], Any] = str) -> Callable[[str], Any]:
    """A parser that returns what is `made` of a text that matches as a whole; `problem` says what to write instead."""

    def parse(text: str) -> Any:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(problem)
        return made(text)

    return parse


def one_of(kind: type[Enum]) -> Callable[[str], Any]:
    """A parser of `kind`'s values."""
    values = [str(member.value) for member in kind]
    pattern = rf"(?i)\s*({'|'.join(values)})\s*"
    return matching(pattern, f"write {' or '.join(values)}", lambda text: kind(text.strip().lower()))


interval = matching(r".*[1-9].*", "write a duration above 0, such as 30s", duration)
flag = matching(r"(?i)\s*(true|false)\s*", "write true or false", lambda text: text.strip().lower() == "true")


def sort_keys(text: str) -> tuple[SortKey, ...]:
    """`a, b desc`; ValueError otherwise."""
    items = [re.fullmatch(r"\s*(.*?)(?:\s+(asc|desc))?\s*", item.lower()) for item in text.split(",")]
    keys = tuple(SortKey(item[1], item[2] == "desc") for item in items if item and item[1])
    if len({key.column for key in keys}) < len(items):
        message = "write columns, separated by commas, each once: a, b desc"
        raise ValueError(message)
    return keys


NullText = Enum("NullText", {"EMPTY": "empty", "ZERO_DATE": "zero-date"})


def null_texts(text: str) -> dict[str, frozenset[NullText]]:
    """Which texts are null, in every column (key `""`) or in some: `empty, born=zero-date`; ValueError otherwise."""
    kinds, named = {kind.value: kind for kind in NullText}, dict[str, frozenset[NullText]]()
    for item in text.lower().split(",") if text.strip() != "none" else ():
        name, _, kind = item.strip().rpartition("=")
        if kind.strip() not in kinds:
            message = f"write none, {', '.join(kinds)}, or column={next(iter(kinds))},…"
            raise ValueError(message)
        named[name.strip()] = named.get(name.strip(), frozenset()) | {kinds[kind.strip()]}
    return named


def policies(text: str) -> dict[PolicyKind, str]:
    """How a commit is made known, in this order: `metastore, success-file, own:Class`; ValueError otherwise."""
    parts = dict.fromkeys(part.strip() for part in text.split(","))
    named = {kind.value: kind for kind in PolicyKind if kind is not PolicyKind.CUSTOM}
    kinds = [PolicyKind.CUSTOM if re.fullmatch(r"[\w.]+:\w+", part) else named.get(part.lower()) for part in parts]
    if None in kinds or kinds.count(PolicyKind.CUSTOM) > 1 or PolicyKind.METASTORE not in kinds:
        message = f"write metastore, and what else of {', '.join(named)}, and a single module:Class"
        raise ValueError(message)
    return {kind: part for kind, part in zip(kinds, parts, strict=True) if kind}


assigner = matching(r"partition-columns|date-time|[\w.]+:\w+", "write partition-columns, date-time, or module:Class")
plugin = matching(r"none|[\w.]+:\w+", "write module:Class, or none", lambda text: None if text == "none" else text)
# Readers pass over it.
file_name = matching(r"(?!\.\.?$)[._][\w.-]*", "write a file name that begins with _ or ., but not . or ..")
positive = matching(r"\s*\d*[1-9]\d*\s*", "write a whole number above 0", int)
stride = matching(r"\s*[1-9]\d{0,8}\s*", "write a whole number from 1 to 999999999", int)
stripe = matching(r"(?i)\s*0*[1-9](\d{6,}|\d{3,} *k|\d* *[mg])b?\s*", "write a size of at least 1MB", size)
permission = matching(r"\s*0?[4-7][0-7]{2}\s*", "write an octal mode, such as 640", lambda text: int(text, 8))
columns = matching(
    r".*\w.*", "write columns, separated by commas", lambda text: tuple(map(str.strip, text.lower().split(",")))
)
location = matching(r"(?s)(?:/|file:/|[a-z0-9]+://).*", "write a path that isn't relative, hdfs://… or file:/…")
file = matching(r"/.+", "write an absolute path")
_SIGN = r"\\t|\\u00(?:0[1-9bcef]|1[0-9a-f])|[\x01-\t\x0b\x0c\x0e-/:-@\[-`{-~]"
_NO_SIGN = r"write a single ASCII character, no letter or digit, such as ; or \t or \u0001"


def _sign(text: str) -> str | None:
    return None if text == "none" else text.encode().decode("unicode_escape") if text[1:] else text


sign = matching(_SIGN, _NO_SIGN, _sign)
sign_or_none = matching(f"none|{_SIGN}", f"{_NO_SIGN}, or none", _sign)
registry = matching(
    r"https?://[^\s/@?#]+(/[^\s@?#]*)?",
    "write http://host:port or https://host, without a user",
    # Raises ValueError for a port or an address that can't be.
    lambda text: str(urlsplit(text).port) and text,
)
secret = matching(r"env:\w+|/.+", "write env:NAME, or the path of a file that has it: many can read a table's settings")
column = matching(r"\s*\S.*", "write the name of a column", lambda text: text.strip().lower())


_ADDRESS = re.compile(r"([\w.-]*|\[[0-9a-fA-F:]+\]):(\d{1,5})", re.ASCII)


def address(text: str) -> tuple[str, int] | None:
    """The host, by default the loopback, and the port of `[HOST]:PORT`; None for any other text."""
    match = _ADDRESS.fullmatch(text)
    return match and (match[1].strip("[]") or "127.0.0.1", int(match[2]))
