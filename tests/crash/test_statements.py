"""A user's statement at every moment of a run whose rows wait: it takes what is in the table, never what waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest

from hivesink.core.manifest import REQUEUE
from hivesink.errors import PartLost
from hivesink.sink.inspect.clean import clean
from tests.crash.faults import FaultyFileSystem, Mode, Plan, Stalling
from tests.crash.site import PLAIN, Site, dies, forget
from tests.crash.steps import ROLLING
from tests.crash.test_two_runs import wakes
from tests.sink.harness import LOCATION, SPEC, TABLE, Event, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.mark import ParameterSet

    from hivesink.core.table import TableSpec

    Statement = Callable[["Site", str], None]

EVENTS = [Event(number, day) for number, day in enumerate("aabbbbccababcabc")]
THEIRS = count(1000)
ELSEWHERE = "/elsewhere"


def empty(site: Site, folder: str) -> None:
    """As Hive empties a folder, with the hidden files in it."""
    for entry in site.fs.list(folder):
        if entry.length is not None:
            site.fs.delete(f"{folder}/{entry.name}")


def write(site: Site, folder: str) -> None:
    number = next(THEIRS)
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


def carry(site: Site, old: str, new: str) -> None:
    for entry in site.fs.list(old):
        site.fs.rename(f"{old}/{entry.name}", f"{new}/{entry.name}")


STATEMENTS = {one.__name__: one for one in (overwrite, truncate, drop, set_location, rename)}


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

    def check(self, case: object) -> None:
        """Nothing is doubled, and nothing is missing but what the statement took or a person has counted."""
        before, after, found = self.before or Counter(), self.after or Counter(), Counter(self.site.rows())
        everything = Counter(range(len(EVENTS))) + (after - before)
        assert found <= everything, f"{case}: doubled {sorted(found - everything)}"
        missing = everything - (before - after) - found
        assert missing.total() <= self.forgotten, f"{case}: lost {sorted(missing)}, counted {self.forgotten}"


def new_site(spec: TableSpec) -> Site:
    return Site(Source(list(EVENTS)), spec, options=dict(ROLLING))


def calls(spec: TableSpec) -> int:
    site = new_site(spec)
    counting = FaultyFileSystem(site.fs)
    site.job(counting).run()
    site.check(range(len(EVENTS)))
    return len(counting.calls)


def make_durable(site: Site, user: User, case: object) -> None:
    """Start again. What is missing though readers may have had it, a person looks for and then counts as lost."""
    error = wakes(site.job)
    if error is not None:
        assert isinstance(error, PartLost), (case, repr(error))
        user.asked = True
        user.forgotten = sum(loss.rows for loss in forget(site.job().committer))
        # RENAME carries hidden files along: they are found.
        assert user.statement is not rename or not user.forgotten, case
        error = wakes(site.job)
    assert error is None, (case, repr(error))
    user.check(case)
    if user.statement is rename:
        # What nobody had decided went along to a folder that no touched-list names.
        clean(site.job().context, sorted(site.staged()), str(TABLE))
    assert site.staged() == set(), case
    assert site.log.segments.lengths() == {}, case


def cases(*days: str, spec: TableSpec = SPEC) -> Iterator[ParameterSet]:
    """Every statement; on the first of `days` in each run of the suite, on the others in long ones."""
    for name, statement in STATEMENTS.items():
        for day in days if name != "truncate" else days[:1]:
            marks = () if day == days[0] else pytest.mark.long
            yield pytest.param(spec, statement, day, id=f"{name}-{day}", marks=marks)


OF_TABLE = [pytest.param(PLAIN, one, "", id=f"{one.__name__}-table") for one in (overwrite, truncate)]


@pytest.mark.parametrize(("spec", "statement", "day"), [*cases("dt=b", "dt=a"), *OF_TABLE])
def test_while_the_job_runs(spec: TableSpec, statement: Statement, day: str) -> None:
    asked = 0
    for at in range(1, calls(spec) + 1):
        site = new_site(spec)
        user = User(site, statement, day)
        dies(partial(site.job, Stalling(site.fs, at, user)))
        make_durable(site, user, at)
        asked += user.asked
    # Between the manifest of a roll and its renames, and from a rename in a new partition to the look after it.
    assert bool(asked) is (statement is not set_location), asked


@pytest.mark.parametrize(
    ("spec", "statement", "day"),
    [
        pytest.param(SPEC, one, "dt=a", id=one.__name__, marks=() if one is drop else pytest.mark.long)
        for one in STATEMENTS.values()
    ]
    + OF_TABLE[1:],
)
def test_between_a_death_and_the_next_start(spec: TableSpec, statement: Statement, day: str) -> None:
    requeued = 0
    for at in range(1, calls(spec) + 1):
        site = new_site(spec)
        user = User(site, statement, day)
        dies(partial(site.job, FaultyFileSystem(site.fs, Plan(at, Mode.AFTER))))
        user()
        make_durable(site, user, at)
        requeued += any(site.log.manifest(epoch).kind == REQUEUE for epoch in site.log.view().manifests)
    assert requeued or statement is set_location
