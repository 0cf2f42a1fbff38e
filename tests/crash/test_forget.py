"""What can't be published: parts that are gone, partitions that are refused, rows that don't fit.

`recover --forget` looks for missing parts everywhere once, publishes what is there, and counts what isn't.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hivesink.core.manifest import PartEntry
from hivesink.core.table import Column, Primitive
from hivesink.errors import HiveSinkError, PartLost, RegistrationFailed, StoreUnavailable
from hivesink.sink.commit.observe import load
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import At, FaultyFileSystem, Kill, Mode, faults, sampled
from tests.crash.site import LOG, Choosy, Site, forget_rows, on_files
from tests.crash.test_metastore_faults import EVENTS, SUCCESS
from tests.sink.commit.test_unfit import PickyJob
from tests.sink.harness import LOCATION, TABLE, Event, Source, events

DAY = "dt=2024-01-01"
HOME = f"{LOCATION}/{DAY}"
RENAMED = f"{LOCATION}/dt=z"


def carry(site: Site, old: str, new: str) -> None:
    for entry in site.fs.list(old):
        site.fs.rename(f"{old}/{entry.name}", f"{new}/{entry.name}")


def listed() -> Site:
    site = Site(Source(events(4, partitions=1)))
    site.metastore.register(TABLE, DAY, HOME)
    return site


def killed_after(pattern: str) -> Site:
    """Right after the first such rename."""
    site = listed()
    with pytest.raises(Kill):
        site.job(At(site.fs, f"^rename .*{pattern}", Mode.AFTER)).run()
    return site


def decided() -> Site:
    return killed_after(r"\.json\.")


def published_one() -> Site:
    return killed_after(r"\.pending -> ")


def waiting(site: Site) -> list[PartEntry]:
    return [*load(site.job().context).waiting]


def rename(site: Site) -> None:
    """Of a managed table's partition: the folder goes along, with the hidden files in it."""
    carry(site, HOME, RENAMED)
    site.metastore.drop_partition(TABLE, DAY)
    site.metastore.register(TABLE, "dt=z", RENAMED)


def exchange(site: Site) -> None:
    """The folder lies in another place of the table, which no partition has."""
    carry(site, HOME, f"{LOCATION}/archive/x")


def show(site: Site) -> None:
    """A person gives the files their last names, in another partition that readers find."""
    rename(site)
    for entry in site.fs.list(RENAMED):
        if entry.name.endswith(".pending"):
            site.fs.rename(f"{RENAMED}/{entry.name}", f"{RENAMED}/{entry.name[1:].removesuffix('.pending')}")


def delete(site: Site) -> None:
    for part in waiting(site):
        site.fs.delete(part.staged)


def tear(site: Site) -> None:
    for part in waiting(site):
        site.fs.delete(part.staged)
        site.fs.write_new(f"{RENAMED}/{part.hidden}", b"")


@pytest.mark.parametrize(
    ("begin", "user", "is_lost"),
    [
        (decided, rename, False),
        (decided, exchange, False),
        (decided, show, False),
        (decided, delete, True),
        (decided, tear, True),
        (published_one, rename, False),
        (published_one, show, False),
        (published_one, delete, True),
    ],
)
def test_what_is_somewhere_is_published_and_the_rest_is_counted(
    begin: Callable[[], Site], user: Callable[[Site], None], is_lost: bool
) -> None:
    site = begin()
    user(site)
    seen = site.rows()
    with pytest.raises(PartLost, match=f"--forget {DAY}"):
        site.job().run()
    with pytest.raises(PartLost):
        site.forget("dt=another")
    before = dict(site.fs._files)
    ahead = site.by_hand(forget=DAY, dry_run=True)
    assert site.fs._files == before
    done = site.by_hand(forget=DAY)
    assert (done.lines, done.losses) == (ahead.lines, ahead.losses)
    lost = sum(loss.rows for loss in done.losses)
    assert bool(lost) is is_lost
    assert {loss.reason for loss in done.losses} <= {"missing"}
    site.clean()
    site.job().run()
    assert set(seen) <= set(site.rows()) <= set(range(4))
    assert len(site.rows()) == len(set(site.rows())) == 4 - lost
    assert site.staged() == set()
    assert site.facts().total.forgotten == lost
    assert site.errors() == []


@pytest.mark.parametrize("user", [rename, delete])
def test_it_may_die_at_any_call_and_is_repeated(user: Callable[[Site], None]) -> None:
    def begin() -> Site:
        site = decided()
        user(site)
        return site

    for site, _, case in faults(begin, on_files, lambda site, fs: site.forget(fs=fs)):
        site.forget()
        site.job().run()
        lost = site.facts().total.forgotten
        assert (lost, site.rows()) == ((0, [*range(4)]) if user is rename else (4, [])), case


def test_nothing_is_forgotten_while_a_folder_cannot_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    site = decided()
    exchange(site)
    closed = f"{LOCATION}/bob"
    site.fs.write_new(f"{closed}/file", b"")
    listing = type(site.fs).list

    def listed_if_open(fs: Any, folder: str) -> Any:
        if folder == closed:
            raise StoreUnavailable(action="list", path=folder, reason="permission denied")
        return listing(fs, folder)

    monkeypatch.setattr(type(site.fs), "list", listed_if_open)
    with pytest.raises(StoreUnavailable, match=f"{closed}: permission denied"):
        site.forget()
    monkeypatch.undo()
    assert len(site.staged()) == len(waiting(site))


def test_a_moved_partition_needs_nobody() -> None:
    """SET LOCATION after its visible files were moved: an epoch of its own takes the others there."""
    site = published_one()
    site.move(DAY, "/elsewhere/x")
    site.job().run()
    site.check(range(4))


REFUSED = "dt=b"
B = (str(TABLE), REFUSED)
THEIRS, OTHERS = [2, 3, 4, 5], [0, 1, 6, 7]


def refusing() -> Site:
    """One partition can't be registered: all others go on."""
    return Site(Source(list(EVENTS)), options=dict(SUCCESS), metastore=Choosy.of(REFUSED))


def accept(site: Site) -> None:
    site.metastore.refused = ""  # type: ignore[attr-defined]


def stuck() -> Site:
    """Everything was decided; the job ended since one partition can't be registered."""
    site = refusing()
    with pytest.raises(RegistrationFailed, match="'dt=b'"):
        site.job().run()
    return site


def has_success(site: Site) -> bool:
    return all(site.fs.length(f"{home}/_SUCCESS") is not None for home in site.places(TABLE).values())


def test_rows_of_all_others_are_there_and_a_partition_that_is_accepted_again_is_published() -> None:
    site = stuck()
    assert site.rows() == OTHERS
    assert {part.partition for part in load(site.job().context).waiting} == {REFUSED}
    with pytest.raises(RegistrationFailed):
        site.job().run()
    assert site.rows() == OTHERS
    accept(site)
    assert site.forget(REFUSED) == []
    site.job().run()
    site.check(range(8))


def test_a_folder_that_a_renamed_partition_took_along_is_not_read_twice() -> None:
    site = Site(Source(list(EVENTS[:4])))
    site.job().run()
    home = f"{LOCATION}/{REFUSED}"
    site.metastore.drop_partition(TABLE, REFUSED)
    site.metastore.register(TABLE, "dt=renamed", home)  # as ALTER TABLE … RENAME of an external table does
    site.source.events += EVENTS[4:]
    with pytest.raises(RegistrationFailed, match=f"{home} is also the folder of dt=renamed"):
        site.job().run()
    site.check_rows([0, 1, 2, 3, 6, 7])
    site.move("dt=renamed", f"{LOCATION}/dt=renamed")
    site.job().run()
    site.check(range(8))


def test_a_refused_partition_that_is_forgotten_is_out_of_the_way() -> None:
    """Whoever forgets it may die at any call, and repeats it."""
    site = stuck()
    assert {(loss.key, loss.reason) for loss in site.forget(REFUSED)} == {(B, "refused")}
    for site, _, case in [(site, None, None), *faults(stuck, on_files, lambda site, fs: site.forget(REFUSED, fs))]:
        if case:
            site.forget(REFUSED)
        site.job().run()
        # It may have died between its decision and the deletion of the hidden files.
        site.clean()
        site.check(OTHERS, case)
        assert site.facts().total.forgotten == len(THEIRS)


def make_it_theirs(site: Site, day: str, how: str) -> list[int]:
    """A user's DDL on a partition that they can read; the ids that are readable after it."""
    home = site.places(TABLE)[day]
    ids = site.ids(home)
    mine = [file.path for file in site.store.visible(home)]
    if how == "rename":
        for path in mine:
            site.fs.rename(path, path.replace(f"/{day}/", f"/{day}x/"))
        site.metastore.register(TABLE, f"{day}x", f"{home}x")
    else:
        for path in mine:
            site.fs.delete(path)
    if how == "overwrite":
        site.fs.write_new(f"{home}/000000_0", "".join(f"{number}\n" for number in ids).encode())
    else:
        site.metastore.drop_partition(TABLE, day)
    return [] if how == "drop" else ids


@pytest.mark.parametrize("how", ["overwrite", "drop", "rename"])
@pytest.mark.parametrize("day", ["dt=a", "dt=c"])
@pytest.mark.parametrize("size", [4, 8], ids=["several epochs", "one epoch"])
def test_what_is_visible_is_the_users_own_while_another_is_refused(size: int, day: str, how: str) -> None:
    site = refusing()
    job = site.job()
    job.committer.recover()
    while job.step(size):
        pass
    assert {part.partition for part in load(site.job().context).waiting} == {REFUSED}
    assert has_success(site)
    head = site.log.view().head
    theirs = {*site.ids(site.places(TABLE)[day])}
    left = make_it_theirs(site, day, how)
    expected = sorted({*OTHERS} - theirs) + left
    for _ in range(3):
        job.committer.keep_up()
        with pytest.raises(RegistrationFailed):
            site.job().run()
    assert site.log.view().head == head, "no retry decides again"
    site.check_rows(expected)
    site.metastore.register(TABLE, REFUSED, f"{LOCATION}/{REFUSED}")
    site.job().run()
    site.check([*expected, *THEIRS])


@sampled(4)
def test_a_job_beside_a_refused_partition_may_die_at_any_call(every: int) -> None:
    for site, faulty, case in faults(refusing, on_files, lambda site, fs: site.job(fs).run(), every=every):
        with pytest.raises(RegistrationFailed):
            site.job().run()
        faulty.apply_late()
        site.check_rows(OTHERS, case)
        assert {part.partition for _, part in load(site.job().context).live_parts} == {REFUSED}, case
        accept(site)
        ahead = site.by_hand(dry_run=True)
        assert site.by_hand().lines == ahead.lines, case
        site.job().run()
        site.check(range(8), case)
        assert has_success(site), case


def changed() -> Site:
    """Rows of dt=a and dt=b wait; then a column gets another type, and more rows come."""
    source = Source([Event(number, "ab"[number % 2]) for number in range(6)])
    site = Site(source, options={"sink.rolling-policy.on-epoch": "false"})
    for size in (4, 2):
        job = site.job()
        job.committer.recover()
        job.step(size)
        if size == 4:
            site.metastore.change_column(TABLE, Column("id", Primitive.STRING))
    return site


def roll(site: Site, fs: FaultyFileSystem) -> None:
    job = PickyJob(FileCommitLog(fs, LOG), RenameFileStore(fs), site.metastore, site.source, site.clock, site.options)
    job.committer.recover()
    job.committer.finish()


def give_up(site: Site, fs: FaultyFileSystem) -> None:
    forget_rows(site.job(fs).context, REFUSED)


def test_a_fault_of_a_roll_that_leaves_rows() -> None:
    for site, faulty, case in faults(changed, on_files, roll):
        with contextlib.suppress(HiveSinkError):
            roll(site, on_files(site, None))
        faulty.apply_late()
        # Only the two old rows of dt=b don't fit.
        site.check_rows([0, 2, 4, 5], case)
        assert site.errors() == []
        site.job().run()
        site.check_rows(range(6), case)
        assert site.errors() == []


def test_a_fault_while_rows_are_given_up() -> None:
    for site, faulty, case in faults(changed, on_files, give_up):
        # Again, as a person would. It may have been decided already.
        give_up(site, on_files(site, None))
        faulty.apply_late()
        site.job().run()
        site.check_rows([0, 2, 4], case)
        assert site.facts().total.forgotten == 3
        assert site.errors() == []
