"""The sensor in a real Airflow, 2 and 3, against a table on the real metastore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.tables.waiting import PartitionWait
from tests.airflow.conftest import Airflow
from tests.integration.stage import wait_until
from tests.tables import daily
from tests.tables.daily import Daily

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
DAY = "dt=2024-01-02"
TEMPLATE = "dt={{ params.day }}"
SENDS = 240
"""Seconds for a step of the scheduler, on a busy machine."""


@pytest.fixture
def table(metastore: EmbeddedMetastore, tmp_path: Path) -> str:
    return daily.create(metastore.uri, tmp_path)


def test_what_a_task_returns_and_how_it_fails(
    airflow: Airflow, table: str, metastore: EmbeddedMetastore, tmp_path: Path
) -> None:
    writer = Daily(table, metastore.uri)
    writer.read(2, mark=3)
    usual = {"table": table, "partition": TEMPLATE, "metastore": metastore.uri, "poke_interval": 0.2, "timeout": 1}
    sensors = {
        "committed": usual,
        "waiting": usual | {"partition": "dt=2024-01-03"},
        "away": usual | {"metastore": "thrift://127.0.0.1:1"},
        "unknown": usual | {"table": f"{table}s", "timeout": 600},
        "elsewhere": usual | {"partition": "day=2024-01-02", "timeout": 600},
        "skipped": usual | {"partition": "day=2024-01-02", "timeout": 600, "soft_fail": True},
    }
    said = airflow.run(HERE / "dags" / "sensors.py", SENSORS=json.dumps(sensors), OUT=str(tmp_path))
    states = json.loads((tmp_path / "states.json").read_text())
    assert {name: state for name, state in states.items() if name in sensors} == {
        "committed": "success",
        "waiting": "failed",
        "away": "failed",
        "unknown": "failed",
        "elsewhere": "failed",
        "skipped": "skipped",
    }
    looked = PartitionWait(table, DAY, metastore=metastore.uri).look()
    assert json.loads((tmp_path / "committed.json").read_text()) == looked.commits
    reason = "writer ingest: it is over at 2024-01-04 00:00:00 UTC, the watermark is 2024-01-03 00:00:00 UTC"
    away = "the metastore at thrift://127.0.0.1:1 can't answer"
    for line in (
        str(looked),
        f"dt=2024-01-03: {reason}",
        f"{DAY}: {away}",
        f"AirflowFailException: table {table}s is not in the metastore",
        f"AirflowFailException: 'day=2024-01-02' is no partition of {table}: write dt=…",
    ):
        assert line in said
    writer.close()


def test_a_worker_is_free_between_two_looks(
    airflow: Airflow, table: str, metastore: EmbeddedMetastore, tmp_path: Path
) -> None:
    usual = {"table": table, "partition": TEMPLATE, "metastore": metastore.uri}
    sensors = {"rescheduled": usual | {"mode": "reschedule", "poke_interval": 5}}
    with airflow.servers(SENSORS=json.dumps(sensors), OUT=str(tmp_path)):

        def told(what: str) -> None:
            wait_until(lambda: what in airflow.logged("*.log"), SENDS)

        told(f"{DAY}: no writer has written to {table} yet")
        writer = Daily(table, metastore.uri)
        writer.read(2, mark=2)
        told(f"{DAY}: writer ingest: it is over at 2024-01-03 00:00:00 UTC")
        writer.read(mark=3)
        kept = tmp_path / "rescheduled.json"
        wait_until(kept.exists, SENDS)
        assert _rows(json.loads(kept.read_text())) == 1
    writer.close()


def _rows(returned: Any) -> int:
    [commit] = returned["commits"]
    return int(commit["commit"]["rows"])
