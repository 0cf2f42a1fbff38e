"""A day of a 10-second trigger over 24 hourly partitions, with time as an argument and files in memory."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.rolling import OpenRows
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, Clock, Event, Job, Source

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TRIGGER = timedelta(seconds=10)
EPOCHS, HOURS, TASKS = 8640, 24, 2
SPARK_EPOCHS = 50
RARE = 30
"""Minutes of the rollover that the day's line is about; Flink's default."""
MIDNIGHT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def batch(number: int) -> list[Event]:
    """Rows of every hour in each task: the worst that a stream can do to a table of hourly partitions."""
    first = number * HOURS * TASKS
    return [Event(first + row, f"2026-01-01--{row // TASKS:02d}") for row in range(HOURS * TASKS)]


class DayClock(Clock):
    """Both clocks go by the ticks alone."""

    def now(self) -> datetime:
        return MIDNIGHT + timedelta(seconds=self.ticks)


@dataclass
class Day:
    """What a day leaves: files by partition, the longest wait of a row, bytes of manifests, segments left."""

    files: Counter[str]
    longest: timedelta
    manifests: list[int]
    rows: int
    segments: int


def simulate(rollover: str, epochs: int = EPOCHS) -> Day:
    fs, metastore, clock = MemoryFileSystem(), MemoryMetastore(), DayClock()
    metastore.create(SPEC)
    options = {
        "sink.rolling-policy.on-epoch": "false",
        "sink.rolling-policy.rollover-interval": rollover,
        "sink.log.retained-epochs": str(2 * epochs),
    }
    log = RenameCommitLog(fs, "/logs/w")
    job = Job(log, RenameFileStore(fs), metastore, Source([]), clock, options, tasks=TASKS)
    job.committer.recover()
    for number in range(epochs):
        clock.ticks += TRIGGER.total_seconds()
        job.source.events += batch(number)
        job.step(HOURS * TASKS)
    job.committer.finish()
    files: Counter[str] = Counter()
    for day in {event.dt for event in batch(0)}:
        files[day] = len(job.store.visible(f"{LOCATION}/dt={day}"))
    longest, rows = timedelta(0), OpenRows()
    sizes = []
    for epoch in log.view().manifests:
        manifest = log.manifest(epoch)
        for key in manifest.rolled:
            longest = max(longest, manifest.at - rows.buckets[key].first)
        rows = rows.after(manifest)
        sizes.append(fs.length(f"{log.location}/manifests/{epoch:010d}.json") or 0)
    found = sum(part.rows for epoch in log.view().manifests for part in log.manifest(epoch).add)
    return Day(files, longest, sizes, found, len(log.segments.lengths()))


@pytest.mark.parametrize("minutes", [5, 30])
def test_an_hour_makes_a_file_for_each_rollover_of_each_partition(minutes: int) -> None:
    epochs = 360
    day = simulate(f"{minutes}min", epochs)
    assert day.rows == epochs * HOURS * TASKS
    assert set(day.files.values()) == {math.ceil(60 / minutes)}
    assert day.longest <= timedelta(minutes=minutes) + TRIGGER
    assert day.segments == 0


def spark_files(spark: SparkSession, folder: Path) -> int:
    """The files that Spark's own sink makes of the day, from those of its first epochs."""
    source = folder / "source"
    source.mkdir()
    for number in range(SPARK_EPOCHS):
        lines = "".join(f'{{"id": {event.id}, "dt": "{event.dt}"}}\n' for event in batch(number))
        (source / f"{number:04d}.json").write_text(lines)
    events = spark.readStream.schema("id BIGINT, dt STRING").option("maxFilesPerTrigger", 1).json(str(source))
    writer: Any = events.repartition(TASKS).writeStream.format("parquet").partitionBy("dt")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start(str(folder / "table")).awaitTermination()
    assert spark.read.parquet(str(folder / "table")).count() == SPARK_EPOCHS * HOURS * TASKS
    return len(list((folder / "table").rglob("*.parquet"))) * EPOCHS // SPARK_EPOCHS


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("minutes", [RARE, 5])
def test_a_day_of_small_epochs_makes_few_files(
    minutes: int, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day, others = simulate(f"{minutes}min"), spark_files(spark, tmp_path)
    ours = day.files.total()
    with capsys.disabled():
        print(f"\nday files hivesink={ours} spark={others}" if minutes == RARE else "")
        print(
            f"rollover {minutes} min: {ours / others:.2%} of the files (Spark's: {SPARK_EPOCHS} epochs, multiplied), "
            f"rows waited {day.longest} at most, manifests {sum(day.manifests) / len(day.manifests):.0f} bytes on "
            f"average, {max(day.manifests)} at most"
        )
    assert day.rows == EPOCHS * HOURS * TASKS
    for count in day.files.values():
        assert count <= 1 + math.ceil(24 * 60 / minutes)
    assert day.longest <= timedelta(minutes=minutes) + TRIGGER
    if minutes == RARE:
        assert ours < others / 100
