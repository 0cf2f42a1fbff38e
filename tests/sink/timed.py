"""A whole sink in memory whose rows have event times: one table, partitioned by the hour; and scripts of what comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, ClassVar

import pyarrow as pa

from hivesink.core.epoch import BatchRef
from hivesink.core.manifest import Recorded, newest, recorded
from hivesink.core.partition_commit import Watermark
from hivesink.ports import Metastore
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.source_clock import InputTraits
from hivesink.sink.task.attempt import run_task
from hivesink.sink.task.messages import InputShape, TaskPlan, TaskReport
from tests.crash.site import Site
from tests.sink.harness import LOCATION, TABLE, Event, Job, Rows, Source, readable

SCHEMA = pa.schema(
    [("id", pa.int64()), ("dt", pa.string()), ("at", pa.timestamp("us")), ("topic", pa.string()), ("p", pa.int32())]
)
HOURLY = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.partition-commit.trigger": "partition-time",
    "partition.time-extractor.timestamp-pattern": "$dt:00:00",
    "sink.partition-commit.delay": "1h",
    "sink.partition-commit.watermark-column": "at",
    "sink.partition-commit.policy.kind": "metastore,success-file,insert-event",
}
_NOON = datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock


@dataclass(frozen=True)
class Timed(Event):
    """An event with its time, in µs since 1970 by a wall clock; None: it is null."""

    micros: int | None
    source: int = 0


def wall(text: str) -> int:
    return (datetime.fromisoformat(text) - _NOON) // timedelta(microseconds=1)


def at(hour: int, minute: int, identity: int, source: int = 0) -> Timed:
    """An event of 2024-01-02, in the partition of its hour."""
    return Timed(identity, f"2024-01-02 {hour:02d}", wall(f"2024-01-02 {hour:02d}:{minute:02d}"), source)


def place(hour: int) -> str:
    return f"dt=2024-01-02 {hour:02d}"


TIMED = InputShape(event_time="at", topic="topic", partition="p")


@dataclass
class TimedJob(Job):
    """A job whose rows have event times and come from several Kafka partitions."""

    shape: InputShape = TIMED
    behind: int | None = 0

    def write(self, plan: TaskPlan, rows: Sequence[Event]) -> list[TaskReport]:
        timed = [row for row in rows if isinstance(row, Timed)]
        cells = [{"id": row.id, "dt": row.dt, "at": row.micros, "topic": "t", "p": row.source} for row in timed]
        return [run_task([_batch(cells)], plan, self.tools(), 0, 0)]

    def reader(self) -> Rows:
        """Which rows are dead letters, their times say."""
        return Rows()


def _batch(cells: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
    # Arrow takes any number of µs for a time, also those that no Python datetime shows.
    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([cell[name] for cell in cells], pa.int64() if name == "at" else kind).cast(kind)

    return pa.RecordBatch.from_arrays([column(one.name, one.type) for one in SCHEMA], schema=SCHEMA)


@dataclass
class World(Site):
    """One table, in memory, whose rows have event times."""

    source: Source = field(default_factory=Source)
    options: dict[str, str] = field(default_factory=lambda: dict(HOURLY))
    kind: ClassVar[type[Job]] = TimedJob

    def job(self, fs: Any = None, registrar: Metastore | None = None, **more: Any) -> TimedJob:
        made = super().job(fs, registrar, **more)
        assert isinstance(made, TimedJob)
        return made

    def started(self) -> TimedJob:
        job = self.job()
        job.committer.recover()
        return job

    def feed(self, job: TimedJob, *rows: Timed) -> None:
        self.source.events += rows
        job.step(len(rows))

    def wait(self, job: TimedJob, **time: float) -> None:
        self.clock.ticks += timedelta(**time).total_seconds()
        job.committer.keep_up(self.clock.ticks)

    def read(self, *hours: int) -> list[int]:
        return readable(self.store, self.metastore, [place(hour) for hour in hours])

    def rows_of(self, partition: str) -> list[int]:
        return readable(self.store, self.metastore, [partition])

    def records(self) -> dict[str, Recorded]:
        log = self.log
        own = [one for epoch in log.view().manifests for one in recorded(log.manifest(epoch))]
        return {key[1]: one for key, one in newest([*log.records(), *own]).items() if key[0] == str(TABLE)}

    def open(self) -> set[str]:
        """The partitions that no commit covers."""
        return {partition for _, partition in load(self.job().context).rows.buckets}

    def has_success(self, hour: int) -> bool:
        return self.is_marked(place(hour))

    def is_marked(self, partition: str) -> bool:
        home = self.metastore.partitions(TABLE).get(partition, f"{LOCATION}/{partition}")
        return self.fs.length(f"{home}/_SUCCESS") is not None

    def check(self, expected: Iterable[int], case: object = "") -> None:
        """All rows once; each record says what its partition holds, once its hour was over; nothing is left over."""
        homes = self.metastore.partitions(TABLE)
        found = {partition: self.rows_of(partition) for partition in homes}
        wanted, rows = Counter(expected), Counter(one for ids in found.values() for one in ids)
        assert rows == wanted, f"{case}: lost {sorted(wanted - rows)}, doubled {sorted(rows - wanted)}"
        records, announced = self.records(), {partition for _, partition, _ in self.metastore.events}
        assert announced == set(records), case
        assert {name for name in homes if self.is_marked(name)} == set(records), case
        assert set(homes) == set(records) | self.open(), case
        for name, one in records.items():
            files = self.store.visible(homes[name])
            assert (one.commit.rows, one.commit.files) == (len(found[name]), len(files)), (case, name)
        self._check_history(case)

    def _check_history(self, case: object) -> None:
        """No revision is left out, and none is of before its partition's end."""
        log, rule, known = self.log, self.job().committer.spec.commit_rule, dict[str, int]()
        is_whole = log.view().floor == 0
        for epoch in log.view().manifests:
            manifest = log.manifest(epoch)
            assert manifest.rows.balanced, (case, epoch)
            for commit in manifest.commits:
                was = known.get(commit.partition, 0 if is_whole else commit.revision - 1)
                assert commit.revision == was + (0 if manifest.kind == "move" and was else 1), (case, commit)
                known[commit.partition] = commit.revision
                end = rule.end(commit.key)
                reached = manifest.watermark.at if manifest.watermark else None
                assert end is None or (reached is not None and end <= reached), (case, commit)


MINUTE = timedelta(minutes=1)


@dataclass
class Run:
    """A job, and what happens to it: a script of the words that `play` knows."""

    world: World = field(default_factory=World)
    traits: InputTraits = field(default_factory=InputTraits)
    shape: InputShape = TIMED
    behind: int | None = 0
    ids: Iterator[int] = field(default_factory=lambda: count(1))
    job: TimedJob = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.job = self.world.started()
        self.job.shape = self.shape
        self.job.committer.clock.traits = self.traits

    @property
    def mark(self) -> Watermark:
        mark = self.world.log.manifest(self.world.log.view().head).watermark
        assert mark is not None
        return mark

    def row(self, word: str) -> Timed:
        time, _, source = word.partition("/")
        if time == "x":
            return replace(at(3, 10, next(self.ids), int(source)), micros=None)
        hour, minute = map(int, time.split(":"))
        return at(hour, minute, next(self.ids), int(source or 0))

    def commit(self, batch: BatchRef, *rows: Timed, minutes: float = 0) -> None:
        def write(plan: TaskPlan) -> list[TaskReport]:
            self.world.clock.ticks += 60 * minutes
            return self.job.write(plan, rows)

        self.job.committer.commit(batch, self.job.shape, write, self.behind)

    def play(self, script: str) -> None:
        """Rows of one batch are `3:10,3:20/1,x/1`: the second is of Kafka's partition 1, the third has no time.

        `_` is a record that the query leaves out. `>6`: the next batch takes 6 minutes. `+5`: 5 minutes pass, then
        Spark asks and finds nothing. `<5`: they pass, and what is known is that it asked 10 minutes ago. `~5`: nobody
        asks. `@5`: both clocks go on. `^` ends the run, `$` without publishing, `|` begins the next. `!3`, `-3`: hour 3
        has a success file, or none; `r3:1,2`: readers find these rows there; `=3:1,2,1`: its revision, rows and files.
        """
        minutes, clock = 0.0, self.world.clock
        for word in script.split():
            kind, length = word[0], word[1:]
            match kind:
                case "+" | "<" | "~" | "@":
                    clock.ticks += 60 * float(length)
                    clock.at += float(length) * MINUTE if kind == "@" else timedelta(0)
                    if kind in "+<":
                        self.job.committer.keep_up(clock.ticks - (600 if kind == "<" else 0))
                case ">":
                    minutes = float(length)
                case "$":
                    self.job.committer.finish(roll=False)
                    assert not load(self.job.context).open
                case "^":
                    self.job.committer.finish()
                case "|":
                    self.start()
                case "r" | "=":
                    hour, _, expected = length.partition(":")
                    ids = ",".join(map(str, self.world.read(int(hour))))
                    assert (ids if kind == "r" else self.record(int(hour))) == expected, (word, script)
                case "!" | "-":
                    assert self.world.has_success(int(length)) is (kind == "!"), (word, script)
                case _:
                    rows = [] if word == "_" else [self.row(one) for one in word.split(",")]
                    self.world.source.events += rows or [at(3, 0, 0)]
                    batch = self.world.source.next_batch(max(1, len(rows)))
                    assert batch is not None
                    self.commit(batch, *rows, minutes=minutes)
                    self.world.source.committed, minutes = self.world.source.committed + 1, 0

    @property
    def late(self) -> int:
        """How many rows were late."""
        log = self.world.log
        return sum(log.manifest(epoch).rows.late for epoch in log.view().manifests)

    def record(self, hour: int) -> str:
        """Revision, rows and files of the hour's commit."""
        found = self.world.records().get(place(hour))
        return f"{found.commit.revision},{found.commit.rows},{found.commit.files}" if found else ""
