"""One task attempt: read its batches, assign buckets, write parts, report. Plain functions, no Spark.

Parts become pending only at the normal end of the input. A task that fails, is killed or finds a record that stops
the query leaves nothing that could be committed: no manifest lists its attempt's files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnBadRecord, OnLate
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Rows
from hivesink.core.partfile import PartName
from hivesink.core.rolling import segment_name
from hivesink.sink.task.assign import BucketAssigner, ByTime, Moment, assigner_for
from hivesink.sink.task.buckets import Buckets, buckets
from hivesink.sink.task.events import EventTimes, LateRows, column_of
from hivesink.sink.task.lines import LineNumbers
from hivesink.sink.task.messages import BadReport, TablePlan, TaskPlan, TaskReport
from hivesink.sink.task.parts import Parts, Target
from hivesink.sink.task.rejects import position, rejected_rows
from hivesink.sink.task.segments import SegmentWriter, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hivesink.core.roll_policy import Encoding
    from hivesink.ports import BadRow, DecodedRows, FileFormat, FileStore, Refit, RowReader, SegmentStore

_SHORT = 1 << 15
ROUTE = "hivesink partition"
"""The name of a column that no stream has."""


@dataclass(frozen=True, slots=True)
class TaskTools:
    """The adapters that a task works with, made in its own process."""

    store: FileStore
    reader: RowReader
    format: Callable[[TablePlan], FileFormat]
    touch: Callable[[StagingIntent], None]
    segments: SegmentStore
    refit: Refit
    open_source: Callable[[str], BinaryIO]
    """Opens a file of the source, to read. Raises StoreUnavailable, Unsupported."""


class _Stop(Exception):
    def __init__(self, bad: BadReport | None) -> None:
        """`bad`: None where another try has to tell."""
        self.bad = bad


@dataclass(slots=True)
class Task:
    """A task at work."""

    plan: TaskPlan
    tools: TaskTools
    assigner: BucketAssigner
    files: Parts | SegmentWriter
    target: Target
    rejects: Target | None
    events: EventTimes
    late: LateRows | None
    ids: Iterator[str]
    """Names for dead letters, which no other task attempt gives."""
    lines: LineNumbers
    counts: Counter[str] = field(default_factory=Counter)
    largest: int = 0
    """Bytes of the largest raw record so far."""

    def take(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the input. Raises ColumnsDontFit, InvalidOption."""
        batch = self.lines.follow(batch)
        decoded, assigned = assign(self.lines.numbered(batch), self.plan, self.tools.reader, self.assigner)
        self.events.take(batch, decoded.table, decoded.good)
        self._reject(batch, [*decoded.bad, *of_input(assigned.unfit, decoded.good)])
        if self.late is not None:
            assigned, late = self.late.split(assigned)
            if late and self.plan.config["sink.late-rows"] is OnLate.DEAD_LETTER:
                self._put_aside(batch, list(of_input(late, decoded.good)))
            else:
                self.counts["late"] += len(late)
        self.write(decoded.table, assigned)
        self.counts["read"] += batch.num_rows
        self.counts["skipped"] += decoded.skipped
        if self.plan.shape.value is not None:
            lengths = pc.binary_length(batch.column(batch.schema.get_field_index(self.plan.shape.value)))
            self.largest = max(self.largest, pc.max(lengths).as_py() or 0)

    def write(self, decoded: pa.Table, assigned: Buckets) -> None:
        """Put rows into their buckets."""
        rows = decoded.select([column.name for column in self.plan.target.spec.columns])
        if len(assigned.paths) == 1 and not (assigned.codes < 0).any():
            if rows.num_rows:
                self.files.add(self.target, assigned.paths[0], rows)
                self.counts["written"] += rows.num_rows
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
                self.files.add(self.target, path, rows.take(pa.array(indices)))
                self.counts["written"] += len(indices)

    def _reject(self, batch: pa.RecordBatch, bad: list[BadRow]) -> None:
        if not bad:
            return
        bad.sort(key=lambda row: row.index)
        match self.plan.config["sink.on-bad-record"]:
            case OnBadRecord.FAIL:
                self._require_places()
                first = bad[0]
                line = self.lines.of(batch, first.index)
                where = position(batch, self.plan.shape, first.index, line)
                raise _Stop(BadReport(where, first.field, first.reason))
            case OnBadRecord.DROP:
                self.counts["dropped"] += len(bad)
            case _:
                self._put_aside(batch, bad)

    def _require_places(self) -> None:
        if not self.plan.places:
            raise _Stop(None)

    def _put_aside(self, batch: pa.RecordBatch, bad: list[BadRow]) -> None:
        if self.rejects is None:
            message = "a dead letter without a table for it"
            raise AssertionError(message)
        self._require_places()
        lines = [self.lines.of(batch, row.index) for row in bad]
        rows, partition = rejected_rows(batch, self.plan, bad, lines, self.ids)
        self.files.add(self.rejects, partition, rows.select([column.name for column in self.rejects.columns]))
        self.counts["rejected"] += len(bad)


def assign(
    batch: pa.RecordBatch, plan: TaskPlan, reader: RowReader, assigner: BucketAssigner
) -> tuple[DecodedRows, Buckets]:
    """`batch` as rows of the table, and the partition of each good row. Raises ColumnsDontFit, InvalidOption."""
    decoded = reader.read(batch)
    time = plan.config["sink.bucket.time-column"] or plan.shape.timestamp
    moment = Moment(column_of(batch, time, decoded.good), plan.arrival)
    columns = plan.target.spec.partition_columns
    values = assigner.assign(decoded.table, moment) if columns else ()
    bad = assigner.unfit(decoded.table, moment) if isinstance(assigner, ByTime) else ()
    return decoded, buckets(columns, values, decoded.table.num_rows, plan.config["sink.bucket.on-null"], bad)


def of_input(rows: Iterable[BadRow], good: pa.Array | None) -> Iterator[BadRow]:
    """Rows that are numbered among the `good` ones of a batch, with their numbers in it."""
    return (row if good is None else replace(row, index=good[row.index].as_py()) for row in rows)


def run_task(
    batches: Iterable[pa.RecordBatch], plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int
) -> TaskReport:
    """Write `batches` as pending parts, or as rows that wait, and report them.

    A record that stops the query is reported, not raised, so that its line isn't buried in Spark's stack trace.
    Nothing is left of the attempt then.
    """
    work = open_task(plan, tools, task, task_attempt)
    try:
        for batch in batches:
            if batch.num_rows:
                work.take(batch)
        rows = Rows(**work.counts)
        report = TaskReport(task, task_attempt, rows, newest=work.events.newest, largest=work.largest)
        if isinstance(work.files, Parts):
            return replace(report, parts=work.files.finish())
        return replace(report, opened=work.files.finish())
    except _Stop as stop:
        work.files.abort()
        return TaskReport(task, task_attempt, Rows(), bad=stop.bad, unplaced=stop.bad is None)
    except BaseException:
        work.files.abort()
        raise


def route(batches: Iterable[pa.RecordBatch], plan: TaskPlan, tools: TaskTools) -> Iterator[pa.RecordBatch]:
    """`batches` with a last column `ROUTE`, the partition of each row, null where it gets none.

    Where lines are counted, `ROW` is before it. The task that these rows are sent to decodes them again, and alone
    counts and rejects.
    """
    work = open_task(plan, tools, 0, 0)
    for unfollowed in batches:
        batch = work.lines.follow(unfollowed)
        decoded, assigned = assign(work.lines.numbered(batch), plan, tools.reader, work.assigner)
        codes = np.full(batch.num_rows, -1)
        codes[slice(None) if decoded.good is None else decoded.good.to_numpy()] = assigned.codes
        paths = pa.array(assigned.paths, pa.string()).take(pa.array(codes, mask=codes < 0))
        yield pa.RecordBatch.from_arrays([*batch.columns, paths], names=[*batch.schema.names, ROUTE])


def run_encoding(
    work: Iterable[Encoding], plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int
) -> TaskReport:
    """Write rows that wait as pending parts and report them, and the slices that were left. Their epochs count rows."""
    tables = {table.name: _target(table, plan, tools) for table in (plan.target, plan.rejected) if table}
    parts = _parts(plan, tools, task, task_attempt)
    try:
        pieces = ((tables[piece.table], piece) for piece in work)
        left = encode(pieces, tools.segments, tools.refit, parts)
        return TaskReport(task, task_attempt, Rows(), parts.finish(), left=left)
    except BaseException:
        parts.abort()
        raise


def check_input(schema: pa.Schema, plan: TaskPlan, tools: TaskTools) -> None:
    """Take a batch without rows, as every task may have to. Raises ColumnsDontFit, InvalidOption."""
    batch = pa.RecordBatch.from_pylist([], schema=schema)
    open_task(plan, tools, 0, 0).take(batch)


def open_task(plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> Task:
    """A task before its first batch."""
    files: Parts | SegmentWriter
    if plan.config["sink.rolling-policy.on-epoch"]:
        files = _parts(plan, tools, task, task_attempt)
    else:
        name = segment_name(plan.epoch, plan.attempt, task_attempt, task)
        files = SegmentWriter(store=tools.segments, name=name, memory=plan.config["sink.task-memory"])
    return Task(
        plan=plan,
        tools=tools,
        assigner=assigner_for(plan.target.spec, plan.config),
        files=files,
        target=_target(plan.target, plan, tools),
        rejects=_target(plan.rejected, plan, tools) if plan.rejected else None,
        events=EventTimes(plan),
        late=LateRows.of(plan),
        ids=(f"{plan.attempt}-{task_attempt}t{task}-{number}" for number in count(1)),
        lines=LineNumbers(plan, tools.open_source),
    )


def _target(table: TablePlan, plan: TaskPlan, tools: TaskTools) -> Target:
    spec = table.spec
    return Target(
        table.name, table.folder, tools.format(table), plan.order(table), spec.columns, spec.partition_columns
    )


def _parts(plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> Parts:
    config, chunks = plan.config, count()

    def name(n: int, extension: str) -> PartName:
        return PartName(plan.uid, plan.epoch, plan.attempt, task_attempt, task, n, extension)

    def touch(folders: tuple[str, ...]) -> None:
        chunk = next(chunks)
        # The driver may set any part aside, so the list must lead there too.
        leading = folders if chunk else (*folders, *plan.asides)
        tools.touch(StagingIntent(plan.epoch, plan.attempt, task_attempt, task, chunk, leading))

    return Parts(
        store=tools.store,
        name=name,
        touch=touch,
        memory=config["sink.task-memory"],
        file_size=config["sink.rolling-policy.file-size"],
    )
