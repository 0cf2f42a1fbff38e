"""Partition commits: when a partition's rows are all there, and what is written down about it then.

A commit says that all rows of the partition which the writer has read, up to the offsets of the commit's manifest, are
published. Rows that come later make a new revision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from hivesink.core.partition import known_as
from hivesink.core.records import Commit

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.offsets import SourceOffset
    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_time import PartitionClock
    from hivesink.core.watermark import Watermark


class PolicyKind(Enum):
    """How a partition's commit is made known, with Flink's names; `insert-event` is the metastore's listener event."""

    METASTORE = "metastore"
    SUCCESS_FILE = "success-file"
    INSERT_EVENT = "insert-event"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A commit with the epoch that decided it, its time (UTC), the watermark then, and the offsets that it covers."""

    commit: Commit
    epoch: Epoch
    at: datetime
    watermark: datetime | None
    end: tuple[SourceOffset, ...]

    def known_as(self, table: str) -> Recorded:
        """As it is known where the log's table is `table`."""
        name, _ = known_as(self.commit.key, table)
        return self if name == self.commit.table else replace(self, commit=replace(self.commit, table=name))


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


def recorded(manifest: Manifest) -> tuple[Recorded, ...]:
    """What `manifest` commits."""
    end = manifest.last_batch.ref.end if manifest.last_batch else ()
    mark = manifest.watermark.at if manifest.watermark else None
    return tuple(Recorded(commit, manifest.epoch, manifest.at, mark, end) for commit in manifest.commits)


def newest(records: Iterable[Recorded], table: str | None = None) -> dict[PartitionKey, Recorded]:
    """The newest record of each partition, whatever the order; as it is known where the log's table is `table`.

    An epoch of kind `move` repeats a revision: its own offsets cover rows that came later.
    """
    records_by_key: dict[PartitionKey, Recorded] = {}
    for record in records:
        today = record if table is None else record.known_as(table)
        before = records_by_key.get(today.commit.key)
        if before is None or (today.commit.revision, -today.epoch) > (before.commit.revision, -before.epoch):
            records_by_key[today.commit.key] = today
    return records_by_key


def commit_after(before: Commit | None, key: PartitionKey, rows: int, files: int) -> Commit:
    """The next revision, with so many more rows and files."""
    was = before or Commit(*key, 0, 0, 0)
    return Commit(*key, was.revision + 1, was.rows + rows, was.files + files)


def commit_without(before: Commit, lost: Sequence[PartEntry]) -> Commit:
    """The next revision, once a person has given up the parts in `lost`."""
    return commit_after(before, before.key, -sum(part.rows for part in lost), -len(lost))


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
