"""What a run's counters say of it, by a clock of the test's own."""

from __future__ import annotations

from datetime import timedelta

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Rows
from hivesink.sink.commit.committed import Committed, RunCounters
from tests.sink.harness import TABLE


def _epoch(number: int, rows: int, rejected: int = 0, readable: timedelta | None = None) -> Committed:
    counts = Rows(read=rows, written=rows - rejected, rejected=rejected)
    return Committed(Epoch(number), replayed=False, rows=counts, readable_in=readable)


def test_totals_count_each_partition_once_and_the_rate_is_the_last_minutes() -> None:
    counters = RunCounters()
    counters.begin(100.0, None)
    counters.add(_epoch(1, 600, rejected=2), [(str(TABLE), "dt=1")], 110.0)
    assert counters.progress(0, 110.0).rows_per_second == 60
    counters.add(_epoch(2, 60), [(str(TABLE), "dt=1"), (str(TABLE), "dt=2")], 200.0)
    found = counters.progress(0, 200.0)
    assert (found.rows, found.epochs, found.partitions, found.rejected) == (660, 2, 2, 2)
    assert found.rows_per_second == 1
    assert counters.progress(0, 300.0).rows_per_second == 0


def test_waiting_rows_come_nearer() -> None:
    counters = RunCounters()
    counters.begin(0.0, 7)
    counters.add(_epoch(1, 5, readable=timedelta(seconds=20)), [], 1.0)
    found = counters.progress(5, 11.0)
    assert (found.waiting_rows, found.readable_in) == (5, timedelta(seconds=10))
    assert found.behind_records == 7
    assert counters.progress(0, 11.0).readable_in is None


def test_nothing_is_known_before_the_first_epoch() -> None:
    found = RunCounters().progress(3, 5.0)
    assert (found.rows_per_second, found.behind_records) == (None, None)
    assert found.waiting_rows == 3
