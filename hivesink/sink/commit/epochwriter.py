"""Tries at an epoch, before its decision: everything written here may still be thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import accumulate

from hivesink import errors
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Opened, PartEntry
from hivesink.core.partfile import Pending
from hivesink.core.partition import LivePartition, PartitionKey, aside, folder, normal, same_location
from hivesink.sink.commit.committed import Stopwatch
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.writer import WriterSpec
from hivesink.sink.task.messages import InputShape, LeftSlice, TaskPlan, TaskReport

METASTORE_TROUBLE = (errors.MetastoreUnreachable, errors.RegistrationFailed, errors.RegistrationUnknown)

_PLACED = 100
"""Epochs after a dead letter in which records come with their places again: that costs less than a try."""

Write = Callable[[TaskPlan], Iterable[TaskReport]]


@dataclass(frozen=True, slots=True)
class Written:
    """A try whose tasks have all ended well; nothing is decided. `live` is None if the metastore didn't answer."""

    attempt: str
    live: Mapping[PartitionKey, LivePartition] | None = None
    reports: tuple[TaskReport, ...] = ()
    parts: tuple[PartEntry, ...] = ()
    replaces: tuple[PartEntry, ...] = ()
    opened: tuple[Opened, ...] = ()
    left: tuple[LeftSlice, ...] = ()


@dataclass(slots=True)
class EpochWriter:
    """Writes epochs of `spec`, one at a time. `tolerate` raises a metastore's error once it has lasted too long."""

    context: CommitContext
    spec: WriterSpec
    tolerate: Callable[[errors.HiveSinkError], None]
    _moved: dict[PartitionKey, str] = field(default_factory=dict)
    """The folders of partitions that live elsewhere, as far as tries have come across them."""
    _placed: int = 0
    """Epochs to come whose records come with their places: the first, where bad ones are kept."""

    def __post_init__(self) -> None:
        self._placed = 0 if self.spec.rejected is None else 1

    def write(
        self, epoch: Epoch, shape: InputShape, write: Write, watch: Stopwatch, *, late: datetime | None = None
    ) -> Written:
        """Run the tasks until their parts are whole and in the folders of their partitions; `late` as in `TaskPlan`.

        Raises BadRecord, TaskFailed, EpochTaken, StoreUnavailable, and what `tolerate` raises.
        """
        store = self.context.store
        for last in (False, False, True):
            attempt, reports = self._try(epoch, shape, write, late)
            watch.lap("write")
            parts = tuple(part for report in reports for part in report.parts)
            replaces = tuple(part for report in reports for part in report.replaces)
            opened = tuple(new for report in reports for new in report.opened)
            left = tuple(piece for report in reports for piece in report.left)
            if not parts and not replaces:
                # Rows that wait are in no partition's folder.
                return Written(attempt, {}, reports, opened=opened, left=left)
            live = self._look(parts)
            watch.lap("lookup")
            elsewhere = dict[PartitionKey, str]()
            if live is not None:
                # A partition that was dropped lives nowhere: its new parts begin it in the default folder.
                tables = self.spec.tables
                homes = {part.key: tables[part.table].folder(part.partition) for part in parts}
                homes |= {key: home.location for key, home in live.items()}
                staged = {part.key: part.folder for part in parts}
                elsewhere = {key: home for key, home in homes.items() if not same_location(home, staged[key])}
            if last or not elsewhere:
                parts = self._set_aside(parts, live or {}, attempt)
            # INSERT OVERWRITE takes hidden files too. Once decided, a wrong length could only be repaired by hand.
            files = store.run_parallel(partial(store.find, part.staged) for part in (*parts, *replaces))
            both = zip((*parts, *replaces), files, strict=True)
            vanished = next((part.staged for part, file in both if file is None or file.length != part.length), None)
            if vanished is not None:
                self._require_open(epoch)
            elif last or not elsewhere:
                # They keep moving: after the decision, a move epoch takes the parts to the right folder.
                return Written(attempt, None if elsewhere else live, reports, parts, replaces, opened, left)
            store.discard(part.staged for part in parts)
            # Where the next try's tasks can't write there, they say so.
            self._moved.update(elsewhere)
        reason = "something deleted or truncated it before its epoch could be decided"
        raise errors.StoreUnavailable(action="keep", path=str(vanished), reason=reason)

    def _try(
        self, epoch: Epoch, shape: InputShape, write: Write, late: datetime | None
    ) -> tuple[str, tuple[TaskReport, ...]]:
        """An attempt and what its tasks report: mostly without the places of records, which few batches need."""
        is_unplaced = True
        while is_unplaced:
            places = bool(self._placed) or not shape.is_raw
            plan = self.spec.task_plan(epoch, shape, self.context.stamp(), late, places=places)
            if moved := dict(self._moved):
                rejected = plan.rejected and replace(plan.rejected, moved=moved)
                plan = replace(plan, target=replace(plan.target, moved=moved), rejected=rejected)
            try:
                reports = tuple(write(plan))
                # The other tasks' parts are left to the next sweep: now the store may fail here too.
                failure = next((report.failure for report in reports if report.failure), None)
                if failure is not None:
                    raise errors.TaskFailed(failure.message, retryable=failure.retryable)  # noqa: TRY301  see below
            except Exception as error:
                # A run that starts beside this one shuts out this try and sweeps its files. The errors that tasks then
                # fail with don't say so.
                self._require_open(epoch, error)
                raise
            if any(report.left for report in reports):
                # It may also have rolled these rows, and deleted their segments.
                self._require_open(epoch)
            is_unplaced = any(report.unplaced for report in reports)
            self._placed = max(0, self._placed - 1)
            if is_unplaced or any(report.rows.rejected for report in reports):
                self._placed = _PLACED
            if is_unplaced:
                self._discard(reports)
        bad = next((report.bad for report in reports if report.bad), None)
        if bad is not None:
            self._discard(reports)
            raise errors.BadRecord(self.spec.target.name, bad.position, bad.field, bad.reason)
        if wrong := [report for report in reports if not report.rows.balanced]:
            message = f"task {wrong[0].task} reports {wrong[0].rows}, which don't add up"
            raise AssertionError(message)
        return plan.attempt, reports

    def _look(self, parts: Sequence[PartEntry]) -> Mapping[PartitionKey, LivePartition] | None:
        """The partitions of `parts`. Raises Unsupported where readers couldn't read what is written there."""
        context = self.context
        try:
            live = context.lookup(part.key for part in parts)
        except errors.UnknownTable as error:
            # Best effort: an error here must not hide that the table is gone.
            with suppress(errors.HiveSinkError):
                context.store.discard(part.staged for part in parts)
                gone = self.spec.tables[error.table]
                # RENAME has moved a managed table's folder, and can't move it back to where there is a folder again.
                # It moves only folders of the table's name. Another folder is somebody's.
                if normal(gone.location).endswith(f"/{gone.spec.name.table}"):
                    names = [part.partition.split("/") for part in parts if part.table == gone.name]
                    paths = {path for own in names for path in accumulate(own, "{}/{}".format)}
                    context.store.prune(folder(gone.location, path) for path in {"", *paths})
            raise
        except METASTORE_TROUBLE as error:
            self.tolerate(error)
            return None
        for (table, partition), home in live.items():
            if home.format is not None:
                # The parts are left to the next sweep.
                what = f"the format of partition {partition} of {table} ({home.format})"
                wanted = context.table(table).spec.format
                way = f"if it holds no files, run: ALTER TABLE {table} PARTITION (…) SET FILEFORMAT {wanted}; "
                way += 'otherwise see "A partition of another format" in docs/operations.md'
                raise errors.Unsupported(what, f"the table is STORED AS {wanted}", way)
        return live

    def _set_aside(
        self, parts: Sequence[PartEntry], live: Mapping[PartitionKey, LivePartition], attempt: str
    ) -> tuple[PartEntry, ...]:
        """Take parts out of the folders of partitions that the metastore isn't known to list.

        Hive's INSERT INTO such a partition deletes everything in its folder, hidden files too (HIVE-29744). So no
        decided part may lie there before the partition is registered.
        """
        tables, store = self.spec.tables, self.context.store

        def moved(part: PartEntry) -> PartEntry:
            location = tables[part.table].location
            # A partition that lives elsewhere was listed at the last look.
            if not part.partition or part.key in live or part.folder != folder(location, part.partition):
                return part
            pending = Pending(part.staged, part.target, part.length)
            return replace(part, staged=store.set_aside(pending, aside(location, attempt)).staged)

        return tuple(store.run_parallel(partial(moved, part) for part in parts))

    def _discard(self, reports: Iterable[TaskReport]) -> None:
        self.context.store.discard(part.staged for report in reports for part in report.parts)

    def _require_open(self, epoch: Epoch, error: Exception | None = None) -> None:
        if self.context.log.view().head >= epoch:
            raise errors.EpochTaken(self.context.log.location, epoch) from error
