"""The columns that a sample's JSON objects fit: of each field the widest type of its values. No I/O.

A guess from what the sample shows; decoding finds what doesn't fit it after all.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from hivesink.core.column_source import json_path
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.core.time_format import EpochUnit
from hivesink.decode.values import InvalidValue, date_of
from hivesink.sample.times import is_timestamp, pattern_of_texts, type_of, unit_of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesink.core.time_format import TextPattern

_DEEPEST = 20
"""Levels of nested types; what is deeper is text."""
_LONGEST_COMMENT = 255
"""Characters that a metastore keeps."""
_MANY_KEYS = 20
_FIELD = re.compile(r"[a-z_][a-z0-9_]*")
"""Names of STRUCT fields: Spark reads no others in the type's text that the metastore keeps."""


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
    (Kind.BOOLEAN,): Primitive.BOOLEAN,
    (Kind.WHOLE,): Primitive.BIGINT,
    (Kind.LARGE,): Primitive.BIGINT,
    (Kind.LARGE, Kind.WHOLE): Primitive.BIGINT,
    (Kind.FRACTION,): Primitive.DOUBLE,
    (Kind.FRACTION, Kind.WHOLE): Primitive.DOUBLE,
    (Kind.TEXT,): Primitive.STRING,
    (Kind.TIMESTAMP,): Primitive.TIMESTAMP,
    (Kind.DATE,): Primitive.DATE,
}
"""The type of values of these kinds, by name; every other mix is STRING."""


@dataclass(slots=True)
class Values:
    """The values at one place of the records: how many of each kind, and what is in the objects and arrays."""

    counts: Counter[Kind] = field(default_factory=Counter)
    fields: dict[str, Values] = field(default_factory=dict)
    """By name in lower case."""
    clashes: set[str] = field(default_factory=set)
    """Names in lower case that an object has twice, in different case."""
    items: list[Values] = field(default_factory=list)
    """The values in arrays; none or one."""
    scalars: list[Any] = field(default_factory=list)

    def take(self, value: Any, depth: int = 0) -> None:
        """Count a value, and what is in it."""
        if value is None or depth > _DEEPEST:
            return
        self.counts[_kind(value)] += 1
        if isinstance(value, dict):
            names = Counter(map(str.lower, value))
            self.clashes |= {name for name, times in names.items() if times > 1}
            for name, item in value.items():
                self.fields.setdefault(name.lower(), Values()).take(item, depth + 1)
        elif isinstance(value, list):
            self.items = self.items or [Values()]
            for item in value:
                self.items[0].take(item, depth + 1)
        else:
            self.scalars.append(value)

    def merge(self, other: Values) -> None:
        """Count what `other` has counted, too."""
        self.counts.update(other.counts)
        self.clashes |= other.clashes
        for name, values in other.fields.items():
            self.fields.setdefault(name, Values()).merge(values)
        for values in other.items:
            self.items = self.items or [Values()]
            self.items[0].merge(values)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(sorted(self.counts, key=lambda kind: kind.name))

    def time_format(self, name: str) -> EpochUnit | TextPattern | None:
        """How times are written that aren't ISO 8601, of a field of that name in lower case."""
        if self.counts and set(self.counts) <= {Kind.WHOLE, Kind.LARGE, Kind.FRACTION}:
            return unit_of_numbers(name, self.scalars)
        return pattern_of_texts(self.scalars) if self.kinds == (Kind.TEXT,) else None


def infer(records: Iterable[dict[str, Any]]) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns of JSON objects, in the order in which their fields first come, and the properties that they need.

    A column's comment says what isn't certain. The properties are `sink.timestamp-format`, and
    `sink.column.<name>.from` of columns that can't be called as their fields. Fields whose names don't print get none.
    """
    seen = Values()
    for record in records:
        seen.take(record)
    fields = {name: values for name, values in seen.fields.items() if name.isprintable()}
    # If a table has nothing but `value`, a job takes each line for the column's text, not for JSON.
    taken = {name for name in fields if _can_be_column(name) and list(fields) != ["value"]}
    columns: list[Column] = []
    properties: dict[str, str] = {}
    formats: list[str] = []
    for name, values in fields.items():
        notes: list[str] = []
        column = name if name in taken else _name_like(name, taken)
        form = values.time_format(name)
        kind = type_of(form) if form else _type(values, "", 1, notes)
        if form:
            written = form.value if isinstance(form, EpochUnit) else form.pattern
            formats.append(f"{column}={written}")
            notes.append(written)
        if column != name:
            taken.add(column)
            properties[f"sink.column.{column}.from"] = json_path(name)
            notes.append(f"of the field {name}")
        columns.append(Column(column, kind, "; ".join(notes)[:_LONGEST_COMMENT] or None))
    if formats:
        properties["sink.timestamp-format"] = ",".join(formats)
    return tuple(columns), properties


def _type(values: Values, path: str, depth: int, notes: list[str]) -> HiveType:
    """The type of what is at `path` from the column; adds to `notes` what isn't certain."""

    def text(note: str) -> Primitive:
        notes.append(f"{path.removeprefix('.')}: {note}" if path else note)
        return Primitive.STRING

    if values.kinds in _TYPES:
        return _TYPES[values.kinds]
    if values.kinds == (Kind.ARRAY,) and depth <= _DEEPEST:
        return Array(_type(values.items[0], f"{path}[]", depth + 1, notes))
    if values.kinds == (Kind.OBJECT,) and depth <= _DEEPEST:
        merged = Values()
        for item in values.fields.values():
            merged.merge(item)
        if why := _why_map(values, merged):
            text(f"a map, since {why}")
            return Map(Primitive.STRING, _type(merged, f"{path}.*", depth + 1, notes))
        fields = values.fields.items()
        return Struct(tuple((name, _type(item, f"{path}.{name}", depth + 1, notes)) for name, item in fields))
    if not values.counts:
        return text("only null in the sample")
    counts = ", ".join(f"{kind.value} ({number:,})" for kind, number in values.counts.most_common())
    return text(f"mixed: {counts}" if len(values.counts) > 1 else counts)


def _why_map(values: Values, merged: Values) -> str | None:
    """Why a STRUCT would lose values, of these objects or of later ones; None if it loses none."""
    if not values.fields:
        return "the sample's objects are empty"
    if values.clashes:
        return "keys of an object differ only in case"
    if odd := [name for name in values.fields if not _FIELD.fullmatch(name)]:
        return f"{odd[0]} can't be a STRUCT's field"
    keys, comes = len(values.fields), sum(item.counts.total() for item in values.fields.values())
    if keys > _MANY_KEYS and len(merged.counts) == 1 and 4 * comes <= keys * values.counts[Kind.OBJECT]:
        return f"{keys:,} keys come seldom"
    return None


def _kind(value: Any) -> Kind:  # noqa: PLR0911  one for each kind
    match value:
        case bool():
            return Kind.BOOLEAN
        case int():
            is_bigint = -(1 << 63) <= value < 1 << 63
            return Kind.WHOLE if abs(value) <= 1 << 53 else Kind.LARGE if is_bigint else Kind.BEYOND
        case float():
            return Kind.FRACTION if abs(value) < float("inf") else Kind.BEYOND
        case dict():
            return Kind.OBJECT
        case list():
            return Kind.ARRAY
    if is_timestamp(value):
        return Kind.TIMESTAMP
    with suppress(InvalidValue):
        date_of(value)
        return Kind.DATE
    return Kind.TEXT


def _can_be_column(name: str) -> bool:
    """Whether Hive and all its readers can have a column of that name."""
    return bool(name) and all(letter in "_$-" or letter.isalpha() or letter.isdecimal() for letter in name)


def _name_like(name: str, taken: set[str]) -> str:
    """A column's name for a field that can't give it its own: `host_name` for `host.name`."""
    plain = "".join(letter if _can_be_column(letter) else " " for letter in name)
    plain = "_".join(plain.split()) or "field"
    names = chain([plain], (f"{plain}_{number}" for number in count(2)))
    return next(column for column in names if column not in taken and column != name)
