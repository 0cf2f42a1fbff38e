"""The sink's watermark: the event time up to which all rows are taken to have come.

It is the minimum over the source's partitions (FLIP-27 and Flink's "Dealing With Idle Sources"). Unlike Flink's it goes
on when all input stops: by the wall clock's pace, from where it was, so that the last partitions end too. Where the
clock has come counts in silence only: rows that come after an outage, batch by batch, aren't late by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

_T = TypeVar("_T", int, datetime)

_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)


def newest_likely(times: Iterable[_T], limit: _T) -> _T | None:
    """The newest of `times` up to `limit`, beyond which a time is taken to be wrong; if there are no others, of all."""
    return max(times, key=lambda at: (at <= limit, at), default=None)


def latest(*times: datetime | None) -> datetime | None:
    """The latest of those that are known."""
    return max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class WatermarkPolicy:
    """`delay` is how late rows may come in order; a source partition without records for `idle` holds nothing back."""

    delay: timedelta
    idle: timedelta


@dataclass(frozen=True, slots=True)
class Watermark:
    """`at` (UTC) never goes back; None: nothing is known yet.

    `newest` holds the newest event time (UTC) of each partition of the source, None where there is none. It is empty
    if the watermark is Spark's own. `quiet` says since when (UTC) partitions have had no rows; those of which the batch
    of this very epoch had some are left out.
    """

    at: datetime | None = None
    newest: Mapping[str, datetime | None] = field(default_factory=dict)
    quiet: Mapping[str, datetime] = field(default_factory=dict)
    goes_on: bool = True
    """Whether it goes on by the clock while no records come."""
    clock: datetime | None = None
    """Where (UTC) the clock goes on in the next silence, if the newest event time isn't later: never back."""

    def saw(self, newest: Mapping[str, datetime | None], now: datetime) -> Watermark:
        """These event times have come too. One that is later than `now` counts as `now`: that hour isn't over."""
        times = {name: latest(self.newest.get(name), time and min(time, now)) for name, time in newest.items()}
        return replace(self, newest={**self.newest, **times})

    def without(self, gone: str) -> Watermark:
        """Without a partition that the source no longer has."""
        return replace(self, newest={name: time for name, time in self.newest.items() if name != gone})

    def reached(self, silence: Mapping[str, timedelta], policy: WatermarkPolicy) -> Watermark:
        """The watermark once each partition in `newest` has had no row for so long.

        The clock waits for every `silence`, also for that of no partition.
        """
        active = [time for name, time in self.newest.items() if silence[name] < policy.idle]
        if None in active:
            return self
        times = [behind(time, policy) for time in active or self.newest.values() if time is not None]
        if active:
            return self.at_least(min(times))
        start, shortest = max(times, default=None), min(silence.values(), default=policy.idle)
        mark, clock = self.at_least(start), latest(start, self.clock)
        return mark if clock is None or shortest < policy.idle else mark.at_least(clock + (shortest - policy.idle))

    def has_passed(self, end: datetime) -> bool:
        """Whether all rows before `end` are taken to have come."""
        return self.at is not None and end <= self.at

    def at_least(self, time: datetime | None) -> Watermark:
        """At `time`, or where it is already."""
        return replace(self, at=latest(self.at, time))


def behind(newest: datetime, policy: WatermarkPolicy) -> datetime:
    """The watermark that follows from the newest event time."""
    return max(newest, _BEGINNING + policy.delay) - policy.delay
