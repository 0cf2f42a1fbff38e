"""Partition commits on a whole sink in memory: what is held, what commits it, and what the log says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hivesink.metastore.common import FLAG
from hivesink.sink.commit.committer import Committer
from tests.crash.site import LOG
from tests.sink.harness import TABLE, readable
from tests.sink.timed import HOURLY, World, at, place


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


def figures(world: World, hour: int) -> dict[str, str]:
    return dict(world.metastore.parameters(TABLE, place(hour)))


def test_a_committed_partition_has_estimates_and_a_users_analyze_is_undone() -> None:
    world = World()
    job = world.job()
    world.feed(job, at(3, 10, 1), at(3, 20, 2))
    world.feed(job, at(4, 0, 3))
    assert figures(world, 3)["numRows"] == "2"
    world.feed(job, at(3, 30, 4))
    world.metastore.analyze(TABLE, place(3), 2)
    world.wait(job, seconds=59)
    assert figures(world, 3)["numRows"] == "2"
    world.wait(job, seconds=1)
    # No more rows have come for a minute.
    assert figures(world, 3)["numRows"] == "3"
    assert FLAG not in figures(world, 3)


def test_late_rows_that_a_batch_publishes_are_counted() -> None:
    world = World(HOURLY | {"sink.rolling-policy.on-epoch": "true"})
    job = world.job()
    for row in (at(3, 10, 1), at(5, 30, 2), at(3, 20, 3)):
        world.feed(job, row)
    assert figures(world, 3)["numRows"] == "2"
    assert "numRows" not in figures(world, 5), "it isn't over"


def test_a_partition_that_still_gets_rows_has_no_estimates() -> None:
    world = World({"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.rollover-interval": "1min"})
    job = world.job()
    world.feed(job, at(3, 10, 1))
    for identity in (2, 3, 4):
        world.clock.ticks += 30
        world.feed(job, at(3, 20, identity))
    assert world.read(3)
    assert "numRows" not in figures(world, 3)
    world.wait(job, minutes=1)
    assert world.read(3) == [1, 2, 3, 4]
    assert figures(world, 3)["numRows"] == "4"
