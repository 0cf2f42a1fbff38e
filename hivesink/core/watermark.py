"""The sink's watermark: the event time up to which all rows are taken to have come.

It is the minimum over the source's partitions (FLIP-27 and Flink's "Dealing With Idle Sources"). Unlike Flink's it goes
on when all input stops: by the wall clock's pace, from where it was, so that the last partitions end too. Where the
clock has come counts in silence only: rows that come after an outage, one batch after the other, aren't late by it.

A partition is silent for as long as Spark has asked the source and got no rows of it. Time in which nobody has asked,
such as that of a long batch, shows nothing.
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

    `newest` holds the newest event time (UTC) of each partition of the source, None for one without any. It is empty
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
        merged = dict(self.newest)
        for name, time in newest.items():
            known = [one for one in (merged.get(name), None if time is None else min(time, now)) if one is not None]
            merged[name] = max(known, default=None)
        return replace(self, newest=merged)

    def without(self, gone: str) -> Watermark:
        """Without a partition that the source no longer has."""
        return replace(self, newest={name: time for name, time in self.newest.items() if name != gone})

    def reached(self, idle: Mapping[str, timedelta], policy: WatermarkPolicy) -> Watermark:
        """The watermark once each partition in `newest` has had no row for so long.

        The clock waits for every silence in `idle`, also for one of no partition.
        """
        active = [time for name, time in self.newest.items() if idle[name] < policy.idle]
        if None in active:
            return self
        least = min((time for time in active if time is not None), default=None)
        if least is not None:
            return self.at_least(behind(least, policy))
        newest = latest(*self.newest.values())
        start = newest and behind(newest, policy)
        return self.at_least(start).gone_on(latest(start, self.clock), min(idle.values(), default=policy.idle), policy)

    def gone_on(self, start: datetime | None, silence: timedelta, policy: WatermarkPolicy) -> Watermark:
        """The watermark by the clock, from `start`, once no record has come for so long."""
        return self if start is None or silence < policy.idle else self.at_least(start + (silence - policy.idle))

    def has_passed(self, end: datetime) -> bool:
        """Whether all rows before `end` are taken to have come."""
        return self.at is not None and end <= self.at

    def at_least(self, time: datetime | None) -> Watermark:
        """At `time`, or where it is already."""
        return self if time is None or (self.at is not None and self.at >= time) else replace(self, at=time)


def behind(newest: datetime, policy: WatermarkPolicy) -> datetime:
    """The watermark that follows from the newest event time."""
    return max(newest, _BEGINNING + policy.delay) - policy.delay
