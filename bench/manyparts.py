"""What an epoch of many parts costs the driver: `python -m bench.manyparts PARTS [--local] [--mode M]`.

Each part is alone in a partition that is new. Tasks and encoding aren't measured. In memory, or with `--local` on a
local disk; the metastore is in memory. One line a step: CPU seconds, seconds.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import logging
import pstats
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hivesink.core.log import StagingIntent
from hivesink.core.manifest import PartEntry, Rows
from hivesink.core.ownership import default_root
from hivesink.core.partfile import InProgress, PartName
from hivesink.errors import MetastoreUnreachable
from hivesink.sink.task.messages import TaskPlan, TaskReport
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import SPEC, TABLE, Event, Job, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.core.roll_policy import Encoding
    from hivesink.storage.fs import FileSystem

MODES: dict[str, dict[str, str]] = {
    "on-epoch": {},
    "rolling": {"sink.rolling-policy.on-epoch": "false", "sink.open-bytes-limit": "1GB"},
}
TASKS = 2


@dataclass
class Watch:
    """Prints what a step takes, without the tasks in it. `profiled` is the step to profile."""

    profiled: str | None
    _cpu: float = 0.0
    _wall: float = 0.0
    _profile: cProfile.Profile | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        gc.collect()
        self._cpu = self._wall = 0.0
        self._profile = cProfile.Profile() if name == self.profiled else None
        self.start()
        yield
        self.stop()
        print(f"{name:24}{self._cpu:8.2f}{self._wall:8.2f}", flush=True)
        if self._profile is not None:
            pstats.Stats(self._profile).strip_dirs().sort_stats("cumtime").print_stats(60)

    def start(self) -> None:
        self._cpu -= time.process_time()
        self._wall -= time.perf_counter()
        if self._profile is not None:
            self._profile.enable()

    def stop(self) -> None:
        if self._profile is not None:
            self._profile.disable()
        self._cpu += time.process_time()
        self._wall += time.perf_counter()


@dataclass
class ManyParts(Job):
    """A job whose tasks write a part, or a slice, for each row. The watch stands still meanwhile."""

    watch: Watch = field(default_factory=lambda: Watch(None))

    def write(self, plan: TaskPlan, rows: Sequence[Event]) -> list[TaskReport]:
        self.watch.stop()
        try:
            if plan.config["sink.rolling-policy.on-epoch"]:
                return [self._report(plan, task, rows[task::TASKS]) for task in range(TASKS)]
            return super().write(plan, rows)
        finally:
            self.watch.start()

    def encode(self, work: Sequence[Sequence[Encoding]], plan: TaskPlan) -> list[TaskReport]:
        self.watch.stop()
        try:
            return super().encode(work, plan)
        finally:
            self.watch.start()

    def _report(self, plan: TaskPlan, task: int, rows: Sequence[Event]) -> TaskReport:
        table = plan.target
        folders = tuple(table.folder(f"dt={row.dt}") for row in rows)
        self.log.touch(StagingIntent(plan.epoch, plan.attempt, task, task, 0, (*folders, *plan.asides)))
        parts = []
        for n, (row, folder) in enumerate(zip(rows, folders, strict=True)):
            part = self.store.create(InProgress(folder, PartName(plan.uid, plan.epoch, plan.attempt, task, task, n)))
            part.stream.write(b"%d\n" % row.id)
            done = part.close_for_commit()
            parts.append(PartEntry(table.name, f"dt={row.dt}", done.staged, done.target, done.length, 1))
        return TaskReport(task, task, Rows(len(rows), len(rows)), tuple(parts))


def measure(count: int, base: str | None, mode: str, watch: Watch) -> None:
    """In memory; with `base` in that folder. Each event is a row of a partition of its own, three times over."""
    print(mode)
    location = f"{base or '/warehouse'}/{mode}/events"
    registrar = MemoryMetastore(replace(SPEC, location=location))
    fs: FileSystem = MemoryFileSystem() if base is None else LocalFileSystem()
    source = Source([Event(number, f"{number % count:07d}") for number in range(3 * count)])

    def job() -> ManyParts:
        log = RenameCommitLog(fs, f"{default_root(location, TABLE)}/w")
        return ManyParts(log, RenameFileStore(fs), registrar, source, options=MODES[mode], watch=watch)

    first = job()
    first.committer.recover()
    with watch.step("commit"):
        first.step(count)
    if mode == "rolling":
        with watch.step("start, rows wait"):
            first = job()
            first.committer.recover()
    with watch.step("commit again"):
        first.step(count)
    with watch.step("stop"):
        first.committer.finish()
    for partition in registrar.partitions(TABLE):
        registrar.drop_partition(TABLE, partition)
    # The last epoch is decided, and can't be published.
    registrar.go_down()
    first.step(count)
    with suppress(MetastoreUnreachable):
        first.committer.finish()
    registrar.come_up()
    with watch.step("recover"):
        job().committer.recover()
    assert len(registrar.partitions(TABLE)) == count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", type=int)
    parser.add_argument("--local", action="store_true", help="on a local disk")
    parser.add_argument("--mode", choices=MODES, help="publish at each epoch, or roll; both by default")
    parser.add_argument("--profile", metavar="STEP")
    given = parser.parse_args()
    logging.disable()
    watch = Watch(given.profile)
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as folder:
        for mode in [given.mode] if given.mode else MODES:
            measure(given.parts, folder if given.local else None, mode, watch)


if __name__ == "__main__":
    main()
