"""The columns that a sample's JSON objects fit: of each field the widest type of its values. No I/O.

A guess from what the sample shows; decoding finds what doesn't fit it after all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import chain, product
from math import isfinite
from typing import Any

from hivesink.core.column_source import json_path
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.core.time_format import EpochUnit, TextPattern
from hivesink.decode.values import InvalidValue, TimeRules, date_of, timestamp_of

_DEEPEST = 20
"""Levels of nested types; what is deeper is text."""
_LONGEST_COMMENT = 255
"""Characters that a metastore keeps."""
_MANY_KEYS = 20
_NOT_IN_NAMES = re.compile(r"[^\w$-]+")
"""Hive and all its readers can have a column of any other name."""
_FIELD = re.compile(r"[a-z_][a-z0-9_]*")
"""Names of STRUCT fields: Spark reads no others in the type's text that the metastore keeps."""
_LARGE = 1 << 53
"""A DOUBLE holds all whole numbers up to here."""
_YEARS = (946_684_800, 4_102_444_800)
"""Seconds of the years 2000 to 2099."""
_TIMELY = re.compile(
    r"time|date|stamp|epoch|millis|micros|nanos|created|modified|(?:^|_)(?:ts|at|ms|us|ns|when)(?:_|$)|[a-z]{3}at$"
)
_DAILY = re.compile(r"date|created|modified|(?:^|_)(?:at|days?)(?:_|$)")
"""Not `time`, which may be a duration of as many milliseconds."""
_DATES = (
    *("yyyy/MM/dd", "yyyy-MM-dd", "dd/MM/yyyy", "MM/dd/yyyy", "dd.MM.yyyy"),
    *("dd/MMM/yyyy", "dd MMM yyyy", "dd-MMM-yyyy"),
)
_CLOCKS = ("", " HH:mm", *("".join(form) for form in product((" ", ":", "'T'"), ["HH:mm:ss"], ("", ".SSS", "','SSS"))))
_OFFSETS = ("", " Z", "Z")


def infer(records: Iterable[dict[str, Any]]) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns of JSON objects, in the order in which their fields first come, and the properties that they need.

    A column's comment says what isn't certain. The properties are `sink.timestamp-format`, and
    `sink.column.<name>.from` of columns that can't be called as their fields. Fields whose names don't print get none.
    """
    fields = {name: values for name, values in _fields(records).items() if name.isprintable()}
    # If a table has nothing but `value`, a job takes each line for the column's text, not for JSON.
    taken = {name for name in fields if name and not _NOT_IN_NAMES.search(name) and list(fields) != ["value"]}
    columns, properties, formats = list[Column](), dict[str, str](), list[str]()
    for field, values in fields.items():
        name, notes = field, list[str]()
        if field not in taken:
            # `host_name` for `host.name`.
            name = _NOT_IN_NAMES.sub("_", field).strip("_") or "field"
            while name == field or name in taken:
                name += "_2"
            taken.add(name)
            properties[f"sink.column.{name}.from"] = json_path(field)
        form = _time_form(field, [value for value in values if value is not None])
        if form is None:
            kind = _type(values, "", 1, notes)
        else:
            is_day = form is EpochUnit.DAYS or (isinstance(form, TextPattern) and "hour" not in form.fields)
            kind = Primitive.DATE if is_day else Primitive.TIMESTAMP
            notes.append(form.value if isinstance(form, EpochUnit) else form.pattern)
            formats.append(f"{name}={notes[0]}")
        if name != field:
            notes.append(f"of the field {field}")
        columns.append(Column(name, kind, "; ".join(notes)[:_LONGEST_COMMENT] or None))
    if formats:
        properties["sink.timestamp-format"] = ",".join(formats)
    return tuple(columns), properties


def _fields(objects: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of each field, by its name in lower case, in the order in which they first come."""
    fields: dict[str, list[Any]] = {}
    for item in objects:
        for name, value in item.items():
            fields.setdefault(name.lower(), []).append(value)
    return fields


def _time_form(name: str, values: list[Any]) -> EpochUnit | TextPattern | None:
    """How times are written that aren't ISO 8601; None for other values.

    Numbers are times if all lie in the years 2000 to 2099 by one unit, and the field's name is that of a time. Of
    texts one form must fit all; if several do, as for 03/04/2024, none is sure.
    """
    kinds = set(map(_kind, values))
    if Primitive.STRING in kinds and all(isinstance(value, str) for value in values):
        time = Primitive.TIMESTAMP
        fit = [form for form in _patterns() if all(_kind(form.iso(text) or "") is time for text in values)]
        return fit[0] if len(fit) == 1 else None
    if not kinds or not kinds <= {Primitive.BIGINT, Primitive.DOUBLE}:
        return None
    for unit in EpochUnit:
        is_days = unit is EpochUnit.DAYS
        least, end = (year // 86_400 if is_days else year * 10**unit.digits for year in _YEARS)
        is_named_so = (_DAILY if is_days else _TIMELY).search(name) and not (is_days and Primitive.DOUBLE in kinds)
        if is_named_so and all(least <= value < end for value in values):
            return unit
    return None


@cache
def _patterns() -> tuple[TextPattern, ...]:
    forms = product(_DATES, _CLOCKS, _OFFSETS)
    return tuple(TextPattern.parse("".join(form)) for form in forms if form[1] or not form[2])


def _type(values: list[Any], path: str, depth: int, notes: list[str]) -> HiveType:
    """The type of the values at `path` from the column; adds to `notes` what isn't certain."""
    values = [value for value in values if value is not None]
    kinds = Counter(map(_kind, values))
    match [*kinds]:
        case [Primitive() as kind]:
            return kind
        case ["array"] if depth <= _DEEPEST:
            return Array(_type([*chain.from_iterable(values)], f"{path}[]", depth + 1, notes))
        case ["object"] if depth <= _DEEPEST:
            fields = _fields(values)
            if why := _why_map(values, fields):
                notes.append(f"{path}: a map, since {why}".lstrip(".: "))
                items = [item for value in values for item in value.values()]
                return Map(Primitive.STRING, _type(items, f"{path}.*", depth + 1, notes))
            return Struct(tuple((name, _type(fields[name], f"{path}.{name}", depth + 1, notes)) for name in fields))
    exact = (isinstance(value, float) or abs(value) <= _LARGE for value in values)
    if kinds.keys() == {Primitive.BIGINT, Primitive.DOUBLE} and all(exact):
        return Primitive.DOUBLE
    mixed = ", ".join(f"{kind} ({number:,})" for kind, number in kinds.most_common())
    why = f"mixed: {mixed}" if len(kinds) > 1 else mixed or "only null in the sample"
    notes.append(f"{path}: {why}".lstrip(".: "))
    return Primitive.STRING


def _why_map(objects: list[dict[str, Any]], fields: dict[str, list[Any]]) -> str | None:
    """Why a STRUCT of `fields` would lose values, of these objects or of later ones; None if it loses none."""
    if not fields:
        return "the sample's objects are empty"
    if any(len(set(map(str.lower, item))) < len(item) for item in objects):
        return "keys of an object differ only in case"
    if odd := [name for name in fields if not _FIELD.fullmatch(name)]:
        return f"{odd[0]} can't be a STRUCT's field"
    values = [value for field in fields.values() for value in field if value is not None]
    is_seldom = len(fields) > _MANY_KEYS and 4 * len(values) <= len(fields) * len(objects)
    return f"{len(fields):,} keys come seldom" if is_seldom and len(set(map(_kind, values))) == 1 else None


def _kind(value: Any) -> Primitive | str:  # noqa: PLR0911  one for each kind
    """A value's type, or a word for what has parts or no type."""
    match value:
        case bool():
            return Primitive.BOOLEAN
        case int() if -(1 << 63) <= value < 1 << 63:
            return Primitive.BIGINT
        case float() if isfinite(value):
            return Primitive.DOUBLE
        case int() | float():
            return "numbers beyond BIGINT or DOUBLE"
        case dict():
            return "object"
        case list():
            return "array"
    # ISO 8601 or SQL, which needs no format.
    with suppress(InvalidValue):
        timestamp_of(value, TimeRules())
        return Primitive.TIMESTAMP
    with suppress(InvalidValue):
        date_of(value)
        return Primitive.DATE
    return Primitive.STRING
