"""Settings of partition commits that change between two runs."""

from __future__ import annotations

import pytest

from hivesink.sink.commit.observe import load
from tests.sink.timed import HOURLY, World, at, place

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
    world = World(dict(first))
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
    world = World(dict(AT_ONCE))
    job = world.started()
    world.feed(job, at(3, 10, 1))
    job.committer.finish()
    assert world.records() == {}
    world.options = dict(MARKED)
    world.wait(world.started())
    world.check([1])
    assert set(world.records()) == {place(3)}


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE], ids=["held", "at once"])
def test_a_partition_with_history_is_not_committed_again_before_its_end(options: dict[str, str]) -> None:
    """Until then its record is that of the other trigger."""
    world = World(dict(MARKED))
    job = world.started()
    world.feed(job, at(3, 10, 1))
    job.committer.finish()
    assert world.records()[place(3)].commit.revision == 1
    world.options = dict(options)
    job = world.started()
    world.feed(job, at(3, 20, 2))
    world.wait(job, minutes=4)
    assert world.records()[place(3)].commit.revision == 1
    assert world.open() == {place(3)}
    world.feed(job, at(4, 0, 3))
    world.wait(job)
    record = world.records()[place(3)].commit
    assert (record.revision, record.rows, record.files) == (2, 2, 2)


@pytest.mark.parametrize("trimmed", [False, True])
def test_rows_that_wait_when_on_epoch_returns_are_part_of_the_next_record(*, trimmed: bool) -> None:
    world = World(NO_TRIGGER | ({"sink.log.retained-epochs": "1"} if trimmed else {}))
    job = world.started()
    world.feed(job, at(3, 10, 1))
    world.feed(job, at(3, 20, 2))
    world.options = dict(MARKED)
    job = world.started()
    world.feed(job, at(3, 30, 3))
    world.check([1, 2, 3])
    assert world.records()[place(3)].commit.files == 2


def test_every_epoch_says_what_its_run_goes_by() -> None:
    """Also one that a run decides before its first batch, and one of a recovery that knows no settings."""
    default = {"sink.rolling-policy.on-epoch": "false"}
    settings = [HOURLY, HOURLY | {"sink.partition-commit.delay": "1min", "sink.late-rows": "drop"}]
    world = World(settings[0])
    world.feed(world.started(), at(3, 10, 1))
    world.options = settings[1]
    job = world.started()
    job.committer.finish()
    manifests = [world.log.manifest(epoch) for epoch in world.log.view().manifests]
    assert [one.kind for one in manifests] == ["batch", "roll"]
    assert [dict(one.settings or ()) | default for one in manifests] == settings
    assert load(job.context).following("fence", job.context.stamp()).settings == manifests[1].settings
