"""When waiting rows become part files, and which task encodes what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hivesink.core.records import Slice

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from datetime import timedelta

    from hivesink.core.partition import PartitionKey
    from hivesink.core.records import OpenBucket
    from hivesink.core.rolling import OpenRows


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """When a bucket's rows become part files. `at_once`: whatever still waits.

    `file_size` is in bytes of a finished file; `open_bytes`, the most that may wait in all, in those of segments. `own`
    is the user's, which decides instead of size and age.
    """

    file_size: int
    rollover: timedelta
    inactivity: timedelta
    open_bytes: int
    own: BucketRolling | None = None
    at_once: bool = False

    def is_due(self, partition: str, bucket: OpenBucket, age: Ages, size: float) -> bool:
        """`size` is what the bucket's rows would become in bytes."""
        if self.at_once:
            return True
        if self.own is not None:
            return self.own.should_roll(partition, bucket.rows, int(size), age.open, age.idle)
        return size >= self.file_size or age.open >= self.rollover or age.idle >= self.inactivity


class BucketRolling(Protocol):
    """A custom rolling policy is a class with this method; it is built with the table's spec and settings."""

    def should_roll(self, partition: str, rows: int, size: int, open_for: timedelta, idle_for: timedelta) -> bool:
        """Whether the rows of `partition` (`dt=2024-01-02`, `""` where there is none) that wait become files now.

        `rows` wait, of which the files will have about `size` bytes; the oldest has waited for `open_for`, the newest
        for `idle_for`. An error that it raises ends the query as OwnCodeFailed.
        """


@dataclass(frozen=True, slots=True)
class Ages:
    """How long a bucket has had open rows, and how long it has had no new ones, by a monotonic clock."""

    open: timedelta
    idle: timedelta


def due(
    rows: OpenRows,
    ages: Mapping[PartitionKey, Ages],
    policy: RollingPolicy,
    ratio: float,
    held: Container[PartitionKey] = (),
) -> set[PartitionKey]:
    """The buckets that are to be rolled now; the oldest ones too while more waits than may, though they are `held`.

    `ratio` is what a byte of a segment becomes in a finished file.
    """
    now = {
        key
        for key, bucket in rows.buckets.items()
        if bucket.slices
        and (policy.at_once or key not in held)
        and policy.is_due(key[1], bucket, ages[key], bucket.bytes * ratio)
    }
    left = rows.bytes - sum(rows.buckets[key].bytes for key in now)
    waiting = (key for key, bucket in rows.buckets.items() if bucket.slices and key not in now)
    for key in sorted(waiting, key=lambda key: ages[key].open, reverse=True):
        if left <= policy.open_bytes:
            break
        now.add(key)
        left -= rows.buckets[key].bytes
    return now


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a task encodes: some slices of a bucket, in the order in which they came."""

    table: str
    partition: str
    slices: tuple[Slice, ...]

    @property
    def bytes(self) -> int:
        return sum(part.length for part in self.slices)


def spread(rows: OpenRows, keys: Iterable[PartitionKey], size: float, tasks: int) -> tuple[tuple[Encoding, ...], ...]:
    """The work of each encoding task, at most `tasks` for the buckets that fit a task.

    A bucket of more than `size` bytes, as segments hold them, is cut into several, each for a file of its own: tasks
    can encode these side by side. Small ones share a task.
    """
    pieces = sorted(
        (piece for key in keys for piece in _pieces(key, rows.buckets[key], size)),
        key=lambda piece: (-piece.bytes, piece.table, piece.partition),
    )
    loads: list[list[Encoding]] = [[] for _ in range(max(1, min(tasks, len(pieces))))]
    weights = [0] * len(loads)
    for piece in pieces:
        lightest = weights.index(min(weights))
        loads[lightest].append(piece)
        weights[lightest] += piece.bytes
    return tuple(tuple(load) for load in loads if load)


def _pieces(key: PartitionKey, bucket: OpenBucket, size: float) -> Iterator[Encoding]:
    count = max(1, round(bucket.bytes / size))
    share, taken, held = bucket.bytes / count, 0, list[Slice]()
    for part in bucket.slices:
        held.append(part)
        taken += part.length
        if taken >= share:
            yield Encoding(*key, tuple(held))
            taken, held = 0, []
    if held:
        yield Encoding(*key, tuple(held))
