"""The commit protocol under every fault of the metastore, beside users who analyze, move and drop partitions.

As in `test_every_step`: a run without faults counts the calls, then each call fails in each way.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import HiveSinkError, PartLost
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan, moments
from tests.crash.site import PLAIN, Site, Watched, dies, forget, modes
from tests.crash.steps import ROLLING
from tests.sink.harness import LOCATION, SPEC, TABLE, Event, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.table import TableSpec
    from hivesink.sink.commit.committed import Committed
    from tests.crash.site import SiteJob

# Epoch 1 begins two partitions; epoch 2 goes on with one of them and begins a third.
DAYS = ("dt=a", "dt=b", "dt=c")
EVENTS = [Event(number, day) for number, day in enumerate("aabbbbcc")]
IDS = range(len(EVENTS))
ELSEWHERE = "/elsewhere"


@dataclass(frozen=True)
class Scenario:
    name: str
    spec: TableSpec = SPEC
    dead: bool = False
    options: dict[str, str] = field(default_factory=dict)
    user: Callable[[Site, int], None] | None = None

    def site(self) -> Site:
        return Site(Source(list(EVENTS)), self.spec, self.dead, dict(self.options), self.user)

    def __str__(self) -> str:
        return self.name


def analyzes(site: Site, call: int) -> None:  # noqa: ARG001  at every call
    site.analyze()


SUCCESS = {"sink.partition-commit.policy.kind": "metastore,success-file"}
SCENARIOS = [
    Scenario("success-files", options=SUCCESS),
    Scenario("analyzed", user=analyzes),
    Scenario("dead-letters", dead=True, user=analyzes),
    Scenario("unpartitioned", PLAIN, user=analyzes),
    Scenario("rolling", options={**ROLLING, **SUCCESS}, user=analyzes),
    Scenario("rolling-dead-letters", dead=True, options=ROLLING, user=analyzes),
    *(Scenario(f"retained-{kept}", options={"sink.log.retained-epochs": str(kept)}) for kept in (1, 2, 3)),
]


def no_wrong_count(site: Site) -> Callable[[Committed], None]:
    def look(done: Committed) -> None:
        if done.waiting is None:
            assert site.wrong_counts() == []

    return look


def start(site: Site, registrar: Watched, fs: FaultyFileSystem | None = None) -> Callable[[], SiteJob]:
    return lambda: site.job(fs, registrar, on_commit=no_wrong_count(site))


def make_durable(site: Site, case: object) -> None:
    """The restarts after a fault; then everything must be as if nothing had happened."""
    site.user = None
    site.job(on_commit=no_wrong_count(site)).run()
    site.check(IDS, case)
    for table in site.tables:
        for location in site.places(table).values():
            if "success-file" in str(site.options):
                assert site.store.find(f"{location}/_SUCCESS") is not None, case


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_fault_of_the_metastore_at_any_call(scenario: Scenario) -> None:
    counting = Watched(scenario.site())
    start(counting.site, counting)().run()
    counting.site.check(IDS)
    for call in counting.calls:
        for mode in modes(call, metastore=True):
            for restarted_first in (False, True) if mode is Mode.LATE else (False,):
                site = scenario.site()
                faulty = Watched(site, Plan(call.number, mode))
                dies(start(site, faulty))
                if restarted_first:
                    dies(lambda site=site: site.job())  # type: ignore[misc]
                faulty.apply_late()
                make_durable(site, (call, mode))


# Rolls with success files are in test_commit_steps.py as well.
RARE = {"analyzed", "rolling", "retained-2", "retained-3"}


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(one, id=one.name, marks=pytest.mark.long if one.name in RARE else ()) for one in SCENARIOS],
)
def test_a_fault_of_the_storage_at_any_call(scenario: Scenario) -> None:
    site = scenario.site()
    counting = FaultyFileSystem(site.fs)
    start(site, Watched(site), counting)().run()
    site.check(IDS)
    for call in counting.calls:
        for mode in modes(call):
            site = scenario.site()
            faulty = FaultyFileSystem(site.fs, Plan(call.number, mode))
            dies(start(site, Watched(site), faulty))
            faulty.release()
            faulty.apply_late()
            make_durable(site, (call, mode))


def test_every_partition_is_registered_when_one_fails_while_the_job_goes_on() -> None:
    """The job isn't restarted: what failed is tried again with the next epoch, and at the end."""
    scenario = Scenario("tolerant", options=SUCCESS, user=analyzes)
    counting = Watched(scenario.site())
    start(counting.site, counting)().run()
    for call in counting.calls:
        for mode in (Mode.LOST, Mode.LATE) if call.changes else (Mode.LOST,):
            site = scenario.site()
            faulty = Watched(site, Plan(call.number, mode))
            try:
                start(site, faulty)().run()
            except HiveSinkError:
                # At the very start and at the very end a failure stops the run.
                site.job().run()
            faulty.apply_late()
            make_durable(site, (call, mode))


def once(at: int, act: Callable[[Site], None]) -> Callable[[Site, int], None]:
    """A user who acts one time, at that call of the first job."""
    done: list[bool] = []

    def user(site: Site, call: int) -> None:
        if call == at and not done:
            done.append(True)
            act(site)

    return user


def moves(site: Site) -> None:
    """Every partition, registered or not, goes elsewhere, with the files that it has."""
    for day in DAYS:
        site.move(day, f"{ELSEWHERE}/{day}")


def copies(site: Site) -> None:
    """As `moves`, but the files stay at their old place too."""
    for day in DAYS:
        site.move(day, f"{ELSEWHERE}/{day}", copy=True)


def drops(site: Site) -> None:
    """Every partition is dropped; the table is external, so the files stay."""
    for day in site.places(TABLE):
        site.metastore.drop_partition(TABLE, day)


def takes(site: Site, taken: list[int]) -> None:
    """Every partition of the table, a managed one, is dropped with what readers see of it: `taken` gets the rows."""
    for day, location in site.places(TABLE).items():
        taken.extend(site.ids(location))
        for file in site.store.visible(location):
            site.fs.delete(file.path)
        site.metastore.drop_partition(TABLE, day)


CALLS = 20
"""More than a run without faults makes, so that a user acts before each and after the last."""


@pytest.mark.parametrize("act", [moves, copies], ids=["moves", "copies"])
@pytest.mark.parametrize("at", moments(CALLS - 1, every=2))
def test_a_user_moves_partitions_at_any_time_and_then_the_metastore_fails(at: int, act: Callable[[Site], None]) -> None:
    scenario = Scenario("moved")
    for step in range(at, at + 8):
        for mode in (Mode.BEFORE, Mode.AFTER, Mode.LOST):
            site = scenario.site()
            site.user = once(at, act)
            dies(start(site, Watched(site, Plan(step, mode))))
            make_durable(site, (at, step, mode))
            if ELSEWHERE in str(site.places(TABLE)):
                assert {day: f"{ELSEWHERE}/{day}" for day in DAYS} == site.places(TABLE)


@pytest.mark.parametrize("at", moments(CALLS - 1, every=5))
def test_a_user_moves_partitions_at_any_time_and_then_the_storage_fails(at: int) -> None:
    scenario = Scenario("moved")
    site = scenario.site()
    site.user = once(at, moves)
    counting = FaultyFileSystem(site.fs)
    start(site, Watched(site), counting)().run()
    site.check(IDS)
    for call in counting.calls:
        if not call.changes:
            continue
        for mode in (Mode.AFTER, Mode.TORN):
            site = scenario.site()
            site.user = once(at, moves)
            faulty = FaultyFileSystem(site.fs, Plan(call.number, mode))
            dies(start(site, Watched(site), faulty))
            make_durable(site, (at, call, mode))


@pytest.mark.parametrize("at", moments(CALLS - 1, every=3))
def test_partitions_move_there_and_back_while_the_metastore_comes_and_goes(at: int) -> None:
    """The parts come back to a place that an earlier move took them from."""
    home = {day: f"{LOCATION}/{day}" for day in DAYS}
    for back in range(at + 1, at + 8):
        for step in range(at, back + 4):
            site = Scenario("there and back").site()

            def user(site: Site, call: int, back: int = back) -> None:
                if call in {at, back}:
                    for day in DAYS:
                        site.move(day, f"{ELSEWHERE}/{day}" if call == at else home[day])

            site.user = user
            dies(start(site, Watched(site, Plan(step, Mode.LOST))))
            make_durable(site, (at, back, step))


@pytest.mark.parametrize("at", range(1, CALLS))
def test_a_user_drops_partitions_at_any_time_while_the_job_runs(at: int) -> None:
    """What the job publishes into a dropped partition is registered again, whatever fails meanwhile."""
    for step in range(at, at + 8):
        site = Scenario("dropped").site()
        site.user = once(at, drops)
        dies(start(site, Watched(site, Plan(step, Mode.LOST))))
        site.user = None
        site.job().run()
        # A partition that was dropped after its last epoch stays dropped: that is the user's decision.
        found = site.rows()
        assert len(found) == len(set(found))
        for day, ids in (("dt=a", {0, 1}), ("dt=b", {2, 3, 4, 5}), ("dt=c", {6, 7})):
            assert (day in site.places(TABLE)) == (ids <= set(found))
        if at <= 6:
            assert {2, 3, 4, 5, 6, 7} <= set(found)


@pytest.mark.parametrize("again", [False, True], ids=["once", "at each call from then on"])
@pytest.mark.parametrize("at", range(1, CALLS))
def test_a_user_drops_partitions_of_a_managed_table_at_any_time(at: int, again: bool) -> None:
    """What went with a partition is what the user wanted gone, and no file holds up the job or comes back."""
    site, taken = Scenario("dropped with files").site(), list[int]()
    site.user = lambda site, call: takes(site, taken) if call == at or (again and call > at) else None
    start(site, Watched(site))().run()
    assert sorted(site.rows() + taken) == list(IDS)
    site.user = None
    site.job().run()
    assert sorted(site.rows() + taken) == list(IDS)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_user_drops_partitions_of_a_managed_table_between_two_renames(at: int) -> None:
    """Of a new partition's files some went with it, and others came after the DROP."""
    site, taken, renamed = Scenario("dropped with files").site(), list[int](), list[str]()
    rename = site.fs.rename

    def renames(source: str, target: str) -> None:
        rename(source, target)
        if target.rpartition("/")[2].startswith("part-"):
            renamed.append(target)
            if len(renamed) == at:
                takes(site, taken)

    site.fs.rename = renames  # type: ignore[method-assign]  # a user acts in between
    site.job().run()
    assert (len(renamed) >= at, sorted(site.rows() + taken)) == (True, list(IDS))


def test_a_partition_dropped_between_two_runs_stays_dropped() -> None:
    site = Scenario("between").site()
    site.job().run()
    site.metastore.drop_partition(TABLE, "dt=b")
    site.job().run()
    assert set(site.places(TABLE)) == {"dt=a", "dt=c"}


def test_a_partition_that_somebody_drops_while_it_waits_to_be_published_is_registered_again() -> None:
    """It was there when the epoch was decided, so no manifest says that it must be registered."""
    site = decided(Scenario("decided"), epoch=2)
    site.metastore.drop_partition(TABLE, "dt=b")
    site.job().run()
    site.check(IDS)


def decided(scenario: Scenario, epoch: int) -> Site:
    """A job that died right after the manifest of `epoch`: nothing of it is published."""
    step = 1
    while True:
        site = scenario.site()
        faulty = FaultyFileSystem(site.fs, Plan(step, Mode.AFTER))
        dies(lambda site=site, faulty=faulty: site.job(faulty))  # type: ignore[misc]
        if site.log.view().head == epoch:
            assert site.waiting()
            return site
        step += 1


@pytest.mark.parametrize("second", [Mode.BEFORE, Mode.AFTER])
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.long)])
def test_accepted_losses_under_every_fault_of_the_storage(second: Mode, stride: int) -> None:
    """A decided part is lost; a person accepts it; that epoch dies at every `stride`th call, and is repeated."""
    step = 1
    while True:
        site = broken()
        with pytest.raises(PartLost):
            site.job().run()
        faulty = FaultyFileSystem(site.fs, Plan(step, second))
        with contextlib.suppress(Kill, HiveSinkError):
            forget(site.job(faulty).committer)
        if not faulty.dead:
            break
        forget(site.job().committer)
        site.job().run()
        lost = len(EVENTS) - len(site.rows())
        assert 1 <= lost <= 4, step
        assert len(set(site.rows())) == len(site.rows())
        assert site.staged() == set()
        step += stride
    assert step > 10


def broken() -> Site:
    """A job that died right after its first manifest, one of whose parts somebody has removed since."""
    site = decided(Scenario("broken"), epoch=1)
    site.fs.delete(min(site.waiting()))
    return site
