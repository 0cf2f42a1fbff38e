"""Users move a partition or the table, hidden files included, while a decided epoch waits: no row is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.seen import GivenUp
from hivesink.errors import LengthMismatch, PartLost, StoreUnavailable
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import find_losses, preview, recover
from hivesink.sink.inspect.clean import clean, find_leftovers
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import verify
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import Site
from tests.sink.harness import LOCATION, TABLE, Source, events, measure_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.manifest import PartEntry
    from hivesink.sink.inspect.findings import Finding

DAY = "dt=2024-01-01"
HOME = f"{LOCATION}/{DAY}"
RENAMED = f"{LOCATION}/dt=z"
MOVED_TABLE = "/elsewhere/events"


def listed() -> Site:
    site = Site(Source(events(4, partitions=1)))
    site.metastore.register(TABLE, DAY, HOME)
    return site


def killed_after(name: str) -> Site:
    """Right after the first rename of a file that has `name` in its own."""
    probe = listed()
    counting = FaultyFileSystem(probe.fs)
    probe.job(counting).run()
    renamed = next(call for call in counting.calls if call.name == "rename" and name in call.path)
    site = listed()
    with pytest.raises(Kill):
        site.job(FaultyFileSystem(site.fs, Plan(renamed.number, Mode.AFTER))).run()
    assert {part.staged.rpartition("/")[0] for part in waiting(site)} == {HOME}
    return site


def killed_after_the_manifest() -> Site:
    return killed_after(".json.")


def waiting(site: Site) -> list[PartEntry]:
    return [*load(site.job().context).waiting]


def everything(site: Site) -> GivenUp:
    return GivenUp(frozenset(part.target for part in waiting(site)))


def carry(site: Site, old: str, new: str) -> None:
    for folder in list(site.store.walk(old)):
        for entry in site.fs.list(folder):
            if not entry.is_folder:
                site.fs.rename(f"{folder}/{entry.name}", f"{new}{folder.removeprefix(old)}/{entry.name}")


def findings(site: Site) -> list[Finding]:
    return list(verify(site.job().context, "w", str(TABLE), measure_lines).findings)


def errors(site: Site) -> list[str]:
    assert not [found for found in findings(site) if "leftover" in found.text]
    return [found.text for found in findings(site) if found.level is Level.ERROR]


def require_kept(site: Site, found: dict[str, str]) -> None:
    """Each of the files that wait, `found` with the folder to which it is to go back, is told of and stays."""
    places = {f"found at {path}: move it back to {folder}" for path, folder in found.items()}
    texts = errors(site)
    assert all(any(text.endswith(place) for text in texts) for place in places)
    job, given_up = site.job(), everything(site)
    spec = job.committer.spec
    stops = [subject for what, subject in preview(job.context, spec.policy).described() if what == "stop at"]
    assert stops
    assert any(stops[0].endswith(place) for place in places)
    assert find_losses(job.context) == ()
    with pytest.raises(PartLost, match=f"was found at {min(found).rpartition('/')[0]}/.*: move it back to "):
        recover(job.context, spec.identity, spec.policy, given_up=given_up)
    clean(job.context, find_leftovers(job.context, str(TABLE)), str(TABLE))
    assert site.staged() == set(found)


@pytest.mark.parametrize("home", ["/elsewhere/x", f"{LOCATION}/archive/x", RENAMED])
@pytest.mark.parametrize("last_name", [True, False], ids=["as its last name", "hidden"])
def test_what_a_start_would_publish_from_a_moved_partition_is_no_loss(home: str, last_name: bool) -> None:
    site = killed_after_the_manifest()
    carry(site, HOME, home)
    site.metastore.register(TABLE, DAY, home)
    for part in waiting(site) if last_name else ():
        site.fs.rename(f"{home}/{part.hidden}", f"{home}/{part.name}")
    assert errors(site) == []
    assert any("waits to be published; `hivesink recover` does it" in found.text for found in findings(site))
    job, given_up = site.job(), everything(site)
    assert find_losses(job.context) == ()
    spec = job.committer.spec
    ahead = preview(job.context, spec.policy, given_up=given_up)
    done = recover(job.context, spec.identity, spec.policy, given_up=given_up)
    assert done.described() == ahead.described()
    assert done.lost == ahead.lost == ()
    site.job().run()
    site.check(range(4))


def test_the_file_of_a_renamed_partition_is_found_and_kept_until_it_is_moved_back() -> None:
    site = killed_after_the_manifest()
    carry(site, HOME, RENAMED)
    site.metastore.drop_partition(TABLE, DAY)
    site.metastore.register(TABLE, "dt=z", RENAMED)
    require_kept(site, {f"{RENAMED}/{part.hidden}": HOME for part in waiting(site)})
    carry(site, RENAMED, HOME)
    site.job().run()
    site.check(range(4))


def test_a_file_that_readers_find_in_a_renamed_partition_is_not_given_up() -> None:
    """Nor are those beside it, before it was moved back: it would stop all the same."""
    site = killed_after(".pending ->")
    published = next(part for part in waiting(site) if site.fs.length(part.target) is not None)
    carry(site, HOME, RENAMED)
    site.metastore.drop_partition(TABLE, DAY)
    site.metastore.register(TABLE, "dt=z", RENAMED)
    seen = site.rows()
    assert len(seen) == published.rows
    job, every = site.job(), frozenset(part.target for part in waiting(site))
    spec = job.committer.spec
    with pytest.raises(PartLost, match=f"was found at {RENAMED}/.*: move it back to {HOME},"):
        recover(job.context, spec.identity, spec.policy, given_up=GivenUp(every))
    assert [loss.part for loss in find_losses(job.context, {published.key})] == [
        part for part in waiting(site) if part != published
    ]
    # An older copy changes nothing: readers find the other one.
    with site.store.open(f"{RENAMED}/{published.name}") as stream:
        site.fs.write_new(f"{LOCATION}/archive/{published.hidden}", stream.read())
    with pytest.raises(PartLost, match=f"was found at {RENAMED}/{published.name}: move it back to {HOME},"):
        recover(job.context, spec.identity, spec.policy, given_up=GivenUp(every, every))
    assert site.rows() == seen
    carry(site, RENAMED, HOME)
    site.metastore.drop_partition(TABLE, "dt=z")
    site.job().run()
    site.check_rows(range(4))


def test_a_dead_letter_that_was_moved_into_the_table_itself_is_found() -> None:
    site = Site(Source(events(6)), dead=True)
    job = site.job()
    job.committer.recover()
    site.metastore.go_down()
    job.step(6)
    site.metastore.come_up()
    part = next(one for one in waiting(site) if one.table == str(TABLE.rejected))
    site.fs.rename(part.staged, f"{HOME}/{part.hidden}")
    for _ in range(2):
        with pytest.raises(PartLost, match=f"was found at {HOME}/"):
            site.job().run()
    assert find_losses(site.job().context) == ()
    site.fs.rename(f"{HOME}/{part.hidden}", part.staged)
    site.job().run()
    site.check(range(6))


def test_nothing_is_given_up_while_a_folder_cannot_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    site = killed_after_the_manifest()
    carry(site, HOME, f"{LOCATION}/archive")
    closed = f"{LOCATION}/bob"
    site.fs.write_new(f"{closed}/file", b"")
    listing = type(site.fs).list

    def listed_if_open(fs: Any, folder: str) -> Any:
        if folder == closed:
            raise StoreUnavailable(action="list", path=folder, reason="permission denied")
        return listing(fs, folder)

    monkeypatch.setattr(type(site.fs), "list", listed_if_open)
    job = site.job()
    spec = job.committer.spec
    with pytest.raises(StoreUnavailable, match=f"{closed}: permission denied"):
        find_losses(job.context)
    with pytest.raises(StoreUnavailable, match=f"{closed}: permission denied"):
        recover(job.context, spec.identity, spec.policy, given_up=everything(site))
    # Without a question, it stops at the loss.
    with pytest.raises(PartLost):
        recover(job.context, spec.identity, spec.policy)
    monkeypatch.undo()
    assert len(site.staged()) == len(waiting(site))


@pytest.mark.parametrize("last_name", [True, False], ids=["as its last name", "hidden"])
def test_a_copy_that_was_cut_short_loses_nothing(last_name: bool) -> None:
    site = killed_after_the_manifest()
    carry(site, HOME, RENAMED)
    parts = waiting(site)
    torn = [f"{HOME}/{part.name if last_name else part.hidden}" for part in parts]
    for path in torn:
        site.fs.write_new(path, b"1")
    assert any("has 1 byte where" in text or "found at" in text for text in errors(site))
    job = site.job()
    spec = job.committer.spec
    assert find_losses(job.context) == ()
    with pytest.raises(LengthMismatch, match=r"delete it; the whole file was found at .*: move it back to"):
        recover(job.context, spec.identity, spec.policy, given_up=everything(site))
    for path in torn:
        site.fs.delete(path)
    carry(site, RENAMED, HOME)
    site.job().run()
    site.check(range(4))


def renamed_in_place(site: Site) -> None:
    """A user's RENAME of a partition of an external table."""
    site.metastore.drop_partition(TABLE, DAY)
    site.metastore.register(TABLE, "dt=z", HOME)


def moved_with_its_files(site: Site) -> None:
    """A user's SET LOCATION."""
    carry(site, HOME, "/elsewhere/x")
    site.metastore.register(TABLE, DAY, "/elsewhere/x")


@pytest.mark.parametrize("user", [renamed_in_place, moved_with_its_files])
def test_what_readers_see_is_not_given_up_with_its_partition(user: Callable[[Site], None]) -> None:
    site = killed_after(".pending ->")
    published = next(part for part in waiting(site) if site.fs.length(part.target) is not None)
    others = [part for part in waiting(site) if part != published]
    seen = site.rows()
    user(site)
    job, every = site.job(), frozenset(part.target for part in waiting(site))
    spec = job.committer.spec
    assert [loss.part for loss in find_losses(job.context, {published.key})] == others
    done = recover(job.context, spec.identity, spec.policy, given_up=GivenUp(every, every))
    assert [loss.part for loss in done.lost] == others
    site.job().run()
    assert site.rows() == seen
    assert errors(site) == []


def test_the_files_of_a_moved_table_are_found_and_kept_until_they_are_moved_back() -> None:
    site = Site(Source(events(4)))
    job = site.job()
    job.committer.recover()
    site.metastore.go_down()
    job.step()
    site.metastore.come_up()
    folder = waiting(site)[0].staged.rpartition("/")[0]
    carry(site, LOCATION, MOVED_TABLE)
    site.metastore._entries[TABLE].location = MOVED_TABLE
    there = f"{MOVED_TABLE}{folder.removeprefix(LOCATION)}"
    require_kept(site, {f"{there}/{part.hidden}": folder for part in waiting(site)})
    carry(site, there, folder)
    site.job().run()
    site.check(range(4))


def test_a_file_of_another_length_is_not_the_lost_one() -> None:
    site = killed_after_the_manifest()
    for part in waiting(site):
        site.fs.delete(part.staged)
        site.fs.write_new(f"{RENAMED}/{part.hidden}", b"")
    assert all("--accept-lost" in text and "found at" not in text for text in errors(site))
    job = site.job()
    lost = {loss.part.target for loss in find_losses(job.context)}
    assert lost == everything(site).targets
    spec = job.committer.spec
    assert recover(job.context, spec.identity, spec.policy, given_up=GivenUp(frozenset(lost))).lost


def test_give_up_puts_a_file_away_from_where_its_partition_went() -> None:
    site = killed_after_the_manifest()
    carry(site, HOME, RENAMED)
    site.metastore.drop_partition(TABLE, DAY)
    job, parts = site.job(), waiting(site)
    spec = job.committer.spec
    recover(job.context, spec.identity, spec.policy, given_up=GivenUp(waiting=everything(site).targets))
    assert [site.fs.length(part.put_away) for part in parts] == [part.length for part in parts]
    assert site.staged() == set()
