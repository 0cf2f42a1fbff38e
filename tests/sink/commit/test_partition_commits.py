"""Partition commits on a whole sink in memory: what is held, what commits it, and what the log says of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hivesink.core.partition_commit import newest, recorded
from hivesink.sink.commit.committer import Committer
from hivesink.sink.task.attempt import TaskTools, run_task
from hivesink.sink.task.messages import InputShape
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.site import LOG
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Clock, Event, Job, Lines, Rows, Source, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.partition_commit import Recorded
    from hivesink.sink.commit.committed import Committed
    from hivesink.sink.task.messages import TaskPlan, TaskReport

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


@dataclass(frozen=True)
class Timed(Event):
    """An event with its time: an hour and a minute of one day."""

    minute: int
    source: int = 0


def at(hour: int, minute: int, identity: int, source: int = 0) -> Timed:
    return Timed(identity, f"2024-01-02 {hour:02d}", 60 * hour + minute, source)


class TimedJob(Job):
    """A job whose rows have event times and come from several Kafka partitions."""

    shape = InputShape(event_time="at", topic="topic", partition="p")

    def step(self, size: int = 4) -> Committed | None:
        ref = self.source.next_batch(size)
        if ref is None:
            return None
        done = self.committer.commit(ref, self.shape, lambda plan: self.write(plan, self.source.rows(ref)))
        self.source.committed += 1
        return done

    def write(self, plan: TaskPlan, rows: Sequence[Event]) -> list[TaskReport]:
        timed = [row for row in rows if isinstance(row, Timed)]
        day = datetime(2024, 1, 2)  # noqa: DTZ001  a wall clock
        cells = [
            {"id": row.id, "dt": row.dt, "at": day + timedelta(minutes=row.minute), "topic": "t", "p": row.source}
            for row in timed
        ]
        tools = TaskTools(self.store, Rows(), lambda _: Lines(), self.log.touch, self.log.segments)
        return [run_task([pa.RecordBatch.from_pylist(cells, schema=SCHEMA)], plan, tools, 0, 0)]


@dataclass
class World:
    """One table, in memory."""

    options: dict[str, str] = field(default_factory=lambda: dict(HOURLY))
    fs: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    metastore: MemoryMetastore = field(default_factory=lambda: MemoryMetastore(SPEC))
    clock: Clock = field(default_factory=Clock)
    source: Source = field(default_factory=Source)

    def job(self) -> TimedJob:
        return TimedJob(
            log=RenameCommitLog(self.fs, LOG, "w"),
            store=RenameFileStore(self.fs),
            registrar=self.metastore,
            source=self.source,
            clock=self.clock,
            options=self.options,
        )

    def feed(self, job: TimedJob, *rows: Timed) -> None:
        self.source.events += rows
        job.step(len(rows))

    def wait(self, job: TimedJob, **time: float) -> None:
        self.clock.ticks += timedelta(**time).total_seconds()
        job.committer.keep_up()

    def read(self, *hours: int) -> list[int]:
        return readable(RenameFileStore(self.fs), self.metastore, [place(hour) for hour in hours])

    def records(self) -> dict[str, Recorded]:
        log = RenameCommitLog(self.fs, LOG, "w")
        own = [one for epoch in log.view().manifests for one in recorded(log.manifest(epoch))]
        return {key[1]: one for key, one in newest([*log.records(), *own]).items()}

    def has_success(self, hour: int) -> bool:
        return self.fs.length(f"{LOCATION}/{place(hour)}/_SUCCESS") is not None


def place(hour: int) -> str:
    return f"dt=2024-01-02 {hour:02d}"


def test_an_hour_is_committed_once_the_watermark_has_passed_it() -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 10, 1), at(3, 50, 2))
    world.wait(job, minutes=4)
    assert (world.read(3, 4), world.records(), world.metastore.events) == ([], {}, [])
    world.feed(job, at(4, 0, 3))
    assert world.read(3, 4) == [1, 2]
    assert world.has_success(3)
    assert not world.has_success(4)
    record = world.records()[place(3)]
    assert (record.commit.revision, record.commit.rows, record.commit.files) == (1, 2, 1)
    assert record.watermark == datetime(2024, 1, 2, 4, tzinfo=timezone.utc)
    assert str(record.end[0]) == '{"t": {"0": 3}}'
    [(table, partition, files)] = world.metastore.events
    assert (table, partition, len(files)) == (str(TABLE), place(3), 1)


def test_late_rows_make_a_new_revision_by_the_rolling_policy() -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(4, 30, 2))
    world.feed(job, at(3, 20, 3))
    assert world.read(3) == [1]
    world.wait(job, minutes=1)
    assert world.read(3) == [1, 3]
    record = world.records()[place(3)]
    assert (record.commit.revision, record.commit.rows, record.commit.files) == (2, 2, 2)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stopped_input_commits_everything_within_idle_timeout_and_delay(restarts: bool) -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 59, 1), at(4, 1, 2))
    if restarts:
        job = world.job()
        job.committer.recover()
        world.wait(job)
    world.wait(job, minutes=4)
    assert world.read(3, 4) == [1]
    world.wait(job, minutes=59)
    assert world.read(3, 4) == [1]
    world.wait(job, minutes=1)
    assert world.read(3, 4) == [1, 2]
    assert {name: one.commit.revision for name, one in world.records().items()} == {place(3): 1, place(4): 1}


def test_the_slowest_kafka_partition_holds_the_commit_until_it_is_idle() -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 10, 1, source=0), at(3, 10, 2, source=1))
    world.feed(job, at(5, 0, 3, source=0))
    assert world.read(3) == []
    world.wait(job, minutes=4)
    world.feed(job, at(5, 1, 4, source=0))
    assert world.read(3) == []
    world.wait(job, minutes=1)
    assert world.read(3) == [1, 2]


def test_a_stop_publishes_what_is_open_but_commits_only_what_is_over() -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 10, 1), at(4, 10, 2))
    job.committer.finish()
    assert world.read(3, 4) == [1, 2]
    assert set(world.records()) == {place(3)}
    assert not world.has_success(4)
    again = world.job()
    again.committer.recover()
    world.feed(again, at(4, 20, 3))
    world.feed(again, at(5, 0, 4))
    assert world.read(3, 4) == [1, 2, 3]
    record = world.records()[place(4)].commit
    assert (record.revision, record.rows, record.files) == (1, 2, 2)


def test_a_stopped_hour_without_new_rows_is_committed_too() -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 10, 1))
    job.committer.finish()
    again = world.job()
    again.committer.recover()
    world.feed(again, at(4, 5, 2))
    assert world.records()[place(3)].commit == replace(world.records()[place(3)].commit, revision=1, rows=1, files=1)
    assert world.has_success(3)
    assert [event[2] for event in world.metastore.events] == [()]


def test_on_epoch_readers_see_rows_at_once_and_the_commit_follows() -> None:
    world = World(HOURLY | {"sink.rolling-policy.on-epoch": "true"})
    job = world.job()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(3, 20, 2))
    assert world.read(3) == [1, 2]
    assert (world.records(), world.has_success(3)) == ({}, False)
    world.feed(job, at(4, 0, 3))
    record = world.records()[place(3)].commit
    assert (record.revision, record.rows, record.files) == (1, 2, 2)
    assert world.has_success(3)


def test_process_time_with_a_delay_holds_new_partitions() -> None:
    world = World({"sink.rolling-policy.on-epoch": "false", "sink.partition-commit.delay": "30min"})
    job = world.job()
    world.feed(job, at(3, 10, 1))
    world.wait(job, minutes=29)
    assert world.read(3) == []
    world.wait(job, minutes=1)
    assert world.read(3) == [1]
    world.feed(job, at(3, 20, 2))
    world.wait(job, minutes=1)
    assert world.read(3) == [1, 2]
    assert world.records()[place(3)].commit.revision == 2


def test_by_default_each_publish_commits() -> None:
    world = World({"sink.partition-commit.policy.kind": "metastore,success-file"})
    job = world.job()
    for identity in (1, 2, 3):
        world.feed(job, at(3, identity, identity))
    record = world.records()[place(3)].commit
    assert (record.revision, record.rows, record.files) == (3, 3, 3)
    assert world.has_success(3)


def test_a_partition_without_a_time_goes_by_the_rolling_policy() -> None:
    world = World()
    job = world.job()
    world.feed(job, replace(at(3, 10, 1), dt="unknown"))
    world.wait(job, seconds=59)
    assert readable(job.store, world.metastore, ["dt=unknown"]) == []
    world.wait(job, seconds=1)
    assert readable(job.store, world.metastore, ["dt=unknown"]) == [1]


def test_too_much_that_waits_is_published_before_its_commit() -> None:
    world = World(HOURLY | {"sink.open-bytes-limit": "1"})
    job = world.job()
    world.feed(job, at(3, 10, 1))
    assert world.read(3) == [1]
    assert world.records() == {}
    world.feed(job, at(4, 0, 2))
    assert world.records()[place(3)].commit.rows == 1


def test_drop_counts_late_rows() -> None:
    world = World(HOURLY | {"sink.late-rows": "drop"})
    job = world.job()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(4, 10, 2))
    world.feed(job, at(3, 20, 3), at(4, 20, 4))
    world.wait(job, hours=2)
    assert world.read(3, 4) == [1, 2, 4]
    log = job.log
    rows = [log.manifest(epoch).rows for epoch in log.view().manifests]
    assert sum(one.late for one in rows) == 1
    assert all(one.balanced for one in rows)


def test_records_outlive_the_manifests() -> None:
    world = World({"sink.log.retained-epochs": "1"})
    job = world.job()
    for number in range(60):
        world.feed(job, at(number % 20 if number < 50 else 0, 0, number))
    records = world.records()
    revisions = {name: one.commit.revision for name, one in records.items()}
    assert revisions == {place(0): 13} | {place(hour): 3 if hour < 10 else 2 for hour in range(1, 20)}
    assert job.log.view().floor > 50
    assert len(list(world.fs.list(f"{LOG}/commits"))) <= 5
    again = world.job()
    again.committer.recover()
    world.feed(again, at(15, 0, 99))
    assert world.records()[place(15)].commit == replace(records[place(15)].commit, revision=3, rows=3, files=3)


def test_a_committer_needs_its_clock_only_where_it_holds() -> None:
    job = World({}).job()
    assert isinstance(job.committer, Committer)
    assert not job.committer.spec.commit_rule.holds((str(TABLE), "dt=2024-01-02 03"))
