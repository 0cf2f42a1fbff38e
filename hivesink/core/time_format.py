"""How times are written: the values of `sink.timestamp-format`, and the patterns of time buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, TypeAlias

FIRST_MICROS = -62_135_596_800_000_000  # 0001-01-01T00:00:00
LAST_MICROS = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999
_DAY_NANOS = 86_400_000_000_000
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_NEAR = 50
"""Days. A time of today in seconds, read as milliseconds, lies within 20 days of 1970; the same for the finer units."""


class EpochUnit(Enum):
    """Numbers that count from 1970-01-01 UTC, each in its unit.

    A number is of its unit only if it lies in the years 1 to 9999 (`lowest` to `highest`), and is 0 or at least
    `nearest` away from it. Otherwise it is rather a time of our days in the next larger unit: any number up to 50,000
    may be a count of days until 2106, and any within 50 days of 1970 a count of seconds, milliseconds or microseconds.

    `digits` is the power of ten that makes seconds into this unit, 0 for days; `micros` how long the unit is, in whole
    microseconds. `too_near` and `too_far` are the reasons of a bad record.
    """

    SECONDS = "epoch-seconds"
    MILLIS = "epoch-millis"
    MICROS = "epoch-micros"
    NANOS = "epoch-nanos"
    DAYS = "epoch-days"

    def __init__(self, text: str) -> None:
        is_days = text == "epoch-days"
        self.digits = {"epoch-millis": 3, "epoch-micros": 6, "epoch-nanos": 9}.get(text, 0)
        nanos = _DAY_NANOS if is_days else 10 ** (9 - self.digits)
        self.micros = nanos // 1000
        self.lowest = -(-FIRST_MICROS * 1000 // nanos)
        self.highest = (LAST_MICROS * 1000 + 999) // nanos
        of_days = 50_000 if text == "epoch-seconds" else _NEAR * _DAY_NANOS // nanos
        self.nearest = 0 if is_days else of_days
        self.near_micros = self.nearest * nanos // 1000
        self.too_near = f"too close to 1970 for {text}"
        self.too_far = f"out of range for {text}"

    def unfit(self, numbers: Any) -> list[tuple[Any, str]]:
        """Which of `numbers`, a NumPy array of int64, can't be of this unit, and why."""
        near = (numbers != 0) & (numbers > -self.nearest) & (numbers < self.nearest)
        far = (numbers < max(self.lowest, _LEAST)) | (numbers > min(self.highest, _MOST))
        return [(near, self.too_near), (far, self.too_far)]


_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<text>[^A-Za-z']+)")


def _tokens(pattern: str) -> Iterator[tuple[str | None, str]]:
    """The runs of a letter in a pattern of Java's DateTimeFormatter, and between them (None, text).

    Raises ValueError for a quote that isn't closed.
    """
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            message = f"the quote at position {at + 1} of {pattern!r} is not closed"
            raise ValueError(message)
        at = token.end()
        text = token["text"] if token["quoted"] is None else token["quoted"].replace("''", "'") or "'"
        yield token["letters"], text or ""


_CODES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_FIELDS = {"yyyy": "year", "MM": "month", "MMM": "name", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DIGITS = {"yyyy": "[0-9]{4}", "MMM": "|".join(_MONTHS)}
_OFFSETS = ("Z", "X", "XX", "XXX")
_LETTERS = (*_FIELDS, "S", *_OFFSETS)
_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A parsed pattern of Flink's `DateTimeBucketAssigner`: the letters of Java's DateTimeFormatter that values need.

    `strftime` formats with it; `unit` is the finest field that it shows.
    """

    strftime: str
    unit: str

    @classmethod
    def parse(cls, pattern: str) -> TimePattern:
        """Raises ValueError for letters that a partition value can't use."""
        strftime, used = [], set()
        for letters, text in _tokens(pattern):
            if letters is None:
                strftime.append(text.replace("%", "%%"))
            elif letters in _CODES:
                strftime.append(_CODES[letters])
                used.add(letters)
            else:
                message = f"{letters!r} in {pattern!r} is none of {', '.join(_CODES)}; put text in single quotes"
                raise ValueError(message)
        if not used:
            message = f"{pattern!r} has no part of a time; use some of {', '.join(_CODES)}"
            raise ValueError(message)
        return cls("".join(strftime), _FIELDS[max(used, key=[*_CODES].index)])

    @classmethod
    def parse_all(cls, text: str) -> dict[str, TimePattern]:
        """`pattern` (key `""`), or `column=pattern,column=pattern`. Raises ValueError."""
        if not re.match(r"\w+\s*=", text):
            return {"": cls.parse(text)}
        pairs = [item.partition("=") for item in text.split(",")]
        patterns = {column.strip().lower(): cls.parse(pattern.strip()) for column, _, pattern in pairs}
        if len(patterns) < len(pairs):
            message = "write each column once"
            raise ValueError(message)
        return patterns

    def format(self, at: datetime) -> str:
        """The value for `at`'s own wall clock; years below 1000 have four digits, as Java prints them."""
        year = f"{at.year:04d}"
        # `%%Y` is text: a percent sign and the letter.
        return at.strftime(re.sub("%%|%Y", lambda field: year if field[0] == "%Y" else field[0], self.strftime))


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A time's text by letters of Java's DateTimeFormatter: `yyyy/MM/dd HH:mm:ss Z`, `dd/MMM/yyyy`.

    `regex` matches the texts, in the words of both Python's `re` and RE2, with a group for each field; `template` makes
    ISO 8601 of the groups, as RE2 replaces. It is None where the month has a name.
    """

    pattern: str
    regex: str
    template: str | None
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, pattern: str) -> TextPattern:
        """Raises ValueError for other letters, without a date, and for a field that comes twice."""
        regex, fields = [], list[str]()
        for letters, text in _tokens(pattern):
            if letters is None:
                regex.append(re.escape(text))
            elif set(letters) == {"S"} and len(letters) <= _MOST_DIGITS:
                fields.append("fraction")
                regex.append(f"([0-9]{{{len(letters)}}})")
            elif letters in _OFFSETS:
                fields.append("offset")
                regex.append(r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)")
            elif letters in _FIELDS:
                fields.append(_FIELDS[letters])
                regex.append(f"({_DIGITS.get(letters, '[0-9]{2}')})")
            else:
                message = f"{letters!r} in {pattern!r} is none of {', '.join(_LETTERS)}; put text in single quotes"
                raise ValueError(message)
        months = [field for field in fields if field in {"month", "name"}]
        if not {"year", "day"} <= {*fields} or len(months) != 1 or len({*fields}) < len(fields):
            message = f"{pattern!r} needs a year (yyyy), a month (MM or MMM) and a day (dd), and each part once"
            raise ValueError(message)
        places = {field: rf"\{place}" for place, field in enumerate(fields, 1)}
        return cls(pattern, "".join(regex), None if "name" in places else _iso(places), tuple(fields))

    def iso(self, text: str) -> str | None:
        """`text` as ISO 8601, which may still be no time; None if it isn't of this form."""
        match = re.fullmatch(self.regex, text)
        if match is None:
            return None
        parts = dict(zip(self.fields, match.groups(), strict=True))
        if "name" in parts:
            parts["month"] = f"{_MONTHS.index(parts['name']) + 1:02d}"
        return _iso(parts)


def _iso(parts: Mapping[str, str]) -> str:
    clock = ":".join(parts.get(field, "00") for field in ("hour", "minute", "second"))
    fraction = f".{parts['fraction']}" if "fraction" in parts else ""
    return f"{parts['year']}-{parts['month']}-{parts['day']}T{clock}{fraction}{parts.get('offset', '')}"


TimeFormat: TypeAlias = EpochUnit | TextPattern | None
"""None: ISO 8601 or SQL text."""
_KINDS = {"text": None, **{unit.value: unit for unit in EpochUnit}}
_ITEM = r"(?:[^',]|'[^']*')+"
_NAMED = re.compile(r"(?:([^\s=']+)\s*=)?(.*)", re.DOTALL)
_WRITE = f"write {', '.join(_KINDS)}, a pattern such as yyyy/MM/dd HH:mm:ss Z, or column=format,…"


def parse_formats(text: str) -> dict[str, TimeFormat]:
    """A format for every column (key `""`), or `column=format,…`. Raises ValueError.

    A comma in a pattern stands in single quotes.
    """
    if re.fullmatch(f"{_ITEM}(?:,{_ITEM})*", text) is None:
        raise ValueError(_WRITE)
    formats: dict[str, TimeFormat] = {}
    for item in re.findall(_ITEM, text):
        column, kind = _NAMED.fullmatch(item.strip()).groups()  # type: ignore[union-attr]  # it matches any text
        name, kind = (column or "").lower(), kind.strip()
        if name in formats:
            raise ValueError(_WRITE)
        try:
            formats[name] = _KINDS[kind] if kind in _KINDS else TextPattern.parse(kind)
        except ValueError as error:
            message = f"{_WRITE}: {error}"
            raise ValueError(message) from None
    return formats


def unit_of(formats: Mapping[str, TimeFormat], column: str) -> EpochUnit:
    """The unit of a whole number that `column` has for a time: milliseconds, unless another is declared."""
    declared = formats.get(column, formats.get(""))
    return declared if isinstance(declared, EpochUnit) else EpochUnit.MILLIS
