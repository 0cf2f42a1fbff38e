"""Partition commits on a whole sink in memory: what is held, what commits it, and what the log says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hivesink.metastore.common import FLAG
from tests.crash.site import LOG
from tests.sink.harness import TABLE, readable
from tests.sink.scripted import Run
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


WAITS = {"sink.rolling-policy.on-epoch": "false"}
CASES: dict[str, tuple[dict[str, str], str]] = {
    "late rows make a new revision by the rolling policy": (HOURLY, "3:10 4:30 3:20 r3:1 +1 r3:1,3 =3:2,2,2"),
    "a stopped input commits all within idle timeout and delay": (
        HOURLY,
        "3:59,4:1 +4 r3:1 r4: +59 r4: +1 r4:2 =3:1,1,1 =4:1,1,1",
    ),
    "in another run too": (HOURLY, "3:59,4:1 | +0 +4 r3:1 r4: +59 r4: +1 r4:2 =3:1,1,1 =4:1,1,1"),
    "the slowest partition holds the commit until it is idle": (
        HOURLY,
        "3:10,3:10/1 5:00 r3: +4 5:01 r3: +1 r3:1,2",
    ),
    "a stop publishes what is open, and commits only what is over": (
        HOURLY,
        "3:10,4:10 ^ r3:1 r4:2 =3:1,1,1 =4: -4 | 4:20 5:00 r4:2,3 =4:1,2,2",
    ),
    "a stopped hour without new rows is committed too": (HOURLY, "3:10 ^ | 4:05 =3:1,1,1 !3"),
    "on-epoch: readers see rows at once, and the commit follows": (
        HOURLY | {"sink.rolling-policy.on-epoch": "true"},
        "3:10 3:20 r3:1,2 =3: -3 4:00 =3:1,2,2 !3",
    ),
    "process-time with a delay holds new partitions": (
        WAITS | {"sink.partition-commit.delay": "30min"},
        "3:10 +29 r3: +1 r3:1 3:20 +1 r3:1,2 =3:2,2,2",
    ),
    "by default each publish commits": (
        {"sink.partition-commit.policy.kind": "metastore,success-file"},
        "3:01 3:02 3:03 =3:3,3,3 !3",
    ),
    "too much that waits is published before its commit": (
        HOURLY | {"sink.open-bytes-limit": "1"},
        "3:10 r3:1 =3: 4:00 =3:1,1,1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_commits(case: str) -> None:
    options, script = CASES[case]
    Run(World(dict(options))).play(script)


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
    run = Run(World(HOURLY | {"sink.late-rows": "drop"}))
    run.play("3:10 4:10 3:20,4:20 +120 r3:1 r4:2,4")
    log = run.world.log
    assert (run.late, all(log.manifest(epoch).rows.balanced for epoch in log.view().manifests)) == (1, True)


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
