"""The router of a table: the rows of a batch go to its partitions, those that don't fit to its dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import CommitTrigger, OnBadRecord, OnLate
from hivesink.core.column_source import RECORD, ROW
from hivesink.errors import HiveSinkError
from hivesink.ports.rows import BadRow, DecodedRows, Routed, RowReader
from hivesink.sink.task.assign import Assign, Moment, assigner_for
from hivesink.sink.task.buckets import Buckets, buckets
from hivesink.sink.task.events import EventTimes, column_of, commit_rule, split_late
from hivesink.sink.task.messages import BadReport, InputShape, TablePlan, TaskPlan, TaskTools
from hivesink.sink.task.rejects import gathered, letters, position

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SHORT = 1 << 15


class StopError(Exception):
    """A record that stops the query. `bad`: None where another try has to tell."""

    def __init__(self, bad: BadReport | None) -> None:
        self.bad = bad


class TableRouter:
    """Gives each row of a task attempt to a target; `counts` has what it gives to none."""

    def __init__(self, plan: TaskPlan, tools: TaskTools, task: int = 0, task_attempt: int = 0) -> None:
        self.plan = plan
        self.events = EventTimes(plan)
        self.counts = Counter[str]()
        self.largest = 0
        """Bytes of the largest raw record so far."""
        self.reader = tools.reader
        self.assigner = assigner_for(plan.target.spec, plan.config)
        self.lines = LineNumbers(plan.shape, tools.open_source)
        by_time = plan.config["sink.partition-commit.trigger"] is CommitTrigger.PARTITION_TIME
        counts_late = by_time and plan.late is not None and plan.config["sink.late-rows"] is not OnLate.APPEND
        self._late = commit_rule(plan.target.spec, plan.config) if counts_late else None
        # Names for dead letters, which no other task attempt gives.
        self._ids = (f"{plan.attempt}-{task_attempt}t{task}-{number}" for number in count(1))

    def route(self, batch: pa.RecordBatch) -> Iterator[Routed]:
        """Raises InvalidOption, StopError."""
        config, shape, followed = self.plan.config, self.plan.shape, self.lines.follow(batch)
        for records, decoded, assigned, bad in assign(followed, self.plan, self.reader, self.assigner):
            rows = records if decoded.parts is None else decoded.parts
            self.events.take(rows, decoded.table, decoded.good)
            if bad:
                match config["sink.on-bad-record"]:
                    case OnBadRecord.FAIL:
                        first = bad[0]
                        named, lines = self._named(rows, [first])
                        raise StopError(BadReport(position(named, shape, lines[0]), first.field, first.reason))
                    case OnBadRecord.DROP:
                        self.counts["dropped"] += len(bad)
                    case _:
                        yield self._dead_letters(rows, bad)
            in_time = assigned
            if self._late is not None:
                in_time, unnumbered = split_late(assigned, self._late, self.plan.late)
                late = of_input(unnumbered, decoded.good)
                if late and config["sink.late-rows"] is OnLate.DEAD_LETTER:
                    yield self._dead_letters(rows, late)
                else:
                    self.counts["late"] += len(late)
            yield from by_partition(self.plan.target, decoded.table, in_time)
            self.counts["read"] += rows.num_rows
            self.counts["extra"] += rows.num_rows - records.num_rows
            self.counts["skipped"] += decoded.skipped
            if shape.value is not None:
                lengths = pc.binary_length(records.column(records.schema.get_field_index(shape.value)))
                self.largest = max(self.largest, pc.max(lengths).as_py() or 0)

    def _named(self, batch: pa.RecordBatch, bad: list[BadRow]) -> tuple[pa.RecordBatch, list[int | None]]:
        if not self.plan.places:
            raise StopError(None)
        rows = batch.take(pa.array([row.index for row in bad], pa.int64()))
        return rows, self.lines.of(rows)

    def _dead_letters(self, batch: pa.RecordBatch, bad: list[BadRow]) -> Routed:
        named, lines = self._named(batch, bad)
        rows, left = gathered(named, self.plan.shape)
        # A letter counts as a row.
        for name in ("read", "extra"):
            self.counts[name] -= len(bad) - len(left)
        bad, lines = [bad[place] for place in left], [lines[place] for place in left]
        partition = f"dt={self.plan.arrival:%Y-%m-%d}"
        plan = replace(self.plan, schema=self.reader.schema)
        return plan.dead_letters(partition, letters(rows, plan, bad, lines, self._ids))


def assign(
    batch: pa.RecordBatch, plan: TaskPlan, reader: RowReader, assigner: Assign
) -> Iterator[tuple[pa.RecordBatch, DecodedRows, Buckets, list[BadRow]]]:
    """Slices of `batch` as rows of the table, the partition of each good row, and the bad rows by their input row.

    A slice is what the reader takes at once. Raises InvalidOption.
    """
    columns, on_null = plan.target.spec.partition_columns, plan.config["sink.bucket.on-null"]
    time = plan.config["sink.bucket.time-column"] or plan.shape.timestamp
    while True:
        decoded = reader.read(batch)
        parts = batch if decoded.parts is None else decoded.parts
        values, bad = assigner(decoded.table, Moment(column_of(parts, time, decoded.good), plan.arrival))
        assigned = buckets(columns, values, decoded.table.num_rows, on_null, bad)
        unfit = [*decoded.bad, *of_input(assigned.unfit, decoded.good)]
        count = parts.column(RECORD)[-1].as_py() + 1 if parts.num_rows and parts is not batch else batch.num_rows
        yield batch.slice(0, count), decoded, assigned, sorted(unfit, key=lambda row: row.index)
        batch = batch.slice(count)
        if not batch.num_rows:
            return


def of_input(rows: Iterable[BadRow], good: pa.Array | None) -> list[BadRow]:
    """Rows that are numbered among the `good` ones of a batch, with their numbers in it."""
    return [row if good is None else replace(row, index=good[row.index].as_py()) for row in rows]


def by_partition(table: TablePlan, decoded: pa.Table, assigned: Buckets) -> Iterator[Routed]:
    """The rows that have a partition, in the columns of `table`."""
    rows = decoded.select([column.name for column in table.spec.columns])
    if len(assigned.paths) == 1 and not (assigned.codes < 0).any():
        if rows.num_rows:
            yield Routed(table.name, assigned.paths[0], rows)
        return
    # Of a table in pieces, each `take` would join the pieces anew.
    rows = rows.combine_chunks()
    # Of 16 bits, a stable order takes two passes over the rows.
    codes = assigned.codes.astype(np.int16) if len(assigned.paths) < _SHORT else assigned.codes
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(assigned.paths) + 1))
    for code, path in enumerate(assigned.paths):
        # A copy for each bucket: slices of a shared table would keep all of it in memory.
        indices = order[edges[code] : edges[code + 1]]
        if len(indices):
            yield Routed(table.name, path, rows.take(pa.array(indices)))


_FARTHEST = 1 << 30
"""Bytes of a file that are read again for the line of a bad record. A file may have bad records in every block."""
_CHUNK = 4 << 20
_SPLIT_WHILE_PACKED = ".bz2"
"""Hadoop reads other packed files as a block each."""


@dataclass(slots=True)
class LineNumbers:
    """The number of a row's line in its file, from the block that Spark read it in, as Spark counts no lines.

    A task that gets each row of its blocks, in order, counts them from the beginning of a block; how many lines are
    before it, another look at the file tells. Only where that holds has the plan's shape a `block`.
    """

    shape: InputShape
    open: Callable[[str], BinaryIO]
    """Opens a file of the source, to read. Raises StoreUnavailable, Unsupported."""
    _block: tuple[str | None, int] | None = None
    """Path and beginning of the newest row's block."""
    _rows: int = 0
    """How many rows of it have come."""
    _before: dict[tuple[str, int], int | None] = field(default_factory=dict)
    """By block, the lines before it; None: nobody can tell."""

    def follow(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with a last column `ROW`, the rows of its block before each row, unless it has that already."""
        if self.shape.block not in batch.schema.names or ROW in batch.schema.names:
            return batch
        paths, blocks = self._places(batch)
        rows = np.arange(batch.num_rows)
        if len(rows):
            begins = np.empty(len(rows), bool)
            begins[0] = (paths[0].as_py(), int(blocks[0])) != self._block
            begins[1:] = np.asarray(pc.not_equal(paths[1:], paths[:-1])) | (np.diff(blocks) != 0)
            firsts = np.concatenate([[-self._rows], np.flatnonzero(begins)])
            rows -= firsts[np.cumsum(begins)]
            self._block, self._rows = (paths[-1].as_py(), int(blocks[-1])), int(rows[-1]) + 1
        return pa.RecordBatch.from_arrays([*batch.columns, pa.array(rows)], [*batch.schema.names, ROW])

    def of(self, followed: pa.RecordBatch) -> list[int | None]:
        """The line of each row, from 1; None where nobody knows, or its file can't be read again."""
        if self.shape.block not in followed.schema.names:
            return [None] * followed.num_rows
        paths, blocks = self._places(followed)
        lines = list[int | None]()
        for path, block, row in zip(paths.to_pylist(), blocks.tolist(), followed.column(ROW).to_pylist(), strict=True):
            if (path, block) not in self._before:
                self._before[path, block] = self._lines_before(path, block)
            before = self._before[path, block]
            lines.append(None if before is None else before + row + 1)
        return lines

    def _places(self, batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.int64]]:
        names = batch.schema.names
        return batch.column(names.index(self.shape.path)), np.asarray(batch.column(names.index(self.shape.block)))

    def _lines_before(self, path: str, block: int) -> int | None:
        """How many lines of the file are in earlier blocks."""
        if not block:
            return 0
        if block <= _FARTHEST and not path.endswith(_SPLIT_WHILE_PACKED):
            # The record counts, with or without its line; and a server that is away is asked once.
            with suppress(HiveSinkError, OSError), self.open(unquote(path)) as stream:
                return lines_before(stream, block)
        return None


def lines_before(stream: BinaryIO, block: int) -> int:
    """How many lines of a file Hadoop reads in the blocks before the block that begins at `block` (bytes, not 0).

    A block has the lines that begin after its first byte and not after the next block's (LineRecordReader). Lines end
    with CR, LF or both.
    """
    ends, left, last = 0, block, b""
    while left:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            break
        ends += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
        ends -= last == b"\r" and chunk[:1] == b"\n"
        left, last = left - len(chunk), chunk[-1:]
    # A line that ends with both ends after the second.
    ends -= last == b"\r" and stream.read(1) == b"\n"
    return ends + 1
