"""`clean`, between a death and the next start, and beside a run, at every call of the storage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from hivesink.sink.inspect.clean import clean, find_leftovers
from tests.crash.faults import FaultyFileSystem, Mode, Plan, Stalling
from tests.crash.site import Watched, dies
from tests.crash.test_metastore_faults import Scenario, copies, make_durable, moves, once, start
from tests.sink.harness import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.site import Site

NAME = str(TABLE)
# The call of the metastore before which the user acts: a move epoch comes of the fourth and the fifth.
MOMENTS = [pytest.param(at, marks=() if at == 5 else pytest.mark.long) for at in range(1, 14)]


def janitor(site: Site) -> None:
    context = site.job().context
    clean(context, find_leftovers(context, NAME), NAME)


def site_with(act: Callable[[Site], None], at: int) -> Site:
    site = Scenario("moved").site()
    site.user = once(at, act)
    return site


@pytest.mark.parametrize("act", [moves, copies])
@pytest.mark.parametrize("at", MOMENTS)
def test_between_a_death_and_the_next_start(at: int, act: Callable[[Site], None]) -> None:
    probe = site_with(act, at)
    counting = FaultyFileSystem(probe.fs)
    start(probe, Watched(probe), counting)().run()
    for call in counting.calls:
        for mode in (Mode.AFTER, Mode.TORN) if call.changes else ():
            site = site_with(act, at)
            dies(start(site, Watched(site), FaultyFileSystem(site.fs, Plan(call.number, mode))))
            site.user = None
            janitor(site)
            make_durable(site, (call, mode))


@pytest.mark.parametrize("act", [moves, copies])
@pytest.mark.parametrize("at", MOMENTS)
def test_beside_a_run(at: int, act: Callable[[Site], None]) -> None:
    probe = site_with(act, at)
    counting = FaultyFileSystem(probe.fs)
    start(probe, Watched(probe), counting)().run()
    for call in counting.calls:
        site = site_with(act, at)
        stalling = Stalling(site.fs, call.number, partial(janitor, site))
        start(site, Watched(site), stalling)().run()
        make_durable(site, call)
