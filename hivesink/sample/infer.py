"""The columns that a sample of JSON records fits: the widest types, told from the values alone. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.decode import values
from hivesink.decode.scan import NotJson, document, elements, members, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_COLUMNS = 1000
MIXED = "mixed: "
"""How the comment of a column begins whose values are of several kinds."""
_DEEPEST = 20
"""Levels of nested types; what is deeper is text."""
_LONGEST_NAME = 767
"""Characters of a column's name that metastores keep."""
_LONGEST_TYPE = 32_672
_LONGEST_COMMENT = 255
"""Characters of a column's type and comment, the same."""
_HIVES_OWN = frozenset(
    {
        "block__offset__inside__file",
        "grouping__id",
        "input__file__name",
        "raw__data__size",
        "row__id",
        "row__is__deleted",
        "row__offset__inside__block",
    }
)
"""Hive's virtual columns, which every table has."""
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd"})
"""Unicode's categories of letters and digits, as Java knows them."""
_FIELD = re.compile(r"[a-z_][a-z0-9_]*")
"""Names of STRUCT fields: Spark reads no others in the type's text that the metastore keeps."""
_MANY_KEYS = 20
_SURELY_KEYS = 200
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


_TYPES = {
    frozenset({Kind.BOOLEAN}): Primitive.BOOLEAN,
    frozenset({Kind.WHOLE}): Primitive.BIGINT,
    frozenset({Kind.LARGE}): Primitive.BIGINT,
    frozenset({Kind.WHOLE, Kind.LARGE}): Primitive.BIGINT,
    frozenset({Kind.FRACTION}): Primitive.DOUBLE,
    # A DOUBLE would round whole numbers beyond 2^53.
    frozenset({Kind.WHOLE, Kind.FRACTION}): Primitive.DOUBLE,
    frozenset({Kind.TEXT}): Primitive.STRING,
    frozenset({Kind.TIMESTAMP}): Primitive.TIMESTAMP,
    frozenset({Kind.DATE}): Primitive.DATE,
}
"""The type of values without a mix; every other mix is STRING."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A field that can't be a column or a STRUCT's field: its path, and why. The decoder ignores it by default."""

    field: str
    why: str


@dataclass(frozen=True, slots=True)
class Inferred:
    """`columns` decode every JSON object of the sample, but for those that have a kept field twice.

    Text that has no UTF-8 (a lone surrogate) fits no column either. A column's comment says what isn't certain.
    """

    columns: tuple[Column, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(slots=True)
class _Seen:
    """The values at one place of the records: how many of each kind, and what is in the objects and arrays."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    fields: dict[str, _Field] = field(default_factory=dict)
    items: _Seen | None = None

    def take(self, raw: str, depth: int = 0) -> None:
        kind = _kind(raw)
        if kind is None:
            return
        self.kinds[kind] += 1
        if depth > _DEEPEST:
            return
        if kind is Kind.OBJECT:
            self._take_object(raw, depth)
        elif kind is Kind.ARRAY:
            self.items = self.items or _Seen()
            for item in elements(raw):
                self.items.take(item, depth + 1)

    def _take_object(self, raw: str, depth: int) -> None:
        spellings: dict[str, list[str]] = {}
        for quoted, value in members(raw):
            name = unquote(quoted)
            spellings.setdefault(name.lower(), []).append(name)
            self.fields.setdefault(name.lower(), _Field()).values.take(value, depth + 1)
        for lower, names in spellings.items():
            self.fields[lower].spelled(names)

    def merge(self, other: _Seen) -> None:
        self.kinds.update(other.kinds)
        for name, one in other.fields.items():
            self.fields.setdefault(name, _Field()).merge(one)
        if other.items is not None:
            self.items = self.items or _Seen()
            self.items.merge(other.items)


@dataclass(slots=True)
class _Field:
    """A field without regard to case: in how many objects it was, and in how many twice in one spelling."""

    values: _Seen = field(default_factory=_Seen)
    objects: int = 0
    twice: int = 0
    spellings: tuple[str, ...] = ()
    """Different ones of a single object."""

    def spelled(self, names: list[str]) -> None:
        different = tuple(dict.fromkeys(names))
        self.objects += 1
        self.twice += len(names) > len(different)
        if len(different) > 1:
            self.spellings = self.spellings or different

    def merge(self, other: _Field) -> None:
        self.values.merge(other.values)
        self.objects += other.objects
        self.twice += other.twice
        self.spellings = self.spellings or other.spellings

    def clash(self) -> str | None:
        """Why no column can take it, though each of its names could be one."""
        if self.spellings:
            return f"one record has {' and '.join(map(shown, self.spellings))}, and Hive ignores case"
        # A few such records are bad ones. If most are, the table would take none.
        return "most records have it twice" if 2 * self.twice > self.objects else None


def infer(records: Iterable[bytes | None]) -> Inferred:
    """The columns of raw records, in the order in which they first come. What is no JSON object doesn't count."""
    seen = _Seen()
    for record in records:
        with suppress(UnicodeDecodeError, NotJson):
            raw = document((record or b"").decode())
            if raw[0] == "{":
                seen.take(raw)
    columns: list[Column] = []
    left_out: list[LeftOut] = []
    for name, one in seen.fields.items():
        why = _no_column(name) or one.clash()
        if why is None and len(columns) == MOST_COLUMNS:
            why = f"the table has {MOST_COLUMNS:,} columns already"
        if why is not None:
            left_out.append(LeftOut(name, why))
            continue
        types = _Types(shown(name), left_out)
        columns.append(Column(name, types.of_column(one.values), types.comment()))
    return Inferred(tuple(columns), tuple(left_out))


@dataclass(slots=True)
class _Types:
    """The type of one column; collects what is to be said about it."""

    column: str
    left_out: list[LeftOut]
    notes: list[str] = field(default_factory=list)

    def of_column(self, seen: _Seen) -> HiveType:
        kind = self.of(seen, self.column, 0)
        if len(str(kind)) > _LONGEST_TYPE:
            self.notes = ["as JSON text: its type would be longer than a metastore keeps"]
            return Primitive.STRING
        return kind

    def comment(self) -> str | None:
        """What isn't certain, as short as a metastore needs it."""
        text = "; ".join(self.notes)
        return (text if len(text) <= _LONGEST_COMMENT else f"{text[: _LONGEST_COMMENT - 1]}…") or None

    def of(self, seen: _Seen, path: str, depth: int) -> HiveType:
        kinds = frozenset(seen.kinds)
        if not kinds:
            return self._text(path, "only null in the sample")
        if kinds in _TYPES:
            return _TYPES[kinds]
        if kinds <= {Kind.OBJECT, Kind.ARRAY} and len(kinds) == 1:
            if depth == _DEEPEST:
                return self._text(path, f"JSON text: nested deeper than {_DEEPEST} levels")
            return self._object(seen, path, depth) if Kind.OBJECT in kinds else self._array(seen, path, depth)
        if len(kinds) == 1:
            return self._text(path, next(iter(kinds)).value)
        counts = ", ".join(f"{kind.value} ({count:,})" for kind, count in seen.kinds.most_common())
        return self._text(path, f"{MIXED}{counts}")

    def _array(self, seen: _Seen, path: str, depth: int) -> HiveType:
        if seen.items is None or not seen.items.kinds:
            self._note(path, "no value in any array of the sample")
            return Array(Primitive.STRING)
        return Array(self.of(seen.items, f"{path}[]", depth + 1))

    def _object(self, seen: _Seen, path: str, depth: int) -> HiveType:
        if not seen.fields:
            self._note(path, "only empty objects in the sample")
            return Map(Primitive.STRING, Primitive.STRING)
        fields = {name: one for name, one in seen.fields.items() if _FIELD.fullmatch(name) and one.clash() is None}
        if not fields or _is_map(seen):
            return self._map(seen, path, depth)
        for name, one in seen.fields.items():
            if name not in fields:
                why = one.clash() or "Spark reads only letters, digits and _ in the name of a STRUCT's field"
                self.left_out.append(LeftOut(f"{path}.{name}", why))
        return Struct(tuple((name, self.of(one.values, f"{path}.{name}", depth + 1)) for name, one in fields.items()))

    def _map(self, seen: _Seen, path: str, depth: int) -> HiveType:
        return Map(Primitive.STRING, self.of(_all_values(seen), f"{path}.*", depth + 1))

    def _text(self, path: str, note: str) -> Primitive:
        self._note(path, note)
        return Primitive.STRING

    def _note(self, path: str, note: str) -> None:
        below = path.removeprefix(self.column).removeprefix(".")
        self.notes.append(f"{below}: {note}" if below else note)


def _is_map(seen: _Seen) -> bool:
    """Whether the keys look like data: most are no names, or they are many, each in few objects."""
    keys, objects = len(seen.fields), seen.kinds[Kind.OBJECT]
    if 2 * sum(not _FIELD.fullmatch(name) for name in seen.fields) > keys:
        return True
    if keys <= _MANY_KEYS or 4 * sum(one.objects for one in seen.fields.values()) > keys * objects:
        return False
    # Seldom fields of many types are rather a STRUCT's.
    kinds = frozenset(_all_values(seen).kinds)
    return keys > _SURELY_KEYS or kinds in _TYPES or len(kinds) == 1


def _all_values(seen: _Seen) -> _Seen:
    merged = _Seen()
    for one in seen.fields.values():
        merged.merge(one.values)
    return merged


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
    if _fits(values.timestamp_of, text, _UTC):
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


def _no_column(name: str) -> str | None:
    """Why Hive, or one of its readers, can't have a column of that name; None if they can."""
    if not name or not all(one in "_$-" or unicodedata.category(one) in _LETTERS for one in name):
        return "a column's name has letters, digits, _, $ and - only"
    if len(name.encode("utf-16-le")) // 2 > _LONGEST_NAME:
        return f"metastores keep {_LONGEST_NAME} characters of a column's name"
    return "every Hive table has a column of that name" if name in _HIVES_OWN else None


def shown(name: str, most: int = 80) -> str:
    """A name of the data on one line of a comment: quoted where it isn't plain, cut where it is long."""
    text = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in name)
    text = text if len(text) <= most else f"{text[:most]}…"
    return text if re.fullmatch(r"[\w$.*@\[\]-]+…?", text) else f'"{text}"'
