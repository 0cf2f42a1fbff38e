"""`recover --give-up` beside other runs, cut short, and bound to what the person has confirmed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from hivesink.core.seen import GivenUp
from hivesink.errors import EpochTaken, FencedOut, HiveSinkError
from hivesink.sink.commit.recovery import find_losses, preview, recover
from hivesink.sink.inspect.status import writer_status
from hivesink.sink.inspect.verify import verify
from tests.crash.faults import FaultyFileSystem, Kill, Stalling
from tests.crash.site import Site, Watched
from tests.crash.test_refused_partitions import (
    OTHERS,
    REFUSED,
    THEIRS,
    Choosy,
    confirmed,
    give_up,
    kept,
    stuck,
)
from tests.sink.harness import LOCATION, TABLE, Event, Source, measure_lines

if TYPE_CHECKING:
    from tests.crash.faults import Mode


def accept(site: Site) -> None:
    """The metastore takes the partition from now on."""
    site.metastore.refused = ""  # type: ignore[attr-defined]


def goes_on(site: Site) -> None:
    """The refusal is mended, and the job runs to its end."""
    accept(site)
    site.job().run()


def require_one_truth(site: Site, case: object) -> int:
    """Each row is either readable, or counted as lost and kept. How many are lost."""
    goes_on(site)
    away = kept(site)
    site.check(sorted({*OTHERS, *THEIRS} - {*away}), case)
    assert writer_status(site.job().context, "w", str(TABLE)).lost_rows == len(away), case
    return len(away)


class DiesAtManifest(FaultyFileSystem):
    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if name == "write_new" and "/manifests/" in path:
            self._die()
        return super()._begin(name, path, changes=changes)


def cut_short(site: Site) -> None:
    """Give up, and die when all is put away, before the decision."""
    with pytest.raises(Kill):
        give_up(site.job(DiesAtManifest(site.fs)))
    assert kept(site) == THEIRS


def test_a_recovery_that_was_overtaken_publishes_nothing_that_was_given_up() -> None:
    for at in range(1, 6):
        # Its partition is listed, so nothing has to be registered before the publish.
        site = Site(Source([Event(number, "b") for number in range(8)]))
        job = site.job()
        job.committer.recover()
        job.step()
        site.metastore.go_down()
        job.step()
        site.metastore.come_up()

        def give_up_meanwhile(site: Site, call: int, at: int = at) -> None:
            if call == at:
                site.user = None
                give_up(site.job())

        stalled = site.job(registrar=Watched(site))
        site.user = give_up_meanwhile
        with contextlib.suppress(FencedOut, EpochTaken):
            recover(stalled.context, stalled.committer.spec.identity, stalled.committer.spec.policy)
        site.job().run()
        away = kept(site)
        assert site.rows() == sorted({*range(8)} - {*away}), at
        assert writer_status(site.job().context, "w", str(TABLE)).lost_rows == len(away), at


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("meanwhile", [goes_on, lambda site: give_up(site.job())])
def test_giving_up_beside_another_run_ends_in_one_truth(again: bool, meanwhile: object) -> None:
    def begin() -> Site:
        site = stuck()
        if again:
            # What was put away came back by a decision, and waits at that place.
            cut_short(site)
            with contextlib.suppress(HiveSinkError):
                site.job().run()
        return site

    probe = begin()
    counting = FaultyFileSystem(probe.fs)
    give_up(probe.job(counting))
    outcomes = set()
    for call in counting.calls:
        site = begin()
        stalled = site.job(Stalling(site.fs, call.number, lambda site=site: meanwhile(site)))  # type: ignore[misc,operator]
        with contextlib.suppress(FencedOut, EpochTaken):
            give_up(stalled)
        outcomes.add(require_one_truth(site, call))
    assert outcomes == ({0, len(THEIRS)} if meanwhile is goes_on else {len(THEIRS)})


def test_a_run_beside_giving_up_ends_in_one_truth() -> None:
    def begin() -> Site:
        site = stuck()
        accept(site)
        return site

    probe = begin()
    counting = FaultyFileSystem(probe.fs)
    probe.job(counting).run()
    outcomes = set()
    for call in counting.calls:
        site = begin()
        stalled = Stalling(site.fs, call.number, lambda site=site: give_up(site.job()))  # type: ignore[misc]
        with contextlib.suppress(FencedOut, EpochTaken):
            site.job(stalled).run()
        outcomes.add(require_one_truth(site, call))
    assert {0, len(THEIRS)} <= outcomes


@pytest.mark.parametrize("home", [f"{LOCATION}/{REFUSED}", "/elsewhere/b"])
def test_cut_short_its_rows_come_wherever_the_partition_appears(home: str) -> None:
    site = stuck()
    cut_short(site)
    context, spec = site.job().context, site.job().committer.spec
    assert [gap.partition for gap in writer_status(context, "w", str(TABLE)).unregistered] == [REFUSED]
    found = verify(context, "w", str(TABLE), measure_lines)
    assert found.errors == 0, found.findings
    site.metastore.register(TABLE, REFUSED, home)
    ahead = preview(context, spec.policy)
    assert recover(context, spec.identity, spec.policy).described() == ahead.described()
    site.job().run()
    site.check(range(8))


def test_what_is_decided_after_the_question_is_not_given_up() -> None:
    site = stuck()
    asked = confirmed(site.job())
    site.source.events += [Event(number, "b") for number in (8, 9)]
    with pytest.raises(HiveSinkError, match="'dt=b'"):
        site.job().run()
    spec = site.job().committer.spec
    with pytest.raises(HiveSinkError, match="'dt=b'"):
        recover(site.job().context, spec.identity, spec.policy, given_up=asked)
    goes_on(site)
    site.check([*OTHERS, 8, 9])
    assert kept(site) == THEIRS


def test_only_the_table_that_was_named_gives_up() -> None:
    # Dead letters wait for a partition of the same name.
    day = "2026-01-01"
    site = Site(Source([Event(number, day) for number in (5, 1, 2, 3)]), dead=True, metastore=Choosy())
    site.metastore.refused = f"dt={day}"  # type: ignore[attr-defined]
    with pytest.raises(HiveSinkError):
        site.job().run()
    losses = find_losses(site.job().context, [(str(TABLE), f"dt={day}")])
    assert {loss.part.table for loss in losses} == {str(TABLE)}
    spec = site.job().committer.spec
    given_up = GivenUp(waiting=frozenset(loss.part.target for loss in losses))
    with pytest.raises(HiveSinkError):
        recover(site.job().context, spec.identity, spec.policy, given_up=given_up)
    goes_on(site)
    site.check([5])
