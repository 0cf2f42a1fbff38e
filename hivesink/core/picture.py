"""What `hivesink show` draws of a table: its partitions over time, its writers' last epochs, its rejects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Rows
    from hivesink.core.timeline import Gap

SMALL = 10
"""Files are small if their mean is below this part of `sink.rolling-policy.file-size`."""


@dataclass(frozen=True, slots=True)
class PartitionPicture:
    """One partition. `partition` is its escaped path, `at` its time as a wall clock, `gap` what is missing before it.

    `files` and `bytes` are those of the files that readers see; None: the partition isn't registered, or its folder
    can't be looked at. `rows` are None where they aren't known, otherwise `rows_from` says from where: `log` or
    `footers`. `waiting_rows` are those that no reader sees yet. `waits_for` is empty for a complete partition, and None
    where nobody knows.
    """

    partition: str
    at: datetime | None
    is_registered: bool
    files: int | None
    bytes: int | None
    rows: int | None
    rows_from: str | None
    gap: Gap | None
    waiting_rows: int
    waits_for: tuple[str, ...] | None

    def is_small(self, file_size: int) -> bool:
        """Whether it has several files, and they are small on average."""
        return bool(self.files and self.files > 1 and (self.bytes or 0) * SMALL < file_size * self.files)


@dataclass(frozen=True, slots=True)
class EpochPicture:
    """One epoch of a writer. `published_rows` are those in its parts, `files` counts the parts.

    `lag` is how far the newest event time that the writer knew was behind the epoch's manifest; None: the log doesn't
    have event times, or the epoch read no rows. `since_last` is the time from the epoch before it.
    """

    writer: str
    epoch: Epoch
    kind: str
    at: datetime
    rows: Rows
    files: int
    published_rows: int
    is_published: bool
    is_settled: bool
    lag: timedelta | None
    since_last: timedelta | None


@dataclass(frozen=True, slots=True)
class Rejects:
    """`counted` are the rejected rows of all writers' logs, from their first epochs on.

    `reasons` are those of the dead letters in the files of `table` that weren't replayed, the most frequent first;
    None, with `unknown` saying why, if they weren't read.
    """

    counted: int
    table: str
    reasons: Mapping[str, int] | None
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """`partitions` are the newest of `total`, the newest last. `file_size` (bytes) is the rolling policy's.

    `epochs` are each writer's last ones, oldest first. `notes` say in words what couldn't be looked at.
    """

    table: str
    location: str
    at: datetime
    file_size: int
    total: int
    total_gaps: int
    partitions: tuple[PartitionPicture, ...]
    epochs: tuple[EpochPicture, ...]
    rejects: Rejects
    notes: tuple[str, ...] = field(default=())

    @property
    def small(self) -> int:
        """How many of the partitions have small files."""
        return sum(one.is_small(self.file_size) for one in self.partitions)

    def by_writer(self) -> Iterator[tuple[str, list[EpochPicture]]]:
        """The epochs of each writer that has some."""
        for writer in dict.fromkeys(one.writer for one in self.epochs):
            yield writer, [one for one in self.epochs if one.writer == writer]
