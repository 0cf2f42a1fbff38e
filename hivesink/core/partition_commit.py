"""Partition commits: when a partition's rows are all there, and what is written down about it then.

A commit says that all rows of the partition which the writer has read, up to the offsets of the commit's manifest, are
published. Rows that come later make a new revision.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_time import PartitionClock
    from hivesink.core.records import Commit


class PolicyKind(Enum):
    """How a partition's commit is made known, with Flink's names; `insert-event` is the metastore's listener event."""

    METASTORE = "metastore"
    SUCCESS_FILE = "success-file"
    INSERT_EVENT = "insert-event"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """A partition whose commit is made known.

    `table` is `database.name`, `partition` its escaped path (`dt=2024-01-02`, `""` for a table without partitions),
    `location` its folder. `files` are the paths of those that were published now.
    """

    table: str
    partition: str
    location: str
    files: tuple[str, ...]
    commit: Commit


@dataclass(frozen=True, slots=True)
class CommitRule:
    """When the partitions of `table` are committed. Those of other tables (dead letters) are at each publish.

    With a `clock`, once the watermark has passed their end (Flink's trigger `partition-time`); without a clock, `delay`
    after their first row (`process-time`).
    """

    table: str
    clock: PartitionClock | None = None
    delay: timedelta = timedelta(0)

    @property
    def waits(self) -> bool:
        """Whether any commit waits for time to pass."""
        return self.clock is not None or bool(self.delay)

    def end(self, key: PartitionKey) -> datetime | None:
        """The event time (UTC) at which the partition is over; None if its commit doesn't wait for that."""
        return self.clock.end(key[1]) if self.clock and key[0] == self.table else None

    def is_unknown(self, key: PartitionKey) -> bool:
        """Whether nobody can say when it is over: its values are no time, and aren't null either."""
        return self.clock is not None and key[0] == self.table and self.clock.is_unreadable(key[1])

    def holds(self, key: PartitionKey) -> bool:
        """Whether its rows wait for its commit; otherwise each publish commits it."""
        return self.end(key) is not None or (key[0] == self.table and self.clock is None and bool(self.delay))

    def is_over(self, key: PartitionKey, age: timedelta, mark: Watermark) -> bool:
        """Whether it can be committed, `age` after its first row."""
        end = self.end(key)
        if end is not None:
            return mark.has_passed(end)
        return not self.is_unknown(key) and (age >= self.delay or not self.holds(key))


@dataclass(frozen=True, slots=True)
class Waits:
    """The open partitions that must wait for their commit, and those whose time has come."""

    held: frozenset[PartitionKey]
    over: frozenset[PartitionKey]


def due_commits(
    rule: CommitRule, ages: Mapping[PartitionKey, timedelta], mark: Watermark, committed: Container[PartitionKey]
) -> Waits:
    """What waits.

    The rows of all others are published by the rolling policy: late rows, and where nothing is held. With a clock a
    partition waits for its end though it is `committed`: other settings have done that.
    """
    waiting = {key for key in ages if rule.holds(key)}
    over = {key for key in waiting if rule.is_over(key, ages[key], mark)}
    held = {key for key in waiting - over if key not in committed or rule.end(key) is not None}
    return Waits(frozenset(held), frozenset(key for key in over if key not in committed))


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
