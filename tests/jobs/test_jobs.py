"""The job modules as a user runs them, on real servers."""

from __future__ import annotations

import json
import runpy
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_path
from hivesink.metastore import catalog
from tests.integration.stage import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


@pytest.fixture
def tables(metastore: EmbeddedMetastore, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The tables of ddl/, freshly made; Hive's own reader reads them."""
    monkeypatch.setenv("HIVESINK_METASTORE", metastore.uri)
    monkeypatch.setenv("TRIGGER", "availableNow")
    for table in ("flights", "userinfo"):
        spark.sql(f"DROP TABLE IF EXISTS demo.{table}")
    apply(parse_path(ROOT / "ddl"), catalog(metastore.uri))
    spark.conf.set("spark.sql.hive.convertMetastoreParquet", "false")
    return spark


def test_flights_from_a_folder(tables: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = {"year": 2013, "month": 1, "day": 1, "carrier": "UA", "time_hour": "2013-01-02T03:00:00Z"}
    next_day = {"CARRIER": "AA", "tailnum": None, "time_hour": "2013-01-02T05:00:00Z"}
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text(json.dumps(late) + "\n" + json.dumps(next_day) + "\n")
    monkeypatch.setenv("FOLDER", str(tmp_path / "events"))
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "checkpoint"))

    for _ in range(2):
        runpy.run_path(str(ROOT / "jobs" / "flights.py"), run_name="__main__")

    rows = tables.sql("SELECT carrier, dt FROM demo.flights ORDER BY dt").collect()
    assert [tuple(row) for row in rows] == [("UA", "2013-01-01"), ("AA", "2013-01-02")]


@pytest.mark.kafka
def test_userinfo_from_kafka(tables: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, half_past = f"userinfo-{tmp_path.name}", datetime(2026, 11, 20, 23, 30, tzinfo=timezone.utc)
    records = {"userId": 1, "userName": "a"}, {"USERID": 2, "username": None}
    Topic.create(kafka, topic, 1).put_raw([(0, json.dumps(record).encode()) for record in records], half_past)
    monkeypatch.setenv("KAFKA_SERVERS", kafka)
    monkeypatch.setenv("KAFKA_TOPIC", topic)
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "checkpoint"))

    runpy.run_path(str(ROOT / "jobs" / "userinfo.py"), run_name="__main__")

    rows = tables.sql("SELECT userid, username, dt FROM demo.userinfo ORDER BY userid").collect()
    # 23:30 UTC in winter is half past midnight in Berlin.
    assert [tuple(row) for row in rows] == [(1, "a", "2026-11-21--00"), (2, None, "2026-11-21--00")]
