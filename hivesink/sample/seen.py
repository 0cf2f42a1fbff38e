"""What a sample's JSON records hold at each place: kinds of values, fields, and how often. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hivesink.decode import values
from hivesink.decode.json.scan import elements, members, unquote

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 20
"""Levels of nested types; what is deeper is text."""
_EXACT_IN_DOUBLE = 1 << 53
_WHOLE = re.compile(r"-?[0-9]+")
_UTC = ZoneInfo("UTC")


class Kind(Enum):
    """What a JSON value can become; the value is its plural, for comments."""

    BOOLEAN = "booleans"
    WHOLE = "whole numbers"
    LARGE = "whole numbers beyond 2^53"
    FRACTION = "fractions"
    BEYOND = "numbers beyond BIGINT or DOUBLE"
    TEXT = "texts"
    TIMESTAMP = "timestamps"
    DATE = "dates"
    OBJECT = "objects"
    ARRAY = "arrays"


@dataclass(slots=True)
class Seen:
    """The values at one place of the records: how many of each kind, and what is in the objects and arrays."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    filled: int = 0
    """Objects that aren't empty."""
    fields: dict[str, Field] = field(default_factory=dict)
    """By name in lower case."""
    items: Seen | None = None

    def take(self, raw: str, depth: int = 0) -> None:
        """Count a JSON value, and what is in it."""
        kind = _kind(raw)
        if kind is None:
            return
        self.kinds[kind] += 1
        if depth > DEEPEST:
            return
        if kind is Kind.OBJECT:
            self._take_object(raw, depth)
        elif kind is Kind.ARRAY:
            self.items = self.items or Seen()
            for item in elements(raw):
                self.items.take(item, depth + 1)

    def _take_object(self, raw: str, depth: int) -> None:
        given: dict[str, list[tuple[str, str]]] = {}
        for quoted, value in members(raw):
            name = unquote(quoted)
            given.setdefault(name.lower(), []).append((name, value))
        self.filled += bool(given)
        for lower, pairs in given.items():
            self.fields.setdefault(lower, Field()).take(pairs, depth + 1)

    def merge(self, other: Seen) -> None:
        """Count what `other` has seen, too."""
        self.kinds.update(other.kinds)
        self.filled += other.filled
        for name, one in other.fields.items():
            self.fields.setdefault(name, Field()).merge(one)
        if other.items is not None:
            self.items = self.items or Seen()
            self.items.merge(other.items)

    def all_values(self) -> Seen:
        """The values of all fields of the objects here, as those of one place."""
        merged = Seen()
        for one in self.fields.values():
            merged.merge(one.values)
            merged.merge(one.repeated)
        return merged


@dataclass(slots=True)
class Field:
    """A field without regard to case: `values` of objects that have it once, `repeated` of the others.

    Objects that have it twice fit no column and no STRUCT, so these need no type that fits `repeated`.
    """

    values: Seen = field(default_factory=Seen)
    repeated: Seen = field(default_factory=Seen)
    objects: int = 0
    twice: int = 0
    """Objects that have it more than once."""
    spellings: tuple[str, ...] = ()
    """Different ones of a single object."""

    def take(self, given: list[tuple[str, str]], depth: int) -> None:
        """Count the names and JSON values that one object has of it."""
        different = tuple(dict.fromkeys(name for name, _ in given))
        self.objects += 1
        self.twice += len(given) > 1
        if len(different) > 1:
            self.spellings = self.spellings or different
        for _, value in given:
            (self.values if len(given) == 1 else self.repeated).take(value, depth)

    def merge(self, other: Field) -> None:
        """Count what `other` has seen, too."""
        self.values.merge(other.values)
        self.repeated.merge(other.repeated)
        self.objects += other.objects
        self.twice += other.twice
        self.spellings = self.spellings or other.spellings

    @property
    def is_mostly_twice(self) -> bool:
        """Whether a column would take hardly one of the records that have it. A few bad records are no reason."""
        return 2 * self.twice > self.objects

    @property
    def repetition(self) -> str:
        """How it comes twice."""
        if not self.spellings:
            return "have it twice"
        return f"have both {' and '.join(map(shown, self.spellings))}, and Hive ignores case"


def _kind(raw: str) -> Kind | None:
    """None for null."""
    match raw[0]:
        case "n":
            return None
        case "t" | "f":
            return Kind.BOOLEAN
        case "{":
            return Kind.OBJECT
        case "[":
            return Kind.ARRAY
        case '"':
            return kind_of_text(unquote(raw))
        case _:
            return _kind_of_number(raw)


def kind_of_text(text: str) -> Kind:
    """A timestamp, a date, or text."""
    if _fits(values.timestamp_of, text, values.TimeRules()):
        return Kind.TIMESTAMP
    return Kind.DATE if _fits(values.date_of, text) else Kind.TEXT


def _kind_of_number(raw: str) -> Kind:
    if not _WHOLE.fullmatch(raw):
        return Kind.FRACTION if _fits(values.double, raw) else Kind.BEYOND
    if not _fits(values.integer, raw, 64, "bigint"):
        return Kind.BEYOND
    return Kind.WHOLE if abs(int(raw)) <= _EXACT_IN_DOUBLE else Kind.LARGE


def _fits(decode: Callable[..., object], *arguments: object) -> bool:
    try:
        decode(*arguments)
    except values.InvalidValue:
        return False
    return True


def shown(name: str, most: int = 80) -> str:
    """A name of the data on one line of a comment: quoted where it isn't plain, cut where it is long."""
    text = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in name)
    text = text if len(text) <= most else f"{text[:most]}…"
    return text if re.fullmatch(r"[\w$.*@\[\]-]+…?", text) else f'"{text}"'
