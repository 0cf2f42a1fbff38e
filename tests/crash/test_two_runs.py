"""Two runs of one writer at once. One is stalled at a call, the other recovers, commits, cleans up and goes on.

Then the stalled one wakes. One wins, the other stops with an error that says so; nothing is doubled, lost, or
deleted that is the other's. Every call of the first run is tried as the place where it stalls.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import CheckpointDiffers, EpochTaken, FencedOut, HiveSinkError
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan, Stalling, moments
from tests.crash.site import Site, SiteJob, Watched, dies
from tests.crash.steps import ROLLING
from tests.sink.harness import Event, Source

if TYPE_CHECKING:
    from collections.abc import Callable

DAYS = ("dt=a", "dt=b", "dt=c")
FIRST = [Event(number, day) for number, day in enumerate("aabbbbcc")]
MORE = [Event(number + len(FIRST), day) for number, day in enumerate("ccaabbbd")]
ALL = range(len(FIRST) + len(MORE))
STOPPED = (EpochTaken, FencedOut, CheckpointDiffers)
"""How a run that was overtaken ends; the last where it wakes before it has read the log."""
OPTIONS = {
    "sink.log.retained-epochs": "1",
    "sink.partition-commit.policy.kind": "metastore,success-file",
}


def new_site(**options: str) -> Site:
    return Site(Source(list(FIRST)), options={**OPTIONS, **options})


@dataclass
class Other:
    """The second run: from the checkpoint as it is at its start, with events that came since."""

    site: Site
    before: Callable[[Site], None] = lambda _: None
    head: int = 0
    source: Source = field(init=False)

    def start(self) -> SiteJob:
        self.source = copy.deepcopy(self.site.source)
        self.source.events += MORE
        self.before(self.site)
        return self.site.job(source=self.source)

    def __call__(self) -> None:
        self.head = self.site.log.view().head
        self.start().run()


def wakes(job: Callable[[], SiteJob]) -> HiveSinkError | None:
    """Run the stalled one; its error."""
    try:
        job().run()
    except HiveSinkError as error:
        return error
    return None


def check(site: Site, other: Other, error: HiveSinkError | None, case: object, *, counts: bool = True) -> None:
    assert error is None or isinstance(error, STOPPED), (case, repr(error))
    if not counts:
        for day, location in site.places(site.tables[0]).items():
            site.metastore.analyze(site.tables[0], day, len(site.ids(location)))
    site.source = other.source
    site.check_rows(ALL, case)
    site.job().run()
    site.check(ALL, case)


def count(**options: str) -> int:
    site = new_site(**options)
    fs = FaultyFileSystem(site.fs)
    site.job(fs).run()
    return len(fs.calls)


CALLS = count()


@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_one_run_stalls_while_the_other_goes_on(at: int) -> None:
    site = new_site()
    other = Other(site)
    stalling = Stalling(site.fs, at, other)
    error = wakes(lambda: site.job(stalling))
    decided = {int(call.path.rpartition("/")[2][:10]) for call in stalling.calls[: at - 1] if _decides(call.path)}
    if max(decided, default=0) < 2:
        assert error is not None, at
    check(site, other, error, (at, stalling.calls[at - 1]))


@pytest.mark.parametrize("at", moments(count(**ROLLING), every=4))
def test_one_run_stalls_while_the_other_rolls(at: int) -> None:
    site = new_site(**ROLLING)
    other = Other(site)
    stalling = Stalling(site.fs, at, other)
    check(site, other, wakes(lambda: site.job(stalling)), at)
    assert site.log.segments.lengths() == {}


def _decides(path: str) -> bool:
    return path.endswith(".json") and " -> " in path


def moves(site: Site) -> None:
    """A user moves every partition, with the files that it has."""
    for day in DAYS:
        site.move(day, f"/elsewhere/{day}")


@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_one_run_stalls_while_partitions_move_and_the_other_goes_on(at: int) -> None:
    site = new_site()
    other = Other(site, moves)
    error = wakes(lambda: site.job(Stalling(site.fs, at, other)))
    check(site, other, error, at)
    assert {day: f"/elsewhere/{day}" for day in DAYS}.items() <= site.places(site.tables[0]).items()


@pytest.mark.parametrize("at", moments(CALLS, every=3, skip=2))
def test_the_other_run_dies_at_every_call_and_the_stalled_one_goes_on(at: int) -> None:
    """Whoever is left finishes: the stalled run if it still can, else a third one."""
    step = 1
    while True:
        site = new_site()
        dead: list[FaultyFileSystem] = []

        def dying(site: Site = site, step: int = step, dead: list[FaultyFileSystem] = dead) -> None:
            dead.append(FaultyFileSystem(site.fs, Plan(step, Mode.AFTER)))
            source = copy.deepcopy(site.source)
            dies(lambda: site.job(dead[0], source=source))

        error = wakes(lambda site=site, dying=dying: site.job(Stalling(site.fs, at, dying)))  # type: ignore[misc]
        assert error is None or isinstance(error, STOPPED), (at, step, repr(error))
        if error is not None:
            _third(site)
        site.check(range(len(FIRST)), (at, step))
        if not dead[0].dead:
            break
        step += 7


def _third(site: Site) -> None:
    """A run from the newest checkpoint: Spark has committed what the log holds, but perhaps the last batch."""
    last = site.log.manifest(site.log.view().head).last_batch
    batch = last.ref.batch if last else 0
    source = Source(list(FIRST))
    source.planned = [4 * (number + 1) for number in range(batch + 1)]
    source.committed = batch
    site.source = source
    site.job().run()


def test_a_run_stalls_at_every_call_of_the_metastore() -> None:
    site = new_site()
    counting = Watched(site)
    site.job(registrar=counting).run()
    for call in counting.calls:
        site = new_site()
        other = Other(site)

        def user(_: Site, number: int, at: int = call.number, other: Other = other) -> None:
            if number == at:
                other()

        site.user = user
        error = wakes(lambda site=site: site.job(registrar=Watched(site)))  # type: ignore[misc]
        check(site, other, error, call)


class Turns:
    """Two runs in threads of which one works at a time: the first until call `at`, the second until `then`."""

    def __init__(self, site: Site, at: int, then: int) -> None:
        self.site = site
        self.turn = {"first": threading.Semaphore(1), "second": threading.Semaphore(0)}
        self.errors: dict[str, BaseException | None] = {}
        self.calls = {"first": at, "second": then}
        self.source: Source | None = None

    def run(self) -> None:
        threads = [threading.Thread(target=self._run, args=(name,)) for name in self.turn]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, name: str) -> None:
        other = "second" if name == "first" else "first"
        self.turn[name].acquire()

        def hand_over() -> None:
            self.turn[other].release()
            self.turn[name].acquire()

        self.errors[name] = None
        try:
            source = self.site.source if name == "first" else self._newer()
            self.site.job(Stalling(self.site.fs, self.calls[name], hand_over), source=source).run()
        except (HiveSinkError, Kill, AssertionError) as error:
            self.errors[name] = error
        finally:
            self.turn[other].release()

    def _newer(self) -> Source:
        self.source = copy.deepcopy(self.site.source)
        self.source.events += MORE
        return self.source


def take_turns(at: int, then: int) -> None:
    site = new_site()
    turns = Turns(site, at, then)
    turns.run()
    for name, error in turns.errors.items():
        assert error is None or isinstance(error, STOPPED), (at, then, name, repr(error))
    last = site.log.manifest(site.log.view().head).last_batch
    assert last is not None
    source = Source([*FIRST, *MORE])
    source.planned = [4 * (number + 1) for number in range(last.ref.batch + 1)]
    source.committed = last.ref.batch
    site.source = source
    site.job().run()
    site.check(ALL, (at, then))


@pytest.mark.parametrize("at", moments(CALLS, every=3, skip=5))
def test_two_runs_stall_in_turn(at: int) -> None:
    for then in range(1 + at % 11, 2 * CALLS, 11):
        take_turns(at, then)


@pytest.mark.long
@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_two_runs_stall_in_turn_at_every_pair_of_calls(at: int) -> None:
    for then in range(1, 2 * CALLS):
        take_turns(at, then)
