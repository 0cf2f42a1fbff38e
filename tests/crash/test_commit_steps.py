"""Partition commits under every crash: each call of the storage and the metastore, in every way it can fail.

One run goes through batches, rolls, commits without rows, timers, a stop that keeps rows and one that publishes them,
and late rows. Afterwards every partition must be committed by a record that says what it holds.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from hivesink.core.partition_commit import PolicyKind
from hivesink.errors import HiveSinkError
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.faulty_registrar import FaultyMetastore
from tests.crash.site import modes
from tests.sink.recoveries import by_hand
from tests.sink.timed import HOURLY, Timed, World, at, place

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

    from hivesink.ports import Metastore
    from hivesink.storage.fs import FileSystem
    from tests.crash.faults import Call

AT_ONCE = {"sink.rolling-policy.on-epoch": "true"}
AFTER_DELAY = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.partition-commit.delay": "30min",
    "sink.partition-commit.policy.kind": HOURLY["sink.partition-commit.policy.kind"],
}
TRIMMED = {"sink.log.retained-epochs": "1"}
WAYS = {
    "held": HOURLY,
    "at once": HOURLY | AT_ONCE,
    "after a delay": AFTER_DELAY,
    "after a delay, at once": AFTER_DELAY | AT_ONCE,
    "held, trimmed": HOURLY | TRIMMED,
    "at once, trimmed": HOURLY | AT_ONCE | TRIMMED,
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


def calls_of(way: str, *, metastore: bool) -> list[Call]:
    life = Life(WAYS[way])
    faulty: FaultyFileSystem | FaultyMetastore
    if metastore:
        faulty = FaultyMetastore(life.metastore)
        life.run(registrar=faulty)
    else:
        faulty = FaultyFileSystem(life.fs)
        life.run(faulty)
    life.done()
    return faulty.calls


STORAGE, METASTORE = ({way: calls_of(way, metastore=metastore) for way in WAYS} for metastore in (False, True))


def cases(calls: dict[str, list[Call]], every: int) -> list[ParameterSet]:
    """Every `every`th call for each run of the suite, the rest for long ones."""
    return [
        pytest.param(way, call, id=f"{way}-{call.number}", marks=pytest.mark.long if number % every else ())
        for way, own in calls.items()
        for number, call in enumerate(own)
    ]


@pytest.mark.parametrize(("way", "call"), cases(STORAGE, every=17))
def test_a_fault_of_the_storage_at_any_call(way: str, call: Call) -> None:
    for mode in modes(call):
        life = Life(WAYS[way])
        faulty = FaultyFileSystem(life.fs, Plan(call.number, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            life.run(faulty)
        assert faulty.calls[call.number - 1].name == call.name
        life.run()
        faulty.apply_late()
        life.done((call, mode))


@pytest.mark.parametrize(("way", "call"), cases(METASTORE, every=5))
def test_a_fault_of_the_metastore_at_any_call(way: str, call: Call) -> None:
    for mode in modes(call, metastore=True):
        life = Life(WAYS[way])
        faulty = FaultyMetastore(life.metastore, Plan(call.number, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            life.run(registrar=faulty)
        life.run()
        faulty.apply_late()
        life.done((call, mode))


@pytest.mark.parametrize(("way", "call"), cases(STORAGE, every=41))
def test_a_recovery_by_hand_after_a_death_at_any_call(way: str, call: Call) -> None:
    life = Life(WAYS[way])
    with contextlib.suppress(Kill):
        life.run(FaultyFileSystem(life.fs, Plan(call.number, Mode.AFTER)))
    job = life.job()
    by_hand(job.context, job.committer.spec.policy)
    life.run()
    life.done(call)


class Overtaken(FaultyFileSystem):
    """Another run goes through the whole life at one call of this one."""

    def __init__(self, life: Life, step: int) -> None:
        super().__init__(life.fs)
        self._life, self._step = life, step

    def _begin(self, name: str, subject: str, *, changes: bool) -> Mode | None:
        found = super()._begin(name, subject, changes=changes)
        if len(self.calls) == self._step:
            self._life.run()
        return found


@pytest.mark.parametrize(("way", "call"), cases(STORAGE, every=37))
def test_a_second_run_of_the_writer_at_any_call_of_the_first(way: str, call: Call) -> None:
    life = Life(WAYS[way])
    with contextlib.suppress(HiveSinkError):
        life.run(Overtaken(life, call.number))
    life.done(call)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("down", range(1, 9))
def test_a_metastore_that_is_down_while_commits_are_due(way: str, down: int) -> None:
    life = Life(WAYS[way])
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
    assert set(Life().job().committer.spec.config["sink.partition-commit.policy.kind"].kinds) == kinds
