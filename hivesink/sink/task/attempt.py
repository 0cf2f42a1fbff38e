"""A task attempt: read batches, waiting rows or dead letters, write parts, report. Plain functions, no Spark.

Parts become pending only at the normal end of the input. A task that fails, is killed or finds a record that stops
the query leaves nothing that could be committed: no manifest lists its attempt's files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timezone
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.core.column_source import RECORD
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Opened, PartEntry, Rows
from hivesink.core.partfile import PartName
from hivesink.core.partition import aside
from hivesink.core.reads import segment_name
from hivesink.ports.rows import Routed, RowReader
from hivesink.sink.task.assign import assigner_for
from hivesink.sink.task.messages import TaskPlan, TaskReport, TaskTools
from hivesink.sink.task.parts import Parts, Target
from hivesink.sink.task.rejects import SCHEMA_OF, as_stream
from hivesink.sink.task.route import StopError, TableRouter, assign, by_partition
from hivesink.sink.task.segments import SegmentWriter, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUTE = "hivesink partition"
"""The name of a column that no stream has."""


def run_task(
    batches: Iterable[pa.RecordBatch], plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int
) -> TaskReport:
    """Write `batches` as pending parts, or as rows that wait, and report them.

    A record that stops the query is reported, not raised, so that its line isn't buried in Spark's stack trace.
    Nothing is left of the attempt then.
    """
    router, rows = TableRouter(plan, tools, task, task_attempt), Counter[str]()
    # Where a part may be lost before its publish, its rows must be in a segment: they are rolled by the next epoch.
    waits = not (plan.config["sink.rolling-policy.on-epoch"] and tools.store.keeps_staged)
    name = segment_name(plan.epoch, plan.attempt, task_attempt, task)
    parts = open_parts(plan, tools, task, task_attempt)
    segment = SegmentWriter(store=tools.segments, name=name, memory=parts.memory, targets=parts.targets)
    try:
        with segment if waits else parts as files:
            for batch in batches:
                if batch.num_rows:
                    rows += files.write(router.route(batch))
            opened, done = segment.finish() if waits else (), () if waits else parts.finish()
    except StopError as stop:
        return TaskReport(task, task_attempt, Rows(), bad=stop.bad, unplaced=stop.bad is None)
    written = rows.pop(plan.target.name, 0)
    counts = Rows(written=written, rejected=rows.total(), **router.counts)
    newest, largest = router.events.newest, router.largest
    return TaskReport(task, task_attempt, counts, done, opened=opened, newest=newest, largest=largest)


def route(batches: Iterable[pa.RecordBatch], plan: TaskPlan, tools: TaskTools) -> Iterator[pa.RecordBatch]:
    """`batches` with a last column `ROUTE`, the partition of each row, null where it gets none.

    Where lines are counted, `ROW` is before it. The task that these rows are sent to decodes them again, and alone
    counts and rejects.
    """
    router = TableRouter(plan, tools)
    followed = map(router.lines.follow, batches)
    every = (some for given in followed for some in assign(given, plan, router.reader, router.assigner))
    for batch, decoded, assigned, _ in every:
        codes = np.full(batch.num_rows, -1)
        good = slice(None) if decoded.good is None else decoded.good.to_numpy()
        # A record that holds many goes where the last of its rows goes.
        codes[good if decoded.parts is None else np.asarray(decoded.parts.column(RECORD))[good]] = assigned.codes
        paths = pa.array(assigned.paths, pa.string()).take(pa.array(codes, mask=codes < 0))
        yield pa.RecordBatch.from_arrays([*batch.columns, paths], names=[*batch.schema.names, ROUTE])


def run_encoding(work: Iterable[Opened], plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> TaskReport:
    """Write rows that wait as pending parts and report them, and the slices that were left. Their epochs count rows."""
    with open_parts(plan, tools, task, task_attempt) as parts:
        left = encode(work, tools.segments, tools.refit, parts)
        return TaskReport(task, task_attempt, Rows(), parts.finish(), left=left)


def check_input(schema: pa.Schema, plan: TaskPlan, tools: TaskTools) -> None:
    """Take a batch without rows, as every task may have to. Raises InvalidOption."""
    for target in open_parts(plan, tools).targets.values():
        target.made()
    for _ in TableRouter(plan, tools).route(pa.RecordBatch.from_pylist([], schema=schema)):
        """Nothing goes anywhere."""


def open_parts(plan: TaskPlan, tools: TaskTools, task: int = 0, task_attempt: int = 0) -> Parts:
    """The parts of a task attempt, none of them begun."""
    config, chunks = plan.config, count()

    def name(n: int, extension: str) -> PartName:
        return PartName(plan.uid, plan.epoch, plan.attempt, task_attempt, task, n, extension)

    def touch(folders: tuple[str, ...]) -> None:
        chunk = next(chunks)
        if not chunk:
            # The driver may set any part of a partition aside, so the list must lead there too.
            partitioned = (table for table in plan.tables if table.spec.is_partitioned)
            folders = (*folders, *(aside(table.location, plan.attempt) for table in partitioned))
        tools.touch(StagingIntent(plan.epoch, plan.attempt, task_attempt, task, chunk, folders))

    made = {table.name: cache(partial(tools.format, table)) for table in plan.tables}
    return Parts(
        store=tools.store,
        name=name,
        touch=touch,
        memory=config["sink.task-memory"],
        targets={table.name: Target(table, made[table.name], plan.order(table)) for table in plan.tables},
        file_size=config["sink.rolling-policy.file-size"],
    )


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters of `part`, with the columns of `SCHEMA`; `chosen` are the rows to decode."""

    part: PartEntry
    rows: pa.RecordBatch
    chosen: NDArray[np.int64]


@dataclass(slots=True)
class Replayed:
    """What becomes of the chosen records: how many are rows now or would be, are skipped, and fail again.

    `failing` counts field and reason, `examples` has an id for each. `parts` are the names of those with a row.
    """

    rows: int = 0
    skipped: int = 0
    failing: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    examples: dict[tuple[str | None, str], str] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ReplayRouter:
    """Decodes letters by the table of today. `mended` has new values by id; None: the record has none.

    Letters that fit are rows, the others of their files are letters as before. A file of which nothing fits stays as
    it is. All others are replaced whole, in the epoch that has their records.
    """

    plan: TaskPlan
    reader: Callable[[TaskPlan], RowReader]
    mended: Mapping[str, bytes | None]
    replayed: Replayed = field(default_factory=Replayed)

    def route(self, letters: Letters) -> Iterator[Routed]:
        """The rows of those that fit; the others are dead letters still."""
        assigner, replayed = assigner_for(self.plan.target.spec, self.plan.config), self.replayed
        is_left = np.ones(letters.rows.num_rows, np.bool_)
        chosen = letters.rows.take(pa.array(letters.chosen))
        origins = [*zip(*(chosen.column(name).to_pylist() for name in ("arrived_at", SCHEMA_OF)), strict=True)]
        # A row may depend on its record's arrival, and on the schema of then.
        for origin in dict.fromkeys(origins):
            places = letters.chosen[[other == origin for other in origins]]
            some = letters.rows.take(pa.array(places))
            then = replace(self.plan, arrival=origin[0].replace(tzinfo=timezone.utc), schema=origin[1])
            before = 0
            for read, decoded, assigned, bad in assign(as_stream(some, self.mended), then, self.reader(then), assigner):
                of_row = np.arange(len(read)) if decoded.parts is None else np.asarray(decoded.parts.column(RECORD))
                of_row, before = of_row + before, before + len(read)
                good = of_row if decoded.good is None else of_row[decoded.good.to_numpy()]
                # A record that holds many comes back whole, or not at all.
                failing = {int(of_row[row.index]): row for row in reversed(bad)}
                codes = np.where(np.isin(good, [*failing]), -1, assigned.codes)
                for record, row in failing.items():
                    why = row.field, row.reason
                    replayed.failing[why] += 1
                    replayed.examples.setdefault(why, some.column("id")[record].as_py())
                is_left[places[good[codes >= 0]]] = False
                replayed.skipped += decoded.skipped
                yield from by_partition(self.plan.target, decoded.table, replace(assigned, codes=codes))
        left = pa.Table.from_batches([letters.rows.filter(pa.array(is_left))])
        if left.num_rows < len(is_left):
            replayed.rows += len(is_left) - left.num_rows
            replayed.parts.add(letters.part.name)
        if left.num_rows:
            yield self.plan.dead_letters(letters.part.partition, left)


def run_replay(letters: Iterable[Letters], plan: TaskPlan, tools: TaskTools, router: ReplayRouter) -> TaskReport:
    """Write the rows of `letters`, and those that are dead letters still, as pending parts."""
    rows, replaced = Counter[str](), dict[str, PartEntry]()
    with open_parts(plan, tools) as files:
        for some in letters:
            rows += files.write(router.route(some))
            before = replaced.get(some.part.name, some.part)
            replaced[some.part.name] = replace(before, rows=before.rows + some.rows.num_rows)
        written, read = rows[plan.target.name], rows.total()
        counts = Rows(read=read, written=written, rejected=read - written)
        return TaskReport(0, 0, counts, files.finish(), replaces=tuple(replaced.values()))
