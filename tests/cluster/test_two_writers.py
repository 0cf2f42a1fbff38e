"""Two Spark applications at once, each a writer of its own, in one table and the same partitions of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded import server
from hivesink.spark.settings import LOGGING
from tests.cluster.hive import BY_SCAN, FROM_STATISTICS, Hive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses

# Each run of the suite has two writers in one process: tests/cli/test_waiting.py, tests/contracts/test_registrar.py.
pytestmark = [pytest.mark.spark, pytest.mark.long]

WRITERS = ("left", "right")
EPOCHS, EVENTS = 6, 300
"""Each writer's, and in each epoch."""
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
JOB = Path(__file__).with_name("writer_job.py")
REPOSITORY = JOB.parents[2]


def put(source: Path, writer: int) -> None:
    """A file for each epoch. The keys of one writer are even, the other's odd."""
    source.mkdir()
    for epoch in range(EPOCHS):
        numbers = range(epoch * EVENTS, (epoch + 1) * EVENTS)
        events = [{"id": 2 * number + writer, "dt": DAYS[number % len(DAYS)]} for number in numbers]
        (source / f"{epoch}.json").write_text("".join(f"{json.dumps(event)}\n" for event in events))


@pytest.fixture
def applications(addresses: Addresses, place: Place, tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Both drivers, ready to begin, and told to at one time."""
    (tmp_path / "log4j2.properties").write_text(LOGGING["errors"])
    running = []
    for number, writer in enumerate(WRITERS):
        put(tmp_path / f"source-{writer}", number)
        order = {
            "writer": writer,
            "table": place.table,
            "metastore": addresses.metastore,
            "source": (tmp_path / f"source-{writer}").as_uri(),
            "checkpoint": (tmp_path / f"checkpoint-{writer}").as_uri(),
            "ready": str(tmp_path / f"ready-{writer}"),
            "go": str(tmp_path / "go"),
            "spark": {
                "spark.master": "local[1]",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={tmp_path}/log4j2.properties",
                "spark.ui.enabled": "false",
                "spark.sql.catalogImplementation": "in-memory",
                **{f"spark.hadoop.{name}": value for name, value in addresses.site.hadoop.items()},
            },
        }
        running.append(
            subprocess.Popen(
                [sys.executable, str(JOB), json.dumps(order)],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        ready = [tmp_path / f"ready-{writer}" for writer in WRITERS]
        server.wait_until(
            lambda: all(file.exists() for file in ready) or any(app.poll() is not None for app in running), 180
        )
        (tmp_path / "go").touch()
        yield running
    finally:
        for app in running:
            app.kill()
            app.communicate()


def test_each_event_once_and_honest_figures(
    request: pytest.FixtureRequest, addresses: Addresses, place: Place, hive: Hive
) -> None:
    hive.ask(place.ddl("id BIGINT", "dt STRING", kind="TABLE"))
    hive.ask(f"ALTER TABLE {place.table} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    # A user's figures of one partition, which neither writer may leave standing.
    hive.ask(f"INSERT INTO {place.table} PARTITION (dt = '{DAYS[0]}') VALUES (-1)")
    hive.ask(f"ANALYZE TABLE {place.table} PARTITION (dt = '{DAYS[0]}') COMPUTE STATISTICS")
    applications: list[subprocess.Popen[str]] = request.getfixturevalue("applications")
    for app in applications:
        out, _ = app.communicate(timeout=300)
        assert app.returncode == 0, out[-4000:]

    total = EPOCHS * EVENTS * len(WRITERS)
    query = f"SELECT dt, count(*), count(DISTINCT id), min(id), max(id), sum(id) FROM {place.table} GROUP BY dt"
    with Hive(addresses.hiveserver2, FROM_STATISTICS) as trusting, Hive(addresses.hiveserver2, BY_SCAN) as scanning:
        found = {day: tuple(rest) for day, *rest in scanning.ask(query)}
        for day in DAYS:
            count = f"SELECT count(*) FROM {place.table} WHERE dt = '{day}'"
            assert trusting.one(count) == found[day][0]
    assert set(found) == set(DAYS)
    for place_of_day, day in enumerate(DAYS):
        own = [
            2 * number + writer
            for number in range(place_of_day, EPOCHS * EVENTS, len(DAYS))
            for writer in range(len(WRITERS))
        ] + ([-1] if day == DAYS[0] else [])
        assert found[day] == (len(own), len(own), min(own), max(own), sum(own))
    assert sum(counts[0] for counts in found.values()) == total + 1
    for writer in WRITERS:
        ingest = addresses.ingest(place.table, writer=writer)
        verdict = ingest.verify()
        assert verdict.totals.written == EPOCHS * EVENTS
        assert [finding for finding in verdict.findings if finding.level.name == "ERROR"] == []
        assert ingest.staged() == []
