"""Estimates, a table that is made again, and what a run's counters say.

Hive never trusts a figure of the sink's, and a user's ANALYZE at any moment leaves no wrong count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import PartEntry, Rows
from hivesink.core.partition_commit import CommitRule
from hivesink.metastore.common import FLAG
from hivesink.sink.commit.committed import RunFigures, Stopwatch
from hivesink.sink.commit.context import write_estimates
from tests.contracts.manifests import small
from tests.crash.site import PLAIN, Site
from tests.sink.harness import LOCATION, SPEC, TABLE, Clock, Event, Job, Source, events, measure_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.table import TableSpec
    from hivesink.ports.rows import FileContent

PLACE = (str(TABLE), "dt=a")


class Around:
    """Every method of `inner`, with `before` called first by the method's name."""

    def __init__(self, inner: Any, before: Callable[[str], None]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def call(*arguments: Any) -> Any:
            self._before(name)
            return found(*arguments)

        return call


@pytest.fixture
def site() -> Site:
    return Site(Source([Event(number, "a") for number in range(4)]))


def write(job: Job, before: Callable[[str], None] = lambda _: None) -> None:
    around: dict[str, Any] = {port: Around(getattr(job.context, port), before) for port in ("store", "registrar")}
    write_estimates(replace(job.context, **around), [PLACE], measure_lines)


def test_an_analyze_at_every_moment_of_the_estimates_leaves_no_wrong_count(site: Site) -> None:
    site.tasks = 1
    job = site.job()
    job.step()
    calls: list[str] = []
    write(job, calls.append)
    assert site.metastore.parameters(TABLE, "dt=a") == {
        "numFiles": "1", "totalSize": "8", "numRows": "4", "rawDataSize": "8",
    }  # fmt: skip
    for moment in range(1, len(calls) + 2):
        left = moment

        def analyze(_: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                site.analyze()

        write(job, analyze)
        if left:
            site.analyze()
        assert site.wrong_counts() == []
        # The next epoch finds it, whenever it came.
        site.source.events.append(Event(4 + moment, "a"))
        job.step()
        assert site.wrong_counts() == []
        assert FLAG not in site.metastore.parameters(TABLE, "dt=a")


@pytest.mark.parametrize("spec", [SPEC, PLAIN], ids=["partitioned", "plain"])
def test_the_end_counts_all_that_the_run_has_touched_and_undoes_an_analyze(spec: TableSpec) -> None:
    site = Site(Source(events(6)), spec)
    job = site.job()
    job.step()
    assert all(FLAG not in site.metastore.parameters(TABLE, place) for place in site.places(TABLE))
    site.analyze()
    job.run()
    for place, location in site.places(TABLE).items():
        figures = site.metastore.parameters(TABLE, place)
        assert figures["numRows"] == str(len(site.ids(location)))
        assert FLAG not in figures


def test_a_start_counts_the_epochs_that_it_finishes(site: Site) -> None:
    job = site.job()
    site.metastore.go_down()
    job.step()
    site.metastore.come_up()
    site.job().run(batches=0)
    assert {site.metastore.parameters(TABLE, place)["numRows"] for place in site.places(TABLE)} == {"4"}


def test_the_flag_of_a_partitioned_table_itself_goes_with_its_partitions(site: Site) -> None:
    job = site.job()
    for event in (Event(4, "a"), Event(5, "a"), Event(6, "new")):
        site.metastore.analyze_table(TABLE)
        site.source.events.append(event)
        job.step()
        assert FLAG not in site.metastore.table_parameters(TABLE)


def test_a_file_of_another_format_costs_its_partition_the_estimates_only(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    job = site.job()
    job.step()
    site.analyze()

    def measure(_: str, stream: BinaryIO) -> FileContent:
        raise ValueError(str(stream.read(1)))

    write_estimates(job.context, [PLACE], measure)
    assert FLAG not in site.metastore.parameters(TABLE, "dt=a")
    assert f"no estimate of the rows in {LOCATION}/dt=a" in caplog.text


def _add(counters: RunFigures, rows: Rows, *places: str, began: float = 0.0) -> None:
    parts = tuple(PartEntry(str(TABLE), place, "/s", "/t", 1, 1) for place in places)
    manifest = replace(small(1), epoch=Epoch(1), rows=rows, add=parts)
    counters.ended(manifest, 0, Stopwatch(lambda: began), None)


def test_totals_count_each_partition_once_and_the_rate_is_the_last_minutes() -> None:
    clock = Clock(ticks=100.0)
    counters = RunFigures(str(TABLE), "w", CommitRule(str(TABLE)), clock.tick)
    clock.ticks = 110.0
    _add(counters, Rows(read=600, written=598, rejected=2), "dt=1", began=100.0)
    assert counters.progress().rows_per_second == 60
    clock.ticks = 200.0
    _add(counters, Rows(read=60, written=60), "dt=1", "dt=2")
    found = counters.progress()
    assert (found.rows, found.epochs, found.partitions, found.rejected) == (660, 2, 2, 2)
    assert found.rows_per_second == 1
    clock.ticks = 300.0
    assert counters.progress().rows_per_second == 0
