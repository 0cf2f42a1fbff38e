"""Text and instants as Hive's wall clocks and dates, 0001-01-01 to 9999-12-31, exact to the microsecond."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hivesink.decode.unfit import Unfit

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

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


def wall_clock(instant: datetime, zone: ZoneInfo) -> datetime:
    """What a clock in `zone` shows at `instant`. Raises Unfit beyond year 9999."""
    try:
        return instant.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise Unfit(reason="out of range for timestamp") from None


def instant_of(micros: int) -> datetime:
    """Microseconds since 1970-01-01 UTC. Raises Unfit outside of the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise Unfit(reason="out of range for timestamp") from None


def timestamp_of(text: str, zone: ZoneInfo) -> datetime:
    """ISO 8601 or SQL text: with an offset an instant, shown in `zone`; without one the wall clock itself.

    Raises Unfit, also for digits finer than microseconds that aren't zero.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise Unfit(reason="not a timestamp")
    fraction = (found["fraction"] or "").ljust(_MICROS, "0")
    if fraction[_MICROS:].strip("0"):
        raise Unfit(reason="finer than microseconds")
    try:
        clock = datetime.fromisoformat(f"{found['minute']}:{found['second'] or '00'}.{fraction[:_MICROS]}")
        offset = _offset(found["offset"])
    except ValueError:
        raise Unfit(reason="not a timestamp") from None
    if offset is None:
        return clock
    try:
        instant = clock.replace(tzinfo=timezone.utc) - offset
    except OverflowError:
        raise Unfit(reason="out of range for timestamp") from None
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
    """`yyyy-MM-dd`. Raises Unfit."""
    if _DATE.fullmatch(text) is None:
        raise Unfit(reason="not a date")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Unfit(reason="not a date") from None
