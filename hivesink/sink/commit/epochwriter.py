"""Tries at an epoch, before its decision: everything written here may still be thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.core.manifest import PartEntry, Rows
from hivesink.core.partition import aside, folder, normal, same_location
from hivesink.sink.task.messages import InputShape, LeftSlice, TablePlan, TaskPlan, TaskReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.core.partition import LivePartition, PartitionKey
    from hivesink.core.records import Opened
    from hivesink.sink.commit.committed import Stopwatch
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.commit.writer import WriterSpec

METASTORE_TROUBLE = (errors.MetastoreUnreachable, errors.RegistrationFailed, errors.RegistrationUnknown)

_PLACED = 100
"""Epochs after a dead letter in which records come with their places again: that costs less than a try."""

Write = Callable[[TaskPlan], Iterable[TaskReport]]


@dataclass(frozen=True, slots=True)
class Written:
    """A try whose tasks have all ended well; nothing is decided. `live` is None if the metastore didn't answer."""

    attempt: str
    reports: tuple[TaskReport, ...]
    parts: tuple[PartEntry, ...]
    live: Mapping[PartitionKey, LivePartition] | None

    @property
    def opened(self) -> tuple[Opened, ...]:
        return tuple(opened for report in self.reports for opened in report.opened)

    @property
    def left(self) -> tuple[LeftSlice, ...]:
        return tuple(left for report in self.reports for left in report.left)

    @property
    def replaces(self) -> tuple[PartEntry, ...]:
        return tuple(part for report in self.reports for part in report.replaces)

    @property
    def rows(self) -> Rows:
        return sum((report.rows for report in self.reports), Rows())


@dataclass(slots=True)
class EpochWriter:
    """Writes the parts of epochs. `tolerate` gets the metastore's errors: it returns to go on, or raises."""

    context: CommitContext
    spec: WriterSpec
    tolerate: Callable[[errors.HiveSinkError], None]
    _moved: dict[PartitionKey, str] = field(default_factory=dict)
    _placed: int = field(init=False)
    """Epochs to come in which records come with their places: the first, where bad ones are kept."""

    def __post_init__(self) -> None:
        self._placed = 0 if self.spec.rejected is None else 1

    def write(
        self, epoch: Epoch, shape: InputShape, write: Write, watch: Stopwatch, *, late: datetime | None = None
    ) -> Written:
        """Run the tasks until their parts are whole and in the folders of their partitions; `late` as in `TaskPlan`.

        Raises BadRecord, TaskFailed, EpochTaken, StoreUnavailable, PartitionElsewhere, and what `tolerate` raises.
        """
        for last in (False, False, True):
            attempt, reports = self._try(epoch, shape, write, late)
            watch.lap("write")
            parts = tuple(part for report in reports for part in report.parts)
            live = self._look(parts)
            watch.lap("lookup")
            self._require_format(live or {})
            elsewhere = {} if live is None else self._elsewhere(parts, live)
            if last or not elsewhere:
                parts = self._set_aside(parts, live, attempt)
            replaces = (part for report in reports for part in report.replaces)
            vanished = self._vanished((*parts, *replaces), epoch)
            if vanished is None and (last or not elsewhere):
                # They keep moving: after the decision, a move epoch takes the parts to the right folder.
                return Written(attempt, reports, parts, None if elsewhere else live)
            self.context.store.discard(part.staged for part in parts)
            self._require_reachable(elsewhere)
            self._moved.update(elsewhere)
        raise errors.StoreUnavailable(
            action="keep",
            path=str(vanished),
            reason="something deleted or truncated it before its epoch could be decided",
        )

    def _try(
        self, epoch: Epoch, shape: InputShape, write: Write, late: datetime | None
    ) -> tuple[str, tuple[TaskReport, ...]]:
        """An attempt and what its tasks report: mostly without the places of records, which few batches need."""
        plan = self._plan(epoch, shape, late)
        reports = self._reports(write, plan)
        self._placed = max(0, self._placed - 1)
        if any(report.unplaced or report.rows.rejected for report in reports):
            self._placed = _PLACED
        if any(report.unplaced for report in reports):
            self._discard(reports)
            plan = self._plan(epoch, shape, late)
            reports = self._reports(write, plan)
        bad = next((report.bad for report in reports if report.bad), None)
        if bad is not None:
            self._discard(reports)
            raise errors.BadRecord(self.spec.target.name, bad.position, bad.field, bad.reason)
        for report in reports:
            if not report.rows.balanced:
                message = f"task {report.task} reports {report.rows}, which don't add up"
                raise AssertionError(message)
        return plan.attempt, reports

    def _discard(self, reports: Iterable[TaskReport]) -> None:
        self.context.store.discard(part.staged for report in reports for part in report.parts)

    def _look(self, parts: Sequence[PartEntry]) -> Mapping[PartitionKey, LivePartition] | None:
        try:
            return self.context.lookup(part.key for part in parts)
        except errors.UnknownTable as error:
            # Best effort: an error here must not hide that the table is gone.
            with suppress(errors.HiveSinkError):
                self._withdraw(parts, self.spec.tables[error.table])
            raise
        except METASTORE_TROUBLE as error:
            self.tolerate(error)
            return None

    def _withdraw(self, parts: Sequence[PartEntry], gone: TablePlan) -> None:
        """Take undecided parts back, and the empty folders of a table that is gone.

        RENAME has moved a managed table's folder, and can't move it back to where there is a folder again.
        """
        self.context.store.discard(part.staged for part in parts)
        # It moves only folders of the table's name. Another folder is somebody's.
        if normal(gone.location).endswith(f"/{gone.spec.name.table}"):
            names = [part.partition.split("/") for part in parts if part.table == gone.name]
            paths = {path for own in names for path in accumulate(own, "{}/{}".format)}
            self.context.prune(folder(gone.location, path) for path in {"", *paths})

    def _set_aside(
        self, parts: Sequence[PartEntry], live: Mapping[PartitionKey, LivePartition] | None, attempt: str
    ) -> tuple[PartEntry, ...]:
        """Take parts out of the folders of partitions that the metastore isn't known to list.

        Hive's INSERT INTO such a partition deletes everything in its folder, hidden files too (HIVE-29744). So no
        decided part may lie there before the partition is registered.
        """
        tables = self.spec.tables

        def moved(part: PartEntry) -> PartEntry:
            listed, location = live is not None and part.key in live, tables[part.table].location
            # One that lives elsewhere was listed at the last look.
            if not part.partition or listed or part.folder != folder(location, part.partition):
                return part
            return replace(part, staged=self.context.store.set_aside(part.pending, aside(location, attempt)).staged)

        return tuple(self.context.store.run_parallel(partial(moved, part) for part in parts))

    def _vanished(self, parts: Sequence[PartEntry], epoch: Epoch) -> str | None:
        """A part, staged or to replace, that is missing or cut short: INSERT OVERWRITE takes hidden files too."""
        store = self.context.store
        files = store.run_parallel(partial(store.find, part.staged) for part in parts)
        both = zip(parts, files, strict=True)
        # Once it is decided, a wrong length could only be repaired by hand.
        gone = next((part.staged for part, file in both if file is None or file.length != part.length), None)
        if gone is not None:
            self._require_open(epoch)
        return gone

    def _reports(self, write: Write, plan: TaskPlan) -> tuple[TaskReport, ...]:
        try:
            reports = tuple(write(plan))
            # The other tasks' parts are left to the next sweep: now the store may fail here too.
            failure = next((report.failure for report in reports if report.failure), None)
            if failure is not None:
                raise errors.TaskFailed(failure.message, retryable=failure.retryable)  # noqa: TRY301  handled below
        except Exception as error:
            # A run that starts beside this one shuts out this try and sweeps its files. The errors that tasks then
            # fail with don't say so.
            self._require_open(plan.epoch, error)
            raise
        if any(report.left for report in reports):
            # It may also have rolled these rows, and deleted their segments.
            self._require_open(plan.epoch)
        return reports

    def _require_open(self, epoch: Epoch, error: Exception | None = None) -> None:
        if self.context.log.view().head >= epoch:
            raise errors.EpochTaken(self.context.log.location, epoch) from error

    def _require_reachable(self, elsewhere: Mapping[PartitionKey, str]) -> None:
        """Raise PartitionElsewhere, which names the partition, if it lives where this table's store can't write."""
        for (table, partition), home in elsewhere.items():
            reason = self.context.unreachable(home)
            if reason is not None:
                own, where = self.spec.tables[table].folder(partition), self.context.registrar.address
                raise errors.PartitionElsewhere(table, partition, home, reason, where, folder=own, staged=False)

    def _elsewhere(
        self, parts: Iterable[PartEntry], live: Mapping[PartitionKey, LivePartition]
    ) -> dict[PartitionKey, str]:
        """The partitions whose parts were staged in the wrong folder, with the right folder."""
        tables, homes = self.spec.tables, {}
        for part in parts:
            # A partition that was dropped lives nowhere: its new parts begin it in the default folder.
            home = live[part.key].location if part.key in live else tables[part.table].folder(part.partition)
            if not same_location(home, part.folder):
                homes[part.key] = home
        return homes

    def _plan(self, epoch: Epoch, shape: InputShape, late: datetime | None) -> TaskPlan:
        def with_moves(table: TablePlan) -> TablePlan:
            moved = {partition: home for (name, partition), home in self._moved.items() if name == table.name}
            return replace(table, moved=moved)

        places = bool(self._placed) or not shape.is_raw
        plan = self.spec.task_plan(epoch, shape, self.context.stamp(), late, places=places)
        rejected = with_moves(plan.rejected) if plan.rejected else None
        return replace(plan, target=with_moves(plan.target), rejected=rejected)

    def _require_format(self, live: Mapping[PartitionKey, LivePartition]) -> None:
        """Raise Unsupported where readers couldn't read what is written; the parts are left to the next sweep."""
        for (table, partition), home in live.items():
            if home.format is not None:
                what = f"the format of partition {partition} of {table} ({home.format})"
                wanted = self.context.table(table).spec.format
                way = f"if it holds no files, run: ALTER TABLE {table} PARTITION (…) SET FILEFORMAT {wanted}; "
                way += 'otherwise see "A partition of another format" in docs/operations.md'
                raise errors.Unsupported(what, f"the table is STORED AS {wanted}", way)
