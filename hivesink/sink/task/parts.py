"""The open buckets of a task attempt: rows wait in memory up to a cap, then go to part files.

A bucket's file is opened when its first rows are written out, so a small epoch has few files open at a time. Over the
cap the largest bucket is written out first: that frees the most memory for a row group. Rows that are to be sorted
wait as long as the cap allows, since only what is in memory together is sorted together.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.manifest import PartEntry
from hivesink.core.partfile import InProgress, PartName
from hivesink.core.table import columns_text
from hivesink.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hivesink.core.table import Column, SortKey
    from hivesink.ports import FileFormat, FileStore, RecordWriter, StagedFile

MAX_OPEN_FILES = 256
"""Most files that a task holds open, well below the usual `ulimit -n`. Beyond it the longest file is finished."""
_FRAGMENT_BYTES = 2_500
"""What a small Arrow table weighs besides its values (bench/LAB.md)."""
_FILE_BYTES = 700 << 10
"""What an open Parquet file weighs between two row groups. Open files get at most a quarter of the cap."""
_FRAGMENTS = 64
"""A bucket's fragments are joined at this number, since many tiny arrays weigh far more than their bytes."""


@dataclass(frozen=True)
class Target:
    """Where, how, and in which order of rows a table's parts are written; `columns` are the table's own.

    `gone` are those that it no longer has, and that rows which waited still have, after the others: as text.
    """

    table: str
    folder: Callable[[str], str]
    format: FileFormat
    order: tuple[SortKey, ...] = ()
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    gone: str = ""

    @cached_property
    def columns_text(self) -> str:
        """The columns as a segment tells them."""
        return columns_text(self.columns)


BucketKey: TypeAlias = tuple[str, str, str]
"""Table, partition, and the columns that are gone: rows that have different ones don't fit into the same file."""


@dataclass(slots=True)
class Bucket:
    """A bucket of a task attempt: its rows in memory, and its open file, if it has one."""

    target: Target
    partition: str
    fragments: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    file: StagedFile | None = None
    writer: RecordWriter | None = None
    rows: int = 0
    written: int = 0

    @property
    def key(self) -> BucketKey:
        return self.target.table, self.partition, self.target.gone

    def add(self, rows: pa.Table) -> None:
        self.fragments.append(rows)
        self.bytes += rows.nbytes + _FRAGMENT_BYTES
        if len(self.fragments) >= _FRAGMENTS:
            self.fragments = [pa.concat_tables(self.fragments).combine_chunks()]
            self.bytes = self.fragments[0].nbytes + _FRAGMENT_BYTES


@dataclass(slots=True, kw_only=True)
class InMemory(ABC):
    """Buckets whose rows wait in memory, up to a cap."""

    memory: int
    _buckets: dict[BucketKey, Bucket] = field(default_factory=dict)
    _held: int = 0

    def add(self, target: Target, partition: str, rows: pa.Table) -> None:
        """Take over `rows`, whose buffers nobody else may hold, and stay within the memory cap."""
        bucket = self._buckets.setdefault((target.table, partition, target.gone), Bucket(target, partition))
        before = bucket.bytes
        bucket.add(rows)
        self._held += bucket.bytes - before
        if self._is_full(bucket):
            self._write_out(bucket)
        while self._held > self.memory:
            self._write_out(max(self._buckets.values(), key=lambda bucket: bucket.bytes))

    def _take(self, bucket: Bucket) -> pa.Table:
        """Its rows in memory, which it no longer holds."""
        rows = pa.concat_tables(bucket.fragments)
        self._held -= bucket.bytes
        bucket.fragments, bucket.bytes = [], 0
        return rows

    @abstractmethod
    def _is_full(self, bucket: Bucket) -> bool:
        """Whether it is to be written out while there is memory left."""

    @abstractmethod
    def _write_out(self, bucket: Bucket) -> None:
        """Write its rows in memory, which are some."""


@dataclass(slots=True, kw_only=True)
class Parts(InMemory):
    """Everything that a task attempt writes. `touch` is called with folders before the first file in them.

    `name` makes a part's name of its number and extension.
    """

    store: FileStore
    name: Callable[[int, str], PartName]
    touch: Callable[[tuple[str, ...]], None]
    file_size: int
    _open: dict[BucketKey, None] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)
    _done: list[PartEntry] = field(default_factory=list)
    _next: int = 0

    def finish(self) -> tuple[PartEntry, ...]:
        """Write out and close everything, at the normal end of the input. Only this makes all parts pending."""
        # Open ones first, so that no more are open than before.
        waiting = sorted(self._buckets.values(), key=lambda bucket: bucket.file is None)
        size = min(self.store.parallelism, self._most_open)
        for start in range(0, len(waiting), size):
            chunk = waiting[start : start + size]
            self._open_files([bucket for bucket in chunk if bucket.fragments and bucket.file is None])
            for bucket in chunk:
                if bucket.fragments:
                    self._write_out(bucket)
            self._close(chunk)
        return tuple(self._done)

    def abort(self) -> None:
        """Delete everything: the files in progress and the pending parts."""
        for bucket in self._buckets.values():
            if bucket.file is not None:
                bucket.file.abort()
        # Best effort: recovery sweeps what is left, and an error here must not hide the reason for the abort.
        with contextlib.suppress(StoreUnavailable):
            self.store.discard(entry.staged for entry in self._done)

    @property
    def _most_open(self) -> int:
        return min(MAX_OPEN_FILES, max(8, self.memory // 4 // _FILE_BYTES))

    def _is_full(self, bucket: Bucket) -> bool:
        return bucket.bytes >= bucket.target.format.row_group and not bucket.target.order

    def _write_out(self, bucket: Bucket) -> None:
        target = bucket.target
        for group in _row_groups(self._take(bucket), target.format.row_group, target.order):
            if bucket.writer is not None and not bucket.writer.takes(group):
                self._close([bucket])
            writer = bucket.writer or self._open_file(bucket)
            writer.write(group)
            bucket.rows += group.num_rows
            bucket.written += group.nbytes
            if bucket.file is not None and bucket.file.stream.tell() >= self.file_size:
                self._close([bucket])

    def _open_file(self, bucket: Bucket) -> RecordWriter:
        if len(self._open) >= self._most_open:
            self._close([max((self._buckets[key] for key in self._open), key=lambda bucket: bucket.written)])
        return self._open_files([bucket])[0]

    def _open_files(self, buckets: list[Bucket]) -> list[RecordWriter]:
        """Begin a part of each bucket, in parallel. If a call fails, recovery sweeps the others."""
        parts = [self._next_part(bucket) for bucket in buckets]
        files = self.store.run_parallel(partial(self.store.create, part) for part in parts)
        writers = []
        for bucket, file in zip(buckets, files, strict=True):
            bucket.file = file
            bucket.writer = bucket.target.format.open(file.stream)
            self._open[bucket.key] = None
            writers.append(bucket.writer)
        return writers

    def _next_part(self, bucket: Bucket) -> InProgress:
        folder = bucket.target.folder(bucket.partition)
        if folder not in self._touched:
            waiting = {other.target.folder(other.partition) for other in self._buckets.values()}
            fresh = tuple(sorted(waiting - self._touched))
            self.touch(fresh)
            self._touched.update(fresh)
        self._next += 1
        return InProgress(folder, self.name(self._next - 1, bucket.target.format.extension))

    def _close(self, buckets: Iterable[Bucket]) -> None:
        """Make the open files of `buckets` pending, in parallel. If a call fails, the others are leftovers."""
        closing, files = [], []
        for bucket in buckets:
            if bucket.file is not None and bucket.writer is not None:
                bucket.writer.close()
                closing.append(bucket)
                files.append(bucket.file)
        parts = self.store.run_parallel(file.close_for_commit for file in files)
        for bucket, pending in zip(closing, parts, strict=True):
            self._done.append(
                PartEntry(
                    table=bucket.target.table,
                    partition=bucket.partition,
                    staged=pending.staged,
                    target=pending.target,
                    length=pending.length,
                    rows=bucket.rows,
                )
            )
            bucket.file = bucket.writer = None
            bucket.rows = bucket.written = 0
            del self._open[bucket.key]


def _row_groups(rows: pa.Table, size: int, order: tuple[SortKey, ...]) -> Iterator[pa.Table]:
    groups = max(1, -(-rows.nbytes // size))
    step = -(-rows.num_rows // groups)
    if order:
        rows = rows.combine_chunks()
        # Taken a group at a time: a sorted copy of all would need as much memory again.
        places = pc.sort_indices(rows, sort_keys=[(key.column, key.direction) for key in order])
    for start in range(0, rows.num_rows, step):
        yield rows.take(places[start : start + step]) if order else rows.slice(start, step)
