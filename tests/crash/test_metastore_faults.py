"""The commit protocol under every fault of the metastore, beside users who analyze, move and drop partitions.

As in `test_every_step`: a run without faults counts the calls, then each call fails in each way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from hivesink.core.table import TableSpec
from hivesink.errors import HiveSinkError
from hivesink.sink.commit.committed import Committed
from tests.crash.faults import FaultyFileSystem, FaultyMetastore, Mode, Plan, Stalling, calls_of, faults, modes, sampled
from tests.crash.site import PLAIN, ROLLING, Site, Watched, dies, on_files, wakes
from tests.sink.harness import LOCATION, SPEC, TABLE, Event, Job, Source

# Epoch 1 begins two partitions; epoch 2 goes on with one of them and begins a third.
DAYS = ("dt=a", "dt=b", "dt=c")
EVENTS = [Event(number, day) for number, day in enumerate("aabbbbcc")]
IDS = range(len(EVENTS))
ELSEWHERE = "/elsewhere"
SUCCESS = {"sink.partition-commit.policy.kind": "metastore,success-file"}
CALLS = 20
"""More than a run without faults makes, so that a user acts before each and after the last."""


def analyzes(site: Site, call: int) -> None:  # noqa: ARG001  at every call
    site.analyze()


def new_site(
    options: dict[str, str] | None = None,
    user: Callable[[Site, int], None] | None = None,
    spec: TableSpec = SPEC,
    *,
    dead: bool = False,
) -> Site:
    return Site(Source(list(EVENTS)), spec, dead, dict(options or {}), user)


SCENARIOS: dict[str, Callable[[], Site]] = {
    "success-files": partial(new_site, SUCCESS),
    "analyzed": partial(new_site, user=analyzes),
    "dead-letters": partial(new_site, dead=True, user=analyzes),
    "unpartitioned": partial(new_site, spec=PLAIN, user=analyzes),
    "rolling": partial(new_site, ROLLING | SUCCESS, user=analyzes),
    "rolling-dead-letters": partial(new_site, ROLLING, dead=True, user=analyzes),
    **{f"retained-{kept}": partial(new_site, {"sink.log.retained-epochs": str(kept)}) for kept in (1, 2, 3)},
}
# Rolls with success files are in test_commit_steps.py as well.
RARE = {"analyzed", "rolling", "retained-2", "retained-3"}
NAMES = pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.long if one in RARE else ()) for one in SCENARIOS]
)


def no_wrong_count(site: Site) -> Callable[[Committed], None]:
    def look(done: Committed) -> None:
        if done.waiting is None:
            assert site.wrong_counts() == []

    return look


def start(site: Site, fs: FaultyFileSystem | None = None, registrar: Watched | None = None) -> Callable[[], Job]:
    """A job beside which the site's user works."""
    return lambda: site.job(fs, registrar or Watched(site), on_commit=no_wrong_count(site))


def run(site: Site, faulty: FaultyFileSystem | FaultyMetastore) -> None:
    (start(site, registrar=faulty) if isinstance(faulty, Watched) else start(site, faulty))().run()  # type: ignore[arg-type]


def make_durable(site: Site, case: object) -> None:
    """The restarts after a fault; then everything must be as if nothing had happened."""
    site.user = None
    site.job(on_commit=no_wrong_count(site)).run()
    site.check(IDS, case)
    for table in site.tables:
        for location in site.places(table).values():
            if "success-file" in str(site.options):
                assert site.store.find(f"{location}/_SUCCESS") is not None, case


@NAMES
def test_a_fault_of_the_metastore_at_any_call(name: str) -> None:
    for restarted_first in (False, True):
        for site, faulty, case in faults(SCENARIOS[name], Watched, run, partial(modes, metastore=True)):
            if restarted_first:
                if case[1] is not Mode.LATE:
                    continue
                dies(site.job)
            faulty.apply_late()
            make_durable(site, case)


@sampled(3)
@NAMES
def test_a_fault_of_the_storage_at_any_call(name: str, every: int) -> None:
    for site, faulty, case in faults(SCENARIOS[name], on_files, run, every=every):
        faulty.apply_late()
        make_durable(site, case)


@sampled(3)
def test_what_recover_would_do_is_what_it_does(every: int) -> None:
    """`recover --dry-run`, after a death at any call."""
    listed: set[str] = set()
    for site, _, case in faults(SCENARIOS["success-files"], on_files, run, every=every):
        site.job()  # It gives the log its uid.
        before = dict(site.fs._files)
        ahead = site.by_hand(dry_run=True)
        assert site.fs._files == before, "it only looks"
        assert site.by_hand().lines == ahead.lines, case
        listed |= {what for what, _ in ahead.lines}
        site.job().run()
        make_durable(site, case)
    expected = {"fence", "register", "publish", "already published", "mark published", "success file"}
    expected |= {"mark settled", "discard"}
    assert expected <= listed


def test_every_partition_is_registered_when_one_fails_while_the_job_goes_on() -> None:
    """The job isn't restarted: what failed is tried again with the next epoch, and at the end."""

    def goes_on(site: Site, faulty: Watched) -> None:
        try:
            run(site, faulty)
        except HiveSinkError:
            # At the very start and at the very end a failure stops the run.
            site.job().run()

    make = partial(new_site, SUCCESS, user=analyzes)
    for call in calls_of(make, Watched, goes_on):
        for mode in (Mode.LOST, Mode.LATE) if call.changes else (Mode.LOST,):
            site = make()
            faulty = Watched(site, Plan(call.number, mode))
            goes_on(site, faulty)
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


def moves(site: Site, *, copy: bool = False) -> None:
    """Every partition, registered or not, goes elsewhere, with the files that it has; with `copy` they stay, too."""
    for day in DAYS:
        site.move(day, f"{ELSEWHERE}/{day}", copy=copy)


copies = partial(moves, copy=True)


def with_user(at: int, act: Callable[[Site], None] = moves) -> Site:
    return new_site(user=once(at, act))


ACTS = pytest.mark.parametrize("act", [moves, copies], ids=["moves", "copies"])


@sampled(4)
@ACTS
def test_a_user_moves_partitions_at_any_time_and_then_the_metastore_fails(
    act: Callable[[Site], None], every: int
) -> None:
    for at in range(1, CALLS, every):
        for step, mode in itertools.product(range(at, at + 8), (Mode.AFTER, Mode.LOST)):
            site = with_user(at, act)
            dies(start(site, registrar=Watched(site, Plan(step, mode))))
            make_durable(site, (at, step, mode))
            if ELSEWHERE in str(site.places(TABLE)):
                assert {day: f"{ELSEWHERE}/{day}" for day in DAYS} == site.places(TABLE)


@sampled(5)
@ACTS
def test_a_user_moves_partitions_at_any_time_and_then_the_storage_fails(
    act: Callable[[Site], None], every: int
) -> None:
    """And before the next start somebody runs `hivesink clean`, or doesn't."""
    # A move epoch comes of the fourth and the fifth call.
    ways = (act is copies,) if every > 1 else (False, True)
    for at, cleaned in itertools.product(range(5 if every > 1 else 1, CALLS, every), ways):
        for site, _, case in faults(
            partial(with_user, at, act), on_files, run, lambda call: (mode for mode in TEARS if call.changes), every
        ):
            site.user = None
            if cleaned:
                site.clean()
            make_durable(site, (at, cleaned, case))


TEARS = (Mode.AFTER, Mode.TORN)


@sampled(9)
@ACTS
def test_somebody_cleans_beside_a_run(act: Callable[[Site], None], every: int) -> None:
    for at in range(5 if every > 1 else 1, 14, every):
        for call in calls_of(partial(with_user, at, act), on_files, run)[:: (every + 2) // 3]:
            site = with_user(at, act)
            run(site, Stalling(site.fs, call.number, site.clean))
            make_durable(site, call)


@sampled(7)
def test_partitions_move_there_and_back_while_the_metastore_comes_and_goes(every: int) -> None:
    """The parts come back to a place that an earlier move took them from."""
    home = {day: f"{LOCATION}/{day}" for day in DAYS}
    for at in range(1, CALLS, every):
        for back in range(at + 1, at + 8):

            def user(site: Site, call: int, at: int = at, back: int = back) -> None:
                if call in {at, back}:
                    for day in DAYS:
                        site.move(day, f"{ELSEWHERE}/{day}" if call == at else home[day])

            for step in range(at, back + 4):
                site = new_site(user=user)
                dies(start(site, registrar=Watched(site, Plan(step, Mode.LOST))))
                make_durable(site, (at, back, step))


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


def test_a_user_drops_partitions_at_any_time_while_the_job_runs() -> None:
    """What the job publishes into a dropped partition is registered again, whatever fails meanwhile."""
    for at in range(1, CALLS):
        for step in range(at, at + 8):
            site = with_user(at, drops)
            dies(start(site, registrar=Watched(site, Plan(step, Mode.LOST))))
            site.user = None
            site.job().run()
            # A partition that was dropped after its last epoch stays dropped: that is the user's decision.
            rows = site.rows()
            assert len(rows) == len(set(rows))
            for day, ids in (("dt=a", {0, 1}), ("dt=b", {2, 3, 4, 5}), ("dt=c", {6, 7})):
                assert (day in site.places(TABLE)) == (ids <= set(rows))
            if at <= 6:
                assert {2, 3, 4, 5, 6, 7} <= set(rows)


@pytest.mark.parametrize("again", [False, True], ids=["once", "at each call from then on"])
@pytest.mark.parametrize("at", range(1, CALLS))
def test_a_user_drops_partitions_of_a_managed_table_at_any_time(at: int, again: bool) -> None:
    """What went with a partition is what the user wanted gone, and no file holds up the job or comes back."""
    site, taken = new_site(), list[int]()
    site.user = lambda site, call: takes(site, taken) if call == at or (again and call > at) else None
    start(site)().run()
    assert sorted(site.rows() + taken) == list(IDS)
    site.user = None
    site.job().run()
    assert sorted(site.rows() + taken) == list(IDS)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_user_drops_partitions_of_a_managed_table_between_two_renames(at: int) -> None:
    """Of a new partition's files some went with it, and others came after the DROP."""
    site, taken, renamed = new_site(), list[int](), list[str]()
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


def test_a_partition_that_somebody_drops_while_it_waits_to_be_published_is_registered_again() -> None:
    """It was there when the epoch was decided, so no manifest says that it must be registered."""
    # Right after the manifest of the second epoch.
    dead = (site for site, _, (_, mode) in faults(new_site, on_files, run) if mode is Mode.AFTER)
    site = next(site for site in dead if site.log.view().head == 2)
    assert site.waiting()
    site.metastore.drop_partition(TABLE, "dt=b")
    site.job().run()
    site.check(IDS)


class Hanging(FaultyFileSystem):
    """A NameNode: from call `first` on `count` changing calls are held; all take place before the `after`th from it."""

    def __init__(self, site: Site, first: int, count: int, after: int) -> None:
        super().__init__(site.fs)
        self._first, self._left, self._until = first, count, first + after

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        mode = super()._begin(name, path, changes=changes)
        if len(self.calls) == self._until:
            self.apply_late()
        if changes and self._left and len(self.calls) >= self._first:
            self._left -= 1
            return Mode.LATE
        return mode


# The user acts one time, so each site has its own.
@pytest.mark.parametrize(
    "scenario",
    [new_site, pytest.param(SCENARIOS["retained-1"], marks=pytest.mark.long), partial(with_user, 4)],
    ids=["plain", "retained", "moved"],
)
@pytest.mark.parametrize(
    ("every", "counts", "laters"),
    [
        pytest.param(3, (1, 6), (1, 12), id="quick"),
        pytest.param(1, (1, 2, 3, 6), (1, 2, 3, 4, 5, 7, 12, 20), id="whole", marks=pytest.mark.long),
    ],
)
def test_what_a_hanging_storage_does_late_loses_nothing_and_needs_nobody(
    scenario: Callable[[], Site], every: int, counts: tuple[int, ...], laters: tuple[int, ...]
) -> None:
    changing = [call.number for call in calls_of(scenario, on_files, run) if call.changes][::every]
    for case in itertools.product(changing, counts, laters):
        site = scenario()
        fs = Hanging(site, *case)
        # Until it is done, as --restart does.
        again: Callable[[], Job] = partial(site.job, fs)
        for job in (start(site, fs), again, again, again, again):
            error = wakes(job)
            assert error is None or error.retryable, (case, error)
            if error is None:
                break
        fs.apply_late()
        make_durable(site, case)
