"""One task attempt: read batches, waiting rows or dead letters, write parts, report. Plain functions, no Spark.

Parts become pending only at the normal end of the input. A task that fails, is killed or finds a record that stops
the query leaves nothing that could be committed: no manifest lists its attempt's files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa

from hivesink.core.column_source import Metadata
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import PartEntry, Rows
from hivesink.core.partfile import PartName
from hivesink.core.rolling import segment_name
from hivesink.sink.task.assign import assigner_for
from hivesink.sink.task.messages import TablePlan, TaskPlan, TaskReport
from hivesink.sink.task.parts import Parts, Target
from hivesink.sink.task.rejects import as_stream
from hivesink.sink.task.route import StopError, TableRouter, assign, by_partition, of_input
from hivesink.sink.task.segments import SegmentWriter, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from hivesink.config.options import SinkConfig
    from hivesink.core.rolling import Encoding
    from hivesink.ports import BadRow, FileFormat, FileStore, Refit, Routed, RowReader, SegmentStore

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


_ANY = datetime(1970, 1, 1)  # noqa: DTZ001  as Arrow has it
"""The arrival of records that don't depend on it."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters of one `part`, with the columns of `SCHEMA`; `chosen` are the rows to decode."""

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
    """Decodes letters by the table of today. `mended` has new values by id; None: the record has none."""

    plan: TaskPlan
    reader: Callable[[TaskPlan], RowReader]
    mended: Mapping[str, bytes | None]
    replayed: Replayed = field(default_factory=Replayed)

    def route(self, letters: Letters) -> Iterator[Routed]:
        """The rows of those that fit; the others are dead letters still."""
        assigner = assigner_for(self.plan.target.spec, self.plan.config)
        is_left = np.ones(letters.rows.num_rows, np.bool_)
        for arrival, places in self._by_arrival(letters):
            records = as_stream(letters.rows.take(pa.array(places)), self.mended)
            then = replace(self.plan, arrival=arrival.replace(tzinfo=timezone.utc))
            decoded, assigned = assign(records, then, self.reader(then), assigner)
            ids = letters.rows.column("id").take(pa.array(places))
            for row in (*decoded.bad, *of_input(assigned.unfit, decoded.good)):
                self._fails(row, ids)
            good = places if decoded.good is None else places[decoded.good.to_numpy()]
            is_left[good[assigned.codes >= 0]] = False
            self.replayed.skipped += decoded.skipped
            yield from by_partition(self.plan.target, decoded.table, assigned)
        left = pa.Table.from_batches([letters.rows.filter(pa.array(is_left))])
        if left.num_rows < len(is_left):
            self.replayed.rows += len(is_left) - left.num_rows
            self.replayed.parts.add(letters.part.name)
        if left.num_rows:
            yield self.plan.dead_letters(letters.part.partition, left)

    def _by_arrival(self, letters: Letters) -> Iterator[tuple[datetime, NDArray[np.int64]]]:
        if not _uses_arrival(self.plan.config):
            yield _ANY, letters.chosen
            return
        arrivals = letters.rows.column("arrived_at").take(pa.array(letters.chosen)).dictionary_encode()
        codes = arrivals.indices.to_numpy()
        for code, arrival in enumerate(arrivals.dictionary.to_pylist()):
            yield arrival, letters.chosen[codes == code]

    def _fails(self, row: BadRow, ids: pa.Array) -> None:
        why = row.field, row.reason
        self.replayed.failing[why] += 1
        self.replayed.examples.setdefault(why, ids[row.index].as_py())


def run_replay(letters: Iterable[Letters], plan: TaskPlan, tools: TaskTools, router: ReplayRouter) -> TaskReport:
    """Write the rows of `letters`, and those that are dead letters still, as pending parts."""
    files = open_parts(plan, tools, 0, 0)
    work = Task(files, targets(plan, tools))
    rows, replaced = Counter[str](), dict[str, PartEntry]()
    try:
        for some in letters:
            rows += work.write(router.route(some))
            before = replaced.get(some.part.name, some.part)
            replaced[some.part.name] = replace(before, rows=before.rows + some.rows.num_rows)
        written, read = rows[plan.target.name], rows.total()
        counts = Rows(read=read, written=written, rejected=read - written)
        return TaskReport(0, 0, counts, files.finish(), replaces=tuple(replaced.values()))
    except BaseException:
        files.abort()
        raise


def _uses_arrival(config: SinkConfig) -> bool:
    """Whether a row may depend on when its batch arrived. Each arrival costs a decoder."""
    match config["sink.bucket.assigner"]:
        case "partition-columns":
            is_used = False
        case "date-time":
            is_used = config["sink.bucket.time-column"] is None
        case _:
            is_used = True
    return is_used or Metadata.ARRIVAL in config.sources.values()
