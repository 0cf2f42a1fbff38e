"""Part of a day of a 10-second trigger over 24 hourly partitions, on a disk and on HDFS: only time is simulated."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog
from tests.cluster.ingest import Ingest

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.embedded.metastore import EmbeddedMetastore
    from tests.cluster.conftest import Place
    from tests.cluster.hive import Hive
    from tests.cluster.ingest import Addresses

TRIGGER, ROLLOVER, HOURS = 10, 30, 24
"""Seconds, minutes, partitions."""
MIDNIGHT = datetime(2026, 1, 1, tzinfo=timezone.utc)
WAIT = {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.rollover-interval": f"{ROLLOVER}min"}


def rows(epoch: int) -> pa.RecordBatch:
    """One of every hour."""
    days = [f"2026-01-01--{hour:02d}" for hour in range(HOURS)]
    return pa.RecordBatch.from_pydict(
        {"id": pa.array(range(epoch * HOURS, (epoch + 1) * HOURS), pa.int64()), "dt": days}
    )


def run(job: Ingest, epochs: int) -> Counter[int]:
    """Commit so many epochs, then end the query: how many partitions have how many files."""
    seconds = 0
    job.set("tick", lambda: float(seconds))
    job.set("now", lambda: MIDNIGHT + timedelta(seconds=seconds))
    for epoch in range(epochs):
        seconds += TRIGGER
        job.put(rows(epoch))
    job.finish()
    store, location = job.setup.context.store, job.setup.spec.target.location
    files = Counter(len(store.visible(f"{location}/dt=2026-01-01--{hour:02d}")) for hour in range(HOURS))
    assert job.setup.context.log.segments.lengths() == {}
    assert [found for found in job.verify().findings if found.level.name == "ERROR"] == []
    return files


def fewest(epochs: int) -> int:
    return math.ceil(epochs * TRIGGER / 60 / ROLLOVER)


EPOCHS = [190, pytest.param(1440, marks=pytest.mark.long)]


@pytest.mark.parametrize("epochs", EPOCHS)
def test_on_a_disk(metastore: EmbeddedMetastore, tmp_path: Path, epochs: int) -> None:
    name = f"day{epochs}.events"
    location = (tmp_path / "events").as_uri()
    ddl = f"CREATE TABLE {name} (id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET LOCATION '{location}'"
    apply([parse_ddl(ddl, "day.sql", lambda *_: ())], catalog(metastore.uri))
    job = Ingest(metastore.uri, name, options=WAIT)
    assert run(job, epochs) == {fewest(epochs): HOURS}
    found = ds.dataset(tmp_path / "events", partitioning="hive").to_table(["id"])
    assert sorted(found["id"].to_pylist()) == list(range(epochs * HOURS))


@pytest.mark.parametrize(
    "epochs", [pytest.param(190, marks=pytest.mark.long), pytest.param(720, marks=pytest.mark.long)]
)
def test_on_hdfs(addresses: Addresses, place: Place, hive: Hive, epochs: int) -> None:
    hive.ask(place.ddl("id BIGINT", "dt STRING"))
    assert run(addresses.ingest(place.table, options=WAIT), epochs) == {fewest(epochs): HOURS}
    counted = hive.ask(f"SELECT count(*), count(DISTINCT id), max(id) FROM {place.table}")
    assert counted == [(epochs * HOURS, epochs * HOURS, epochs * HOURS - 1)]
