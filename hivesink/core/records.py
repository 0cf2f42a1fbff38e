"""What manifests record beside parts: rows that wait in segments, by bucket, and commits of partitions.

A segment is a file of a task in the writer's log. It holds the rows of several buckets, each as a slice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hivesink.core.partition import known_as

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.core.offsets import SourceOffset
    from hivesink.core.partition import PartitionKey


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a bucket in a segment: an Arrow IPC stream of `length` bytes from `offset` on.

    `crc32` is the checksum of these bytes, as zlib has it.
    """

    segment: str
    offset: int
    length: int
    rows: int
    crc32: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A slice that an epoch has opened, with its bucket."""

    table: str
    partition: str
    slice: Slice

    @property
    def key(self) -> PartitionKey:
        return self.table, self.partition


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """What isn't committed yet of a partition. `first` and `last` are the times (UTC) of its oldest and newest epoch.

    `slices` hold its rows that wait, `rows` of them in `bytes` of segments; `published` rows in `files` are readable
    already.
    """

    slices: tuple[Slice, ...]
    first: datetime
    last: datetime
    rows: int
    bytes: int
    published: int = 0
    files: int = 0

    @classmethod
    def of(cls, slices: tuple[Slice, ...], first: datetime, last: datetime) -> OpenBucket:
        return cls(slices, first, last, sum(part.rows for part in slices), sum(part.length for part in slices))

    def add(self, new: Slice, at: datetime) -> OpenBucket:
        rows, size = self.rows + new.rows, self.bytes + new.length
        return replace(self, slices=(*self.slices, new), last=at, rows=rows, bytes=size)

    def only(self, slices: Iterable[Slice] = ()) -> OpenBucket:
        """With `slices` for those that wait."""
        return replace(OpenBucket.of(tuple(slices), self.first, self.last), published=self.published, files=self.files)

    def before(self, later: OpenBucket | None) -> OpenBucket:
        """Its rows wait again, ahead of those that have come since."""
        if later is None:
            return replace(self, published=0, files=0)
        rows, size = self.rows + later.rows, self.bytes + later.bytes
        return replace(later, slices=(*self.slices, *later.slices), first=self.first, rows=rows, bytes=size)


@dataclass(frozen=True, slots=True)
class Commit:
    """What is committed of a `partition` (`dt=2024-01-02`) of a `table` (`database.name`).

    `revision` is 1, 2, 3…; `rows` and `files` count all that the writer has published in the partition.
    """

    table: str
    partition: str
    revision: int
    rows: int
    files: int

    @property
    def key(self) -> PartitionKey:
        return self.table, self.partition


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
