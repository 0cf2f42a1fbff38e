"""The open buckets of one task attempt: rows wait in memory up to a cap, then go to part files.

A bucket's file is opened when its first rows are written out, so a small epoch has one file open at a time. Over
the cap the largest bucket writes out first: that frees the most for one row group.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hivesink.core.manifest import PartEntry
from hivesink.core.partfile import InProgress
from hivesink.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hivesink.core.partfile import PartName
    from hivesink.ports import FileStore, PartFormat, RecordWriter, StagedFile

MAX_OPEN_FILES = 256
"""Files that a task holds open at most; beyond it the longest one is finished, well below usual `ulimit -n`."""

_FRAGMENT_BYTES = 2_500
"""What a small Arrow table weighs beside its values (docs/performance.md)."""

_FILE_BYTES = 700 << 10
"""What an open Parquet file weighs between two row groups; open files get a quarter of the cap at most."""

_FRAGMENTS = 64
"""A bucket's fragments are joined at this number: many tiny arrays weigh far more than their bytes."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how a table's parts are written."""

    table: str
    folder: Callable[[str], str]
    format: PartFormat


@dataclass(slots=True)
class _Bucket:
    target: Target
    partition: str
    fragments: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    file: StagedFile | None = None
    writer: RecordWriter | None = None
    rows: int = 0
    written: int = 0

    def add(self, rows: pa.Table) -> None:
        self.fragments.append(rows)
        self.bytes += rows.nbytes + _FRAGMENT_BYTES
        if len(self.fragments) >= _FRAGMENTS:
            self.fragments = [pa.concat_tables(self.fragments).combine_chunks()]
            self.bytes = self.fragments[0].nbytes + _FRAGMENT_BYTES


@dataclass(slots=True)
class Parts:
    """Everything that a task attempt writes. `touch` is called with folders before the first file in them."""

    store: FileStore
    name: Callable[[int], PartName]
    touch: Callable[[tuple[str, ...]], None]
    memory: int
    file_size: int
    row_group: int
    _buckets: dict[tuple[str, str], _Bucket] = field(default_factory=dict)
    _open: dict[tuple[str, str], None] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)
    _done: list[PartEntry] = field(default_factory=list)
    _held: int = 0
    _next: int = 0

    def add(self, target: Target, partition: str, rows: pa.Table) -> None:
        """Take over `rows`, whose buffers nobody else holds, and keep within the memory cap."""
        key = (target.table, partition)
        bucket = self._buckets.setdefault(key, _Bucket(target, partition))
        before = bucket.bytes
        bucket.add(rows)
        self._held += bucket.bytes - before
        if bucket.bytes >= self.row_group:
            self._write_out(bucket)
        while self._held > self.memory:
            self._write_out(max(self._buckets.values(), key=lambda found: found.bytes))

    def finish(self) -> tuple[PartEntry, ...]:
        """Write out and close everything: the normal end of the input, the only way to pending parts."""
        # Those that are open first, so that never more are open than before.
        waiting = sorted(self._buckets.values(), key=lambda bucket: bucket.file is None)
        size = min(self.store.parallelism, self._most_open)
        for start in range(0, len(waiting), size):
            some = waiting[start : start + size]
            self._open_files([bucket for bucket in some if bucket.fragments and bucket.file is None])
            for bucket in some:
                if bucket.fragments:
                    self._write_out(bucket)
            self._close(some)
        return tuple(self._done)

    def abort(self) -> None:
        """Throw away what is in progress, and give back what is pending."""
        for bucket in self._buckets.values():
            if bucket.file is not None:
                bucket.file.abort()
        # Best effort: recovery sweeps what stays behind, and the reason for the abort must not be lost to it.
        with contextlib.suppress(StoreUnavailable):
            self.store.discard(entry.staged for entry in self._done)

    @property
    def _most_open(self) -> int:
        return min(MAX_OPEN_FILES, max(8, self.memory // 4 // _FILE_BYTES))

    def _write_out(self, bucket: _Bucket) -> None:
        rows = pa.concat_tables(bucket.fragments)
        self._held -= bucket.bytes
        bucket.fragments, bucket.bytes = [], 0
        writer = bucket.writer or self._open_file(bucket)
        for group in _row_groups(rows, self.row_group):
            writer.write(group)
        bucket.rows += rows.num_rows
        bucket.written += rows.nbytes
        if bucket.file is not None and bucket.file.stream.tell() >= self.file_size:
            self._close([bucket])

    def _open_file(self, bucket: _Bucket) -> RecordWriter:
        if len(self._open) >= self._most_open:
            self._close([max((self._buckets[key] for key in self._open), key=lambda found: found.written)])
        return self._open_files([bucket])[0]

    def _open_files(self, some: list[_Bucket]) -> list[RecordWriter]:
        """Begin parts of `some`, at a time. Where one can't be, the others are leftovers, which recovery sweeps."""
        parts = [self._next_part(bucket) for bucket in some]
        files = self.store.run_parallel(partial(self.store.create, part) for part in parts)
        writers = []
        for bucket, file in zip(some, files, strict=True):
            bucket.file = file
            bucket.writer = bucket.target.format.open(file.stream)
            self._open[bucket.target.table, bucket.partition] = None
            writers.append(bucket.writer)
        return writers

    def _next_part(self, bucket: _Bucket) -> InProgress:
        folder = bucket.target.folder(bucket.partition)
        if folder not in self._touched:
            waiting = {found.target.folder(found.partition) for found in self._buckets.values()}
            fresh = tuple(sorted(waiting - self._touched))
            self.touch(fresh)
            self._touched.update(fresh)
        self._next += 1
        return InProgress(folder, self.name(self._next - 1))

    def _close(self, some: Iterable[_Bucket]) -> None:
        """Make the open ones of `some` pending, at a time; if one fails, the others are leftovers."""
        closing = []
        for bucket in some:
            if bucket.file is not None and bucket.writer is not None:
                bucket.writer.close()
                closing.append((bucket, bucket.file))
        for (bucket, _), pending in zip(
            closing, self.store.run_parallel(file.close_for_commit for _, file in closing), strict=True
        ):
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
            del self._open[bucket.target.table, bucket.partition]


def _row_groups(rows: pa.Table, size: int) -> Iterable[pa.Table]:
    groups = max(1, -(-rows.nbytes // size))
    step = -(-rows.num_rows // groups)
    return _slices(rows, step)


def _slices(rows: pa.Table, step: int) -> Iterator[pa.Table]:
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)
