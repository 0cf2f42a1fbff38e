"""What a run's counters say of it, by a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import PartEntry, Rows
from hivesink.sink.commit.committed import RunCounters, Stopwatch
from tests.contracts.manifests import small
from tests.sink.harness import TABLE, Clock


def _run(began: float, behind: int | None = None) -> tuple[RunCounters, Clock]:
    clock = Clock(ticks=began)
    counters = RunCounters(str(TABLE), "w", clock.tick)
    counters.begin(began, behind)
    return counters, clock


def _add(counters: RunCounters, rows: Rows, *places: str, waiting: int = 0, readable: timedelta | None = None) -> None:
    parts = tuple(PartEntry(str(TABLE), place, "/s", "/t", 1, 1) for place in places)
    manifest = replace(small(1), epoch=Epoch(1), rows=rows, add=parts)
    counters.add(manifest, waiting, readable, Stopwatch(lambda: 0.0), None)


def test_totals_count_each_partition_once_and_the_rate_is_the_last_minutes() -> None:
    counters, clock = _run(100.0)
    clock.ticks = 110.0
    _add(counters, Rows(read=600, written=598, rejected=2), "dt=1")
    assert counters.progress(0).rows_per_second == 60
    clock.ticks = 200.0
    _add(counters, Rows(read=60, written=60), "dt=1", "dt=2")
    found = counters.progress(0)
    assert (found.rows, found.epochs, found.partitions, found.rejected) == (660, 2, 2, 2)
    assert found.rows_per_second == 1
    clock.ticks = 300.0
    assert counters.progress(0).rows_per_second == 0


def test_waiting_rows_come_nearer() -> None:
    counters, clock = _run(0.0, 7)
    found = counters.progress(3)
    assert (found.rows_per_second, found.waiting_rows, found.behind_records) == (None, 3, 7)
    clock.ticks = 1.0
    _add(counters, Rows(read=5, written=5), waiting=5, readable=timedelta(seconds=20))
    clock.ticks = 11.0
    found = counters.progress(5)
    assert (found.waiting_rows, found.readable_in) == (5, timedelta(seconds=10))
    assert counters.progress(0).readable_in is None
