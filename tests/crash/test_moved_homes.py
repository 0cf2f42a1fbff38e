"""Partitions that live elsewhere, in the table's folder or outside of it: leftovers, copies, repairs by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.log import StagingIntent
from hivesink.errors import NotWritable
from hivesink.sink.inspect.clean import clean, find_leftovers, find_strays, throw_away
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import PLAIN, Site
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.harness import LOCATION, SPEC, TABLE, UID, Event, Source, events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.table import TableSpec
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


def throw_strays(site: Site) -> int:
    context = site.job().context
    found = find_strays(context, NAME)
    throw_away(context, NAME, found)
    return len(found)


def copied(site: Site, to: str) -> None:
    for file in site.store.visible(site.places(TABLE)[DAY]):
        site.fs.write_new(f"{to}/{file.path.rpartition('/')[2]}", site.fs.read(file.path) or b"")


@pytest.mark.parametrize(("folder", "thrown"), [(f"{LOCATION}/backup/{DAY}", 0), (f"{LOCATION}/dt=backup", 2)])
def test_strays_are_thrown_away_where_a_partition_may_live(folder: str, thrown: int) -> None:
    site = site_at(HOMES[0], 4)
    site.job().run()
    copied(site, folder)
    assert throw_strays(site) == thrown
    site.check(range(4))
    assert throw_strays(site) == 0


def test_a_copy_in_a_partition_of_others_in_a_folder_of_another_shape_leaves_its_statistics_right() -> None:
    site = site_at(HOMES[0], 4)
    site.job().run()
    copied(site, f"{LOCATION}/archive")
    site.metastore.register(TABLE, "dt=z", f"{LOCATION}/archive")
    site.analyze()
    throw_strays(site)
    assert site.wrong_counts() == []


def test_strays_beside_a_backup_and_a_move_are_never_what_readers_see() -> None:
    site = site_at(HOMES[0], 4)
    site.job().run()
    copied(site, f"{LOCATION}/a-backup/{DAY}")
    site.move(DAY, f"{LOCATION}/dt=moved")
    throw_strays(site)
    site.check(range(4))


def test_strays_where_a_partition_was_moved_by_copying_it_are_never_what_readers_see() -> None:
    site = site_at(HOMES[0], 4)
    site.job().run()
    site.move(DAY, ELSEWHERE, copy=True)
    site.source.events += [Event(event.id + 4, event.dt) for event in events(4, partitions=1)]
    site.job().run()
    site.check(range(8))
    throw_strays(site)
    site.check(range(8))


@pytest.mark.parametrize("spec", [SPEC, PLAIN], ids=["partitioned", "plain"])
def test_statistics_of_a_place_are_distrusted_when_its_stray_goes(spec: TableSpec) -> None:
    site = Site(Source(events(4, partitions=1)), spec)
    site.job().run()
    ((partition, folder),) = site.places(TABLE).items()
    first = min(file.path for file in site.store.visible(folder))
    other = first.replace(f"part-{UID}-1-", f"part-{UID}-1-0")
    assert other != first
    site.fs.write_new(other, b"7\n")
    site.metastore.analyze(TABLE, partition, 5)
    assert throw_strays(site) == 1
    assert site.wrong_counts() == []
