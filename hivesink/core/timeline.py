"""A table's partitions in the order of their times, and the times between them that have no partition."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from hivesink.core.partition import parse_path
from hivesink.core.partition_time import after, start_of
from hivesink.errors import PartitionPathInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from zoneinfo import ZoneInfo

    from hivesink.core.partition_time import TimeExtractor

_FIELDS = ("month", "day", "hour", "minute", "second", "microsecond")
_COARSEST = ("year", "month", "day", "hour")
_SHOWN = {"year": 4, "month": 7, "day": 10}
"""Characters of a time that show the unit."""
_WALKED = 10_000
"""The longest gap that is counted step by step; a clock that is set forward makes one of an hour."""


@dataclass(frozen=True, slots=True)
class Gap:
    """So many units without a partition. `first` and `last` are wall clocks; `count` is None for a very long gap."""

    first: datetime
    last: datetime | None
    count: int | None
    unit: str

    @property
    def text(self) -> str:
        """`3 days missing: 2024-01-03 to 2024-01-05`."""
        if self.count is None or self.last is None:
            return f"over {_WALKED} {self.unit}s missing, from {self._shown(self.first)}"
        if self.count == 1:
            return f"1 {self.unit} missing: {self._shown(self.first)}"
        return f"{self.count} {self.unit}s missing: {self._shown(self.first)} to {self._shown(self.last)}"

    def _shown(self, time: datetime) -> str:
        # Not strftime, which writes the year 1 as `1`.
        return time.isoformat(" ")[: _SHOWN.get(self.unit, 16)]


@dataclass(frozen=True, slots=True)
class TimeReading:
    """How partitions' times are read. `unit` is how long one lasts, such as `hour`; None: their times show it."""

    extractor: TimeExtractor
    unit: str | None
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class Timeline:
    """`order` is all partitions, the newest last. `times` are wall clocks, of those that have one.

    `gaps` are by the first partition after each gap.
    """

    order: tuple[str, ...]
    times: Mapping[str, datetime]
    gaps: Mapping[str, Gap]


def timeline(partitions: Iterable[str], reading: TimeReading | None) -> Timeline:
    """Partitions without a time come first. Values are compared as numbers where they are numbers.

    Raises OwnCodeFailed for a user's own extractor that fails.
    """
    found = {one: _start(one, reading) for one in set(partitions)}
    times = {one: time for one, time in found.items() if time is not None}
    undated = sorted((one for one in found if one not in times), key=_values)
    order = (*undated, *sorted(times, key=lambda one: (times[one], _values(one))))
    return Timeline(order, times, dict(_gaps(order, times, reading)) if reading and times else {})


def _start(partition: str, reading: TimeReading | None) -> datetime | None:
    if reading is None or not partition:
        return None
    start = start_of(partition, reading.extractor)
    # An own extractor may return another zone's time, which can't be compared with wall clocks.
    return start.astimezone(reading.zone).replace(tzinfo=None) if start and start.tzinfo else start


def _values(partition: str) -> tuple[tuple[int, int, str], ...]:
    try:
        values = [value for _, value in parse_path(partition)] if partition else []
    except PartitionPathInvalid:
        values = [partition]
    return tuple(_rank(value) for value in values)


def _rank(value: str | None) -> tuple[int, int, str]:
    if value is None:
        return 0, 0, ""
    with suppress(ValueError):
        return 1, int(value), value
    return 2, 0, value


def _gaps(order: tuple[str, ...], times: Mapping[str, datetime], reading: TimeReading) -> Iterator[tuple[str, Gap]]:
    unit = reading.unit or _unit(times.values())
    dated = [one for one in order if one in times]
    for before, later in pairwise(dated) if unit else ():
        gap = _gap(times[before], times[later], unit or "", reading.zone)
        if gap is not None:
            yield later, gap


def _unit(times: Iterable[datetime]) -> str | None:
    """The coarsest unit of which all `times` are whole; None if they aren't even whole hours."""
    first = {"month": 1, "day": 1}
    known = set(times)
    for unit in _COARSEST:
        finer = _FIELDS[_COARSEST.index(unit) :]
        if all(getattr(time, name) == first.get(name, 0) for time in known for name in finer):
            return unit
    return None


def _gap(before: datetime, later: datetime, unit: str, zone: ZoneInfo) -> Gap | None:
    missing = list(islice((one for one in _steps(before, later, unit) if _exists(one, zone)), _WALKED + 1))
    if not missing:
        return None
    if len(missing) > _WALKED:
        return Gap(missing[0], None, None, unit)
    return Gap(missing[0], missing[-1], len(missing), unit)


def _steps(before: datetime, later: datetime, unit: str) -> Iterator[datetime]:
    if before == later:
        return
    with suppress(OverflowError, ValueError):
        time = after(before, unit)
        while time < later:
            yield time
            time = after(time, unit)


def _exists(wall: datetime, zone: ZoneInfo) -> bool:
    """Whether clocks in `zone` ever show it: they are set forward over some hours."""
    with suppress(OverflowError):
        return wall.replace(tzinfo=zone).astimezone(timezone.utc).astimezone(zone).replace(tzinfo=None) == wall
    # The ends of the calendar.
    return True
