"""A partition that the metastore refuses: all others go on, and a person can take it out of the way."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import HiveSinkError, RegistrationFailed
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import Reason
from hivesink.sink.inspect.clean import clean, find_leftovers
from hivesink.sink.inspect.verify import writer_status
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import Site, forget
from tests.crash.test_metastore_faults import EVENTS
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, TABLE, Source
from tests.sink.recoveries import by_hand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.partition import NewPartition
    from hivesink.ports import LiveTable

REFUSED = "dt=b"
THEIRS = [2, 3, 4, 5]
OTHERS = [0, 1, 6, 7]
B = (str(TABLE), REFUSED)


class Choosy(MemoryMetastore):
    """Registers every partition of a call but one, as an adapter does whose server refuses just that."""

    refused = REFUSED

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        super().add(table, [new for new in partitions if new.partition != self.refused])
        if any(new.partition == self.refused for new in partitions):
            raise RegistrationFailed(str(TABLE), "register", "it is too long", self.address, (REFUSED,))


def stuck() -> Site:
    """Everything was decided; the job ended since one partition can't be registered."""
    site = Site(Source(list(EVENTS)), metastore=Choosy())
    with pytest.raises(RegistrationFailed, match="'dt=b'"):
        site.job().run()
    return site


def test_rows_of_all_others_are_there() -> None:
    site = stuck()
    assert site.rows() == OTHERS
    status = writer_status(site.job().context, "w", str(TABLE))
    assert [gap.partition for gap in status.unregistered] == [REFUSED]
    with pytest.raises(RegistrationFailed):
        site.job().run()
    assert site.rows() == OTHERS


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


def test_forgotten_it_is_out_of_the_way() -> None:
    site = stuck()
    context = site.job().context
    losses = forget(site.job().committer, REFUSED)
    assert {(loss.key, loss.reason) for loss in losses} == {(B, Reason.REFUSED)}
    site.job().run()
    site.check(OTHERS)
    assert writer_status(context, "w", str(TABLE)).lost_rows == len(THEIRS)


@pytest.mark.parametrize("mode", [Mode.BEFORE, Mode.AFTER, Mode.TORN])
def test_forgetting_may_die_at_any_call_and_is_repeated(mode: Mode) -> None:
    probe = stuck()
    counting = FaultyFileSystem(probe.fs)
    forget(probe.job(counting).committer, REFUSED)
    for call in counting.calls:
        if mode is Mode.TORN and not call.changes:
            continue
        site = stuck()
        with contextlib.suppress(Kill, HiveSinkError):
            forget(site.job(FaultyFileSystem(site.fs, Plan(call.number, mode))).committer, REFUSED)
        forget(site.job().committer, REFUSED)
        site.job().run()
        # It may have died between its decision and the deletion of the hidden files.
        context = site.job().context
        clean(context, find_leftovers(context, str(TABLE)), str(TABLE))
        site.check(OTHERS, call)
        assert writer_status(site.job().context, "w", str(TABLE)).lost_rows == len(THEIRS)


def test_a_partition_that_is_accepted_again_is_published_not_forgotten() -> None:
    site = stuck()
    site.metastore.refused = ""  # type: ignore[attr-defined]
    assert forget(site.job().committer, REFUSED) == []
    site.job().run()
    site.check(range(8))


SUCCESS = {"sink.partition-commit.policy.kind": "metastore,success-file"}


def make_it_theirs(site: Site, day: str, how: str) -> list[int]:
    """A user's DDL on a partition that they can read; the ids that are readable after it."""
    home = site.places(TABLE)[day]
    ids = site.ids(home)
    mine = [file.path for file in site.store.visible(home)]
    if how == "overwrite":
        for path in mine:
            site.fs.delete(path)
        site.fs.write_new(f"{home}/000000_0", "".join(f"{number}\n" for number in ids).encode())
        return ids
    site.metastore.drop_partition(TABLE, day)
    for path in mine:
        if how == "drop":
            site.fs.delete(path)
        else:
            site.fs.rename(path, path.replace(f"/{day}/", f"/{day}x/"))
    if how == "drop":
        return []
    site.metastore.register(TABLE, f"{day}x", f"{home}x")
    return ids


@pytest.mark.parametrize("how", ["overwrite", "drop", "rename"])
@pytest.mark.parametrize("day", ["dt=a", "dt=c"])
@pytest.mark.parametrize("size", [4, 8], ids=["several epochs", "one epoch"])
def test_what_is_visible_is_the_users_own_while_another_is_refused(size: int, day: str, how: str) -> None:
    site = Site(Source(list(EVENTS)), options=dict(SUCCESS), metastore=Choosy())
    job = site.job()
    job.committer.recover()
    while job.step(size):
        pass
    assert {gap.partition for gap in writer_status(job.context, "w", str(TABLE)).unregistered} == {REFUSED}
    assert all(site.fs.length(f"{home}/_SUCCESS") is not None for home in site.places(TABLE).values())
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


# A death before a call leaves what one after the call before it leaves.
@pytest.mark.parametrize(
    "mode", [pytest.param(Mode.BEFORE, marks=pytest.mark.long), Mode.AFTER, Mode.LOST, Mode.LATE, Mode.TORN]
)
def test_a_job_beside_a_refused_partition_may_die_at_any_call(mode: Mode) -> None:
    def begin() -> Site:
        return Site(Source(list(EVENTS)), options=dict(SUCCESS), metastore=Choosy())

    probe = begin()
    counting = FaultyFileSystem(probe.fs)
    with pytest.raises(RegistrationFailed):
        probe.job(counting).run()
    for call in counting.calls:
        if mode in {Mode.LOST, Mode.LATE, Mode.TORN} and not call.changes:
            continue
        site = begin()
        faulty = FaultyFileSystem(site.fs, Plan(call.number, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            site.job(faulty).run()
        with pytest.raises(RegistrationFailed):
            site.job().run()
        faulty.apply_late()
        site.check_rows(OTHERS, call)
        assert {part.partition for _, part in load(site.job().context).live_parts} == {REFUSED}, call
        site.metastore.refused = ""  # type: ignore[attr-defined]
        context, spec = site.job().context, site.job().committer.spec
        ahead = by_hand(context, spec.policy, spec.identity, dry_run=True)
        assert by_hand(context, spec.policy, spec.identity).lines == ahead.lines, call
        site.job().run()
        site.check(range(8), call)
        assert all(site.fs.length(f"{home}/_SUCCESS") is not None for home in site.places(TABLE).values()), call
