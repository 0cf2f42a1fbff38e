"""A whole sink without Spark: tasks as plain functions, and a source that plans and commits batches as Spark does."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from hivesink.config.options import SinkConfig
from hivesink.core.epoch import BatchId, BatchRef, Epoch
from hivesink.core.lifecycle import Identity
from hivesink.core.manifest import Opened
from hivesink.core.offsets import KafkaOffset, NoOffset
from hivesink.core.partition import PartitionKey
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.ports import CommitLog, FileStore, Metastore
from hivesink.ports.rows import BadRow, DecodedRows, FileContent
from hivesink.sink.commit.committed import Committed
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.writer import WriterSpec
from hivesink.sink.task.attempt import run_encoding, run_task
from hivesink.sink.task.messages import InputShape, TablePlan, TaskPlan, TaskReport, TaskTools

if TYPE_CHECKING:
    import pyarrow.dataset as ds

TABLE = TableName("demo", "events")
LOCATION = "/warehouse/demo.db/events"
SPEC = TableSpec(
    name=TABLE,
    columns=(Column("id", Primitive.BIGINT),),
    partition_columns=(Column("dt", Primitive.STRING),),
    location=LOCATION,
)
UID = "00c0ffee0001"
ROWS = pa.schema([("id", pa.int64()), ("dt", pa.string())])
DECODED = InputShape()


@dataclass(frozen=True)
class Event:
    """One row of the source, by its key."""

    id: int
    dt: str


@dataclass
class Source:
    """One Kafka partition of events with Spark's bookkeeping: a batch is planned, run, then committed."""

    events: list[Event] = field(default_factory=list)
    query: str = "query-1"
    planned: list[int] = field(default_factory=list)
    committed: int = 0
    start: int | None = None

    def offset(self, batch: int) -> KafkaOffset | NoOffset:
        if batch < 0:
            return KafkaOffset.of({"t": {"0": self.start or 0}})
        end = self.planned[batch]
        # Events of other partitions have one, and count for all.
        partitions = {0, *(getattr(event, "source", 0) for event in self.events[:end])}
        return KafkaOffset.of({"t": {str(number): end for number in partitions}})

    def next_batch(self, size: int) -> BatchRef | None:
        """The batch that Spark would run now: one that was planned and not committed, else a new one."""
        if self.committed == len(self.planned):
            done = self.planned[-1] if self.planned else (self.start or 0)
            if done >= len(self.events):
                return None
            self.planned.append(min(len(self.events), done + size))
        batch = self.committed
        return BatchRef(self.query, BatchId(batch), (self.offset(batch - 1),), (self.offset(batch),))

    def rows(self, ref: BatchRef) -> list[Event]:
        return self.events[position(ref.start[0]) : position(ref.end[0])]

    def new_checkpoint(self, query: str, start: int = 0) -> Source:
        return Source(self.events, query, start=start)


def position(offset: Any) -> int:
    return 0 if isinstance(offset, NoOffset) else int(dict(offset.next)["t", 0])


class Rows:
    """Batches whose columns are the table's already."""

    schema = None

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        return DecodedRows(pa.Table.from_batches([batch]), None, (), 0)


class Lines:
    """Parts of JSON lines: Parquet has its own tests, and a thousand crashes want to be quick."""

    extension = ".jsonl"
    row_group = open_bytes = 1 << 20

    def unfit(self, _: pa.Table) -> tuple[BadRow, ...]:
        return ()

    def open(self, stream: BinaryIO) -> Lines._Writer:
        return Lines._Writer(stream)

    @staticmethod
    def read(stream: BinaryIO, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    @staticmethod
    def measure(stream: BinaryIO, /) -> FileContent:
        content = stream.read()
        return FileContent(len(content.splitlines()), len(content))

    @staticmethod
    def dataset() -> ds.FileFormat:
        raise NotImplementedError

    class _Writer:
        def __init__(self, stream: BinaryIO) -> None:
            self._stream = stream

        def write(self, rows: pa.Table) -> None:
            for row in rows.to_pylist():
                self._stream.write(json.dumps(row["id"]).encode() + b"\n")

        def close(self) -> None: ...


EVERY = 5
"""Where there are dead letters, every fifth event is one."""


class Fussy(Rows):
    """Takes all but every fifth event."""

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        ids = batch.column("id").to_pylist()
        good = pa.array([row for row, found in enumerate(ids) if found % EVERY], pa.int32())
        bad = tuple(BadRow(row, "id", "it is divisible by five") for row, found in enumerate(ids) if found % EVERY == 0)
        return DecodedRows(pa.Table.from_batches([batch]).take(good), good, bad, 0)


class Letters(Lines):
    """The ids of dead letters, one a line, as `Lines` writes those of the others."""

    def open(self, stream: BinaryIO) -> Letters._Writer:
        return Letters._Writer(stream)

    class _Writer(Lines._Writer):
        def write(self, rows: pa.Table) -> None:
            for value in rows.column("value").to_pylist():
                self._stream.write(json.dumps(json.loads(value)["id"]).encode() + b"\n")


def as_they_are(rows: pa.RecordBatch, spec: TableSpec, key: PartitionKey) -> pa.RecordBatch:  # noqa: ARG001
    """Fits rows to tables whose columns never change."""
    return rows


def measure_lines(_: str, stream: BinaryIO) -> FileContent:
    return Lines.measure(stream)


@dataclass
class Clock:
    """Time that moves by a second at every look."""

    at: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)
    ticks: float = 0.0
    """Seconds of the monotonic clock, which nobody sets."""

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at

    def tick(self) -> float:
        return self.ticks


@functools.cache
def _parsed(options: tuple[tuple[str, str], ...]) -> SinkConfig:
    return SinkConfig.parse({"sink.rolling-policy.on-epoch": "true", **dict(options)})


_tokens = itertools.count(1)


def token() -> str:
    return f"{next(_tokens):010x}"


@dataclass
class Job:
    """One process of the sink: dies with `Kill`, and is started again as a new `Job` on the same source.

    It may have a dead-letter table, and tells every epoch that has ended.
    """

    log: CommitLog
    store: FileStore
    registrar: Metastore
    source: Source
    clock: Clock = field(default_factory=Clock)
    options: dict[str, str] = field(default_factory=dict)
    append: Epoch | None = None
    tolerant: bool = True
    tasks: int = 2
    writer: str = "w"
    fresh_uid: str = UID
    """The uid of a log that has none."""
    dead: bool = False
    on_commit: Callable[[Committed], None] = lambda _: None
    shape: InputShape = DECODED
    behind: int | None = None

    def __post_init__(self) -> None:
        uid = self.log.uid(self.fresh_uid)
        assert uid is not None
        tables = (TABLE, TABLE.rejected) if self.dead else (TABLE,)
        live, *letters = map(self.registrar.table, tables)
        config = _parsed(tuple(self.options.items()))
        clock, known = self.clock, {str(TABLE): live}
        context = CommitContext(self.log, self.store, self.registrar, clock.now, clock.tick, token, _tables=known)
        sink = WriterSpec(
            identity=Identity(
                self.writer,
                uid,
                tuple(map(str, tables)),
                ((str(TABLE), "UTC"),),
                self.log.location,
                settings=tuple(sorted(config.changed.items())),
            ),
            target=TablePlan(live.spec, live.location),
            rejected=next((TablePlan(rejected.spec, rejected.location) for rejected in letters), None),
            config=config,
            measure=measure_lines,
            append=self.append,
            tolerant=self.tolerant,
            on_commit=self.on_commit,
        )
        self.context = context
        self.committer = Committer(context, sink, self.encode)

    def run(self, size: int = 4, batches: int | None = None) -> list[Committed]:
        """Recover, run what the source has (at most `batches`), finish: what `start` and `awaitTermination` do."""
        self.committer.recover()
        done: list[Committed] = []
        while batches is None or len(done) < batches:
            committed = self.step(size)
            if committed is None:
                break
            done.append(committed)
        self.committer.finish()
        return done

    def step(self, size: int = 4) -> Committed | None:
        ref = self.source.next_batch(size)
        if ref is None:
            return None
        done = self.committer.commit(ref, self.shape, lambda plan: self.write(plan, self.source.rows(ref)), self.behind)
        # Another run may have gone on meanwhile.
        self.source.committed = max(self.source.committed, ref.batch + 1)
        return done

    def write(self, plan: TaskPlan, rows: Sequence[Event]) -> list[TaskReport]:
        reports = []
        for task in range(self.tasks):
            own = rows[task :: self.tasks]
            batch = pa.RecordBatch.from_pylist([{"id": row.id, "dt": row.dt} for row in own], schema=ROWS)
            reports.append(run_task([batch], plan, self.tools(), task, task))
        return reports

    def encode(self, work: Sequence[Sequence[Opened]], plan: TaskPlan) -> list[TaskReport]:
        return [run_encoding(own, plan, self.tools(), task, task) for task, own in enumerate(work)]

    def tools(self) -> TaskTools:
        def lines(table: TablePlan) -> Any:
            return Lines() if table.name == str(TABLE) else Letters()

        log, store = self.log, self.store
        return TaskTools(store, self.reader(), lines, log.touch, log.segments, as_they_are, store.open)

    def reader(self) -> Rows:
        return Fussy() if self.dead else Rows()


def readable(store: FileStore, registrar: Metastore, places: Iterable[str]) -> list[int]:
    """The ids that a reader of the table finds: visible files of registered partitions."""
    found = []
    for live in registrar.lookup(registrar.table(TABLE), sorted(places)).values():
        for file in store.visible(live.location):
            with store.open(file.path) as stream:
                found += [json.loads(line) for line in stream.read().splitlines()]
    return sorted(found)


def events(count: int, partitions: int = 3) -> list[Event]:
    return [Event(number, f"2024-01-{1 + (number * 7 // 5) % partitions:02d}") for number in range(count)]


def partitions(found: Iterable[Event]) -> set[str]:
    return {f"dt={event.dt}" for event in found}
