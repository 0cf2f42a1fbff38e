"""One value, exactly: a JSON number's text, a text or an instant as what a column holds; nothing is rounded.

Dates and times run from 0001-01-01 to 9999-12-31, in whole microseconds.
"""

from __future__ import annotations

import base64
import re
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal as Number
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hivesink.config.options import OnTombstone, OnUnknownField
from hivesink.core.table import Char, Decimal, Varchar
from hivesink.ports import BadRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.column_source import ColumnSource

# More exponent digits than any column's range has: beyond these the sign of the exponent alone decides,
# and Python refuses to read very long ones.
_EXPONENT_DIGITS = 18

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROS = 6  # fraction digits that the Arrow column keeps

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"""
    (?P<minute> [0-9]{4}-[0-9]{2}-[0-9]{2} [T\ ] [0-9]{2}:[0-9]{2} )
    (?: : (?P<second> [0-9]{2} ) (?: \. (?P<fraction> [0-9]{1,9} ) )? )?
    (?P<offset> Z | [+-] [0-9]{2} (?: :? [0-9]{2} )? )?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """The table's settings for its decoder.

    `timestamp_format` maps a lower-case column name, or `""` for all columns, to `text` or `epoch-millis`:
    whether numbers are accepted for its TIMESTAMPs and DATEs.
    """

    timestamp_zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    timestamp_format: Mapping[str, str] = field(default_factory=dict)
    tombstone: OnTombstone = OnTombstone.SKIP
    unknown_field: OnUnknownField = OnUnknownField.IGNORE
    sources: Mapping[str, ColumnSource] = field(default_factory=dict)
    """By lower-case name of the column; a column that isn't named has the field of its own name."""

    def is_epoch(self, column: str) -> bool:
        return self.timestamp_format.get(column, self.timestamp_format.get("", "text")) == "epoch-millis"


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


def scaled(number: str, places: int, digits: int, kind: str) -> int:
    """`number` times 10**`places`. Raises InvalidValue if that isn't whole, or has more than `digits` digits."""
    if not places and len(number) < digits and number.removeprefix("-").isdecimal():
        return int(number)
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    unscaled = (whole + fraction).lstrip("0")
    significant = unscaled.rstrip("0")
    if not significant:
        return 0
    power = _exponent(exponent) - len(fraction) + len(unscaled) - len(significant) + places
    if power < 0:
        raise InvalidValue(reason="more decimal places than " + kind if places else "not a whole number")
    if len(significant) + power > digits:
        raise InvalidValue(reason=f"out of range for {kind}")
    value = int(significant + "0" * power)
    return -value if number[0] == "-" else value


def _exponent(text: str) -> int:
    magnitude = text.lstrip("+-").lstrip("0")
    value = int(magnitude or 0) if len(magnitude) <= _EXPONENT_DIGITS else 10**_EXPONENT_DIGITS
    return -value if text.startswith("-") else value


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


def timestamp_of(text: str, zone: ZoneInfo) -> datetime:
    """ISO 8601 or SQL text: with an offset an instant, shown in `zone`; without one the wall clock itself.

    Raises InvalidValue, also for digits finer than microseconds that aren't zero.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise InvalidValue(reason="not a timestamp")
    fraction = (match["fraction"] or "").ljust(_MICROS, "0")
    if fraction[_MICROS:].strip("0"):
        raise InvalidValue(reason="finer than microseconds")
    try:
        clock = datetime.fromisoformat(f"{match['minute']}:{match['second'] or '00'}.{fraction[:_MICROS]}")
        offset = _offset(match["offset"])
    except ValueError:
        raise InvalidValue(reason="not a timestamp") from None
    if offset is None:
        return clock
    try:
        instant = clock.replace(tzinfo=timezone.utc) - offset
    except OverflowError:
        raise InvalidValue(reason="out of range for timestamp") from None
    return wall_clock(instant, zone)


def _offset(text: str | None) -> timedelta | None:
    """ValueError for more than 23:59."""
    if text is None or text == "Z":
        return None if text is None else timedelta()
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:  # noqa: PLR2004 -- the hours and minutes of a clock
        raise ValueError
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset


def date_of(text: str) -> date:
    """`yyyy-MM-dd`. Raises InvalidValue."""
    with suppress(ValueError):
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    raise InvalidValue(reason="not a date")
