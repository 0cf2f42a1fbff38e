"""Partition commits under every crash: each call of the storage and the metastore, in every way it can fail.

One run goes through batches, rolls, commits without rows, timers, a stop that keeps rows and one that publishes them,
and late rows. Afterwards every partition must be committed by a record that says what it holds.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from hivesink.core.partition_commit import PolicyKind
from hivesink.errors import HiveSinkError
from hivesink.ports import Metastore
from hivesink.storage.fs import FileSystem
from tests.crash.faults import FaultyMetastore, Kill, Mode, Plan, Stalling, calls_of, faults, modes, sampled
from tests.crash.site import Choosy, by_hand, on_files, on_metastore
from tests.sink.harness import LOCATION, TABLE
from tests.sink.timed import HOURLY, Timed, TimedJob, World, at, place

ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
AT_ONCE = HOURLY | ON_EPOCH
BY_DEFAULT = {"sink.partition-commit.policy.kind": HOURLY["sink.partition-commit.policy.kind"]}
AFTER_DELAY = BY_DEFAULT | {"sink.rolling-policy.on-epoch": "false", "sink.partition-commit.delay": "30min"}
TRIMMED = {"sink.log.retained-epochs": "1"}
WAYS = {
    "held": HOURLY,
    "at once": AT_ONCE,
    "after a delay": AFTER_DELAY,
    "after a delay, at once": AFTER_DELAY | ON_EPOCH,
    "held, trimmed": HOURLY | TRIMMED,
    "at once, trimmed": AT_ONCE | TRIMMED,
}
HOURS = (3, 4, 5, 7)


@dataclass(frozen=True)
class Phase:
    """One life of the job: what comes, in batches of two, how long the input then stops, and whether its end rolls."""

    rows: tuple[Timed, ...]
    idle: float = 0
    roll: bool = True


PHASES = (
    Phase((at(3, 10, 1), at(3, 50, 2), at(4, 5, 3), at(3, 55, 4)), roll=False),
    Phase((at(4, 10, 5), at(3, 59, 6), at(5, 1, 7), at(5, 2, 8)), idle=70),
    Phase((at(7, 0, 9), at(5, 30, 10))),
    Phase((at(7, 5, 11), at(7, 6, 12)), idle=130),
)
IDS = range(1, 13)


@dataclass
class Life(World):
    """A table and how far its jobs have come."""

    phase: int = 0

    def run(self, fs: FileSystem | None = None, registrar: Metastore | None = None) -> None:
        while self.phase < len(PHASES):
            now = PHASES[self.phase]
            self.source.events[:] = [row for phase in PHASES[: self.phase + 1] for row in phase.rows]
            job = self.job(fs, registrar)
            job.committer.recover()
            while job.step(2):
                pass
            job.committer.keep_up()
            self.wait(job, minutes=now.idle)
            job.committer.finish(roll=now.roll)
            self.phase += 1

    def done(self, case: object = "") -> None:
        # Segments whose epoch was settled last are swept by a start.
        self.started().committer.finish()
        self.check(IDS, case)
        assert set(self.records()) == {place(hour) for hour in HOURS}, case
        assert self.open() == set(), case
        assert self.log.segments.lengths() == {}, case


def run(life: Life, faulty: Any) -> None:
    life.run(registrar=faulty) if isinstance(faulty, FaultyMetastore) else life.run(faulty)


def changes(way: str, every: int) -> list[int]:
    found = calls_of(lambda: Life(options=WAYS[way]), on_files, run)
    return [call.number for call in found if call.changes][::every]


@sampled(33, timeout=3600)
@pytest.mark.parametrize("kind", [on_files, on_metastore])
@pytest.mark.parametrize("way", WAYS)
def test_a_fault_at_any_call(way: str, kind: Any, every: int) -> None:
    modes_of = partial(modes, metastore=kind is on_metastore)
    for life, faulty, case in faults(lambda: Life(options=WAYS[way]), kind, run, modes_of, every):
        life.run()
        faulty.apply_late()
        life.done(case)


@sampled(50)
@pytest.mark.parametrize("way", WAYS)
def test_after_a_death_at_any_call_by_hand_and_a_second_run_at_any_call_of_the_first(way: str, every: int) -> None:
    for number in changes(way, every):
        life = Life(options=WAYS[way])
        with contextlib.suppress(Kill):
            life.run(on_files(life, Plan(number, Mode.AFTER)))
        job = life.job()
        by_hand(job.context, job.committer.spec.policy)
        life.run()
        life.done(number)

        life = Life(options=WAYS[way])
        with contextlib.suppress(HiveSinkError):
            life.run(Stalling(life.fs, number, life.run))
        life.done(number)


@pytest.mark.parametrize("way", WAYS)
def test_a_metastore_that_is_down_while_commits_are_due(way: str) -> None:
    for down in range(1, 9):
        life = Life(options=WAYS[way])
        job = life.started()
        for number, row in enumerate((one for phase in PHASES for one in phase.rows), start=1):
            if number == down:
                life.metastore.go_down()
            life.feed(job, row)
            life.wait(job, seconds=61)
            if number == down + 4:
                life.metastore.come_up()
        life.wait(job)
        life.wait(job, minutes=130)
        job.committer.finish()
        life.done(down)


def test_every_way_of_making_a_commit_known_is_in_the_run() -> None:
    kinds = {PolicyKind.METASTORE, PolicyKind.SUCCESS_FILE, PolicyKind.INSERT_EVENT}
    assert set(Life().job().committer.spec.config["sink.partition-commit.policy.kind"]) == kinds


REFUSED = place(3)


def fed(world: World, job: TimedJob, identity: int, *hours: int) -> None:
    world.feed(job, *(at(hour, 1, identity * 10 + number) for number, hour in enumerate(hours)))


def refusing(options: dict[str, str]) -> tuple[World, Choosy, TimedJob]:
    """A world whose metastore refuses hour 3, and a job in it."""
    metastore = Choosy.of(REFUSED)
    world = World(options=dict(options), metastore=metastore)
    return world, metastore, world.started()


def finish(world: World, job: TimedJob) -> None:
    world.wait(job)
    world.wait(job, hours=3)
    with contextlib.suppress(HiveSinkError):
        job.committer.finish()


EACH = pytest.mark.parametrize("options", [HOURLY, AT_ONCE, BY_DEFAULT], ids=["held", "at once", "each publish"])


@EACH
@pytest.mark.parametrize("restarts", [False, True])
def test_a_refused_partition_is_made_known_only_once_its_rows_are_there(
    options: dict[str, str], *, restarts: bool
) -> None:
    world, metastore, job = refusing(options)
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
    metastore.refused = ""
    finish(world, job)
    finish(world, world.started())
    world.started().committer.finish()
    world.check(ids)
    assert set(world.records()) == {place(hour) for hour in range(3, 9)}


def test_late_rows_that_wait_outlive_the_move_of_their_partitions_commit() -> None:
    world, metastore, job = refusing(HOURLY)
    for number, hours in enumerate([(3,), (4, 3), (5, 3), (6,)], start=1):
        fed(world, job, number, *hours)
    metastore.refused = ""
    finish(world, job)
    world.check([10, 20, 21, 30, 31, 40])


@pytest.mark.parametrize("options", [HOURLY, AT_ONCE], ids=["held", "at once"])
@pytest.mark.parametrize("moved", [True, False], ids=["moved", "dropped"])
def test_a_partition_that_a_user_moves_or_drops_between_publish_and_commit(
    options: dict[str, str], *, moved: bool
) -> None:
    world = World(options=dict(options))
    job = world.started()
    fed(world, job, 1, 3, 3)
    job.committer.finish()
    old, new = world.metastore.partitions(TABLE)[place(3)], "/elsewhere/three"
    if moved:
        for file in job.store.visible(old):
            world.fs.rename(file.path, f"{new}/{file.path.rpartition('/')[2]}")
        world.metastore.register(TABLE, place(3), new)
    else:
        world.metastore.drop_partition(TABLE, place(3))
    again = world.started()
    fed(world, again, 2, 4, *[3] * moved)
    again.committer.finish()
    if moved:
        assert world.is_marked(place(3))
        assert world.fs.length(f"{LOCATION}/{place(3)}/_SUCCESS") is None
        assert world.records()[place(3)].commit.rows == 3
        assert sorted(world.read(3, 4)) == [10, 11, 20, 21]
    else:
        assert place(3) not in world.metastore.partitions(TABLE)
        assert not world.has_success(3)
        assert (world.metastore.events, world.open()) == ([], {place(4)})


def give_up(world: World) -> None:
    job = world.job()
    assert by_hand(job.context, job.committer.spec.policy, forget=REFUSED).losses


@EACH
@pytest.mark.parametrize("late", [False, True])
def test_a_record_counts_no_rows_that_a_person_has_given_up(options: dict[str, str], *, late: bool) -> None:
    world, metastore, job = refusing(options)
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
    metastore.refused = ""
    job = world.started()
    fed(world, job, 4, 3, 6)
    world.wait(job, seconds=61)
    finish(world, job)
    waited = [30] if late and options is HOURLY else []
    world.check([11, 20, *waited, 40, 41])


def test_rows_of_an_uncommitted_partition_that_are_given_up_are_no_part_of_its_commit() -> None:
    world, metastore, job = refusing(AT_ONCE)
    fed(world, job, 1, 3)
    with contextlib.suppress(HiveSinkError):
        job.committer.finish()
    assert world.open() == {REFUSED}
    give_up(world)
    assert (world.open(), world.records()) == (set(), {})
    metastore.refused = ""
    job = world.started()
    fed(world, job, 2, 3)
    fed(world, job, 3, 4)
    finish(world, job)
    world.check([20, 30])
