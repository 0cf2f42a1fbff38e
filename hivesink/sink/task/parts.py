"""The open buckets of a task attempt: rows wait in memory up to a cap, then go to part files.

A bucket's file is opened when its first rows are written out, so a small epoch has few files open at a time. Over the
cap the largest bucket is written out first: that frees the most memory for a row group. Rows that are to be sorted
wait as long as the cap allows, since only what is in memory together is sorted together.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.manifest import PartEntry
from hivesink.core.partfile import InProgress, PartName, Pending
from hivesink.core.table import SortKey, rows_text
from hivesink.errors import StoreUnavailable
from hivesink.ports import FileStore, NewFile
from hivesink.ports.rows import FileFormat, RecordWriter, Routed
from hivesink.sink.task.messages import TablePlan

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_OPEN_FILES = 256
"""Most files that a task holds open, well below the usual `ulimit -n`. Beyond it the longest file is finished."""
_FRAGMENT_BYTES = 2_500
"""What a small Arrow table weighs besides its values (bench/LAB.md)."""
_FRAGMENTS = 64
"""A bucket's fragments are joined at this number, since many tiny arrays weigh far more than their bytes."""


@dataclass(frozen=True)
class Target:
    """How, and in which order of rows, the parts of `table` are written.

    `made` gives their format, which rows that wait don't need: always the same, since it learns from its files.
    `gone` are columns that it no longer has, and that rows which waited still have, after the others: as text.
    """

    table: TablePlan
    made: Callable[[], FileFormat]
    order: tuple[SortKey, ...] = ()
    gone: str = ""

    @property
    def format(self) -> FileFormat:
        return self.made()

    @cached_property
    def rows_text(self) -> str:
        """What its rows are, as a segment tells it."""
        return rows_text(self.table.spec)


@dataclass(slots=True, eq=False)
class Bucket:
    """A bucket of a task attempt: its rows in memory, and its open file, if any."""

    target: Target
    partition: str
    fragments: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    file: NewFile[Pending] | None = None
    writer: RecordWriter | None = None
    rows: int = 0
    written: int = 0

    @property
    def folder(self) -> str:
        return self.target.table.folder(self.partition)


@dataclass(slots=True, kw_only=True)
class InMemory(ABC):
    """Buckets whose rows wait in memory, up to a cap. As a context, it aborts when its block fails."""

    in_groups: ClassVar[bool] = False
    """Whether full row groups are written out while there is memory left."""
    memory: int
    targets: Mapping[str, Target] = field(default_factory=dict)
    """What a router may name, by table."""
    _buckets: dict[tuple[str, str, str], Bucket] = field(default_factory=dict)
    """By table, partition and the columns that are gone: rows without the same columns don't fit into one file."""
    _held: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()

    def write(self, routed: Iterable[Routed]) -> Counter[str]:
        """Add what a router gives to the targets, by their names. Returns how many rows each got."""
        rows = Counter[str]()
        for table, partition, some in routed:
            self.add(self.targets[table], partition, some)
            rows[table] += some.num_rows
        return rows

    def add(self, target: Target, partition: str, rows: pa.Table) -> None:
        """Take over `rows`, whose buffers nobody else may hold, and stay within the memory cap."""
        key = target.table.name, partition, target.gone
        bucket = self._buckets.get(key) or self._buckets.setdefault(key, Bucket(target, partition))
        before = bucket.bytes
        bucket.fragments.append(rows)
        bucket.bytes += rows.nbytes + _FRAGMENT_BYTES
        if len(bucket.fragments) >= _FRAGMENTS:
            bucket.fragments = [pa.concat_tables(bucket.fragments).combine_chunks()]
            bucket.bytes = bucket.fragments[0].nbytes + _FRAGMENT_BYTES
        self._held += bucket.bytes - before
        if self.in_groups and bucket.bytes >= target.format.row_group and not target.order:
            self._write_out(bucket)
        while self._held > self.memory:
            self._write_out(max(self._buckets.values(), key=lambda bucket: bucket.bytes))

    def _take(self, bucket: Bucket) -> pa.Table:
        rows = pa.concat_tables(bucket.fragments)
        self._held -= bucket.bytes
        bucket.fragments, bucket.bytes = [], 0
        return rows

    @abstractmethod
    def _write_out(self, bucket: Bucket) -> None:
        """Write its rows in memory, which are some."""

    @abstractmethod
    def abort(self) -> None:
        """Delete everything that was written."""


@dataclass(slots=True, kw_only=True)
class Parts(InMemory):
    """Everything that a task attempt writes. `touch` is called with folders before the first file in them.

    `name` makes a part's name of its number and extension.
    """

    in_groups = True
    store: FileStore
    name: Callable[[int, str], PartName]
    touch: Callable[[tuple[str, ...]], None]
    file_size: int
    _open: dict[Bucket, None] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)
    _done: list[PartEntry] = field(default_factory=list)
    _next: int = 0

    def finish(self) -> tuple[PartEntry, ...]:
        """Write out and close everything, at the normal end of the input. Only this makes all parts pending."""
        # Open ones first, so that no more are open than before.
        waiting = sorted(self._buckets.values(), key=lambda bucket: bucket.file is None)
        formats = {id(bucket.target): bucket.target.format for bucket in waiting}.values()
        size = min([self.store.parallelism, *map(self._most_open, formats)])
        for start in range(0, len(waiting), size):
            chunk = waiting[start : start + size]
            self._open_files([bucket for bucket in chunk if bucket.fragments and bucket.file is None])
            for bucket in chunk:
                if bucket.fragments:
                    self._write_out(bucket)
            self._close(chunk)
        return tuple(self._done)

    def abort(self) -> None:
        for bucket in self._open:
            if bucket.file is not None:
                bucket.file.abort()
        # Best effort: recovery sweeps what is left, and an error here must not hide the reason for the abort.
        with contextlib.suppress(StoreUnavailable):
            self.store.discard(entry.staged for entry in self._done)

    def _most_open(self, form: FileFormat) -> int:
        """Open files get at most a quarter of the cap, or they are two."""
        return min(MAX_OPEN_FILES, max(2, self.memory // 4 // form.open_bytes))

    def _write_out(self, bucket: Bucket) -> None:
        rows, form, order = self._take(bucket), bucket.target.format, bucket.target.order
        groups = max(1, -(-rows.nbytes // form.row_group))
        step = -(-rows.num_rows // groups)
        if order:
            rows = rows.combine_chunks()
            # Taken a group at a time: a sorted copy of all would need as much memory again.
            places = pc.sort_indices(rows, sort_keys=[(key.column, key.direction) for key in order])
        for start in range(0, rows.num_rows, step):
            group = rows.take(places[start : start + step]) if order else rows.slice(start, step)
            if bucket.writer is None and len(self._open) >= self._most_open(form):
                self._close([max(self._open, key=lambda bucket: bucket.written)])
            writer = bucket.writer or self._open_files([bucket])[0]
            writer.write(group)
            bucket.rows += group.num_rows
            bucket.written += group.nbytes
            if bucket.file is not None and bucket.file.stream.tell() >= self.file_size:
                self._close([bucket])

    def _open_files(self, buckets: list[Bucket]) -> list[RecordWriter]:
        """Begin a part of each bucket, in parallel. If a call fails, recovery sweeps the others."""
        if not {bucket.folder for bucket in buckets} <= self._touched:
            fresh = {bucket.folder for bucket in self._buckets.values()} - self._touched
            self.touch(tuple(sorted(fresh)))
            self._touched |= fresh
        parts = [
            InProgress(bucket.folder, self.name(self._next + number, bucket.target.format.extension))
            for number, bucket in enumerate(buckets)
        ]
        self._next += len(parts)
        files = self.store.run_parallel(partial(self.store.create, part) for part in parts)
        writers = []
        for bucket, file in zip(buckets, files, strict=True):
            bucket.file = file
            self._open[bucket] = None
            bucket.writer = bucket.target.format.open(file.stream)
            writers.append(bucket.writer)
        return writers

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
            place = bucket.target.table.name, bucket.partition
            self._done.append(PartEntry(*place, pending.staged, pending.target, pending.length, bucket.rows))
            bucket.file = bucket.writer = None
            bucket.rows = bucket.written = 0
            del self._open[bucket]
