"""One task attempt: read its batches, assign buckets, write parts, report. Plain functions, no Spark.

Parts become pending only at the normal end of the input. A task that fails, is killed or finds a record that stops
the query leaves nothing that could be committed: no manifest lists its attempt's files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa

from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Rows
from hivesink.core.partfile import PartName
from hivesink.core.rolling import segment_name
from hivesink.sink.task.messages import TablePlan, TaskPlan, TaskReport
from hivesink.sink.task.parts import Parts, Target
from hivesink.sink.task.route import StopError, TableRouter
from hivesink.sink.task.segments import SegmentWriter, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hivesink.core.roll_policy import Encoding
    from hivesink.ports import FileFormat, FileStore, Refit, Routed, RowReader, SegmentStore

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


@dataclass(slots=True)
class Task:
    """A task at work: writes what a router gives to its targets, by their names."""

    files: Parts | SegmentWriter
    targets: Mapping[str, Target]

    def write(self, routed: Iterable[Routed]) -> Counter[str]:
        """Returns how many rows each target got."""
        rows = Counter[str]()
        for table, partition, some in routed:
            self.files.add(self.targets[table], partition, some)
            rows[table] += some.num_rows
        return rows


def run_task(
    batches: Iterable[pa.RecordBatch], plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int
) -> TaskReport:
    """Write `batches` as pending parts, or as rows that wait, and report them.

    A record that stops the query is reported, not raised, so that its line isn't buried in Spark's stack trace.
    Nothing is left of the attempt then.
    """
    work = Task(_files(plan, tools, task, task_attempt), targets(plan, tools))
    router = _router(plan, tools, task, task_attempt)
    rows = Counter[str]()
    try:
        for batch in batches:
            if batch.num_rows:
                rows += work.write(router.route(batch))
        written = rows.pop(plan.target.name, 0)
        counts = Rows(written=written, rejected=rows.total(), **router.counts)
        report = TaskReport(task, task_attempt, counts, newest=router.events.newest, largest=router.largest)
        if isinstance(work.files, Parts):
            return replace(report, parts=work.files.finish())
        return replace(report, opened=work.files.finish())
    except StopError as stop:
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
    router = _router(plan, tools, 0, 0)
    for unfollowed in batches:
        batch, decoded, assigned = router.assign(unfollowed)
        codes = np.full(batch.num_rows, -1)
        codes[slice(None) if decoded.good is None else decoded.good.to_numpy()] = assigned.codes
        paths = pa.array(assigned.paths, pa.string()).take(pa.array(codes, mask=codes < 0))
        yield pa.RecordBatch.from_arrays([*batch.columns, paths], names=[*batch.schema.names, ROUTE])


def run_encoding(
    work: Iterable[Encoding], plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int
) -> TaskReport:
    """Write rows that wait as pending parts and report them, and the slices that were left. Their epochs count rows."""
    parts, tables = open_parts(plan, tools, task, task_attempt), targets(plan, tools)
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
    Task(_files(plan, tools, 0, 0), targets(plan, tools)).write(_router(plan, tools, 0, 0).route(batch))


def _router(plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> TableRouter:
    return TableRouter.of(plan, tools.reader, tools.open_source, task, task_attempt)


def targets(plan: TaskPlan, tools: TaskTools) -> dict[str, Target]:
    """What a router may name, by table."""
    return {
        table.name: Target(
            table.name,
            table.folder,
            tools.format(table),
            plan.order(table),
            table.spec.columns,
            table.spec.partition_columns,
        )
        for table in plan.tables
    }


def _files(plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> Parts | SegmentWriter:
    if plan.config["sink.rolling-policy.on-epoch"]:
        return open_parts(plan, tools, task, task_attempt)
    name = segment_name(plan.epoch, plan.attempt, task_attempt, task)
    return SegmentWriter(store=tools.segments, name=name, memory=plan.config["sink.task-memory"])


def open_parts(plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> Parts:
    """The parts of one task attempt, none of them begun."""
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
