"""Rows that wait and no longer fit the table, or can't be read: their slices are held back alone, for a while."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.partition import PartitionKey
from hivesink.core.table import Column, Primitive, TableSpec
from hivesink.errors import HiveSinkError, RowsHeldBack, RowsUnfit, TableReplaced
from hivesink.sink.commit.observe import load
from hivesink.sink.task.messages import TaskTools
from tests.crash.site import LOG, Site
from tests.sink.harness import TABLE, Event, Job, Source

if TYPE_CHECKING:
    import pyarrow as pa

WAIT = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.rollover-interval": "2min",
    "sink.registration.max-delay": "10min",
}
B = (str(TABLE), "dt=b")
MINUTE = 61


class PickyJob(Job):
    """Rows that came for other columns fit it, unless they are in dt=b…; `tried` counts those."""

    tried = 0

    def tools(self) -> TaskTools:
        def picky(rows: pa.RecordBatch, _: TableSpec, key: PartitionKey) -> pa.RecordBatch:
            if key[1].startswith("dt=b"):
                self.tried += 1
                raise RowsUnfit(*key, "id", ("string", "bigint"), "no number")
            return rows

        return replace(super().tools(), refit=picky)


@pytest.fixture
def site() -> Site:
    """Nine rows wait in three partitions; then a column gets another type."""
    site = Site(Source([Event(number, "abc"[number % 3]) for number in range(9)]), options=dict(WAIT))
    run = picky(site)
    run.step(9)
    site.metastore.change_column(TABLE, Column("id", Primitive.STRING))
    return site


def picky(site: Site) -> PickyJob:
    run = PickyJob(site.log, site.store, site.metastore, site.source, site.clock, site.options)
    run.committer.recover()
    return run


def feed(site: Site, run: Job, *events: Event) -> None:
    site.source.events.extend(events)
    run.step(len(events))


def test_the_others_are_published_and_the_query_fails_in_the_end(site: Site) -> None:
    run = picky(site)
    site.clock.ticks += MINUTE
    run.committer.keep_up()
    assert site.rows() == [0, 2, 3, 5, 6, 8]
    assert "rows that wait for demo.events, partition dt=b don't fit column id" in str(run.committer.waiting)
    site.clock.ticks += 600
    run.committer.keep_up()
    site.clock.ticks += 1
    with pytest.raises(RowsHeldBack, match=r"rows that wait for demo\.events, partition dt=b don't fit column id"):
        run.committer.keep_up()
    site.job().run()
    site.check(range(9))


def test_a_partition_that_the_table_can_not_have_any_more_is_held_back(site: Site) -> None:
    """As after ALTER TABLE … PARTITION COLUMN: to register it would make the table unreadable."""
    run = picky(site)
    feed(site, run, Event(9, "a"))
    site.metastore.change_column(TABLE, Column("dt", Primitive.DATE))
    site.clock.ticks += MINUTE
    with pytest.raises(TableReplaced, match="start the job again"):
        run.committer.keep_up()
    with pytest.raises(RowsHeldBack, match=r"partition dt=a don't fit column dt: .*is date today \(expected a date"):
        site.job().run()
    assert site.rows() == []
    site.metastore.change_column(TABLE, Column("dt", Primitive.STRING))
    site.job().run()
    site.check(range(10))


def test_new_rows_of_the_same_bucket_are_rolled_and_the_partition_is_not_committed(site: Site) -> None:
    run = picky(site)
    feed(site, run, Event(9, "b"), Event(10, "a"))
    site.clock.ticks += MINUTE
    run.committer.keep_up()
    assert site.rows() == [0, 2, 3, 5, 6, 8, 9, 10]
    history = load(run.context)
    bucket = history.rows.buckets[B]
    # Each of the job's two tasks had written a slice.
    assert (bucket.rows, len(bucket.slices), bucket.published, bucket.files) == (3, 2, 1, 1)
    assert history.head is not None
    assert B in history.head.rolled
    assert B not in {commit.key for commit in history.head.commits or ()}
    assert site.errors() == []
    # They aren't tried again, and what comes later isn't rolled before its time.
    head, run.tried = history.epoch, 0
    site.clock.ticks += 120
    feed(site, run, Event(11, "b"))
    run.committer.keep_up()
    assert load(run.context).epoch == head + 1
    site.clock.ticks += MINUTE
    run.committer.keep_up()
    assert (11 in site.rows(), run.tried) == (True, 0)
    assert site.errors() == []
    site.job().run()
    site.check(range(12))
    assert site.errors() == []
    rolls = [site.log.manifest(epoch) for epoch in site.log.view().manifests]
    assert [one.rows for one in rolls[-1].commits or () if one.key == B] == [5]


def test_a_bucket_of_which_nothing_is_encoded_is_not_rolled(site: Site) -> None:
    with pytest.raises(RowsHeldBack):
        picky(site).committer.finish()
    rolled = site.log.manifest(Epoch(2))
    assert (rolled.kind, rolled.rolled) == ("roll", ((str(TABLE), "dt=a"), (str(TABLE), "dt=c")))
    assert [key for key, _ in rolled.waiting or ()] == []


def test_many_unfit_buckets_take_one_try(site: Site) -> None:
    site = Site(Source([Event(number, f"b{number}") for number in range(300)]), options=dict(WAIT))
    picky(site).step(300)
    site.metastore.change_column(TABLE, Column("id", Primitive.STRING))

    run = picky(site)
    with pytest.raises(RowsHeldBack, match=r"\(and 299 more: see `hivesink partitions`\)"):
        run.committer.finish()
    assert (run.tried, site.rows(), site.log.view().head) == (300, [], 1)


def test_what_is_lost_is_held_back_alone() -> None:
    site = Site(Source([Event(1, "a"), Event(2, "b")]), options=dict(WAIT), tasks=1)
    run = site.job()
    run.committer.recover()
    run.step(1)
    run.step(1)
    path = f"{LOG}/segments/{min(site.log.segments.lengths())}"
    data = site.fs.read(path)
    assert data is not None
    site.fs.delete(path)
    with pytest.raises(RowsHeldBack, match=f"^{path} holds committed rows"):
        run.committer.finish()
    assert site.rows() == [2]
    site.fs.write_new(path, data)
    site.job().run()
    site.check([1, 2])


def test_a_roll_that_left_rows_is_encoded_again_without_them(site: Site) -> None:
    """A user's statement takes the roll's files before they are published."""
    run = picky(site)
    feed(site, run, Event(9, "b"))
    site.metastore.go_down()
    site.clock.ticks += MINUTE
    run.committer.keep_up()
    for part in load(run.context).waiting:
        if part.key == B:
            site.fs.delete(part.staged)
    site.metastore.come_up()
    with pytest.raises(HiveSinkError, match="dt=b"):
        picky(site).committer.finish()
    assert site.rows() == [0, 2, 3, 5, 6, 8, 9]
    assert site.errors() == []
    site.job().run()
    site.check(range(10))
