"""Partition commits on a whole sink in memory: what is held, what commits it, late rows, and settings that change."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import pytest

from hivesink.core.manifest import Rows
from hivesink.errors import HiveSinkError
from hivesink.metastore.common import FLAG
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.observe import load
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import LOG
from tests.sink.harness import TABLE, readable
from tests.sink.timed import HOURLY, Run, World, at, place


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
    "an hour makes a file for each rollover, whose rows wait no longer": (
        WAITS | {"sink.rolling-policy.rollover-interval": "5min"},
        "3:00 +0.5 " * 9 + "3:04 r3: +0.5 =3:1,10,1 " + "3:05 +0.5 " * 9 + "3:09 =3:1,10,1 +0.5 =3:2,20,2",
    ),
    "too much that waits is published before its commit": (
        HOURLY | {"sink.open-bytes-limit": "1"},
        "3:10 r3:1 =3: 4:00 =3:1,1,1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_commits(case: str) -> None:
    options, script = CASES[case]
    Run(World(options=dict(options))).play(script)


def test_a_partition_without_a_time_goes_by_the_rolling_policy() -> None:
    world = World()
    job = world.job()
    world.feed(job, replace(at(3, 10, 1), dt="unknown"))
    world.wait(job, seconds=59)
    assert readable(job.store, world.metastore, ["dt=unknown"]) == []
    world.wait(job, seconds=1)
    assert readable(job.store, world.metastore, ["dt=unknown"]) == [1]


def test_records_outlive_the_manifests() -> None:
    world = World(options={"sink.log.retained-epochs": "1"})
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
    world = World(options=HOURLY | {"sink.rolling-policy.on-epoch": "true"})
    job = world.job()
    for row in (at(3, 10, 1), at(5, 30, 2), at(3, 20, 3)):
        world.feed(job, row)
    assert figures(world, 3)["numRows"] == "2"
    assert "numRows" not in figures(world, 5), "it isn't over"


def test_a_partition_that_still_gets_rows_has_no_estimates() -> None:
    world = World(options={"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.rollover-interval": "1min"})
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


AT_ONCE = HOURLY | {"sink.rolling-policy.on-epoch": "true"}
MARKED = {"sink.partition-commit.policy.kind": HOURLY["sink.partition-commit.policy.kind"]}
NO_TRIGGER = MARKED | {"sink.rolling-policy.on-epoch": "false"}
AFTER_DELAY = NO_TRIGGER | {"sink.partition-commit.delay": "30min"}
OTHERS = {
    "no trigger": NO_TRIGGER,
    "no trigger, at once": MARKED,
    "after a delay": AFTER_DELAY,
    "after a delay, at once": MARKED | {"sink.partition-commit.delay": "30min"},
    "at once": AT_ONCE,
    "longer": HOURLY | {"sink.partition-commit.delay": "2h"},
    "shorter": HOURLY | {"sink.partition-commit.delay": "1min"},
    "another zone": HOURLY | {"sink.bucket.time-zone": "America/New_York"},
    "no time": HOURLY | {"partition.time-extractor.timestamp-pattern": "$dt"},
}


@pytest.mark.parametrize("publishes", [False, True], ids=["rows wait", "rows are published"])
@pytest.mark.parametrize("back", [False, True], ids=["forth", "back"])
@pytest.mark.parametrize("other", OTHERS)
def test_whatever_is_open_when_settings_change_is_committed_in_the_end(
    other: str, *, back: bool, publishes: bool
) -> None:
    first, second = (OTHERS[other], HOURLY) if back else (HOURLY, OTHERS[other])
    world = World(options=dict(first))
    job = world.started()
    world.feed(job, at(3, 10, 1), at(4, 10, 2))
    world.feed(job, at(3, 50, 3))
    job.committer.finish(roll=publishes)
    world.options = dict(second)
    job = world.started()
    world.wait(job)
    world.wait(job, minutes=2)
    world.feed(job, at(4, 20, 4), at(5, 0, 5))
    world.wait(job, minutes=31)
    world.wait(job, hours=24)
    job.committer.finish()
    # Records of the first settings may be of before the ends that the second ones see.
    assert sorted(world.read(3, 4, 5)) == [1, 2, 3, 4, 5]
    if (other, back) == ("no time", False):
        # Nobody can say when they are over: they are published, and never called complete.
        assert world.open() | set(world.records()) == {place(hour) for hour in (3, 4, 5)}
        return
    assert (world.open(), set(world.records())) == (set(), {place(hour) for hour in (3, 4, 5)})
    assert {name: one.commit.rows for name, one in world.records().items()} == {place(3): 2, place(4): 2, place(5): 1}


def test_published_partitions_are_committed_though_no_row_comes_once_nothing_is_held_any_more() -> None:
    run = Run(World(options=dict(AT_ONCE)))
    run.play("3:10 ^ =3:")
    run.world.options = dict(MARKED)
    run.play("| +0 =3:1,1,1")
    run.world.check([1])


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE], ids=["held", "at once"])
def test_a_partition_with_history_is_not_committed_again_before_its_end(options: dict[str, str]) -> None:
    """Until then its record is that of the other trigger."""
    run = Run(World(options=dict(MARKED)))
    run.play("3:10 ^ =3:1,1,1")
    run.world.options = dict(options)
    run.play("| 3:20 +4 =3:1,1,1")
    assert run.world.open() == {place(3)}
    run.play("4:00 +0 =3:2,2,2")


@pytest.mark.parametrize("trimmed", [False, True])
def test_rows_that_wait_when_on_epoch_returns_are_part_of_the_next_record(*, trimmed: bool) -> None:
    run = Run(World(options=NO_TRIGGER | ({"sink.log.retained-epochs": "1"} if trimmed else {})))
    run.play("3:10 3:20")
    run.world.options = dict(MARKED)
    run.play("| 3:30")
    run.world.check([1, 2, 3])
    assert run.world.records()[place(3)].commit.files == 2


def test_every_epoch_says_what_its_run_goes_by() -> None:
    """Also one that a run decides before its first batch, and one of a recovery that knows no settings."""
    default = {"sink.rolling-policy.on-epoch": "false"}
    settings = [HOURLY, HOURLY | {"sink.partition-commit.delay": "1min", "sink.late-rows": "drop"}]
    world = World(options=settings[0])
    world.feed(world.started(), at(3, 10, 1))
    world.options = settings[1]
    job = world.started()
    job.committer.finish()
    manifests = [world.log.manifest(epoch) for epoch in world.log.view().manifests]
    assert [one.kind for one in manifests] == ["batch", "roll"]
    assert [dict(one.settings or ()) | default for one in manifests] == settings
    assert load(job.context).following("fence", job.context.stamp()).settings == manifests[1].settings


ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
BATCHES = (
    (at(3, 10, 1), at(3, 20, 2)),
    (at(4, 10, 3),),
    (at(3, 30, 4), at(4, 20, 5), at(3, 40, 6)),
    (at(5, 0, 7), at(4, 50, 8)),
    (at(4, 55, 9), at(3, 50, 10), at(5, 10, 11)),
)
LATE = {4, 6, 9, 10}


@dataclass
class LateWorld(World):
    """With a table for dead letters."""

    dead: bool = True

    def run(self, fs: FaultyFileSystem | None = None) -> None:
        job = self.job(fs)
        job.committer.recover()
        for number, batch in enumerate(BATCHES):
            if number < self.source.committed:
                continue
            if number == len(self.source.planned):
                self.source.events += batch
            job.step(len(batch))
        job.committer.keep_up()
        self.wait(job, hours=2)
        job.committer.finish()

    def letters(self) -> list[int]:
        """The ids of dead letters that readers see."""
        store, found = RenameFileStore(self.fs), list[int]()
        for home in self.metastore.partitions(TABLE.rejected).values():
            for file in store.visible(home):
                with store.open(file.path) as stream:
                    found += [int(line) for line in stream.read().splitlines()]
        return sorted(found)

    def counts(self) -> Rows:
        log = self.log
        return sum((log.manifest(epoch).rows for epoch in log.view().manifests), Rows())


def expected(what: str) -> tuple[list[int], Rows]:
    late, ids = len(LATE), [row.id for batch in BATCHES for row in batch]
    kept = [one for one in ids if what == "append" or one not in LATE]
    counts = {"append": Rows(11, 11), "drop": Rows(11, 7, late=late), "dead-letter": Rows(11, 7, rejected=late)}
    return sorted(kept), counts[what]


@pytest.mark.parametrize("on_epoch", [{}, ON_EPOCH], ids=["held", "at once"])
@pytest.mark.parametrize("what", ["append", "drop", "dead-letter"])
def test_every_row_is_counted_once(what: str, on_epoch: dict[str, str]) -> None:
    world = LateWorld(options=HOURLY | on_epoch | {"sink.late-rows": what})
    world.run()
    ids, counts = expected(what)
    assert (world.read(3, 4, 5), world.counts()) == (ids, counts)
    assert world.letters() == (sorted(LATE) if what == "dead-letter" else [])
    revisions = {name: one.commit.revision for name, one in world.records().items()}
    assert (revisions[place(3)] > 1) is (what == "append")


@pytest.mark.parametrize("on_epoch", [{}, ON_EPOCH], ids=["held", "at once"])
@pytest.mark.parametrize("what", ["drop", "dead-letter"])
@pytest.mark.parametrize("at_", range(5, 200, 13))
def test_a_batch_that_runs_again_after_a_death_treats_the_same_rows_as_late(
    what: str, on_epoch: dict[str, str], at_: int
) -> None:
    world = LateWorld(options=HOURLY | on_epoch | {"sink.late-rows": what})
    with contextlib.suppress(Kill, HiveSinkError):
        world.run(FaultyFileSystem(world.fs, Plan(at_, Mode.AFTER)))
    world.run()
    ids, counts = expected(what)
    assert (world.read(3, 4, 5), world.counts()) == (ids, counts)
    assert world.letters() == (sorted(LATE) if what == "dead-letter" else [])


def test_a_new_checkpoint_goes_on_with_the_watermark_and_the_revisions_of_the_log() -> None:
    world = World(options=HOURLY | {"sink.late-rows": "drop"})
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(4, 10, 2))
    job.committer.finish()
    head = job.log.manifest(job.log.view().head)
    assert head.last_batch is not None
    world.source = world.source.new_checkpoint("query-2", start=2)
    job = world.job()
    job.committer = Committer(job.context, replace(job.committer.spec, append=head.last_batch.epoch), job.encode)
    job.committer.recover()
    world.feed(job, at(3, 20, 3), at(4, 20, 4))
    world.feed(job, at(5, 0, 5))
    job.committer.finish()
    assert world.read(3, 4, 5) == [1, 2, 4, 5]
    assert {name: one.commit.revision for name, one in world.records().items()} == {place(3): 1, place(4): 1}
