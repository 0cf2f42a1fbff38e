"""What `status`, `verify`, `recover` and `reset` say of rows that wait to be rolled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hivesink.core.epoch import Epoch
from hivesink.errors import SegmentLost, TableRenamed
from hivesink.sink.commit.recovery import preview, recover
from hivesink.sink.inspect.admission import Admission
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.resets import plan_reset
from hivesink.sink.inspect.status import Waiting, writer_status
from hivesink.sink.inspect.verify import Verdict, verify
from tests.crash.site import LOG, Site
from tests.sink.harness import LOCATION, SPEC, TABLE, Source, events, measure_lines

WAIT = {"sink.rolling-policy.on-epoch": "false"}
NAME = str(TABLE)


@pytest.fixture
def site() -> Site:
    """Three epochs of four rows in three partitions, all of which wait."""
    site = Site(Source(events(12)), options=WAIT)
    job = site.job()
    job.committer.recover()
    for _ in range(3):
        job.step()
    assert site.rows() == []
    return site


def verdict(site: Site) -> Verdict:
    return verify(site.job().context, "w", NAME, measure_lines)


def errors(site: Site) -> list[str]:
    return [found.text for found in verdict(site).findings if found.level is Level.ERROR]


def waiting(site: Site) -> Waiting:
    return writer_status(site.job().context, "w", NAME).waiting


def segment(site: Site) -> str:
    return f"{LOG}/segments/{min(site.log.segments.lengths())}"


def test_rows_that_wait_are_counted_and_no_error(site: Site) -> None:
    assert verdict(site).findings == ()
    assert verdict(site).totals.written == 12
    found = waiting(site)
    assert (found.rows, found.buckets, found.since) == (12, 3, site.log.manifest(Epoch(1)).at)
    assert found.bytes == sum(site.log.segments.lengths().values())
    site.job().run()
    site.check(range(12))
    assert verdict(site).findings == ()
    assert [(one.kind, one.files) for one in verdict(site).epochs] == [("batch", 0)] * 3 + [("roll", 3)]
    assert waiting(site) == Waiting(0, 0, 0, None)


@pytest.mark.parametrize("rest", [None, b"torn"])
def test_a_segment_that_is_lost_is_an_error_and_stops_the_roll(site: Site, rest: bytes | None) -> None:
    path = segment(site)
    before = site.fs.read(path)
    assert before is not None
    site.fs.delete(path)
    if rest is not None:
        site.fs.write_new(path, rest)
    (error,) = errors(site)
    state = "is missing" if rest is None else f"has 4 of {len(before)} bytes"
    assert error == f"{path} {state}, and rows wait in it; restore it from a backup"
    with pytest.raises(SegmentLost, match=f"^{path} holds committed rows"):
        site.job().run()
    site.fs.delete(path)
    site.fs.write_new(path, before)
    site.job().run()
    site.check(range(12))


def test_parts_that_hold_other_rows_than_waited_are_an_error(site: Site) -> None:
    site.job().run()
    path = f"{LOG}/manifests/0000000002.json"
    data = site.fs.read(path)
    assert data is not None
    site.fs.delete(path)
    site.fs.write_new(path, data.replace(b'"rows": 1,', b'"rows": 2,', 1))
    assert "4 rows written, but its files hold 5" in errors(site)
    assert "13 rows waited for it, but its parts hold 12" in errors(site)


def test_recovery_and_reset_say_what_waits(site: Site) -> None:
    context, policy = site.job().context, site.job().committer.spec.policy
    rolls = [
        ("roll", "demo.events dt=2024-01-01 (4 rows)"),
        ("roll", "demo.events dt=2024-01-02 (3 rows)"),
        ("roll", "demo.events dt=2024-01-03 (5 rows)"),
    ]
    assert preview(context, policy).described() == rolls
    assert recover(context, None, policy).described() == rolls
    planned = plan_reset(context, "w", NAME, datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert (planned.rows, planned.unpublished) == (12, 12)


def test_a_renamed_table_is_refused_while_rows_wait_for_its_old_name(site: Site) -> None:
    job = site.job()
    renamed = replace(SPEC, name=replace(TABLE, table="renamed"), location=LOCATION)
    site.metastore.create(renamed)
    live = job.registrar.table(renamed.name)
    admission = Admission("w", job.log, job.store, live, job.registrar, tuple, lambda _: None)
    with pytest.raises(TableRenamed, match=f"waits under the table's old name, {NAME}"):
        admission.require_same_table()
