"""What only S3 does to a running job: uploads vanish, outcomes are unknown, credentials expire, runs meet."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest

from hivesink.errors import HiveSinkError, OutcomeUnknown, PartLost, StoreUnavailable
from tests.crash.faults import Call, FaultyS3, Mode, Plan, StallingS3, calls_of, sampled
from tests.crash.site import BATCH, ROLLING, Site, s3_site, wakes
from tests.crash.test_every_step import check
from tests.crash.test_metastore_faults import EVENTS
from tests.crash.test_two_runs import STOPPED, Other
from tests.inmemory.s3 import MemoryS3, refused
from tests.sink.harness import Source, events

WAYS: dict[str, dict[str, str]] = {"on epoch": {}, "rolling": ROLLING}


def site_of(options: dict[str, str], s3: Any = None, *, dead: bool = False) -> Site:
    return s3_site(Source(events(3 * BATCH)), options, s3 or MemoryS3(), dead=dead)


def calls(options: dict[str, str], site: Site | None = None) -> list[Call]:
    made = site or site_of(options)
    return calls_of(lambda: made, lambda _, plan: FaultyS3(made.files(), plan), lambda site, s3: site.job(s3).run())


@sampled(5)
@pytest.mark.parametrize(("way", "dead"), [("on epoch", False), ("rolling", False), ("on epoch", True)])
def test_uploads_that_others_abort_at_any_moment_lose_no_row(way: str, dead: bool, every: int) -> None:
    """Their rows are encoded again from segments, but for what readers may have had: then a person is asked."""
    requeued, asked, moments = 0, 0, calls(WAYS[way], site_of(WAYS[way], dead=dead))[::every]
    for call in moments:
        s3 = MemoryS3()
        site = site_of(WAYS[way], s3, dead=dead)
        with contextlib.suppress(HiveSinkError):
            # As an s3a committer does with what is pending below where its job writes.
            site.job(StallingS3(s3, call.number, s3.uploads.clear)).run()
        try:
            site.job().run()
        except PartLost:
            # Between the mark and the part's own publish. Nothing is doubled; the segments are still there.
            asked += 1
            assert site.log.segments.lengths()
            assert len(set(site.rows())) == len(site.rows())
            continue
        requeued += "requeue" in site.kinds()
        check(site, call)
    assert requeued
    assert asked * 4 < len(moments)


@sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_manifest_in_doubt_is_aborted_before_another_has_its_number(way: str, every: int) -> None:
    """Its PUT may land whenever it likes: before the next start, in its middle, or after it."""
    puts = [call for call in calls(WAYS[way]) if call.name == "put_object" and call.path.endswith(".json")]
    manifests = [call for call in puts if "/manifests/" in call.path]
    assert len(manifests) > 4
    for call in manifests:
        for landing in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)[::every]:
            s3 = MemoryS3()
            site, late = site_of(WAYS[way], s3), FaultyS3(s3, Plan(call.number, Mode.LATE))
            with pytest.raises(OutcomeUnknown):
                site.job(late).run()
            uploads = set(s3.uploads)
            site.clean()
            assert set(s3.uploads) == uploads
            with contextlib.suppress(HiveSinkError):
                site.job(StallingS3(s3, landing, late.apply_late)).run()
            late.apply_late()
            site.job().run()
            check(site, (call, landing))


class Expiring(FaultyS3):
    """From request `at` on the credentials have expired."""

    def __init__(self, inner: MemoryS3, at: int) -> None:
        super().__init__(inner)
        self._at = at

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        mode = super()._begin(name, path, changes=changes)
        if len(self.calls) >= self._at:
            raise refused(403, "ExpiredToken")
        return mode


@sampled(10)
@pytest.mark.parametrize("way", WAYS)
def test_credentials_that_expire_at_any_request_may_be_renewed(way: str, every: int) -> None:
    for call in calls(WAYS[way])[::every]:
        site = site_of(WAYS[way])
        with contextlib.suppress(HiveSinkError):
            site.job(Expiring(site.files(), call.number)).run()
        expired = Expiring(site.files(), 1)
        error = wakes(partial(site.job, expired))
        assert isinstance(error, StoreUnavailable)
        assert error.retryable
        site.job().run()
        check(site, call)


@sampled(6)
def test_one_run_stalls_at_any_request_while_the_other_goes_on(every: int) -> None:
    def new_site() -> Site:
        return s3_site(Source(list(EVENTS)), {}, MemoryS3())

    for call in calls({}, new_site())[::every]:
        site = new_site()
        other = Other(site)
        stalling = StallingS3(site.files(), call.number, other)
        error = wakes(partial(site.job, stalling))
        assert error is None or isinstance(error, STOPPED), (call, repr(error))
        site.source = other.source
        site.job().run()
        check(site, call)
