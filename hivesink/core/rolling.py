"""Rows that wait across epochs: the open buckets of a writer, and which of them are due to become part files.

A segment is a file of a task in the writer's log. It holds the rows of several buckets, each as a slice of its own.
An epoch opens slices, a later epoch of kind `roll` encodes all open slices of a bucket as parts and closes them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest, OpenBucket, Opened, PartEntry, Read, Slice
from hivesink.core.partition import PartitionKey, known_as
from hivesink.core.reads import oldest, still_open, with_batch

SNAPSHOT_EVERY = 64
"""Most manifests that a start reads to know the open buckets; each snapshot repeats all of them."""


@dataclass(frozen=True, slots=True)
class OpenRows:
    """The partitions with rows that wait, or aren't committed. `snapshot`: the newest epoch whose manifest has all.

    `reads` say where the batches began whose rows these are, oldest first, and more of them since the snapshot.
    """

    buckets: Mapping[PartitionKey, OpenBucket] = field(default_factory=dict)
    snapshot: Epoch = field(default=Epoch(0))
    reads: tuple[Read, ...] = ()

    @property
    def rows(self) -> int:
        return sum(bucket.rows for bucket in self.buckets.values())

    @property
    def bytes(self) -> int:
        return sum(bucket.bytes for bucket in self.buckets.values())

    @property
    def since(self) -> datetime | None:
        """The time (UTC) of the epoch of the oldest row that waits, or an earlier one; None if none waits."""
        waiting, _ = oldest(self.reads, self.buckets.values())
        if waiting == -1:
            return min(bucket.first for bucket in self.buckets.values() if bucket.slices)
        return None if waiting is None else self.reads[waiting].at

    @property
    def opened(self) -> tuple[Opened, ...]:
        return tuple(Opened(*key, part) for key, bucket in sorted(self.buckets.items()) for part in bucket.slices)

    def waits(self, key: PartitionKey) -> bool:
        return key in self.buckets and bool(self.buckets[key].slices)

    def after(self, manifest: Manifest) -> OpenRows:
        """What is open once `manifest` is decided."""
        if manifest.waiting is not None:
            return OpenRows(dict(manifest.waiting), manifest.epoch, manifest.reads)
        return replace(self, buckets=self._changed(manifest), reads=with_batch(self.reads, manifest))

    def _changed(self, manifest: Manifest) -> dict[PartitionKey, OpenBucket]:
        rolled = set(manifest.rolled)
        # An epoch that removes parts repeats or corrects commits, which don't cover rows that have come since.
        done = set() if manifest.remove else {commit.key for commit in manifest.commits}
        left = ((key, bucket.only() if key in rolled else bucket) for key, bucket in self.buckets.items())
        # A commit never closes rows that still wait.
        buckets = {key: bucket for key, bucket in left if bucket.slices or key not in done}
        new = OpenBucket.of((), manifest.at, manifest.at)
        for part in manifest.created:
            if part.key not in done:
                bucket = buckets.get(part.key, new)
                published, files = bucket.published + part.rows, bucket.files + 1
                buckets[part.key] = replace(bucket, last=manifest.at, published=published, files=files)
        for opened in manifest.opened:
            bucket, added = buckets.get(opened.key, new), opened.slice
            rows, size = bucket.rows + added.rows, bucket.bytes + added.length
            waiting = replace(bucket, slices=(*bucket.slices, added), last=manifest.at, rows=rows, bytes=size)
            buckets[opened.key] = waiting
        return buckets

    def renamed(self, table: str) -> OpenRows:
        """As they are known where the log's table is `table`. The next manifest holds them so, for whoever reads on."""
        buckets = {known_as(key, table): bucket for key, bucket in self.buckets.items()}
        if buckets.keys() == self.buckets.keys():
            return self
        return replace(self, buckets=buckets, snapshot=Epoch(-SNAPSHOT_EVERY))

    def complete(self, manifest: Manifest) -> Manifest:
        """`manifest` with a snapshot, where a start would have to read too many manifests without it."""
        after = self._changed(manifest) if manifest.waiting is None else dict(manifest.waiting)
        if manifest.waiting is None and after and manifest.epoch - self.snapshot < SNAPSHOT_EVERY:
            return manifest
        reads = with_batch(self.reads, manifest)
        # Until all is settled before it, rows that earlier rolls have encoded may have to wait again.
        if manifest.settled == manifest.epoch - 1:
            reads = still_open(reads, [*self.buckets.values(), *after.values()])
        return replace(manifest, waiting=tuple(sorted(after.items())), reads=reads)

    def without(self, lost: Iterable[PartEntry], gone: Container[Slice] = ()) -> dict[PartitionKey, OpenBucket]:
        """The buckets that no longer count the parts in `lost` as published, nor the slices in `gone` as waiting."""
        buckets = {
            key: bucket.only(part for part in bucket.slices if part not in gone) for key, bucket in self.buckets.items()
        }
        for part in lost:
            bucket = buckets.get(part.key)
            if bucket is not None and bucket.files:
                published = bucket.published - part.rows
                buckets[part.key] = replace(bucket, published=published, files=bucket.files - 1)
        return {key: bucket for key, bucket in buckets.items() if bucket.slices or bucket.files}

    def beside(self, slices: Collection[Slice]) -> OpenRows:
        """The rows that wait in other slices, and the partitions without any of these."""
        if not slices:
            return self
        buckets = {}
        for key, bucket in self.buckets.items():
            others = [part for part in bucket.slices if part not in slices]
            if others or not bucket.slices:
                buckets[key] = bucket.only(others)
        return replace(self, buckets=buckets)

    def leaving(self, manifest: Manifest, slices: Container[Slice]) -> Manifest:
        """`manifest`, a roll, with a snapshot where its buckets keep those of the `slices` that they had."""
        left = {key: [part for part in self.buckets[key].slices if part in slices] for key in manifest.rolled}
        after = self._changed(manifest)
        kept = {key: after[key].only(parts) for key, parts in left.items() if parts}
        return replace(manifest, waiting=tuple(sorted({**after, **kept}.items()))) if kept else manifest

    def closed(self, manifest: Manifest) -> dict[PartitionKey, tuple[Slice, ...]]:
        """The slices whose rows are in the parts of `manifest`, by bucket."""
        after = self.after(manifest).buckets
        closed: dict[PartitionKey, tuple[Slice, ...]] = {}
        for key in self.buckets.keys() & set(manifest.rolled):
            left = set(after[key].slices) if key in after else set[Slice]()
            closed[key] = tuple(part for part in self.buckets[key].slices if part not in left)
        return closed


def open_rows(newest_first: Iterable[Manifest]) -> OpenRows:
    """The rows that wait after the first of these manifests; reads on until a manifest holds a snapshot."""
    needed: list[Manifest] = []
    for manifest in newest_first:
        needed.append(manifest)
        if manifest.waiting is not None:
            break
    state = OpenRows()
    for manifest in reversed(needed):
        state = state.after(manifest)
    return state


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
    now = set()
    for key, bucket in rows.buckets.items():
        if bucket.slices and policy.at_once:
            now.add(key)
        elif bucket.slices and key not in held:
            age, size = ages[key], bucket.bytes * ratio
            if policy.own is not None:
                is_due = policy.own.should_roll(key[1], bucket.rows, int(size), age.open, age.idle)
            else:
                is_due = size >= policy.file_size or age.open >= policy.rollover or age.idle >= policy.inactivity
            now |= {key} if is_due else set()
    left = rows.bytes - sum(rows.buckets[key].bytes for key in now)
    waiting = (key for key, bucket in rows.buckets.items() if bucket.slices and key not in now)
    for key in sorted(waiting, key=lambda key: ages[key].open, reverse=True):
        if left <= policy.open_bytes:
            break
        now.add(key)
        left -= rows.buckets[key].bytes
    return now


def spread(rows: OpenRows, keys: Iterable[PartitionKey], size: float, tasks: int) -> tuple[tuple[Opened, ...], ...]:
    """The work of each encoding task, at most `tasks` for the buckets that fit a task; a bucket's slices as they came.

    A bucket of more than `size` bytes, as segments hold them, is cut into several, each for a file of its own: tasks
    can encode these side by side. Small ones share a task.
    """
    pieces: list[tuple[int, PartitionKey, tuple[Opened, ...]]] = []
    for key in keys:
        bucket = rows.buckets[key]
        share, taken, held = bucket.bytes / max(1, round(bucket.bytes / size)), 0, list[Opened]()
        for number, part in enumerate(bucket.slices, 1):
            held.append(Opened(*key, part))
            taken += part.length
            if taken >= share or number == len(bucket.slices):
                pieces.append((-taken, key, tuple(held)))
                taken, held = 0, []
    pieces.sort(key=lambda piece: piece[:2])
    loads: list[list[Opened]] = [[] for _ in range(max(1, min(tasks, len(pieces))))]
    weights = [0] * len(loads)
    for less, _, piece in pieces:
        lightest = weights.index(min(weights))
        loads[lightest] += piece
        weights[lightest] -= less
    return tuple(tuple(load) for load in loads if load)
