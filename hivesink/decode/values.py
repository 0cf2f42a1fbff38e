"""One value, exactly: a JSON number's text, a text or an instant as what a column holds; nothing is rounded.

Dates and times run from 0001-01-01 to 9999-12-31, in whole microseconds.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal as Number
from zoneinfo import ZoneInfo

from hivesink.config.options import Precision, SinkConfig
from hivesink.core.table import Char, Decimal, Primitive, Varchar
from hivesink.core.time_format import FIRST_MICROS, LAST_MICROS, EpochUnit, TextPattern, TimeFormat
from hivesink.ports.rows import BadRow

# More exponent digits than any column's range has: beyond these the sign of the exponent alone decides,
# and Python refuses to read very long ones.
_EXPONENT_DIGITS = 18

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
"""A number as JSON writes it."""
_MICROS = 6  # fraction digits that the Arrow column keeps
_MOST_DIGITS = 19  # of microseconds in the calendar
_NUMBER = re.compile(NUMBER)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"""
    (?P<minute> [0-9]{4}-[0-9]{2}-[0-9]{2} [T\ ] [0-9]{2}:[0-9]{2} )
    (?: : (?P<second> [0-9]{2} ) (?: \. (?P<fraction> [0-9]+ ) )? )?
    (?P<offset> Z | [+-] [0-9]{2} (?: :? [0-9]{2} )? )?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class TimeRules:
    """How the times of one column are read."""

    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    """The wall clock that an instant becomes."""
    format: TimeFormat = None
    exact: bool = False
    """Whether a time finer than microseconds is bad, rather than cut."""
    is_sure: bool = False
    """Whether the unit of a number is known rather than declared: then it may lie close to 1970."""

    @classmethod
    def of(cls, config: SinkConfig, column: str) -> TimeRules:
        """By a table's settings, for a column by its lower-case name."""
        formats: Mapping[str, TimeFormat] = config["sink.timestamp-format"]
        is_exact = config["sink.json.timestamp-precision"] is Precision.EXACT
        return cls(config["sink.timestamp-zone"], formats.get(column, formats.get("")), is_exact)

    @property
    def unit(self) -> EpochUnit | None:
        """What a number counts; None where numbers are refused."""
        return self.format if isinstance(self.format, EpochUnit) else None

    @property
    def pattern(self) -> TextPattern | None:
        """The form of texts; None: ISO 8601 or SQL."""
        return self.format if isinstance(self.format, TextPattern) else None


class InvalidValue(ValueError):
    """A value that doesn't fit: why, and its path below the column. This package turns it into a `BadRow`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str] = []
        super().__init__(reason)

    def within(self, step: str) -> InvalidValue:
        """The same error, seen from one level further out."""
        self.path.insert(0, step)
        return self

    def bad_row(self, index: int) -> BadRow:
        return BadRow(index, ".".join(self.path) or None, self.reason)


def _shifted(number: str, places: int, digits: int) -> tuple[int | None, bool]:
    """`number` times 10**`places`, cut towards 0, and whether that is whole; None: it has more than `digits` digits."""
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    unscaled = (whole + fraction).lstrip("0")
    significant = unscaled.rstrip("0")
    if not significant:
        return 0, True
    magnitude = exponent.lstrip("+-").lstrip("0")
    size = int(magnitude or 0) if len(magnitude) <= _EXPONENT_DIGITS else 10**_EXPONENT_DIGITS
    size = -size if exponent.startswith("-") else size
    power = size - len(fraction) + len(unscaled) - len(significant) + places
    if len(significant) + power > digits:
        return None, power >= 0
    value = int(significant[:power] or 0) if power < 0 else int(significant + "0" * power)
    return -value if number[0] == "-" else value, power >= 0


def scaled(number: str, places: int, digits: int, kind: str) -> int:
    """`number` times 10**`places`. Raises InvalidValue if that isn't whole, or has more than `digits` digits."""
    if not places and len(number) < digits and number.removeprefix("-").isdecimal():
        return int(number)
    value, is_whole = _shifted(number, places, digits)
    if not is_whole:
        raise InvalidValue(reason="more decimal places than " + kind if places else "not a whole number")
    if value is None:
        raise InvalidValue(reason=f"out of range for {kind}")
    return value


def integer(number: str, bits: int, kind: str) -> int:
    """Raises InvalidValue outside of a signed integer of `bits` bits, and for fractions."""
    value = scaled(number, 0, 19, kind)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise InvalidValue(reason=f"out of range for {kind}")
    return value


def double(number: str) -> float:
    """The nearest DOUBLE. Raises InvalidValue where that is infinite; the integer `-0` is 0, as integers go."""
    value = 0.0 if number == "-0" else float(number)
    if value in {float("inf"), float("-inf")}:
        raise InvalidValue(reason="out of range for double")
    return value


def single(number: str) -> float:
    """The FLOAT nearest to the nearest DOUBLE. Raises InvalidValue where that is infinite."""
    try:
        (value,) = struct.unpack("<f", struct.pack("<f", double(number)))
    except (OverflowError, InvalidValue):
        raise InvalidValue(reason="out of range for float") from None
    return float(value)


def binary_of(text: str) -> bytes:
    """Base64 as RFC 4648 writes it, padded. Raises InvalidValue for any other text, even if it could be read."""
    with suppress(ValueError):
        value = base64.b64decode(text, validate=True)
        if base64.b64encode(value).decode() == text:
            return value
    raise InvalidValue(reason="not base64")


def decimal_of(number: str, kind: Decimal) -> Number:
    """A number's text at the column's scale. Raises InvalidValue where digits would be lost."""
    value = scaled(number, kind.scale, kind.precision, str(kind))
    return Number((int(value < 0), tuple(map(int, str(abs(value)))), -kind.scale))


def bounded(text: str, kind: Varchar | Char) -> str:
    """`text` if it is short enough, a CHAR without its trailing spaces. Raises InvalidValue."""
    text = text.rstrip(" ") if isinstance(kind, Char) else text
    if len(text) > kind.length:
        raise InvalidValue(reason=f"longer than {kind}")
    return text


def wall_clock(instant: datetime, zone: ZoneInfo) -> datetime:
    """What a clock in `zone` shows at `instant`. Raises InvalidValue beyond year 9999."""
    try:
        return instant.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise InvalidValue(reason="out of range for timestamp") from None


def instant_of(micros: int) -> datetime:
    """Microseconds since 1970-01-01 UTC. Raises InvalidValue outside of the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise InvalidValue(reason="out of range for timestamp") from None


def clock_of(text: str, kind: Primitive, rules: TimeRules) -> date | datetime:
    """What a DATE or TIMESTAMP column holds for a text, or a number's text. Raises InvalidValue."""
    if rules.unit is not None and _NUMBER.fullmatch(text):
        return _counted(text, rules.unit, kind, rules)
    if rules.pattern is None:
        return date_of(text) if kind is Primitive.DATE else timestamp_of(text, rules)
    iso = rules.pattern.iso(text)
    if iso is None:
        raise InvalidValue(reason=f"not of the form {rules.pattern.pattern}")
    clock = timestamp_of(iso, rules)
    return clock.date() if kind is Primitive.DATE else clock


def _counted(number: str, unit: EpochUnit, kind: Primitive, rules: TimeRules) -> date | datetime:
    value, is_whole = _shifted(number, 0 if unit is EpochUnit.DAYS else _MICROS - unit.digits, _MOST_DIGITS)
    if value is None:
        raise InvalidValue(reason=unit.too_far)
    if unit is EpochUnit.DAYS:
        if not is_whole:
            raise InvalidValue(reason="not a whole number")
        if not unit.lowest <= value <= unit.highest:
            raise InvalidValue(reason=unit.too_far)
        day = date(1970, 1, 1) + timedelta(days=value)
        return day if kind is Primitive.DATE else datetime.combine(day, time())
    if not rules.is_sure and (value or not is_whole) and abs(value) < unit.near_micros:
        raise InvalidValue(reason=unit.too_near)
    count = value - (number[0] == "-" and not is_whole)
    if not FIRST_MICROS <= count <= LAST_MICROS:
        raise InvalidValue(reason=unit.too_far)
    if rules.exact and not is_whole:
        raise InvalidValue(reason="finer than microseconds")
    try:
        clock = wall_clock(instant_of(count), rules.zone)
    except InvalidValue:
        raise InvalidValue(reason=f"out of range for {kind}") from None
    return clock.date() if kind is Primitive.DATE else clock


def timestamp_of(text: str, rules: TimeRules) -> datetime:
    """ISO 8601 or SQL text: with an offset an instant, shown in the zone; without, the wall clock itself.

    Digits finer than microseconds are cut. Raises InvalidValue, by `rules.exact` also for such that aren't zero.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise InvalidValue(reason="not a timestamp")
    fraction = (match["fraction"] or "").ljust(_MICROS, "0")
    if rules.exact and fraction[_MICROS:].strip("0"):
        raise InvalidValue(reason="finer than microseconds")
    try:
        clock = datetime.fromisoformat(f"{match['minute']}:{match['second'] or '00'}.{fraction[:_MICROS]}")
        if (offset := match["offset"]) is None:
            return clock
        # A `time` refuses more than 23:59.
        ahead = time(int(offset[1:3] or 0), int(offset[3:].lstrip(":") or 0))
    except ValueError:
        raise InvalidValue(reason="not a timestamp") from None
    shift = timedelta(hours=ahead.hour, minutes=ahead.minute)
    try:
        instant = clock.replace(tzinfo=timezone.utc) - (-shift if offset[0] == "-" else shift)
    except OverflowError:
        raise InvalidValue(reason="out of range for timestamp") from None
    return wall_clock(instant, rules.zone)


def date_of(text: str) -> date:
    """`yyyy-MM-dd`. Raises InvalidValue."""
    with suppress(ValueError):
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    raise InvalidValue(reason="not a date")
