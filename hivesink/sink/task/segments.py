"""Rows that wait: a task attempt's segment, and the part files made of segments later.

A segment is cheap to write: Arrow's own format, one stream of record batches for each bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from hivesink.core.rolling import Opened, Slice
from hivesink.errors import RowsUnfit, SegmentLost
from hivesink.sink.task.parts import InMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hivesink.core.partition import PartitionKey
    from hivesink.core.rolling import Encoding, OpenRows
    from hivesink.errors import HiveSinkError
    from hivesink.ports import SegmentFile, SegmentStore
    from hivesink.sink.task.parts import Bucket, Parts, Target

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_BATCH = 64 << 10
"""Rows of a record batch: an encoding task holds one in memory."""
_SCHEMA = 1 << 20
"""Bytes that hold the columns of a stream at its beginning."""


@dataclass(slots=True, kw_only=True)
class SegmentWriter(InMemory):
    """Takes rows as `Parts` does, and keeps them waiting."""

    store: SegmentStore
    name: str
    _file: SegmentFile | None = None
    _opened: list[Opened] = field(default_factory=list)

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
        rows = self._take(bucket)
        self._file = self._file or self.store.create(self.name)
        stream = self._file.stream
        start = stream.tell()
        with pa.ipc.new_stream(pa.PythonFile(stream, mode="w"), rows.schema, options=_OPTIONS) as writer:
            writer.write_table(rows.combine_chunks(), max_chunksize=_BATCH)
        one = Slice(self.name, start, stream.tell() - start, rows.num_rows)
        self._opened.append(Opened(bucket.target.table, bucket.partition, one))


def encode(work: Iterable[tuple[Target, Encoding]], store: SegmentStore, parts: Parts) -> None:
    """Add the rows of slices to `parts`, by the names of the columns.

    Raises RowsUnfit for rows that the table's columns can't hold any more; SegmentLost, StoreUnavailable.
    """
    for target, piece in work:
        for one in piece.slices:
            for rows in _read(store, one):
                fitting = target.format.fit(rows, target.table, piece.partition)
                parts.add(target, piece.partition, fitting)


def unfit(
    rows: OpenRows, table: str, store: SegmentStore, schema: pa.Schema, fit: Callable[[pa.Table, str, str], pa.Table]
) -> dict[PartitionKey, HiveSinkError]:
    """The open buckets of `table` whose rows don't `fit` its `schema` of today, each with the reason.

    Reads the columns of each segment, and the rows of those that have other ones. Raises StoreUnavailable.
    """
    changed: dict[str, bool] = {}

    def problem(key: PartitionKey, slices: Iterable[Slice]) -> HiveSinkError | None:
        try:
            for one in slices:
                if one.segment not in changed:
                    changed[one.segment] = not _schema(store, one).equals(schema)
                for batch in _read(store, one) if changed[one.segment] else ():
                    fit(batch, *key)
        except (RowsUnfit, SegmentLost) as error:
            return error
        return None

    found = {key: problem(key, bucket.slices) for key, bucket in rows.buckets.items() if key[0] == table}
    return {key: error for key, error in found.items() if error is not None}


def _schema(store: SegmentStore, one: Slice) -> pa.Schema:
    start = store.read(one.segment, one.offset, min(one.length, _SCHEMA))
    return pa.ipc.open_stream(pa.BufferReader(start)).schema


def _read(store: SegmentStore, one: Slice) -> Iterator[pa.Table]:
    data = store.read(one.segment, one.offset, one.length)
    for batch in pa.ipc.open_stream(pa.BufferReader(data)):
        yield pa.Table.from_batches([batch])
