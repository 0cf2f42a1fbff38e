"""Partitions that live elsewhere, in the table's folder or outside of it: leftovers, copies, repairs by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.log import StagingIntent
from hivesink.errors import NotWritable
from hivesink.sink.inspect.clean import clean, find_leftovers
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import Site
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.harness import LOCATION, TABLE, UID, Event, Source, events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.sink.task.messages import TaskPlan, TaskReport
    from hivesink.storage.fs import FileSystem
    from tests.crash.site import SiteJob

NAME = str(TABLE)
DAY = "dt=2024-01-01"
ELSEWHERE = "/elsewhere/x"
ANOTHERS = f"{LOCATION}/dt=another"
HOMES = [f"{LOCATION}/{DAY}", f"{LOCATION}/archive/{DAY}", f"{LOCATION}/archive", ELSEWHERE]


def site_at(home: str, count: int = 12) -> Site:
    site = Site(Source(events(count, partitions=1)))
    site.metastore.register(TABLE, DAY, home)
    return site


def job_with_a_lost_attempt(site: Site, fs: FileSystem | None = None, folder: str | None = None) -> SiteJob:
    """An attempt of a task is killed when its part is pending; Spark has run the task again."""
    job = site.job(fs)
    whole = job.write

    def write(plan: TaskPlan, rows: Sequence[Event]) -> list[TaskReport]:
        at = folder or plan.target.folder(DAY)
        job.log.touch(StagingIntent(plan.epoch, plan.attempt, 77, 0, 0, (at,)))
        site.fs.write_new(f"{at}/.part-{UID}-{plan.epoch}-{plan.attempt}t77-0-0.parquet.pending", b"1\n")
        return whole(plan, rows)

    job.write = write  # type: ignore[method-assign]  # this one job's tasks
    return job


@pytest.mark.parametrize("home", HOMES)
def test_what_a_killed_attempt_left_is_swept(home: str) -> None:
    site = site_at(home)
    job_with_a_lost_attempt(site).run()
    site.check(range(12))


@pytest.mark.parametrize("home", HOMES)
def test_what_a_killed_attempt_left_is_swept_by_the_next_start(home: str) -> None:
    probe = site_at(home)
    counting = FaultyFileSystem(probe.fs)
    job_with_a_lost_attempt(probe, counting).run(batches=1)
    decided = next(call for call in counting.calls if call.name == "rename" and ".json." in call.path)
    site = site_at(home)
    with pytest.raises(Kill):
        job_with_a_lost_attempt(site, FaultyFileSystem(site.fs, Plan(decided.number, Mode.AFTER))).run(batches=1)
    site.job().run()
    site.check(range(12))


class Sticky(MemoryFileSystem):
    """A table's folder in which only who made a partition's folder may remove it."""

    def remove_empty(self, folder: str) -> bool:
        if folder == ANOTHERS:
            raise NotWritable(folder, "it is another user's, and the sticky bit is set")
        return super().remove_empty(folder)


def test_an_empty_folder_that_may_not_be_removed_stops_nobody() -> None:
    site = Site(Source(events(12, partitions=1)), fs=Sticky())
    job_with_a_lost_attempt(site, folder=ANOTHERS).run()
    assert site.rows() == list(range(12))
    assert site.staged() == set()
    assert site.fs.is_folder(ANOTHERS)


@pytest.mark.parametrize("home", HOMES)
def test_clean_finds_what_a_late_task_left(home: str) -> None:
    """It outlived its driver by more epochs than recovery looks back."""
    site = site_at(home, 100)
    site.job().run()
    site.fs.write_new(f"{home}/.part-{UID}-2-aaaaaaaaaat9-0-0.snappy.parquet.pending", b"1\n")
    context = site.job().context
    clean(context, find_leftovers(context, NAME), NAME)
    assert site.staged() == set()
    site.check(range(100))
