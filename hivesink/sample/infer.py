"""The columns that a sample of JSON records fits: the widest types, told from the values alone. No I/O."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING

from hivesink.core.column_source import json_path
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.decode.json.scan import NotJson, document
from hivesink.sample.seen import DEEPEST, Kind, Seen, shown

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from hivesink.sample.seen import Field

MOST_COLUMNS = 1000
MIXED = "mixed: "
"""How the comment of a column begins whose values are of several kinds."""
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
_FEW_FRACTIONS = 10
"""Whole numbers for each fraction from which fractions may be a mistake."""
_FEW_OBJECTS = 3
_MANY_KEYS = 20
_SURELY_KEYS = 200


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
_TWO_TIMES = frozenset({Kind.TIMESTAMP, Kind.WHOLE})
_BOTH = "; a TIMESTAMP holds both if the numbers are milliseconds, not seconds: sink.timestamp-format = epoch-millis"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A field that can't be a column, and why. The decoder ignores it by default."""

    field: str
    why: str

    def __str__(self) -> str:
        return f"{shown(self.field)} is left out: {self.why}"


@dataclass(frozen=True, slots=True)
class Inferred:
    """`columns` decode every JSON object of the sample, but for those that have a kept field twice, in any case.

    Text that has no UTF-8 (a lone surrogate) fits no column either. A column's comment says what isn't certain.
    `sources` are the settings of those that can't be called as their fields.
    """

    columns: tuple[Column, ...]
    sources: Mapping[str, str]
    left_out: tuple[LeftOut, ...]


def infer(records: Iterable[bytes | None]) -> Inferred:
    """The columns of raw records, in the order in which they first come. What is no JSON object doesn't count."""
    seen = Seen()
    for record in records:
        with suppress(UnicodeDecodeError, NotJson):
            raw = document((record or b"").decode())
            if raw[0] == "{":
                seen.take(raw)
    columns: list[Column] = []
    sources: dict[str, str] = {}
    left_out: list[LeftOut] = []
    taken = {name for name in seen.fields if _can_be_column(name)}
    for name, one in seen.fields.items():
        why = _no_path(name) or (f"most records {one.repetition}" if one.is_mostly_twice else None)
        if why is None and len(columns) == MOST_COLUMNS:
            why = f"the table has {MOST_COLUMNS:,} columns already"
        if why is not None:
            left_out.append(LeftOut(name, why))
            continue
        types = _Types(shown(name))
        kind, column = types.of_column(one), name
        if name not in taken:
            column = _name_like(name, taken)
            taken.add(column)
            sources[f"sink.column.{column}.from"] = json_path(name)
            types.notes.append(f"of the field {shown(name)}")
        columns.append(Column(column, kind, types.comment()))
    return Inferred(tuple(columns), sources, tuple(left_out))


@dataclass(slots=True)
class _Types:
    """The type of one column; collects what is to be said about it."""

    column: str
    notes: list[str] = field(default_factory=list)

    def of_column(self, one: Field) -> HiveType:
        kind = self._field(one, self.column, 0)
        if len(str(kind)) > _LONGEST_TYPE:
            self.notes = ["as JSON text: its type would be longer than a metastore keeps"]
            return Primitive.STRING
        return kind

    def comment(self) -> str | None:
        """What isn't certain, as short as a metastore needs it."""
        text = "; ".join(self.notes)
        return (text if len(text) <= _LONGEST_COMMENT else f"{text[: _LONGEST_COMMENT - 1]}…") or None

    def of(self, seen: Seen, path: str, depth: int) -> HiveType:
        kinds = frozenset(seen.kinds)
        if not kinds:
            return self._text(path, "only null in the sample")
        if kinds in _TYPES:
            fractions, whole = seen.kinds[Kind.FRACTION], seen.kinds[Kind.WHOLE]
            if 0 < fractions <= whole / _FEW_FRACTIONS:
                self._note(path, f"fractions ({fractions:,}) among whole numbers ({whole:,})")
            return _TYPES[kinds]
        if kinds <= {Kind.OBJECT, Kind.ARRAY} and len(kinds) == 1:
            if depth == DEEPEST:
                return self._text(path, f"JSON text: nested deeper than {DEEPEST} levels")
            return self._object(seen, path, depth) if Kind.OBJECT in kinds else self._array(seen, path, depth)
        if len(kinds) == 1:
            return self._text(path, next(iter(kinds)).value)
        counts = ", ".join(f"{kind.value} ({count:,})" for kind, count in seen.kinds.most_common())
        return self._text(path, f"{MIXED}{counts}{_BOTH if kinds == _TWO_TIMES else ''}")

    def _array(self, seen: Seen, path: str, depth: int) -> HiveType:
        if seen.items is None or not seen.items.kinds:
            self._note(path, "no value in any array of the sample")
            return Array(Primitive.STRING)
        return Array(self.of(seen.items, f"{path}[]", depth + 1))

    def _object(self, seen: Seen, path: str, depth: int) -> HiveType:
        if not seen.fields:
            self._note(path, "only empty objects in the sample")
            return Map(Primitive.STRING, Primitive.STRING)
        if twice := [one for one in seen.fields.values() if one.is_mostly_twice and not one.spellings]:
            return self._text(path, f"JSON text: a key comes twice in {twice[0].twice:,} of {seen.filled:,} objects")
        if why := _why_map(seen):
            self._note(path, f"a map: {why}")
            return Map(Primitive.STRING, self.of(seen.all_values(), f"{path}.*", depth + 1))
        return Struct(tuple((name, self._field(one, f"{path}.{name}", depth + 1)) for name, one in seen.fields.items()))

    def _field(self, one: Field, path: str, depth: int) -> HiveType:
        kind = self.of(one.values, path, depth)
        if one.twice:
            self._note(path, f"{one.twice:,} of {one.objects:,} records {one.repetition}: bad records")
        return kind

    def _text(self, path: str, note: str) -> Primitive:
        self._note(path, note)
        return Primitive.STRING

    def _note(self, path: str, note: str) -> None:
        below = path.removeprefix(self.column).removeprefix(".")
        self.notes.append(f"{below}: {note}" if below else note)


def _why_map(seen: Seen) -> str | None:
    """Why a STRUCT would lose values, of these objects or of later ones; None if it loses none."""
    keys, given = len(seen.fields), sum(one.objects for one in seen.fields.values())
    if odd := sum(not _FIELD.fullmatch(name) for name in seen.fields):
        lost = f"{odd:,} of {keys:,} keys can't be names of a STRUCT's fields"
        return f"{lost}; for types of their own: a STRUCT of the others, and sink.column.<name>.from for each of these"
    if any(one.spellings for one in seen.fields.values()):
        return "keys of one object differ only in case"
    if seen.filled >= _FEW_OBJECTS and given == keys:
        return f"no key comes twice in {seen.filled:,} objects"
    if keys > _MANY_KEYS and 4 * given <= keys * seen.kinds[Kind.OBJECT]:
        # Seldom fields of many types are rather a STRUCT's.
        kinds = frozenset(seen.all_values().kinds)
        if keys > _SURELY_KEYS or kinds in _TYPES or len(kinds) == 1:
            return f"{keys:,} keys, each in few objects"
    return None


def _can_be_column(name: str) -> bool:
    """Whether Hive and all its readers can have a column of that name."""
    return bool(name) and all(map(_is_plain, name)) and name not in _HIVES_OWN


def _is_plain(letter: str) -> bool:
    return letter in "_$-" or unicodedata.category(letter) in _LETTERS


def _name_like(field: str, taken: Container[str]) -> str:
    """A column's name for a field that can't give it its own: `host_name` for `host.name`."""
    plain = "".join(letter if _is_plain(letter) else " " for letter in field)
    name = "_".join(plain.split()) or "field"
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(one for one in names if one not in taken and _can_be_column(one))


def _no_path(name: str) -> str | None:
    """Why no column can have that field; None if one can."""
    if not name.isprintable():
        return "its name has characters that don't print"
    if len(name.encode("utf-16-le")) // 2 > _LONGEST_NAME:
        return f"metastores keep {_LONGEST_NAME} characters of a column's name"
    return None
