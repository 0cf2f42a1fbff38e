"""Commits of partitions that the metastore refuses, or that a user moves or drops before their commit."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import HiveSinkError, RegistrationFailed
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE
from tests.sink.recoveries import by_hand
from tests.sink.timed import HOURLY, TimedJob, World, at, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.partition import NewPartition
    from hivesink.ports import LiveTable

AT_ONCE = HOURLY | {"sink.rolling-policy.on-epoch": "true"}
BY_DEFAULT = {"sink.partition-commit.policy.kind": HOURLY["sink.partition-commit.policy.kind"]}
REFUSED = place(3)


class Choosy(MemoryMetastore):
    """Registers every partition of a call but one, until `relents`."""

    relents = False

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        refused = {REFUSED} if not self.relents else set()
        super().add(table, [new for new in partitions if new.partition not in refused])
        if any(new.partition in refused for new in partitions):
            raise RegistrationFailed(str(TABLE), "register", "it is too long", self.address, (REFUSED,))


def fed(world: World, job: TimedJob, identity: int, *hours: int) -> None:
    world.feed(job, *(at(hour, 1, identity * 10 + number) for number, hour in enumerate(hours)))


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE, BY_DEFAULT], ids=["held", "at once", "each publish"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_refused_partition_is_made_known_only_once_its_rows_are_there(
    options: dict[str, str], *, restarts: bool
) -> None:
    metastore = Choosy(SPEC)
    world = World(dict(options), metastore=metastore)
    job = world.started()
    ids: list[int] = []
    for number, hours in enumerate([(3, 4), (5, 5), (3, 6), (6, 7), (7, 8)], start=1):
        fed(world, job, number, *hours)
        ids += [number * 10 + one for one in range(len(hours))]
        world.wait(job, seconds=61)
        assert not world.has_success(3), number
        assert REFUSED not in {partition for _, partition, _ in metastore.events}, number
        if restarts:
            with contextlib.suppress(HiveSinkError):
                job.committer.finish(roll=False)
            job = world.job()
            with contextlib.suppress(HiveSinkError):
                job.committer.recover()
    metastore.relents = True
    world.wait(job)
    world.wait(job, hours=2)
    with contextlib.suppress(HiveSinkError):
        job.committer.finish()
    job = world.started()
    world.wait(job)
    world.wait(job, hours=2)
    world.started().committer.finish()
    world.check(ids)
    assert set(world.records()) == {place(hour) for hour in range(3, 9)}


def test_late_rows_that_wait_outlive_the_move_of_their_partitions_commit() -> None:
    metastore = Choosy(SPEC)
    world = World(metastore=metastore)
    job = world.started()
    fed(world, job, 1, 3)
    fed(world, job, 2, 4, 3)
    fed(world, job, 3, 5, 3)
    fed(world, job, 4, 6)
    metastore.relents = True
    world.wait(job)
    world.wait(job, hours=3)
    job.committer.finish()
    world.check([10, 20, 21, 30, 31, 40])


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE], ids=["held", "at once"])
def test_a_partition_that_was_moved_between_publish_and_commit(options: dict[str, str]) -> None:
    world = World(dict(options))
    job = world.started()
    fed(world, job, 1, 3, 3)
    job.committer.finish()
    old, new = world.metastore.partitions(TABLE)[place(3)], "/elsewhere/three"
    for file in job.store.visible(old):
        world.fs.rename(file.path, f"{new}/{file.path.rpartition('/')[2]}")
    world.metastore.register(TABLE, place(3), new)
    again = world.started()
    fed(world, again, 2, 4, 3)
    again.committer.finish()
    assert world.is_marked(place(3))
    assert world.fs.length(f"{LOCATION}/{place(3)}/_SUCCESS") is None
    assert world.records()[place(3)].commit.rows == 3
    assert sorted(world.read(3, 4)) == [10, 11, 20, 21]


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE], ids=["held", "at once"])
def test_a_partition_that_was_dropped_between_publish_and_commit_stays_dropped(options: dict[str, str]) -> None:
    world = World(dict(options))
    job = world.started()
    fed(world, job, 1, 3)
    job.committer.finish()
    world.metastore.drop_partition(TABLE, place(3))
    again = world.started()
    fed(world, again, 2, 4)
    again.committer.finish()
    assert place(3) not in world.metastore.partitions(TABLE)
    assert not world.has_success(3)
    assert world.metastore.events == []
    assert world.open() == {place(4)}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("options", [HOURLY, AT_ONCE, BY_DEFAULT], ids=["held", "at once", "each publish"])
def test_a_record_counts_no_rows_that_a_person_has_given_up(options: dict[str, str], *, late: bool) -> None:
    metastore = Choosy(SPEC)
    world = World(dict(options), metastore=metastore)
    job = world.started()
    fed(world, job, 1, 3, 4)
    fed(world, job, 2, 5)
    world.wait(job, seconds=61)
    if late:
        fed(world, job, 3, 3)
    with contextlib.suppress(HiveSinkError):
        job.committer.finish(roll=False)
    give_up(world)
    records = world.records()
    assert (records[REFUSED].commit.rows, records[REFUSED].commit.files) == (0, 0)
    assert not world.has_success(3)
    metastore.relents = True
    job = world.started()
    fed(world, job, 4, 3, 6)
    world.wait(job, seconds=61)
    world.wait(job, hours=3)
    job.committer.finish()
    waited = [30] if late and options is HOURLY else []
    world.check([11, 20, *waited, 40, 41])


def test_rows_of_an_uncommitted_partition_that_are_given_up_are_no_part_of_its_commit() -> None:
    metastore = Choosy(SPEC)
    world = World(dict(AT_ONCE), metastore=metastore)
    job = world.started()
    fed(world, job, 1, 3)
    with contextlib.suppress(HiveSinkError):
        job.committer.finish()
    assert world.open() == {REFUSED}
    give_up(world)
    assert (world.open(), world.records()) == (set(), {})
    metastore.relents = True
    job = world.started()
    fed(world, job, 2, 3)
    fed(world, job, 3, 4)
    world.wait(job)
    world.wait(job, hours=3)
    job.committer.finish()
    world.check([20, 30])


def give_up(world: World) -> None:
    job = world.job()
    assert by_hand(job.context, job.committer.spec.policy, forget=REFUSED).losses
