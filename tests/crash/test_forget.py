"""`recover --forget`: looks for missing parts everywhere once, publishes what is there, and counts what isn't."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import HiveSinkError, PartLost, StoreUnavailable
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import Reason
from hivesink.sink.inspect.clean import clean, find_leftovers
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import verify, writer_status
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import Site, forget
from tests.crash.test_statements import carry
from tests.sink.harness import LOCATION, TABLE, Source, events, measure_lines
from tests.sink.recoveries import ALL, by_hand

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hivesink.core.manifest import PartEntry

DAY = "dt=2024-01-01"
HOME = f"{LOCATION}/{DAY}"
RENAMED = f"{LOCATION}/dt=z"


def killed_after(name: str) -> Site:
    """Right after the first rename of a file that has `name` in its own."""

    def listed() -> Site:
        site = Site(Source(events(4, partitions=1)))
        site.metastore.register(TABLE, DAY, HOME)
        return site

    probe = listed()
    counting = FaultyFileSystem(probe.fs)
    probe.job(counting).run()
    renamed = next(call for call in counting.calls if call.name == "rename" and name in call.path)
    site = listed()
    with pytest.raises(Kill):
        site.job(FaultyFileSystem(site.fs, Plan(renamed.number, Mode.AFTER))).run()
    return site


def decided() -> Site:
    return killed_after(".json.")


def published_one() -> Site:
    return killed_after(".pending ->")


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
        forget(site.job().committer, "dt=another")
    context, spec = site.job().context, site.job().committer.spec
    before = dict(site.fs._files)
    ahead = by_hand(context, spec.policy, spec.identity, forget=ALL, dry_run=True)
    assert site.fs._files == before
    done = by_hand(context, spec.policy, spec.identity, forget=DAY)
    assert (done.lines, done.losses) == (ahead.lines, ahead.losses)
    lost = sum(loss.rows for loss in done.losses)
    assert bool(lost) is is_lost
    assert {loss.reason for loss in done.losses} <= {Reason.MISSING}
    clean(context, find_leftovers(context, str(TABLE)), str(TABLE))
    site.job().run()
    assert set(seen) <= set(site.rows()) <= set(range(4))
    assert len(site.rows()) == len(set(site.rows())) == 4 - lost
    assert site.staged() == set()
    assert writer_status(context, "w", str(TABLE)).lost_rows == lost
    findings = verify(context, "w", str(TABLE), measure_lines).findings
    assert [found.text for found in findings if found.level is Level.ERROR] == []


@pytest.mark.parametrize("user", [rename, delete])
@pytest.mark.parametrize("mode", [Mode.BEFORE, Mode.AFTER])
def test_it_may_die_at_any_call_and_is_repeated(user: Callable[[Site], None], mode: Mode) -> None:
    def begin() -> Site:
        site = decided()
        user(site)
        return site

    probe = begin()
    counting = FaultyFileSystem(probe.fs)
    forget(probe.job(counting).committer)
    for call in counting.calls:
        site = begin()
        with contextlib.suppress(Kill, HiveSinkError):
            forget(site.job(FaultyFileSystem(site.fs, Plan(call.number, mode))).committer)
        forget(site.job().committer)
        site.job().run()
        lost = writer_status(site.job().context, "w", str(TABLE)).lost_rows
        assert (lost, site.rows()) == ((0, [*range(4)]) if user is rename else (4, [])), call


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
        forget(site.job().committer)
    monkeypatch.undo()
    assert len(site.staged()) == len(waiting(site))


def test_a_moved_partition_needs_nobody() -> None:
    """SET LOCATION after its visible files were moved: an epoch of its own takes the others there."""
    site = published_one()
    site.move(DAY, "/elsewhere/x")
    site.job().run()
    site.check(range(4))
