"""What users do to a table while a job writes it: statements, INSERTs, partitions that live elsewhere, other settings.

A statement takes what is in the table, never what waits. Hive's INSERT INTO a partition that isn't listed calls
`replaceFiles`, which takes hidden files too (HIVE-29744): nothing that is decided may lie there.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from hivesink.core.log import StagingIntent
from hivesink.core.manifest import REQUEUE
from hivesink.core.table import TableSpec
from hivesink.errors import PartLost
from hivesink.sink.commit.observe import load
from hivesink.sink.task.messages import TaskPlan, TaskReport
from hivesink.storage.fs import FileSystem
from tests.crash.faults import At, FaultyFileSystem, Kill, Mode, Stalling, calls_of, faults, sampled
from tests.crash.site import PLAIN, ROLLING, Site, dies, on_files, wakes
from tests.crash.test_every_step import WAYS, check
from tests.crash.test_forget import carry
from tests.crash.test_metastore_faults import DAYS, IDS, new_site, run, start
from tests.sink.harness import LOCATION, SPEC, TABLE, UID, Event, Job, Source, events

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

Statement = Callable[[Site, str], None]

EVENTS = [Event(number, day) for number, day in enumerate("aabbbbccababcabc")]
THEIRS = 1000
"""The ids of what users insert begin here."""
NUMBERS = itertools.count(THEIRS)
ELSEWHERE = "/elsewhere"


def empty(site: Site, folder: str) -> None:
    """As Hive empties a folder, with the hidden files in it."""
    for entry in site.fs.list(folder):
        if entry.length is not None:
            site.fs.delete(f"{folder}/{entry.name}")


def write(site: Site, folder: str) -> None:
    number = next(NUMBERS)
    site.fs.write_new(f"{folder}/000000_{number}", f"{number}\n".encode())


def overwrite(site: Site, day: str) -> None:
    """INSERT OVERWRITE of one partition, which it registers, or of the table."""
    home = site.places(TABLE).get(day) or f"{LOCATION}/{day}"
    empty(site, home)
    if day:
        site.metastore.register(TABLE, day, home)
    write(site, home)


def truncate(site: Site, _: str) -> None:
    for home in site.places(TABLE).values():
        empty(site, home)


def drop(site: Site, day: str) -> None:
    home = site.places(TABLE).get(day)
    if home is not None:
        empty(site, home)
        site.metastore.drop_partition(TABLE, day)


def set_location(site: Site, day: str) -> None:
    """Without the files: what is published in the old folder is read no more."""
    if day in site.places(TABLE):
        site.metastore.register(TABLE, day, f"{ELSEWHERE}/{day}")


def rename(site: Site, day: str) -> None:
    """Of a managed table: the folder goes along, with the hidden files in it."""
    home = site.places(TABLE).get(day)
    if home is not None:
        site.metastore.drop_partition(TABLE, day)
        carry(site, home, f"{home}-renamed")
        site.metastore.register(TABLE, f"{day}-renamed", f"{home}-renamed")


STATEMENTS = (overwrite, truncate, drop, set_location, rename)


@dataclass
class User:
    """Runs a statement once, and knows what it took out of the table, and what it put there."""

    site: Site
    statement: Statement
    day: str
    before: Counter[int] | None = None
    after: Counter[int] | None = None
    asked: bool = False
    """Whether a person had to say that rows are gone."""
    forgotten: int = 0

    def __call__(self) -> None:
        self.before = Counter(self.site.rows())
        self.statement(self.site, self.day)
        self.after = Counter(self.site.rows())

    def settle(self, case: object) -> None:
        """Start again. What is missing though readers may have had it, a person looks for and then counts as lost.

        Then nothing is doubled, and nothing is missing but what the statement took or a person has counted.
        """
        site = self.site
        error = wakes(site.job)
        if error is not None:
            assert isinstance(error, PartLost), (case, repr(error))
            self.asked = True
            self.forgotten = sum(loss.rows for loss in site.forget())
            # RENAME carries hidden files along: they are there.
            assert self.statement is not rename or not self.forgotten, case
            error = wakes(site.job)
        assert error is None, (case, repr(error))
        before, after, rows = self.before or Counter(), self.after or Counter(), Counter(site.rows())
        everything = Counter(range(len(EVENTS))) + (after - before)
        assert rows <= everything, f"{case}: doubled {sorted(rows - everything)}"
        missing = everything - (before - after) - rows
        assert missing.total() <= self.forgotten, f"{case}: lost {sorted(missing)}, counted {self.forgotten}"
        if self.statement is rename:
            # What nobody had decided went along to a folder that no touched-list names.
            site.job().context.store.discard(sorted(site.staged()))
        assert site.staged() == set(), case
        assert site.log.segments.lengths() == {}, case


def rolling(spec: TableSpec) -> Site:
    return Site(Source(list(EVENTS)), spec, options=dict(ROLLING))


def go(site: Site, fs: FaultyFileSystem) -> None:
    site.job(fs).run()


def cases(*often: Statement) -> Iterator[ParameterSet]:
    """Every statement on one partition and on another; those of `often` on the first one in each run of the suite."""
    for statement, day in itertools.product(STATEMENTS, ("dt=b", "dt=a")):
        marks = () if statement in often and day == "dt=b" else pytest.mark.long
        yield pytest.param(SPEC, statement, day, id=f"{statement.__name__}-{day}", marks=marks)
    for statement in (overwrite, truncate):
        yield pytest.param(PLAIN, statement, "", id=f"{statement.__name__}-table")


@sampled(7)
@pytest.mark.parametrize(("spec", "statement", "day"), list(cases(*STATEMENTS)))
def test_a_statement_while_the_job_runs(spec: TableSpec, statement: Statement, day: str, every: int) -> None:
    asked = 0
    for call in calls_of(partial(rolling, spec), on_files, go)[::every]:
        site = rolling(spec)
        user = User(site, statement, day)
        dies(partial(site.job, Stalling(site.fs, call.number, user)))
        user.settle(call)
        asked += user.asked
    # Between the manifest of a roll and its renames, and from a rename in a new partition to the look after it.
    assert bool(asked) is (statement is not set_location), asked


@sampled(3)
@pytest.mark.parametrize(("spec", "statement", "day"), list(cases(drop)))
def test_a_statement_between_a_death_and_the_next_start(
    spec: TableSpec, statement: Statement, day: str, every: int
) -> None:
    requeued = 0
    for site, _, case in faults(partial(rolling, spec), on_files, go, deaths, every):
        user = User(site, statement, day)
        user()
        user.settle(case)
        requeued += REQUEUE in site.kinds()
    assert requeued or statement is set_location


def deaths(call: object) -> Iterator[Mode]:
    if getattr(call, "changes", False):
        yield Mode.AFTER


def is_listed(site: Site, day: str) -> bool:
    """What Hive knows when it comes to load the files of an INSERT."""
    return day in site.places(TABLE)


def end_insert(site: Site, day: str, *, listed: bool) -> None:
    if not listed:
        empty(site, f"{LOCATION}/{day}")
        if not is_listed(site, day):
            site.metastore.register(TABLE, day, f"{LOCATION}/{day}")
    write(site, site.places(TABLE)[day])


def insert(site: Site, *days: str) -> None:
    for day in days:
        end_insert(site, day, listed=is_listed(site, day))


def make_durable(site: Site, case: object) -> None:
    site.user = None
    site.job().run()
    theirs = [number for number in site.rows() if number >= THEIRS]
    site.check_rows([*IDS, *theirs], case)
    assert site.staged() <= site.waiting(), case


@sampled(4)
@pytest.mark.parametrize("day", DAYS)
def test_an_insert_while_the_job_runs(day: str, every: int) -> None:
    for call in calls_of(new_site, on_files, run)[::every]:
        site = new_site()
        dies(start(site, Stalling(site.fs, call.number, partial(insert, site, day))))
        make_durable(site, call)
        assert max(site.rows()) >= THEIRS


def test_an_insert_between_a_death_and_the_next_start() -> None:
    for site, _, case in faults(new_site, on_files, run, deaths):
        insert(site, *DAYS)
        make_durable(site, case)


def test_an_insert_after_the_metastore_was_down_in_the_middle_of_a_run() -> None:
    for down_at in range(1, 12):
        site = new_site()

        def user(site: Site, call: int, at: int = down_at) -> None:
            if call == at:
                site.metastore.go_down()

        site.user = user
        dies(start(site))
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
        self._listed = is_listed(self._site, self._day)

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        is_time = len(self.calls) + 1 >= self._until or ".published" in path
        if self._listed is not None and is_time and not self._ended:
            self._ended = True
            end_insert(self._site, self._day, listed=self._listed)
        return super()._begin(name, path, changes=changes)


@sampled(3)
@pytest.mark.parametrize("day", [pytest.param(day, marks=() if day == "dt=c" else pytest.mark.long) for day in DAYS])
def test_an_insert_that_began_before_the_registration_takes_no_rows_in_silence(day: str, every: int) -> None:
    """Hive looks whether the partition is listed, and then deletes: what is published in between is in its way."""
    took = 0
    for call, later in itertools.product(calls_of(new_site, on_files, run)[::every], (1, 2, 4, 8)):
        site = new_site()
        if isinstance(wakes(start(site, SlowInsert(site, call.number, later, day))), PartLost):
            took += 1
        else:
            make_durable(site, (call, later))
    assert took


def test_an_insert_that_began_before_a_death_takes_no_rows_in_silence() -> None:
    """It ends when the job has been started again: the parts of new partitions are looked at until all is settled."""
    took = 0
    for site, _, case in faults(new_site, on_files, run, deaths):
        is_settled = not load(site.job().context).open
        end_insert(site, "dt=c", listed=False)
        if isinstance(wakes(site.job), PartLost):
            took += 1
        elif not is_settled:
            make_durable(site, case)
    assert took


DAY = "dt=2024-01-01"
HOMES = [f"{LOCATION}/{DAY}", f"{LOCATION}/archive/{DAY}", f"{LOCATION}/archive", f"{ELSEWHERE}/x"]


def site_at(home: str, count: int = 12) -> Site:
    site = Site(Source(events(count, partitions=1)))
    site.metastore.register(TABLE, DAY, home)
    return site


def job_with_a_lost_attempt(site: Site, fs: FileSystem | None = None) -> Job:
    """An attempt of a task is killed when its part is pending; Spark has run the task again."""
    job = site.job(fs)
    whole = job.write

    def written(plan: TaskPlan, rows: Sequence[Event]) -> list[TaskReport]:
        at = plan.target.folder(DAY)
        job.log.touch(StagingIntent(plan.epoch, plan.attempt, 77, 0, 0, (at,)))
        site.fs.write_new(f"{at}/.part-{UID}-{plan.epoch}-{plan.attempt}t77-0-0.parquet.pending", b"1\n")
        return whole(plan, rows)

    job.write = written  # type: ignore[method-assign]  # this one job's tasks
    return job


@pytest.mark.parametrize("home", HOMES)
def test_what_a_killed_attempt_left_is_swept_wherever_its_partition_lives(home: str) -> None:
    """By its own run, by the next start, and by `clean` if a task outlived its driver for many epochs."""
    site = site_at(home)
    job_with_a_lost_attempt(site).run()
    site.check(range(12))

    site = site_at(home)
    with pytest.raises(Kill):
        job_with_a_lost_attempt(site, At(site.fs, r"^rename .*\.json\.", Mode.AFTER)).run(batches=1)
    site.job().run()
    site.check(range(12))

    site = site_at(home, 100)
    site.job().run()
    site.fs.write_new(f"{home}/.part-{UID}-2-aaaaaaaaaat9-0-0.snappy.parquet.pending", b"1\n")
    site.clean()
    assert site.staged() == set()
    site.check(range(100))


@sampled(6)
@pytest.mark.parametrize("first", WAYS)
def test_a_death_at_any_call_and_a_start_with_the_other_setting(first: str, every: int) -> None:
    (other,) = (options for name, options in WAYS.items() if name != first)
    for site, _, case in faults(
        lambda: Site(Source(events(12)), options=dict(WAYS[first])), on_files, go, deaths, every
    ):
        site.options = dict(other)
        site.job().run()
        site.job().run()
        check(site, case)
