"""What `status`, `verify`, `recover` and `reset` say of rows that wait to be rolled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import OpenBucket, Read, Slice
from hivesink.core.offsets import KafkaOffset
from hivesink.core.reads import segment_name
from hivesink.core.rolling import OpenRows
from hivesink.errors import LogDamaged, RowsHeldBack
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.inspect.verify import verify
from hivesink.storage.commit_log import FileLogRoot
from tests.contracts.manifests import edited
from tests.crash.site import LOG, Site, forget_rows
from tests.sink.harness import TABLE, Event, Source, events

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


def segment(site: Site) -> str:
    return f"{LOG}/segments/{min(site.log.segments.lengths())}"


def put(site: Site, path: str, data: bytes | None) -> bytes:
    """Other bytes in a file, or none; those that it had."""
    before = site.fs.read(path)
    assert before is not None
    site.fs.delete(path)
    if data is not None:
        site.fs.write_new(path, data)
    return before


def test_rows_that_wait_are_counted_and_no_error(site: Site) -> None:
    assert site.verify().findings == ()
    assert site.verify().totals.written == 12
    waiting = site.facts().open_rows
    assert (waiting.rows, len(waiting.buckets), waiting.since) == (12, 3, site.log.manifest(Epoch(1)).at)
    assert waiting.bytes == sum(site.log.segments.lengths().values())
    site.job().run()
    site.check(range(12))
    assert site.verify().findings == ()
    assert (site.facts().open_rows.rows, site.facts().open_rows.since) == (0, None)


@pytest.mark.parametrize(
    ("harm", "state"),
    [("gone", "is missing"), ("torn", "has 4 bytes of "), ("zeros", "is damaged (the checksum")],
)
def test_a_segment_that_is_lost_is_an_error(site: Site, harm: str, state: str) -> None:
    path = segment(site)
    length = site.log.segments.lengths()[path.rpartition("/")[2]]
    put(site, path, {"gone": None, "torn": b"torn", "zeros": bytes(length)}[harm])
    (error,) = site.errors()
    assert error.startswith(f"{path} holds committed rows that aren't in the table yet, but it {state}")
    # `--quick` reads none.
    assert bool(verify(site.job().context, "w", NAME, None).findings) == (harm != "zeros")


def harmed(site: Site) -> int:
    """The first segment is lost: how many rows waited in it."""
    path = segment(site)
    put(site, path, None)
    name = path.rpartition("/")[2]
    return sum(one.slice.rows for one in load(site.job().context).rows.opened if one.slice.segment == name)


def rolled_but_for_losses(site: Site) -> CommitContext:
    """All that can be rolled is rolled."""
    job = site.job()
    with pytest.raises(RowsHeldBack):
        job.committer.finish()
    return job.context


def test_a_person_forgets_what_is_lost(site: Site) -> None:
    rows = harmed(site)
    context = rolled_but_for_losses(site)
    losses = forget_rows(context)
    assert (sum(loss.rows for loss in losses), {loss.reason for loss in losses}) == (rows, {"waiting"})
    manifest = site.log.manifest(site.log.view().head)
    assert (manifest.kind, manifest.forgotten) == ("forget", rows)
    site.job().run()
    assert len(site.rows()) == 12 - rows
    assert site.facts().total.forgotten == rows
    notes = [finding.text for finding in site.verify().findings]
    assert notes == [f"a person has accepted that {rows} rows are lost"]
    assert forget_rows(context) == []


def test_a_person_forgets_one_partition(site: Site) -> None:
    harmed(site)
    losses = forget_rows(rolled_but_for_losses(site), "dt=2024-01-01")
    assert {loss.key for loss in losses} == {(NAME, "dt=2024-01-01")}
    assert any(bucket.slices for bucket in load(site.job().context).rows.buckets.values())


def test_parts_that_hold_other_rows_than_waited_are_an_error(site: Site) -> None:
    site.job().run()
    path = f"{LOG}/manifests/0000000002.json"
    put(site, path, edited(site.fs.read(path) or b"", b'"rows": 1,', b'"rows": 2,', 1))
    assert "4 rows written, but its files hold 5" in site.errors()
    assert "13 rows waited for it, but its parts hold 12" in site.errors()


@pytest.mark.parametrize("earlier", [False, True])
def test_a_log_of_when_rows_still_waited_is_refused_once_they_are_rolled(earlier: bool) -> None:
    """Whether or not its newest epoch with files wrote to another partition."""
    site = Site(Source([Event(0, "yesterday"), Event(1, "x")] if earlier else [Event(1, "x")]), options=WAIT)
    job = site.job()
    job.committer.recover()
    if earlier:
        job.step(1)
        job.committer.finish()
    job.step(1)
    folder = f"{LOG}/manifests"
    before = {entry.name for entry in site.fs.list(folder)}
    job.committer.finish()
    for entry in site.fs.list(folder):
        if entry.name not in before:
            site.fs.delete(f"{folder}/{entry.name}")
    live = site.metastore.table(TABLE)
    with pytest.raises(LogDamaged, match="dt=x/"):
        Ownership(FileLogRoot(site.fs, LOG.removesuffix("/w/1")), site.metastore, site.store).require_current(
            live, site.log
        )


def test_a_bucket_without_rows_that_wait_is_not_counted_as_one() -> None:
    site = Site(Source(events(4)), options={"sink.partition-commit.delay": "1h"})
    site.job().run()
    assert len(load(site.job().context).rows.buckets) > 1
    assert (site.facts().open_rows.rows, site.facts().open_rows.since) == (0, None)
    assert site.by_hand(dry_run=True).lines == []


def test_rows_wait_since_their_own_epoch_not_since_the_first_of_their_partition() -> None:
    first, then = datetime(2024, 1, 2, 3, tzinfo=timezone.utc), datetime(2024, 1, 2, 5, tzinfo=timezone.utc)
    late = Slice(segment_name(Epoch(7), "00000000ab", 0, 0), 0, 10, 1)
    published = replace(OpenBucket.of((late,), first, then), published=3, files=1)
    rows = OpenRows({("demo.t", "dt=1"): published, ("demo.t", "dt=2"): OpenBucket.of((), first, first)})
    read = Read(Epoch(7), then, KafkaOffset(()))
    assert replace(rows, reads=(read,)).since == then
    assert rows.since == first
