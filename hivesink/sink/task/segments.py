"""Rows that wait: a task attempt's segment, and the part files made of segments later.

A segment is cheap to write: Arrow's own format, a stream of record batches for each bucket.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from hivesink.core.partition import parse_path
from hivesink.core.partition_value import canonical
from hivesink.core.records import Opened, Slice
from hivesink.core.table import columns_text
from hivesink.errors import PartitionInvalid, RowsUnfit, SegmentLost
from hivesink.sink.task.messages import LeftSlice
from hivesink.sink.task.parts import InMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hivesink.core.partition import PartitionKey
    from hivesink.core.rolling import Encoding, OpenRows
    from hivesink.core.table import Column, TableSpec
    from hivesink.errors import HiveSinkError
    from hivesink.ports import Refit, SegmentFile, SegmentStore
    from hivesink.sink.task.parts import Bucket, Parts, Target

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
    _file: SegmentFile | None = None
    _opened: list[Opened] = field(default_factory=list)
    _options: dict[str, pa.ipc.IpcWriteOptions] = field(default_factory=dict)
    """By table."""

    def finish(self) -> tuple[Opened, ...]:
        """Write out everything and make it durable, at the normal end of the input."""
        for bucket in self._buckets.values():
            if bucket.fragments:
                self._write_out(bucket)
        if self._file is not None:
            self._file.close()
        return tuple(self._opened)

    def abort(self) -> None:
        if self._file is not None:
            self._file.abort()

    def _is_full(self, bucket: Bucket) -> bool:  # noqa: ARG002  whatever it holds
        return False

    def _write_out(self, bucket: Bucket) -> None:
        told = {_COLUMNS: bucket.target.columns_text}
        rows = self._take(bucket).replace_schema_metadata(told)
        self._file = self._file or self.store.create(self.name)
        stream = _Summed(self._file.stream)
        start = stream.tell()
        table = bucket.target.table
        options = self._options.get(table) or self._options.setdefault(table, _options(rows))
        with pa.ipc.new_stream(pa.PythonFile(stream, mode="w"), rows.schema, options=options) as writer:
            writer.write_table(rows.combine_chunks(), max_chunksize=_BATCH)
        span = Slice(self.name, start, stream.tell() - start, rows.num_rows, stream.crc32)
        self._opened.append(Opened(bucket.target.table, bucket.partition, span))


def _options(rows: pa.Table) -> pa.ipc.IpcWriteOptions:
    """Compressed only if that halves `rows`: it costs more CPU than all else that a segment takes."""
    few = rows.slice(0, 1 + _SAMPLE * rows.num_rows // (1 + rows.nbytes))
    plain = few.combine_chunks().to_batches()[0].serialize()
    return _LZ4 if 2 * pa.compress(plain, "lz4", asbytes=False).size <= plain.size else _PLAIN


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


def encode(
    work: Iterable[tuple[Target, Encoding]], store: SegmentStore, refit: Refit, parts: Parts
) -> tuple[LeftSlice, ...]:
    """Add the rows of slices to `parts`. Returns the slices of which it has added none, since some can't be.

    Raises StoreUnavailable.
    """
    left = []
    for target, piece in work:
        for span in piece.slices:
            try:
                _require_partition((piece.table, piece.partition), target.partition_columns)
                stream = _Stream.open(store, span)
                is_same = stream.columns == target.columns_text
                rows = stream.batches
                if not is_same:
                    rows = partial(_refitted, stream, target.columns, (piece.table, piece.partition), refit)
                if not is_same:
                    for _ in rows():
                        """All of them fit, so none is added in vain."""
            except (RowsUnfit, SegmentLost) as error:
                opened = Opened(piece.table, piece.partition, span)
                left.append(LeftSlice(opened, str(error), retryable=error.retryable))
                continue
            for batch in rows():
                # Parquet files have the metadata of their writer's schema, never that of the rows.
                gone = str([*batch.schema][len(target.columns) :] or "")
                parts.add(replace(target, gone=gone), piece.partition, pa.Table.from_batches([batch]))
    return tuple(left)


def lost_slices(rows: OpenRows, store: SegmentStore) -> dict[Opened, SegmentLost]:
    """The slices of `rows` that can't be read. Reads all of them whole. Raises StoreUnavailable."""
    lost = {}
    for key, bucket in rows.buckets.items():
        for span in bucket.slices:
            error = _loss(store, span)
            if error is not None:
                lost[Opened(*key, span)] = error
    return lost


def _loss(store: SegmentStore, span: Slice) -> SegmentLost | None:
    try:
        for _ in _Stream.open(store, span).batches():
            """Arrow can read it."""
    except SegmentLost as error:
        return error
    return None


def held_back(rows: OpenRows, spec: TableSpec, store: SegmentStore, refit: Refit) -> dict[PartitionKey, HiveSinkError]:
    """The open buckets with rows that can't be read, or don't fit the table of `spec`, each with the first reason.

    Reads the beginning of each segment, and the rows of those that came for other columns. Raises StoreUnavailable.
    """
    lengths, told = store.lengths(), dict[str, str | None]()

    def check(key: PartitionKey, span: Slice) -> None:
        _require_length(store, span, lengths.get(span.segment))
        if key[0] == str(spec.name):
            _require_partition(key, spec.partition_columns)
            if span.segment not in told:
                start = store.read(span.segment, span.offset, min(span.length, _SCHEMA))
                told[span.segment] = _Stream(span, start, store.path(span.segment)).columns
            if told[span.segment] != columns_text(spec.columns):
                for _ in _refitted(_Stream.open(store, span), spec.columns, key, refit):
                    """It fits."""

    def problem(key: PartitionKey, slices: Iterable[Slice]) -> HiveSinkError | None:
        try:
            for span in slices:
                check(key, span)
        except (RowsUnfit, SegmentLost) as error:
            return error
        return None

    problems = {key: problem(key, bucket.slices) for key, bucket in rows.buckets.items()}
    return {key: error for key, error in problems.items() if error is not None}


def _require_partition(key: PartitionKey, columns: Sequence[Column]) -> None:
    """Raises RowsUnfit where the table can't have that partition any more."""
    for column, (_, value) in zip(columns, parse_path(key[1]) if columns else (), strict=False):
        try:
            canonical(value, column.type)
        except PartitionInvalid as error:  # noqa: PERF203  it names the column
            raise RowsUnfit(*key, column.name, ("another type", str(column.type)), error.reason) from error


def _require_length(store: SegmentStore, span: Slice, length: int | None) -> None:
    end = span.offset + span.length
    if length is None or length < end:
        state = "is missing" if length is None else f"has {length} bytes of {end}"
        raise SegmentLost(store.path(span.segment), f"it {state}")


@dataclass(frozen=True)
class _Stream:
    """A slice, as far as it was read."""

    span: Slice
    data: bytes
    path: str

    @classmethod
    def open(cls, store: SegmentStore, span: Slice) -> _Stream:
        """All of it. Raises SegmentLost, StoreUnavailable."""
        data, path = store.read(span.segment, span.offset, span.length), store.path(span.segment)
        if span.crc32 != zlib.crc32(data):
            raise SegmentLost(path, f"it is damaged (the checksum of its bytes from {span.offset} on is wrong)")
        return cls(span, data, path)

    @cached_property
    def columns(self) -> str | None:
        """The columns that its rows came for; None if that is not known. Raises SegmentLost."""
        try:
            told = pa.ipc.open_stream(pa.BufferReader(self.data)).schema.metadata
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(str(error)) from error
        return (told or {}).get(_COLUMNS, b"").decode() or None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises SegmentLost."""
        rows = 0
        try:
            for batch in pa.ipc.open_stream(pa.BufferReader(self.data), options=_READ):
                rows += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(str(error)) from error
        if rows != self.span.rows:
            reason = f"it holds {rows} rows of {self.span.rows}"
            raise self._damaged(reason)

    def _damaged(self, reason: str) -> SegmentLost:
        first = reason.partition("\n")[0]
        return SegmentLost(self.path, f"it is damaged ({first}, from byte {self.span.offset} on)")


def _refitted(stream: _Stream, columns: Sequence[Column], key: PartitionKey, refit: Refit) -> Iterator[pa.RecordBatch]:
    """The rows of a slice in `columns`. Raises RowsUnfit, SegmentLost."""
    for batch in stream.batches():
        yield refit(batch, columns, key)
