"""Rows that wait across epochs, on real Spark: few files, and no row that waits for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.stage import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.sink.commit.committed import Committed
    from hivesink.spark.query import HiveQuery
    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

WAIT = {"sink.rolling-policy.on-epoch": "false"}
SOON = {
    **WAIT,
    "sink.rolling-policy.inactivity-interval": "1s",
    "sink.rolling-policy.check-interval": "200ms",
}


def files(stage: Stage) -> list[str]:
    return sorted(path.parent.name for path in stage.location().rglob("*.parquet"))


def waiting(stage: Stage) -> list[str]:
    return [path.name for path in (stage.log() / "segments").glob("*.arrow")]


def waits(stage: Stage, numbers: range, settings: Mapping[str, str]) -> HiveQuery:
    """A query in a new table, whose rows wait."""
    stage.create()
    stage.put(numbers)
    query = stage.begin(stage.sink(options=settings), trigger="100 milliseconds")
    query.processAllAvailable()
    return query


def wait_through_a_kill(stage: Stage, numbers: range) -> None:
    """As a kill leaves it: Spark's own handle ends the query without the sink's end."""
    query = waits(stage, numbers, WAIT)
    query.handle.stop()
    query._ended.set()
    query._timer.join()


def test_the_rows_of_many_epochs_become_one_file_a_partition(stage: Stage) -> None:
    stage.create()
    for number in range(4):
        stage.put(range(number * 9, number * 9 + 9))
    done: list[Committed] = []
    stage.drain(stage.sink(options=WAIT, on_commit=done.append))
    assert stage.ids() == list(range(36))
    assert files(stage) == ["dt=2024-01-01", "dt=2024-01-02", "dt=2024-01-03"]
    assert [one.files for one in done] == [0, 0, 0, 0]
    assert waiting(stage) == []
    stage.drain(stage.sink(options=WAIT))
    assert stage.ids() == list(range(36))


def test_rows_become_readable_while_no_more_come(stage: Stage) -> None:
    query = waits(stage, range(9), SOON)
    try:
        # On a local disk Hadoop's listing fails beside a rename, so nobody reads meanwhile.
        wait_until(lambda: len(files(stage)) == 3)
        stage.put(range(9, 18))
        wait_until(lambda: len(files(stage)) == 6)
        assert query.isActive
    finally:
        query.stop()
    assert stage.ids() == list(range(18))
    assert waiting(stage) == []


def test_a_column_that_is_added_while_rows_wait_is_null_in_them(stage: Stage) -> None:
    wait_through_a_kill(stage, range(3))
    stage.spark.sql(f"ALTER TABLE {stage.table} ADD COLUMNS (more INT)")
    stage.put(range(3, 6))
    stage.drain(stage.sink(options=WAIT))
    rows = stage.query(f"SELECT id, more FROM {stage.table} ORDER BY id")
    assert [tuple(row) for row in rows] == [(number, None) for number in range(6)]


def test_a_stopped_query_may_keep_what_waits(stage: Stage) -> None:
    keeps = {**WAIT, "sink.on-stop": "keep"}
    waits(stage, range(9), keeps).stop()
    assert stage.ids() == []
    stage.drain(stage.sink(options=keeps))
    assert stage.ids() == list(range(9))
