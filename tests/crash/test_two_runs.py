"""Two runs of one writer at once. One is stalled at a call, the other recovers, commits, cleans up and goes on.

Then the stalled one wakes. One wins, the other stops with an error that says so; nothing is doubled, lost, or
deleted that is the other's. Every call of the first run is tried as the place where it stalls.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hivesink.errors import CheckpointDiffers, EpochTaken, FencedOut, HiveSinkError
from tests.crash.faults import Call, FaultyFileSystem, Kill, Mode, Plan, Stalling, calls_of, sampled
from tests.crash.site import ROLLING, Site, Watched, dies, on_files, wakes
from tests.crash.test_metastore_faults import DAYS, EVENTS, SUCCESS, moves
from tests.sink.harness import TABLE, Event, Source

MORE = [Event(number + len(EVENTS), day) for number, day in enumerate("ccaabbbd")]
ALL = range(len(EVENTS) + len(MORE))
STOPPED = (EpochTaken, FencedOut, CheckpointDiffers)
"""How a run that was overtaken ends; the last where it wakes before it has read the log."""


def new_site(**options: str) -> Site:
    return Site(Source(list(EVENTS)), options={"sink.log.retained-epochs": "1", **SUCCESS, **options})


def newer(site: Site) -> Source:
    """The checkpoint as it is now, and events that came since."""
    source = copy.deepcopy(site.source)
    source.events += MORE
    return source


@dataclass
class Other:
    """The second run, before which a user acts."""

    site: Site
    before: Callable[[Site], None] = lambda _: None
    source: Source = field(init=False)

    def __call__(self) -> None:
        self.source = newer(self.site)
        self.before(self.site)
        self.site.job(source=self.source).run()


def check(site: Site, other: Other, error: BaseException | None, case: object) -> None:
    assert error is None or isinstance(error, STOPPED), (case, repr(error))
    site.source = other.source
    site.check_rows(ALL, case)
    site.job().run()
    site.check(ALL, case)


def calls(**options: str) -> list[Call]:
    return calls_of(lambda: new_site(**options), on_files, lambda site, fs: site.job(fs).run())


@sampled(6)
@pytest.mark.parametrize("before", [lambda _: None, moves], ids=["alone", "and partitions move"])
def test_one_run_stalls_while_the_other_goes_on(before: Callable[[Site], None], every: int) -> None:
    for call in calls()[::every]:
        site = new_site()
        other = Other(site, before)
        stalling = Stalling(site.fs, call.number, other)
        error = wakes(lambda site=site, fs=stalling: site.job(fs))  # type: ignore[misc]
        begun = [own.path for own in stalling.calls[: call.number - 1]]
        decided = {int(path.rpartition("/")[2][:10]) for path in begun if path.endswith(".json") and " -> " in path}
        if max(decided, default=0) < 2:
            assert error is not None, call
        check(site, other, error, call)
        if before is moves:
            assert {day: f"/elsewhere/{day}" for day in DAYS}.items() <= site.places(TABLE).items()


@sampled(12)
def test_one_run_stalls_while_the_other_rolls(every: int) -> None:
    for call in calls(**ROLLING)[::every]:
        site = new_site(**ROLLING)
        other = Other(site)
        check(site, other, wakes(lambda: site.job(Stalling(site.fs, call.number, other))), call)  # noqa: B023
        assert site.log.segments.lengths() == {}


def goes_on_from_the_log(site: Site, events: list[Event]) -> None:
    """A run from the newest checkpoint: Spark has committed what the log holds, but perhaps the last batch."""
    last = site.log.manifest(site.log.view().head).last_batch
    batch = last.ref.batch if last else 0
    site.source = Source(list(events))
    site.source.planned = [4 * (number + 1) for number in range(batch + 1)]
    site.source.committed = batch
    site.job().run()


@sampled(40)
def test_the_other_run_dies_at_every_call_and_the_stalled_one_goes_on(every: int) -> None:
    """Whoever is left finishes: the stalled run if it still can, else a third one."""
    for call in calls()[::every]:
        step, dead = 1, True
        while dead:
            site = new_site()
            dying = on_files(site, Plan(step, Mode.AFTER))

            def die(site: Site = site, dying: FaultyFileSystem = dying) -> None:
                source = copy.deepcopy(site.source)
                dies(lambda: site.job(dying, source=source))

            error = wakes(lambda: site.job(Stalling(site.fs, call.number, die)))  # noqa: B023
            assert error is None or isinstance(error, STOPPED), (call, step, repr(error))
            if error is not None:
                goes_on_from_the_log(site, EVENTS)
            site.check(range(len(EVENTS)), (call, step))
            step, dead = step + 7, dying.dead


def test_a_run_stalls_at_every_call_of_the_metastore() -> None:
    for call in calls_of(new_site, Watched, lambda site, registrar: site.job(registrar=registrar).run()):
        site = new_site()
        other = Other(site)

        def user(_: Site, number: int, at: int = call.number, other: Other = other) -> None:
            if number == at:
                other()

        site.user = user
        check(site, other, wakes(lambda: site.job(registrar=Watched(site))), call)  # noqa: B023


def take_turns(at: int, then: int) -> None:
    """Two runs in threads of which one works at a time: the first until call `at`, the second until `then`."""
    site = new_site()
    turn = {"first": threading.Semaphore(1), "second": threading.Semaphore(0)}
    errors: dict[str, BaseException | None] = {}

    def run(name: str, other: str, call: int) -> None:
        turn[name].acquire()

        def hand_over() -> None:
            turn[other].release()
            turn[name].acquire()

        errors[name] = None
        try:
            source = site.source if name == "first" else newer(site)
            site.job(Stalling(site.fs, call, hand_over), source=source).run()
        except (HiveSinkError, Kill, AssertionError) as error:
            errors[name] = error
        finally:
            turn[other].release()

    threads = [threading.Thread(target=run, args=args) for args in (("first", "second", at), ("second", "first", then))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for name, error in errors.items():
        assert error is None or isinstance(error, STOPPED), (at, then, name, repr(error))
    goes_on_from_the_log(site, [*EVENTS, *MORE])
    site.check(ALL, (at, then))


@sampled(44, timeout=3600)
def test_two_runs_stall_in_turn(every: int) -> None:
    count = len(calls())
    for at in range(1, count + 1, 29 if every > 1 else 1):
        for then in range(1 + at % every, 2 * count, every):
            take_turns(at, then)
