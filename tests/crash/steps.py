"""The enumeration of crashes over any file system: what outlives a process, and how one case goes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.core.ownership import default_root
from hivesink.errors import HiveSinkError
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Clock, Job, Source, events, partitions, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.core.manifest import Manifest
    from hivesink.storage.fs import FileSystem
    from tests.crash.faults import Call

EVENTS = 12
BATCH = 4


class ByCount:
    """A rolling policy by the number of rows beside the ages."""

    count = 3

    def __init__(self, *_: object) -> None: ...

    def should_roll(self, _partition: str, rows: int, _size: int, open_for: timedelta, idle_for: timedelta) -> bool:
        return rows >= self.count or open_for >= timedelta(minutes=5) or idle_for >= timedelta(minutes=1)


By1, By2, By4 = (type(f"By{count}", (ByCount,), {"count": count}) for count in (1, 2, 4))
By3 = ByCount


def by_count(count: int) -> dict[str, str]:
    """Options with which a bucket is rolled once it has `count` rows, 1 to 4."""
    return {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.class": f"tests.crash.steps:By{count}"}


ROLLING = by_count(3)
"""Rows wait, and some buckets are rolled in the middle of a run, the others at its end."""


@dataclass
class Site:
    """What outlives a process: the files, the metastore, the source with Spark's checkpoint, and time.

    `connect` is how a new process comes to the files; `root` is the folder, or file system, that they are in.
    """

    connect: Callable[[], FileSystem]
    root: str = ""
    count: int = EVENTS
    tasks: int = 2
    registrar: MemoryMetastore = field(default_factory=MemoryMetastore)
    source: Source = field(init=False)
    clock: Clock = field(default_factory=Clock)
    faults: Callable[[FileSystem, Plan | None], FaultyFileSystem] = FaultyFileSystem
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = Source(events(self.count))
        self.registrar.create(replace(SPEC, location=self.location))

    @property
    def location(self) -> str:
        return f"{self.root}{LOCATION}"

    def log(self, fs: FileSystem | None = None) -> RenameCommitLog:
        return RenameCommitLog(fs or self.connect(), f"{default_root(self.location, TABLE)}/w")

    def job(self, fs: FileSystem | None = None) -> Job:
        files = fs or self.connect()
        return Job(
            log=self.log(files),
            store=RenameFileStore(files),
            registrar=self.registrar,
            source=self.source,
            clock=self.clock,
            tasks=self.tasks,
            options=self.options,
        )

    def faulty(self, plan: Plan | None = None) -> FaultyFileSystem:
        return self.faults(self.connect(), plan)

    def run(self) -> None:
        self.job().run(BATCH)

    def dies(self, fs: FaultyFileSystem) -> BaseException | None:
        """Run until the fault: a death, or an error that stops the query."""
        died: BaseException | None = None
        try:
            self.job(fs).run(BATCH)
        except (Kill, HiveSinkError) as error:
            died = error
        fs.release()
        return died

    def check(self, case: object = "") -> None:
        """Every row once, no staged file that the log doesn't list, and no row that still waits."""
        store = RenameFileStore(self.connect())
        found = readable(store, self.registrar, partitions(self.source.events))
        assert found == list(range(self.count)), case
        staged = {path for folder in store.walk(self.location) for path in store.staged(folder)}
        assert staged <= self._listed(), case
        assert self.log().segments.lengths() == {}, case

    def _listed(self) -> set[str]:
        head: Manifest | None = None
        log = self.log()
        with contextlib.suppress(HiveSinkError):
            head = log.manifest(log.view().head)
        return {part.staged for part in head.add} if head else set()


@dataclass(frozen=True, slots=True)
class Case:
    """A fault at one call. `late_first`: what is held back arrives before the restart, not after it."""

    call: Call
    mode: Mode
    late_first: bool = False


def calls_of(site: Site) -> list[Call]:
    """The calls of a run without faults."""
    faulty = site.faulty()
    site.job(faulty).run(BATCH)
    site.check()
    return faulty.calls


def cases(call: Call) -> Iterator[Case]:
    """The ways in which `call` can fail."""
    yield from (Case(call, Mode.BEFORE), Case(call, Mode.AFTER))
    if call.changes:
        yield from (Case(call, Mode.LOST), Case(call, Mode.TORN))
        yield from (Case(call, Mode.LATE, late_first) for late_first in (True, False))


def play(site: Site, case: Case) -> None:
    """Fail, start again, and again; then all must be as if nothing had happened."""
    faulty = site.faulty(Plan(case.call.number, case.mode))
    died = site.dies(faulty)
    names = [call.name for call in faulty.calls]
    assert names[case.call.number - 1 : case.call.number] == [case.call.name], (case, repr(died))
    if case.late_first:
        faulty.apply_late()
    site.run()
    faulty.apply_late()
    site.run()
    site.check(case)
