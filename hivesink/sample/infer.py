"""The columns that a sample's JSON objects fit: of each field the widest type of its values. No I/O.

A guess from what the sample shows; decoding finds what doesn't fit it after all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import chain, count, product
from typing import TYPE_CHECKING, Any

from hivesink.core.column_source import json_path
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct
from hivesink.core.time_format import EpochUnit, TextPattern
from hivesink.decode.values import InvalidValue, TimeRules, date_of, timestamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEEPEST = 20
"""Levels of nested types; what is deeper is text."""
_LONGEST_COMMENT = 255
"""Characters that a metastore keeps."""
_MANY_KEYS = 20
_FIELD = re.compile(r"[a-z_][a-z0-9_]*")
"""Names of STRUCT fields: Spark reads no others in the type's text that the metastore keeps."""
_LARGE = 1 << 53
"""A DOUBLE holds all whole numbers up to here."""
_TYPES = {
    "booleans": Primitive.BOOLEAN,
    "whole numbers": Primitive.BIGINT,
    "fractions": Primitive.DOUBLE,
    "texts": Primitive.STRING,
    "timestamps": Primitive.TIMESTAMP,
    "dates": Primitive.DATE,
}
"""By the kind of all values."""
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
_FEW = 20
"""Values by which patterns are looked for."""


def infer(records: Iterable[dict[str, Any]]) -> tuple[tuple[Column, ...], dict[str, str], list[str]]:
    """The columns of JSON objects, in the order in which their fields first come, the properties that they need, notes.

    A column's comment says what isn't certain. The properties are `sink.timestamp-format`, and
    `sink.column.<name>.from` of columns that can't be called as their fields. Fields whose names don't print get none.
    The notes name columns that would be times but for a few values.
    """
    fields = {name: values for name, values in _fields(records).items() if name.isprintable()}
    # If a table has nothing but `value`, a job takes each line for the column's text, not for JSON.
    taken = {name for name in fields if _can_be_column(name) and list(fields) != ["value"]}
    columns, properties, formats, notes = list[Column](), dict[str, str](), list[str](), list[str]()
    for field, values in fields.items():
        name, comments = field, list[str]()
        if field not in taken:
            # `host_name` for `host.name`.
            plain = "".join(letter if _can_be_column(letter) else " " for letter in field)
            plain = "_".join(plain.split()) or "field"
            likely = chain([plain], (f"{plain}_{number}" for number in count(2)))
            name = next(other for other in likely if other not in taken and other != field)
            taken.add(name)
            properties[f"sink.column.{name}.from"] = json_path(field)
        form, odd = _time_form(field, [value for value in values if value is not None])
        if odd:
            notes.append(f"{name} would be a time, but for {odd}")
        if form:
            comments.append(form.value if isinstance(form, EpochUnit) else form.pattern)
            formats.append(f"{name}={comments[0]}")
            is_day = form is EpochUnit.DAYS or (isinstance(form, TextPattern) and "hour" not in form.fields)
            kind: HiveType = Primitive.DATE if is_day else Primitive.TIMESTAMP
        else:
            kind = _type(values, "", 1, comments)
        if name != field:
            comments.append(f"of the field {field}")
        columns.append(Column(name, kind, "; ".join(comments)[:_LONGEST_COMMENT] or None))
    if formats:
        properties["sink.timestamp-format"] = ",".join(formats)
    return tuple(columns), properties, notes


def _fields(objects: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of each field, by its name in lower case, in the order in which they first come."""
    fields: dict[str, list[Any]] = {}
    for item in objects:
        for name, value in item.items():
            fields.setdefault(name.lower(), []).append(value)
    return fields


def _can_be_column(name: str) -> bool:
    """Whether Hive and all its readers can have a column of that name."""
    return bool(name) and all(letter in "_$-" or letter.isalpha() or letter.isdecimal() for letter in name)


def _time_form(name: str, values: list[Any]) -> tuple[EpochUnit | TextPattern | None, str]:
    """How times are written that aren't ISO 8601, and which few values are no times where all others are.

    Numbers are times if all lie in the years 2000 to 2099 by one unit, and the field's name is that of a time. Of
    texts one form must fit all; if several do, as for 03/04/2024, none is sure.
    """
    kinds = [_kind(value) for value in values]
    fits: dict[EpochUnit | TextPattern | str, list[bool]] = {
        kind: [each == kind for each in kinds] for kind in ("timestamps", "dates")
    }
    for unit in EpochUnit:
        is_days = unit is EpochUnit.DAYS
        least, end = (year // 86_400 if is_days else year * 10**unit.digits for year in _YEARS)
        if (_DAILY if is_days else _TIMELY).search(name):
            numbers = {"whole numbers"} if is_days else {"whole numbers", "fractions"}
            pairs = zip(kinds, values, strict=True)
            fits[unit] = [kind in numbers and least <= value < end for kind, value in pairs]
    texts = [value for kind, value in zip(kinds, values, strict=True) if kind == "texts"]
    for form in _patterns():
        if any(form.iso(text) for text in texts[:_FEW]):
            fits[form] = [isinstance(value, str) and _is_timestamp(form.iso(value) or "") for value in values]
    most = max(map(sum, fits.values()))
    likely = [form for form, each in fits.items() if sum(each) == most]
    if most == len(values):
        sure = likely[0] if len(likely) == 1 else None
        return (None if isinstance(sure, str) else sure), ""
    if 10 * most < 9 * len(values):
        return None, ""
    odd = next(value for value, is_time in zip(values, fits[likely[0]], strict=True) if not is_time)
    return None, f"{len(values) - most:,} of {len(values):,} values, such as {json.dumps(odd)[:40]}"


@cache
def _patterns() -> tuple[TextPattern, ...]:
    forms = product(_DATES, _CLOCKS, _OFFSETS)
    return tuple(TextPattern.parse("".join(form)) for form in forms if form[1] or not form[2])


def _type(values: list[Any], path: str, depth: int, notes: list[str]) -> HiveType:  # noqa: PLR0911  one for each kind
    """The type of the values at `path` from the column; adds to `notes` what isn't certain."""

    def text(note: str) -> Primitive:
        notes.append(f"{path.removeprefix('.')}: {note}" if path else note)
        return Primitive.STRING

    values = [value for value in values if value is not None]
    counts = Counter(map(_kind, values))
    if not counts:
        return text("only null in the sample")
    if counts.keys() == {"whole numbers", "fractions"}:
        is_exact = all(isinstance(value, float) or abs(value) <= _LARGE for value in values)
        return Primitive.DOUBLE if is_exact else text("fractions and whole numbers beyond 2^53")
    if len(counts) > 1:
        return text("mixed: " + ", ".join(f"{kind} ({number:,})" for kind, number in counts.most_common()))
    (kind,) = counts
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "arrays" and depth <= _DEEPEST:
        return Array(_type([*chain.from_iterable(values)], f"{path}[]", depth + 1, notes))
    if kind == "objects" and depth <= _DEEPEST:
        fields = _fields(values)
        if why := _why_map(values, fields):
            text(f"a map, since {why}")
            items = [item for value in values for item in value.values()]
            return Map(Primitive.STRING, _type(items, f"{path}.*", depth + 1, notes))
        return Struct(tuple((name, _type(fields[name], f"{path}.{name}", depth + 1, notes)) for name in fields))
    return text(kind)


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


def _kind(value: Any) -> str:  # noqa: PLR0911  one for each kind
    match value:
        case bool():
            return "booleans"
        case int() if -(1 << 63) <= value < 1 << 63:
            return "whole numbers"
        case float() if abs(value) < float("inf"):
            return "fractions"
        case int() | float():
            return "numbers beyond BIGINT or DOUBLE"
        case dict():
            return "objects"
        case list():
            return "arrays"
    if _is_timestamp(value):
        return "timestamps"
    with suppress(InvalidValue):
        date_of(value)
        return "dates"
    return "texts"


def _is_timestamp(text: str) -> bool:
    """Whether a text is ISO 8601 or SQL, which needs no format."""
    with suppress(InvalidValue):
        timestamp_of(text, TimeRules())
        return True
    return False
