"""The commit protocol under every crash: each call of the storage and the metastore, in every way it can fail.

One run without faults counts the calls. Then there is a run for each call and mode, which dies or gets no answer
there; the job is started again, and the table must read as if nothing had happened.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.errors import HiveSinkError
from hivesink.metastore.memory import MemoryMetastore
from hivesink.storage.commit_log import RenameCommitLog, default_log_location
from hivesink.storage.memory import MemoryFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import Call, FaultyFileSystem, Kill, Mode, Plan
from tests.sink.harness import LOCATION, SPEC, TABLE, Clock, Job, Source, events, partitions, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.manifest import Manifest
    from hivesink.storage.fs import FileSystem

LOG = default_log_location(LOCATION, TABLE, "w")
EVENTS = 12
BATCH = 4


@dataclass
class Site:
    """What outlives a process: the files, the metastore, the source with Spark's checkpoint, and time."""

    fs: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    registrar: MemoryMetastore = field(default_factory=MemoryMetastore)
    source: Source = field(default_factory=lambda: Source(events(EVENTS)))
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.registrar.create(SPEC)

    def job(self, fs: FileSystem | None = None, registrar: Any = None, **options: Any) -> Job:
        files = fs or self.fs
        return Job(
            log=RenameCommitLog(files, LOG, "w"),
            store=RenameFileStore(files),
            registrar=registrar or self.registrar,
            source=self.source,
            clock=self.clock,
            **options,
        )

    def rows(self) -> list[int]:
        return readable(RenameFileStore(self.fs), self.registrar, partitions(self.source.events))

    def staged(self) -> set[str]:
        store = RenameFileStore(self.fs)
        return {path for folder in store.walk(LOCATION) for path in store.staged(folder)}

    def listed(self) -> set[str]:
        head: Manifest | None = None
        log = RenameCommitLog(self.fs, LOG, "w")
        with contextlib.suppress(HiveSinkError):
            head = log.manifest(log.view().head)
        return {part.staged for part in head.publishes()} if head else set()


def calls() -> list[Call]:
    site = Site()
    faulty = FaultyFileSystem(site.fs)
    site.job(faulty).run(BATCH)
    assert site.rows() == list(range(EVENTS))
    return faulty.calls


CALLS = calls()
STEPS = len(CALLS)


def modes(call: Call) -> Iterator[Mode]:
    yield from (Mode.BEFORE, Mode.AFTER)
    if call.changes:
        yield from (Mode.LOST, Mode.LATE, Mode.TORN)


def dies(site: Site, fs: FaultyFileSystem) -> None:
    """Run until the fault: a death, or an error that stops the query."""
    with contextlib.suppress(Kill, HiveSinkError):
        site.job(fs).run(BATCH)
    fs.release()


def check(site: Site) -> None:
    assert site.rows() == list(range(EVENTS))
    assert site.staged() <= site.listed()


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_fault_of_the_storage_at_any_call_loses_and_doubles_nothing(step: int) -> None:
    for mode in modes(CALLS[step - 1]):
        for late_after_restart in (False, True) if mode is Mode.LATE else (False,):
            site = Site()
            faulty = FaultyFileSystem(site.fs, Plan(step, mode))
            dies(site, faulty)
            if not late_after_restart:
                faulty.apply_late()
            site.job().run(BATCH)
            faulty.apply_late()
            site.job().run(BATCH)
            check(site)


@pytest.mark.parametrize("step", range(1, STEPS + 1, 3))
def test_a_second_death_during_recovery_changes_nothing(step: int) -> None:
    site = Site()
    dies(site, FaultyFileSystem(site.fs, Plan(step, Mode.AFTER)))
    again = 1
    while True:
        faulty = FaultyFileSystem(site.fs, Plan(again, Mode.AFTER))
        dies(site, faulty)
        if not faulty.dead:
            break
        again += 1
    site.job().run(BATCH)
    check(site)
