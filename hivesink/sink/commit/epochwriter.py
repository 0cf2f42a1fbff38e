"""Tries at one epoch, before its decision: everything here may be thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.bucket import aside, folder, same_location
from hivesink.core.manifest import Rows
from hivesink.errors import (
    BadRecord,
    EpochTaken,
    HiveSinkError,
    MetastoreUnreachable,
    PartitionElsewhere,
    RegistrationFailed,
    RegistrationUnknown,
    StoreUnavailable,
    TaskFailed,
)
from hivesink.sink.task.messages import InputShape, TablePlan, TaskPlan, TaskReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import PartEntry
    from hivesink.core.partition import LivePartition, Place
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.commit.stopwatch import Stopwatch
    from hivesink.sink.commit.writer import WriterSpec

METASTORE_TROUBLE = (MetastoreUnreachable, RegistrationFailed, RegistrationUnknown)

_TRIES = 3
"""Tries at one epoch when partitions keep turning out to live elsewhere."""

Write = Callable[[TaskPlan], Iterable[TaskReport]]


@dataclass(frozen=True, slots=True)
class Written:
    """All tasks of a try have ended well; nothing is decided. `live` is None where the metastore is silent."""

    attempt: str
    reports: tuple[TaskReport, ...]
    parts: tuple[PartEntry, ...]
    live: Mapping[Place, LivePartition] | None

    @property
    def rows(self) -> Rows:
        return sum((report.rows for report in self.reports), Rows())


class EpochWriter:
    """Writes epochs' parts. `endure` decides what a metastore that doesn't answer means: it returns or raises."""

    def __init__(self, context: CommitContext, sink: WriterSpec, tolerate: Callable[[HiveSinkError], None]) -> None:
        self.context = context
        self.sink = sink
        self._tolerate = tolerate
        self._moved: dict[Place, str] = {}

    def write(self, epoch: Epoch, shape: InputShape, write: Write, watch: Stopwatch) -> Written:
        """Run the tasks until their parts are whole and where their partitions live.

        Raises BadRecord (then nothing is left of the try), TaskFailed, EpochTaken, StoreUnavailable,
        PartitionElsewhere, and what `endure` raises.
        """
        for left in reversed(range(_TRIES)):
            plan = self._plan(epoch, shape)
            reports = self._reports(write, plan)
            watch.lap("write")
            self._require_good(reports)
            parts = tuple(part for report in reports for part in report.parts)
            live = self._look(parts)
            watch.lap("lookup")
            elsewhere = {} if live is None else self._elsewhere(parts, live)
            if not elsewhere or not left:
                parts = self._set_aside(parts, live, plan.attempt)
            vanished = self._vanished(parts, plan.epoch)
            if not elsewhere and vanished is None:
                return Written(plan.attempt, reports, parts, live)
            if not left and vanished is None:
                # They keep moving: what is in the wrong folder after the decision is mended by a move epoch.
                return Written(plan.attempt, reports, parts, None)
            self.context.store.discard(part.staged for part in parts)
            self._require_reachable(elsewhere)
            self._moved.update(elsewhere)
        raise StoreUnavailable(
            action="keep", path=str(vanished), reason="it is deleted before its epoch can be decided, or cut short"
        )

    def _look(self, parts: Iterable[PartEntry]) -> Mapping[Place, LivePartition] | None:
        try:
            return self.context.lookup((part.table, part.partition) for part in parts)
        except METASTORE_TROUBLE as error:
            self._tolerate(error)
            return None

    def _set_aside(
        self, parts: Sequence[PartEntry], live: Mapping[Place, LivePartition] | None, attempt: str
    ) -> tuple[PartEntry, ...]:
        """Take parts out of the folders of partitions that the metastore doesn't list, as far as anybody knows.

        Hive's INSERT INTO such a partition deletes what is in its folder, hidden files too (HIVE-29744). So nothing
        that is decided lies there before the partition is registered.
        """
        tables = {plan.name: plan for plan in (self.sink.target, self.sink.rejected) if plan}

        def is_exposed(part: PartEntry) -> bool:
            listed = live is not None and (part.table, part.partition) in live
            table = tables[part.table]
            # One that lives elsewhere was listed at the last look.
            return bool(part.partition) and not listed and part.folder == folder(table.location, part.partition)

        def moved(part: PartEntry) -> PartEntry:
            if not is_exposed(part):
                return part
            waiting = self.context.store.set_aside(part.pending, aside(tables[part.table].location, attempt))
            return replace(part, staged=waiting.staged)

        return tuple(self.context.store.run_parallel(partial(moved, part) for part in parts))

    def _vanished(self, parts: Sequence[PartEntry], epoch: Epoch) -> str | None:
        """A staged part that isn't there, or not whole: DROP, TRUNCATE and INSERT OVERWRITE take hidden files too."""
        store = self.context.store
        found = store.run_parallel(partial(store.find, part.staged) for part in parts)
        both = zip(parts, found, strict=True)
        # A length that differs could be mended by hand only, once it is decided.
        gone = next((part.staged for part, file in both if file is None or file.length != part.length), None)
        if gone is not None and self.context.log.view().head >= epoch:
            raise EpochTaken(self.context.log.location, epoch)
        return gone

    def _reports(self, write: Write, plan: TaskPlan) -> tuple[TaskReport, ...]:
        try:
            reports = tuple(write(plan))
            _require_no_failure(reports)
        except Exception as error:
            # A run that starts beside this one shuts out this try and sweeps its files: then tasks fail
            # for reasons that say nothing.
            if self.context.log.view().head >= plan.epoch:
                raise EpochTaken(self.context.log.location, plan.epoch) from error
            raise
        return reports

    def _require_reachable(self, elsewhere: Mapping[Place, str]) -> None:
        """A partition that lives where this table's store can't write has its name in the error, not just the place."""
        tables = {plan.name: plan for plan in (self.sink.target, self.sink.rejected) if plan}
        for (table, partition), home in elsewhere.items():
            reason = self.context.unreachable(home)
            if reason is not None:
                own, where = tables[table].folder(partition), self.context.registrar.address
                raise PartitionElsewhere(table, partition, home, reason, where, folder=own, staged=False)

    def _elsewhere(self, parts: Iterable[PartEntry], live: Mapping[Place, LivePartition]) -> dict[Place, str]:
        """Where the parts should have been staged, for those that weren't."""
        tables = {plan.name: plan for plan in (self.sink.target, self.sink.rejected) if plan}
        found = {}
        for part in parts:
            place = (part.table, part.partition)
            # A partition that was dropped lives nowhere: its new parts begin it in the default folder.
            home = live[place].location if place in live else tables[part.table].folder(part.partition)
            if not same_location(home, part.folder):
                found[place] = home
        return found

    def _plan(self, epoch: Epoch, shape: InputShape) -> TaskPlan:
        def with_moves(table: TablePlan) -> TablePlan:
            own = {place[1]: where for place, where in self._moved.items() if place[0] == table.name}
            return replace(table, moved=own)

        sink = self.sink
        return TaskPlan(
            target=with_moves(sink.target),
            rejected=with_moves(sink.rejected) if sink.rejected else None,
            config=sink.config,
            shape=shape,
            uid=sink.identity.uid,
            epoch=epoch,
            attempt=self.context.token(),
            arrival=self.context.now(),
        )

    def _require_good(self, reports: tuple[TaskReport, ...]) -> None:
        bad = next((report.bad for report in reports if report.bad), None)
        if bad is not None:
            self.context.store.discard(part.staged for report in reports for part in report.parts)
            raise BadRecord(self.sink.target.name, bad.position, bad.field, bad.reason)
        for report in reports:
            if not report.rows.balanced:
                message = f"task {report.task} reports {report.rows}, which don't add up"
                raise AssertionError(message)


def _require_no_failure(reports: Iterable[TaskReport]) -> None:
    """Raises TaskFailed. The other tasks' parts are left to the next sweep: now the store may fail here too."""
    failure = next((report.failure for report in reports if report.failure), None)
    if failure is not None:
        raise TaskFailed(failure.message, retryable=failure.retryable)
