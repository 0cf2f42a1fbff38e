"""Rows that wait: a task attempt's segment, and the part files made of segments later.

A segment is cheap to write: Arrow's own format, a stream of record batches for each bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import pyarrow as pa

from hivesink.core.manifest import Opened, Slice
from hivesink.core.partition import PartitionKey, parse_path
from hivesink.core.partition_value import canonical
from hivesink.core.rolling import OpenRows
from hivesink.core.table import TableSpec, rows_text
from hivesink.errors import HiveSinkError, PartitionInvalid, RowsUnfit, SegmentLost
from hivesink.ports import NewFile, SegmentStore
from hivesink.ports.rows import Refit
from hivesink.sink.task.messages import LeftSlice
from hivesink.sink.task.parts import Bucket, InMemory, Parts

# Threads for each buffer cost more than they bring: executors run a task on each core.
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_SAMPLE = 256 << 10
"""Bytes of a table's first rows by which its segments are compressed or not."""
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_BATCH = 64 << 10
"""Rows of a record batch: an encoding task holds a batch in memory."""
_SCHEMA = 1 << 20
"""Bytes that hold the columns of a stream at its beginning."""
_COLUMNS = b"hivesink.columns"
"""The metadata of a stream that tells its columns as Hive has them: to Arrow, VARCHAR(3) is STRING."""


@dataclass(slots=True, kw_only=True)
class SegmentWriter(InMemory):
    """Takes rows as `Parts` does, and keeps them waiting."""

    store: SegmentStore
    name: str
    _file: NewFile[None] | None = None
    _opened: list[Opened] = field(default_factory=list)
    _options: dict[str, pa.ipc.IpcWriteOptions] = field(default_factory=dict)
    """By table."""

    def finish(self) -> tuple[Opened, ...]:
        """Write out everything and make it durable, at the normal end of the input."""
        for bucket in self._buckets.values():
            if bucket.fragments:
                self._write_out(bucket)
        if self._file is not None:
            self._file.close_for_commit()
        return tuple(self._opened)

    def abort(self) -> None:
        if self._file is not None:
            self._file.abort()

    def _write_out(self, bucket: Bucket) -> None:
        rows = self._take(bucket).replace_schema_metadata({_COLUMNS: bucket.target.rows_text})
        self._file = self._file or self.store.create(self.name)
        stream, table = _Summed(self._file.stream), bucket.target.table.name
        start = stream.tell()
        options = self._options.get(table)
        if options is None:
            # Compressed only if that halves the rows: it costs more CPU than all else that a segment takes.
            few = rows.slice(0, 1 + _SAMPLE * rows.num_rows // (1 + rows.nbytes))
            plain = few.combine_chunks().to_batches()[0].serialize()
            is_small = 2 * pa.compress(plain, "lz4", asbytes=False).size <= plain.size
            options = self._options[table] = _LZ4 if is_small else _PLAIN
        with pa.ipc.new_stream(pa.PythonFile(stream, mode="w"), rows.schema, options=options) as writer:
            writer.write_table(rows.combine_chunks(), max_chunksize=_BATCH)
        span = Slice(self.name, start, stream.tell() - start, rows.num_rows, stream.crc32)
        self._opened.append(Opened(table, bucket.partition, span))


@dataclass(slots=True)
class _Summed:
    """A stream that adds up the checksum of what is written to it."""

    stream: BinaryIO
    crc32: int = 0
    closed: bool = False

    def write(self, data: bytes) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        return self.stream.write(data)

    def tell(self) -> int:
        return self.stream.tell()

    def flush(self) -> None:
        """Whoever has the file makes it durable."""


def encode(work: Iterable[Opened], store: SegmentStore, refit: Refit, parts: Parts) -> tuple[LeftSlice, ...]:
    """Add the rows of slices to `parts`. Returns slices of which none is, as some can't be. Raises StoreUnavailable."""
    left = []
    for waiting in work:
        target, key = parts.targets[waiting.table], waiting.key
        spec = target.table.spec
        try:
            _require_partition(key, spec)
            rows: Iterable[pa.RecordBatch] = (stream := open_slice(store, waiting.slice))
            if _rows_text(stream) != target.rows_text:
                # All of them fit, or none is added.
                rows = [refit(batch, spec, key) for batch in stream]
        except (RowsUnfit, SegmentLost) as error:
            left.append(LeftSlice(waiting, str(error), retryable=error.retryable))
            continue
        for batch in rows:
            # Parquet files have the metadata of their writer's schema, never that of the rows.
            gone = str([*batch.schema][len(spec.columns) :] or "")
            parts.add(replace(target, gone=gone), waiting.partition, pa.Table.from_batches([batch]))
    return tuple(left)


def lost_slices(rows: OpenRows, store: SegmentStore, *, whole: bool = True) -> dict[Opened, SegmentLost]:
    """The slices of `rows` that can't be read; unless all are read `whole`, those that aren't there in full length.

    Raises StoreUnavailable.
    """
    lengths, lost = store.lengths(), {}
    for opened in rows.opened:
        try:
            if whole or lengths.get(opened.slice.segment, -1) < opened.slice.offset + opened.slice.length:
                open_slice(store, opened.slice)
        except SegmentLost as error:  # noqa: PERF203  each slice has its own
            lost[opened] = error
    return lost


def held_back(rows: OpenRows, spec: TableSpec, store: SegmentStore, refit: Refit) -> dict[PartitionKey, HiveSinkError]:
    """The open buckets with rows that can't be read, or don't fit the table of `spec`, each with the first reason.

    Reads the beginning of each segment, and the rows of those that came for other columns. Raises StoreUnavailable.
    """
    lost, told = lost_slices(rows, store, whole=False), dict[str, str | None]()
    problems: dict[PartitionKey, HiveSinkError] = {opened.key: error for opened, error in lost.items()}
    for opened in rows.opened:
        key, span = opened.key, opened.slice
        if key in problems or opened.table != str(spec.name):
            continue
        try:
            _require_partition(key, spec)
            if span.segment not in told:
                told[span.segment] = _rows_text(open_slice(store, span, _SCHEMA))
            if told[span.segment] != rows_text(spec):
                for batch in open_slice(store, span):
                    refit(batch, spec, key)
        except (RowsUnfit, SegmentLost) as error:
            problems[key] = error
    return problems


def _require_partition(key: PartitionKey, spec: TableSpec) -> None:
    """Raises RowsUnfit where the table can't have that partition any more."""
    columns = spec.partition_columns
    for column, (_, value) in zip(columns, parse_path(key[1]) if columns else (), strict=False):
        try:
            canonical(value, column.type)
        except PartitionInvalid as error:  # noqa: PERF203  it names the column
            raise RowsUnfit(*key, column.name, ("another type", str(column.type)), error.reason) from error


def open_slice(store: SegmentStore, span: Slice, most: int | None = None) -> pa.RecordBatchReader:
    """A slice; with `most` only its first bytes, whose checksum is not known. Raises SegmentLost, StoreUnavailable."""
    data = store.read(span.segment, span.offset, min(span.length, most or span.length))
    reason = "the checksum of its bytes is wrong"
    if most or zlib.crc32(data) == span.crc32:
        try:
            return pa.ipc.open_stream(pa.BufferReader(data), options=_READ)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
    raise SegmentLost(store.path(span.segment), f"it is damaged ({reason}, from byte {span.offset} on)")


def _rows_text(stream: pa.RecordBatchReader) -> str | None:
    """What its rows came as; None if that is not known."""
    return (stream.schema.metadata or {}).get(_COLUMNS, b"").decode() or None
