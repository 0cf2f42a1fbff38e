"""Partitions that people drop or register elsewhere: every row is readable where the partition lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.stage import wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.stage import Stage

pytestmark = pytest.mark.spark

DAY = "dt = '2024-01-02'"
"""The day of the events 1, 4, 7, …"""


def drop(stage: Stage) -> None:
    stage.spark.sql(f"ALTER TABLE {stage.table} DROP PARTITION ({DAY})")


def register_elsewhere(stage: Stage) -> str:
    elsewhere = stage.folder / "elsewhere"
    stage.spark.sql(f"ALTER TABLE {stage.table} ADD PARTITION ({DAY}) LOCATION '{elsewhere}'")
    return str(elsewhere)


def once(act: Callable[[], Any]) -> Callable[..., Any]:
    """Before a port's method: act, at its first call only."""
    calls: list[None] = []

    def method(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not calls:
            calls.append(None)
            act()
        return real(*args, **kwargs)

    return method


@pytest.mark.main_path
def test_a_partition_dropped_between_two_runs_begins_anew(stage: Stage) -> None:
    stage.create()
    stage.put(range(9))
    stage.drain()
    drop(stage)
    stage.drain()
    assert stage.ids(DAY) == []
    stage.put(range(9, 18))
    stage.drain()
    # What the user dropped stays dropped.
    assert stage.ids(DAY) == [10, 13, 16]
    assert stage.ids(f"NOT {DAY}") == [number for number in range(18) if number % 3 != 1]


@pytest.mark.main_path
def test_a_partition_dropped_while_the_job_runs_begins_anew(stage: Stage) -> None:
    stage.create()
    stage.put(range(9))
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        drop(stage)
        stage.put(range(9, 18))
        query.processAllAvailable()
        assert stage.ids(DAY) == [10, 13, 16]
        stage.put(range(18, 27))
        query.processAllAvailable()
    finally:
        query.stop()
    assert stage.ids(DAY) == [10, 13, 16, 19, 22, 25]


@pytest.mark.parametrize("method", ["create", "mark"])
def test_a_partition_dropped_in_the_middle_of_an_epoch_holds_that_epochs_rows(stage: Stage, method: str) -> None:
    stage.create()
    stage.put(range(9))
    stage.drain()
    stage.put(range(9, 18))
    sink = stage.sink()
    # `create` decides the epoch, and nothing is published yet; `mark` comes when all is published.
    wrap(sink, "log", **{method: once(lambda: drop(stage))})
    stage.drain(sink)
    later = [number for number in stage.ids(DAY) if number >= 9]
    # A drop takes the files that are there with it, the user's wish; what is published after it is readable.
    assert later == ([10, 13, 16] if method == "create" else [])
    stage.put(range(18, 27))
    stage.drain()
    assert [number for number in stage.ids(DAY) if number >= 18] == [19, 22, 25]
    assert stage.ids(f"NOT {DAY}") == [number for number in range(27) if number % 3 != 1]


@pytest.mark.main_path
def test_a_partition_registered_elsewhere_before_the_job(stage: Stage) -> None:
    stage.create()
    place = register_elsewhere(stage)
    for number in range(2):
        stage.put(range(number * 9, number * 9 + 9))
    stage.drain()
    assert stage.ids() == list(range(18))
    (files,) = stage.query(f"SELECT count(DISTINCT input_file_name()) AS n FROM {stage.table} WHERE {DAY}")
    assert files.n >= 2
    assert not list(stage.location().rglob("dt=2024-01-02/*.parquet"))
    assert place


@pytest.mark.parametrize(("port", "method"), [("log", "create"), ("log", "mark"), ("registrar", "add")])
def test_a_partition_registered_elsewhere_while_the_job_runs(stage: Stage, port: str, method: str) -> None:
    stage.create()
    stage.put(range(9))
    sink = stage.sink()
    wrap(sink, port, **{method: once(lambda: register_elsewhere(stage))})
    stage.drain(sink)
    assert stage.ids() == list(range(9))
    stage.put(range(9, 18))
    stage.drain()
    assert stage.ids() == list(range(18))
    assert not list(stage.location().rglob("dt=2024-01-02/*.parquet"))
    assert stage.staged() == []
