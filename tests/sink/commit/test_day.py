"""An hour of a 10-second trigger over 24 hourly partitions, with time as an argument and files in memory."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest

from hivesink.core.rolling import OpenRows
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, Clock, Event, Job, Source

TRIGGER = timedelta(seconds=10)
EPOCHS, HOURS, TASKS = 360, 24, 2
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
    """What is left: files by partition, the longest wait of a row, rows in parts, segments."""

    files: Counter[str]
    longest: timedelta
    rows: int
    segments: int


def simulate(rollover: str) -> Day:
    fs, metastore, clock = MemoryFileSystem(), MemoryMetastore(), DayClock()
    metastore.create(SPEC)
    options = {
        "sink.rolling-policy.on-epoch": "false",
        "sink.rolling-policy.rollover-interval": rollover,
        "sink.log.retained-epochs": str(2 * EPOCHS),
    }
    log = FileCommitLog(fs, "/logs/w")
    job = Job(log, RenameFileStore(fs), metastore, Source([]), clock, options, tasks=TASKS)
    job.committer.recover()
    for number in range(EPOCHS):
        clock.ticks += TRIGGER.total_seconds()
        job.source.events += batch(number)
        job.step(HOURS * TASKS)
    job.committer.finish()
    files: Counter[str] = Counter()
    for day in {event.dt for event in batch(0)}:
        files[day] = len(job.store.visible(f"{LOCATION}/dt={day}"))
    longest, rows = timedelta(0), OpenRows()
    for epoch in log.view().manifests:
        manifest = log.manifest(epoch)
        for key in manifest.rolled:
            longest = max(longest, manifest.at - rows.buckets[key].first)
        rows = rows.after(manifest)
    found = sum(part.rows for epoch in log.view().manifests for part in log.manifest(epoch).add)
    return Day(files, longest, found, len(log.segments.lengths()))


@pytest.mark.parametrize("minutes", [5, 30])
def test_an_hour_makes_a_file_for_each_rollover_of_each_partition(minutes: int) -> None:
    day = simulate(f"{minutes}min")
    assert day.rows == EPOCHS * HOURS * TASKS
    assert set(day.files.values()) == {math.ceil(60 / minutes)}
    assert day.longest <= timedelta(minutes=minutes) + TRIGGER
    assert day.segments == 0
