"""Partitions that people drop or register elsewhere: every row is readable where the partition lives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.integration.stage import ON_EPOCH, once, wrap

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.stage import Stage

pytestmark = pytest.mark.spark

DAY = "dt = '2024-01-02'"
"""The day of the events 1, 4, 7, …"""


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def drop(stage: Stage) -> None:
    stage.spark.sql(f"ALTER TABLE {stage.table} DROP PARTITION ({DAY})")


def register_elsewhere(stage: Stage) -> Path:
    elsewhere = stage.folder / "elsewhere"
    stage.spark.sql(f"ALTER TABLE {stage.table} ADD PARTITION ({DAY}) LOCATION '{elsewhere}'")
    return elsewhere


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


@pytest.mark.main_path
def test_a_partition_registered_elsewhere_before_the_job(stage: Stage) -> None:
    stage.create()
    place = register_elsewhere(stage)
    for number in range(2):
        stage.put(range(number * 9, number * 9 + 9))
    stage.drain()
    assert stage.ids() == list(range(18))
    assert len(list(place.glob("part-*.parquet"))) == 2
    assert not list(stage.location().rglob("dt=2024-01-02/*.parquet"))


# tests/crash/test_metastore_faults.py has every moment.
@pytest.mark.parametrize(
    ("port", "method"),
    [
        pytest.param("store", "set_aside", marks=pytest.mark.long),
        ("log", "create"),
        pytest.param("registrar", "add", marks=pytest.mark.long),
    ],
)
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
