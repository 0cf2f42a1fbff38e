"""Estimates, which Hive never trusts, and the figures of a run: those of its log; a failure to count fails no epoch.

A user's ANALYZE at any moment leaves no wrong count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, BinaryIO

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import PartEntry, Rows
from hivesink.core.metrics import METRICS, Histogram, Sample
from hivesink.core.partition_commit import CommitRule
from hivesink.core.table import TableSpec
from hivesink.metastore.common import FLAG
from hivesink.ports.rows import FileContent
from hivesink.sink.commit.committed import RunFigures, Stopwatch
from hivesink.sink.commit.context import write_estimates
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.verify import figures
from tests.contracts.manifests import AT, small
from tests.crash.site import PLAIN, Site
from tests.sink.harness import LOCATION, SPEC, TABLE, Clock, Event, Job, Source, events, measure_lines

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


NOW = AT + timedelta(days=365)


def values(samples: Iterable[Sample]) -> dict[tuple[str, str], float]:
    by_log = {metric.name for metric in METRICS if metric.by_log}
    return {(one.metric, str(one.labels)): one.value for one in samples if one.metric in by_log}


def counted(site: Site) -> Job:
    job = site.job()
    log, rule = site.log, job.committer.spec.commit_rule
    job.committer.figures.count(lambda: figures(read_log(log), rule))
    return job


def test_they_go_on_from_the_log_and_are_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(Source(events(24)), options={"sink.rolling-policy.on-epoch": "false", "sink.log.retained-epochs": "2"})

    def require_same(job: Job) -> None:
        log = figures(read_log(site.log), job.committer.spec.commit_rule)
        assert values(job.committer.figures.samples(NOW)) == values(log.samples(NOW))

    job = counted(site)
    job.committer.recover()
    for _ in range(2):
        job.step()
        require_same(job)
    # It was killed. The next one publishes what waits, and is trimmed.
    job = counted(site)
    job.run()
    require_same(job)
    told = values(job.committer.figures.samples(NOW))
    assert told["rows", "{'result': 'written'}"] == 24
    assert told["epochs", "{'kind': 'batch'}"] == 6
    steps = {str(one.labels["step"]) for one in job.committer.figures.samples(NOW) if one.metric == "epoch_seconds"}
    assert {"write", "publish"} <= steps

    asked = []

    def fails() -> object:
        asked.append("all of the log")
        msg = "no log"
        raise OSError(msg)

    site = Site(Source(events(8)))
    job = counted(site)
    job.committer.figures.recount = fails  # type: ignore[assignment]
    # As if another run had written.
    job.committer.figures._log = None
    job.run()
    site.check(range(8))
    assert caplog.text.count("metrics may be wrong until the next start: OSError: no log") == 1
    assert asked == ["all of the log"]


def test_offsets_are_0_until_the_log_is_settled() -> None:
    site = Site(Source(events(8)), options={"sink.rolling-policy.on-epoch": "true"})
    job = site.job()
    job.committer.recover()
    job.step(4)
    site.metastore.go_down()
    job.step(4)
    site.metastore.come_up()
    after = site.job()
    site.metastore.go_down()
    after.committer.recover()
    offsets = after.committer.progress().offsets
    assert offsets is not None
    assert [*offsets.visible.values()] == [0] * len(offsets.read)
    assert {(each["visible"], each["complete"]) for each in replace(offsets, visible={}, complete={}).data} <= {(0, 0)}


def test_a_histogram_counts_up_to_each_bound() -> None:
    spent = Histogram()
    for seconds in (0.005, 0.1, 2, 1000):
        spent.add(seconds)
    told = {one.labels.get("le", one.ending): one.value for one in spent.samples("roll_seconds", {})}
    assert (told.pop("_count"), told.pop("_sum")) == (4, 1002.105)
    assert [*told.values()] == [1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4]
