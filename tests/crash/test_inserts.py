"""A user's INSERT INTO at every moment: into a partition that isn't listed, it deletes what is in its folder.

Hive calls `replaceFiles` where the old partition is null, and that takes hidden files too (HIVE-29744). Nothing that
is decided may lie there.
"""

from __future__ import annotations

from functools import partial

import pytest

from hivesink.errors import PartLost
from hivesink.sink.commit.observe import load
from tests.crash.faults import FaultyFileSystem, Mode, Plan, Stalling
from tests.crash.site import Site, Watched, dies
from tests.crash.test_metastore_faults import DAYS, IDS, Scenario, start
from tests.crash.test_two_runs import wakes
from tests.sink.harness import LOCATION, TABLE

THEIRS = 1000
"""The ids of what users insert begin here."""


def begin_insert(site: Site, day: str) -> bool:
    """What Hive knows when it comes to load the files: whether the partition is listed."""
    return day in site.places(TABLE)


def end_insert(site: Site, day: str, *, listed: bool) -> None:
    folder = f"{LOCATION}/{day}"
    if not listed:
        for entry in site.fs.list(folder):
            site.fs.delete(f"{folder}/{entry.name}")
        if day not in site.places(TABLE):
            site.metastore.register(TABLE, day, folder)
    number = sum(name.startswith("000000_") for name in site.fs._files)
    site.fs.write_new(f"{site.places(TABLE)[day]}/000000_{number}", f"{THEIRS + number}\n".encode())


def insert(site: Site, *days: str) -> None:
    for day in days:
        end_insert(site, day, listed=begin_insert(site, day))


def make_durable(site: Site, case: object) -> None:
    site.user = None
    site.job().run()
    theirs = [found for found in site.rows() if found >= THEIRS]
    site.check_rows([*IDS, *theirs], case)
    assert site.staged() <= site.waiting(), case


def new_site() -> Site:
    return Scenario("inserts").site()


def calls() -> list[int]:
    site = new_site()
    counting = FaultyFileSystem(site.fs)
    start(site, Watched(site), counting)().run()
    return [call.number for call in counting.calls]


CALLS = calls()


@pytest.mark.parametrize("day", DAYS)
def test_while_the_job_runs(day: str) -> None:
    for at in CALLS:
        site = new_site()
        dies(start(site, Watched(site), Stalling(site.fs, at, partial(insert, site, day))))
        make_durable(site, at)
        assert max(site.rows()) == THEIRS


def test_between_a_death_and_the_next_start() -> None:
    for at in CALLS:
        for mode in (Mode.BEFORE, Mode.AFTER):
            site = new_site()
            dies(start(site, Watched(site), FaultyFileSystem(site.fs, Plan(at, mode))))
            insert(site, *DAYS)
            make_durable(site, (at, mode))


@pytest.mark.parametrize("down_at", range(1, 12))
def test_after_the_metastore_was_down_in_the_middle_of_a_run(down_at: int) -> None:
    site = new_site()

    def user(site: Site, call: int) -> None:
        if call == down_at:
            site.metastore.go_down()

    site.user = user
    dies(start(site, Watched(site)))
    site.user = None
    site.metastore.come_up()
    insert(site, *DAYS)
    make_durable(site, down_at)


class SlowInsert(Stalling):
    """An INSERT that begins before call `at`, and ends `later` calls after, or when the epoch is marked published."""

    def __init__(self, site: Site, at: int, later: int, day: str) -> None:
        super().__init__(site.fs, at, self._begins)
        self._site, self._until, self._day = site, at + later, day
        self._listed: bool | None = None
        self._ended = False

    def _begins(self) -> None:
        self._listed = begin_insert(self._site, self._day)

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        is_time = len(self.calls) + 1 >= self._until or ".published" in path
        if self._listed is not None and is_time and not self._ended:
            self._ended = True
            end_insert(self._site, self._day, listed=self._listed)
        return super()._begin(name, path, changes=changes)


@pytest.mark.parametrize("day", [pytest.param(day, marks=() if day == "dt=c" else pytest.mark.long) for day in DAYS])
def test_one_that_began_before_the_registration_takes_no_rows_in_silence(day: str) -> None:
    """Hive looks whether the partition is listed, and then deletes: what is published in between is in its way."""
    took = 0
    for at in CALLS:
        for later in (1, 2, 4, 8):
            site = new_site()
            slow = SlowInsert(site, at, later, day)
            error = wakes(start(site, Watched(site), slow))
            if isinstance(error, PartLost):
                took += 1
            else:
                make_durable(site, (at, later))
    assert took


def test_one_that_began_before_a_death_takes_no_rows_in_silence() -> None:
    """It ends when the job has been started again: the parts of new partitions are looked at until all is settled."""
    took = 0
    for at in CALLS:
        site = new_site()
        listed = begin_insert(site, "dt=c")
        dies(start(site, Watched(site), FaultyFileSystem(site.fs, Plan(at, Mode.AFTER))))
        is_settled = not load(site.job().context).open
        end_insert(site, "dt=c", listed=listed)
        error = wakes(site.job)
        if isinstance(error, PartLost):
            took += 1
        elif not is_settled:
            make_durable(site, at)
    assert took
