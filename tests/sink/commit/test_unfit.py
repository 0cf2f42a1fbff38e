"""Rows that wait and no longer fit the table: their bucket is held back alone, for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import RowsUnfit, TaskFailed
from hivesink.sink.task.attempt import TaskTools
from tests.crash.site import Site, SiteJob
from tests.sink.harness import Event, Lines, Rows, Source

if TYPE_CHECKING:
    import pyarrow as pa

WAIT = {"sink.rolling-policy.on-epoch": "false", "sink.registration.max-delay": "10min"}


class Picky(Lines):
    def fit(self, rows: pa.Table, *place: str) -> pa.Table:
        table, partition = place
        if partition == "dt=b":
            raise RowsUnfit(table, partition, "id", ("string", "int64"), "no number")
        return rows


@dataclass
class PickyJob(SiteJob):
    """Its table has been altered while rows waited."""

    def tools(self) -> TaskTools:
        return TaskTools(self.store, Rows(), lambda _: Picky(), self.log.touch, self.log.segments)


@pytest.fixture
def site() -> Site:
    return Site(Source([Event(number, "abc"[number % 3]) for number in range(9)]), options=dict(WAIT))


def picky(site: Site) -> PickyJob:
    run = PickyJob(site.log, site.store, site.metastore, site.source, site.clock, site.options)
    run.committer.recover()
    return run


def test_the_others_are_published_and_the_query_fails_in_the_end(site: Site) -> None:
    run = picky(site)
    run.step(9)
    site.clock.ticks += 61
    run.committer.keep_up()
    assert site.rows() == [0, 2, 3, 5, 6, 8]
    assert "rows that wait for demo.events, partition dt=b don't fit column id" in str(run.committer.waiting)
    site.clock.ticks += 600
    run.committer.keep_up()
    site.clock.ticks += 1
    with pytest.raises(TaskFailed, match=r"rows that wait for demo\.events, partition dt=b don't fit column id"):
        run.committer.keep_up()
    site.job().run()
    site.check(range(9))


def test_the_end_of_a_run_raises_once_all_else_is_readable(site: Site) -> None:
    run = picky(site)
    run.step(9)
    with pytest.raises(TaskFailed, match=r"change the column back, run `hivesink recover demo\.events`"):
        run.committer.finish()
    assert site.rows() == [0, 2, 3, 5, 6, 8]
    site.job().run()
    site.check(range(9))
