"""A job whose next start has another `sink.rolling-policy.on-epoch`, while rows wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.faults import FaultyFileSystem, Mode, Plan, moments
from tests.crash.site import Site, dies
from tests.crash.steps import ROLLING
from tests.sink.harness import Source, events

if TYPE_CHECKING:
    from tests.crash.site import SiteJob

COUNT = 12
WAYS = {"rolling": ROLLING, "on epoch": {"sink.rolling-policy.on-epoch": "true"}}
NO_OTHER = {"sink.rolling-policy.on-epoch": "false"}


@pytest.fixture
def site() -> Site:
    """Two epochs of four rows, all of which wait; four more are to come."""
    site = Site(Source(events(COUNT)), options=dict(NO_OTHER))
    run = started(site)
    run.step()
    run.step()
    assert site.rows() == []
    return site


def started(site: Site) -> SiteJob:
    run = site.job()
    run.committer.recover()
    return run


def test_back_on_epoch_the_next_batch_publishes_whatever_waits(site: Site) -> None:
    site.options = {}
    run = started(site)
    run.step()
    site.check(range(COUNT))
    assert site.log.segments.lengths() == {}


def test_back_on_epoch_the_timer_publishes_whatever_waits(site: Site) -> None:
    site.options = {}
    started(site).committer.keep_up()
    site.check(range(8))
    assert site.log.segments.lengths() == {}


def test_from_then_on_rows_wait(site: Site) -> None:
    site.options = {}
    started(site).step(2)
    site.options = dict(NO_OTHER)
    started(site).step(2)
    site.check(range(10))
    site.job().run()
    site.check(range(COUNT))


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("at", moments(150, every=3))
def test_a_death_at_any_call_and_a_start_with_the_other_setting(first: str, at: int) -> None:
    site = Site(Source(events(COUNT)), options=dict(WAYS[first]))
    dies(lambda: site.job(FaultyFileSystem(site.fs, Plan(at, Mode.AFTER))))
    (site.options,) = (options for name, options in WAYS.items() if name != first)
    site.job().run()
    site.job().run()
    site.check(range(COUNT), at)
    assert site.log.segments.lengths() == {}, at
