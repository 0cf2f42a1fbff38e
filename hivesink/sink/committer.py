"""The committer: one object in the driver for a whole query, which decides epochs.

    judge the batch ─▶ tasks write ─▶ look up partitions ─▶ MANIFEST ─▶ publish ─▶ register ─▶ sweep

Before the manifest everything may be thrown away; after it everything must be finished, by this run or the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hivesink.core.bucket import same_location
from hivesink.core.epoch import NO_WAYS, BatchRef, Epoch, LastBatch, Replay, Ways, judge
from hivesink.core.manifest import NO_ROWS, Floor, Manifest, PartEntry, Rows
from hivesink.errors import (
    BadRecord,
    EpochTaken,
    HiveSinkError,
    MetastoreUnreachable,
    RegistrationFailed,
    RegistrationUnknown,
    StoreUnavailable,
)
from hivesink.sink.backlog import Backlog, unregistered_after
from hivesink.sink.history import Identity, first_manifest, recover
from hivesink.sink.plan import InputShape, TablePlan, TaskPlan, TaskReport
from hivesink.sink.statistics import CountRows, refresh_statistics
from hivesink.sink.stopwatch import Stopwatch
from hivesink.sink.sweep import sweep

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hivesink.options import SinkConfig
    from hivesink.ports import LivePartition
    from hivesink.sink.world import Place, World

logger = logging.getLogger("hivesink")

METASTORE_TROUBLE = (MetastoreUnreachable, RegistrationFailed, RegistrationUnknown)

_TRIES = 3
"""Tries at one epoch when partitions keep turning out to live elsewhere."""

Write = Callable[[TaskPlan], Iterable[TaskReport]]


@dataclass(frozen=True, slots=True)
class Committed:
    """One epoch's outcome, for logs, progress and tests."""

    epoch: Epoch
    replayed: bool
    rows: Rows = NO_ROWS
    files: int = 0
    partitions: int = 0
    milliseconds: Mapping[str, int] = field(default_factory=dict)
    waiting: str | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """What a writer writes, settled once: identity, tables, settings, and how patient it is.

    `tolerant`: a metastore that is down is waited for, up to the declared limit; else it raises at once.
    """

    identity: Identity
    target: TablePlan
    rejected: TablePlan | None
    config: SinkConfig
    count_rows: CountRows
    ways: Ways = NO_WAYS
    tolerant: bool = True
    on_commit: Callable[[Committed], None] = lambda _: None
    sole_writer: Callable[[], bool] = lambda: True
    """Whether no other writer has a log for the target: only then can statistics be exact."""

    @property
    def success_file(self) -> str | None:
        kinds = {kind.value for kind in self.config["sink.partition-commit.policy.kind"]}
        name: str = self.config["sink.partition-commit.success-file.name"]
        return name if "success-file" in kinds else None


@dataclass(frozen=True, slots=True)
class _Written:
    """All tasks of a try have ended well; nothing is decided. `live` is None where the metastore is silent."""

    attempt: str
    reports: tuple[TaskReport, ...]
    live: Mapping[Place, LivePartition] | None

    @property
    def parts(self) -> tuple[PartEntry, ...]:
        return tuple(part for report in self.reports for part in report.parts)

    @property
    def rows(self) -> Rows:
        return sum((report.rows for report in self.reports), Rows())


class Committer:
    """Commits batches one at a time; `recover` first. Safe to call from the query's thread and a timer's."""

    def __init__(self, world: World, sink: Sink) -> None:
        self.world = world
        self.sink = sink
        self.lock = threading.RLock()
        self._backlog: Backlog | None = None
        self._recovered = False
        self._moved: dict[Place, str] = {}
        self._seen: set[Place] = set()
        self._waiting_since: datetime | None = None
        self._trouble: HiveSinkError | None = None

    def recover(self) -> None:
        """Finish what earlier runs decided. `commit` does it by itself where it wasn't done."""
        with self.lock:
            self._backlog = recover(self.world, self.sink.identity, self.sink.success_file, self._finish)
            self._recovered = True

    def commit(self, batch: BatchRef, shape: InputShape, write: Write) -> Committed:
        """Write and decide `batch`, or prove that it was committed. Returns only then.

        Raises the errors of `judge`, BadRecord, EpochTaken, FencedOut, StoreUnavailable, PartitionElsewhere,
        and those of a metastore that is down, for too long or (without `tolerant`) at all.
        """
        with self.lock:
            watch = Stopwatch(self.world.tick)
            if not self._recovered:
                self.recover()
            # Until this batch has ended well, what is in memory may be behind the log.
            self._recovered = False
            self.retry()
            last = self._backlog.head.last_batch if self._backlog else None
            verdict = judge(last, self.head, batch, self.sink.ways, self.world.log.location)
            if isinstance(verdict, Replay):
                logger.info("batch %d was committed as epoch %d", batch.batch, verdict.epoch)
                done = Committed(verdict.epoch, replayed=True)
            else:
                new = LastBatch(Epoch(self.head + 1), batch, appended=verdict.appended)
                done = self._commit_new(new, shape, write, watch)
            self._recovered = True
            self.sink.on_commit(done)
            return done

    def retry(self) -> None:
        """Try again what waits for the metastore. Raises what it raises once the limit is passed."""
        with self.lock:
            if self._backlog is not None:
                self._finish(self._backlog)

    def finish(self) -> None:
        """The query's end: everything must be readable now, and exact statistics return.

        Raises where a publish or a registration is still open, so that the run doesn't end well.
        """
        with self.lock:
            if not self._recovered:
                self.recover()
            if self._backlog is None:
                return
            self._seen |= self._backlog.places
            self._backlog.finish()
            self._clear_trouble()
            if self.sink.sole_writer():
                refresh_statistics(self.world, self.head, self._seen, self.sink.count_rows)

    @property
    def head(self) -> Epoch:
        return self._backlog.head.epoch if self._backlog else Epoch(0)

    @property
    def waiting(self) -> str | None:
        """Why epochs wait to be finished, or None."""
        return None if self._trouble is None else str(self._trouble)

    def _commit_new(self, batch: LastBatch, shape: InputShape, write: Write, watch: Stopwatch) -> Committed:
        written = self._write(shape, write, watch)
        manifest = self._manifest(batch, written)
        self.world.log.create(manifest)
        watch.lap("manifest")
        backlog = self._take_up(manifest)
        self._finish(backlog, written.live)
        watch.lap("publish")
        winners = {(written.attempt, report.task_attempt) for report in written.reports}
        sweep(self.world, self.sink.identity.uid, self.head, backlog.entries(), winners)
        self._trim(backlog)
        watch.lap("sweep")
        done = Committed(
            epoch=manifest.epoch,
            replayed=False,
            rows=manifest.rows,
            files=len(manifest.parts),
            partitions=len({(part.table, part.partition) for part in written.parts}),
            milliseconds=watch.laps,
            waiting=self.waiting,
        )
        _log(self.sink.identity, done)
        return done

    def _write(self, shape: InputShape, write: Write, watch: Stopwatch) -> _Written:
        for left in reversed(range(_TRIES)):
            plan = self._plan(shape, self.world.token())
            written = _Written(plan.attempt, self._reports(write, plan), None)
            watch.lap("write")
            self._require_good(written.reports)
            live = self._look(written)
            watch.lap("lookup")
            elsewhere = {} if live is None else self._elsewhere(written.parts, live)
            vanished = self._vanished(written, plan.epoch)
            if not elsewhere and vanished is None:
                return replace(written, live=live)
            if not left and vanished is None:
                # They keep moving: what is in the wrong folder after the decision is mended by a move epoch.
                return written
            self.world.store.discard(part.staged for part in written.parts)
            self._moved.update(elsewhere)
        raise StoreUnavailable(
            action="keep", path=str(vanished), reason="it is deleted before its epoch can be decided"
        )

    def _look(self, written: _Written) -> Mapping[Place, LivePartition] | None:
        try:
            return self.world.lookup((part.table, part.partition) for part in written.parts)
        except METASTORE_TROUBLE as error:
            self._endure(error)
            return None

    def _vanished(self, written: _Written, epoch: Epoch) -> str | None:
        """A staged part that isn't there any more: DROP, TRUNCATE and INSERT OVERWRITE take hidden files too."""
        gone = next((part.staged for part in written.parts if self.world.store.find(part.staged) is None), None)
        if gone is not None and self.world.log.view().head >= epoch:
            raise EpochTaken(self.world.log.location, epoch)
        return gone

    def _reports(self, write: Write, plan: TaskPlan) -> tuple[TaskReport, ...]:
        try:
            return tuple(write(plan))
        except Exception as error:
            # A run that starts beside this one shuts out this try and sweeps its files: then tasks fail
            # for reasons that say nothing.
            if self.world.log.view().head >= plan.epoch:
                raise EpochTaken(self.world.log.location, plan.epoch) from error
            raise

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

    def _plan(self, shape: InputShape, attempt: str) -> TaskPlan:
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
            epoch=Epoch(self.head + 1),
            attempt=attempt,
            arrival=self.world.now(),
        )

    def _require_good(self, reports: tuple[TaskReport, ...]) -> None:
        bad = next((report.bad for report in reports if report.bad), None)
        if bad is not None:
            self.world.store.discard(part.staged for report in reports for part in report.parts)
            raise BadRecord(self.sink.target.name, bad.position, bad.field, bad.reason)
        for report in reports:
            if not report.rows.balanced:
                message = f"task {report.task} reports {report.rows}, which don't add up"
                raise AssertionError(message)

    def _manifest(self, batch: LastBatch, written: _Written) -> Manifest:
        backlog, identity = self._backlog, self.sink.identity
        if backlog is None:
            base = first_manifest(self.world, identity, "batch")
        else:
            base = backlog.head.follow(
                kind="batch", attempt=written.attempt, at=self.world.now(), settled=backlog.settled
            )
        carried = backlog.unregistered if backlog else ()
        return replace(
            base,
            attempt=written.attempt,
            last_batch=batch,
            rows=written.rows,
            parts=written.parts,
            unregistered=unregistered_after(carried, written.parts, written.live, base.epoch),
            tables=identity.tables,
            zones=identity.zones,
        )

    def _take_up(self, manifest: Manifest) -> Backlog:
        if self._backlog is None:
            self._backlog = Backlog(self.world, manifest, success_file=self.sink.success_file)
        self._backlog.decided(manifest)
        return self._backlog

    def _finish(self, backlog: Backlog, live: Mapping[Place, LivePartition] | None = None) -> None:
        # What a lookup showed before the manifest says nothing about older epochs that still wait.
        fresh = live if len(backlog.unsettled) == 1 and self._trouble is None else None
        self._seen |= backlog.places
        try:
            backlog.finish(fresh)
        except METASTORE_TROUBLE as error:
            self._endure(error)
        else:
            self._clear_trouble()

    def _endure(self, error: HiveSinkError) -> None:
        """Wait for a metastore that is down, up to the limit; nothing is lost meanwhile."""
        now = self.world.now()
        self._waiting_since = self._waiting_since or now
        self._trouble = error
        limit: timedelta = self.sink.config["sink.registration.max-delay"]
        if not self.sink.tolerant or now - self._waiting_since > limit:
            raise error
        logger.warning("epochs wait to be published or registered since %s: %s", self._waiting_since, error)

    def _clear_trouble(self) -> None:
        self._trouble = self._waiting_since = None

    def _trim(self, backlog: Backlog) -> None:
        """Let go of old manifests, in strides, so that most epochs don't pay for it."""
        keep: int = self.sink.config["sink.log.retained-epochs"]
        if backlog.head.epoch % max(1, keep // 4) or not backlog.is_empty:
            return
        view = self.world.log.view()
        old = [epoch for epoch in view.manifests if epoch <= min(backlog.settled, view.head - keep)]
        if not old:
            return
        before = self.world.log.floor() or Floor(Epoch(0), Rows())
        try:
            manifests = [self.world.log.manifest(epoch) for epoch in old]
        finally:
            # A run that has gone on from here may have let go of them before.
            self.world.require_head(backlog.head.epoch)
        self.world.log.trim(
            Floor(
                epoch=old[-1],
                totals=sum((manifest.rows for manifest in manifests), before.totals),
                files=before.files + sum(len(manifest.parts) for manifest in manifests),
            )
        )


def _log(identity: Identity, done: Committed) -> None:
    steps = " ".join(f"{step}={spent}ms" for step, spent in done.milliseconds.items())
    logger.info(
        "writer=%s epoch=%d rows=%d written=%d rejected=%d dropped=%d skipped=%d files=%d partitions=%d %s%s",
        identity.writer,
        done.epoch,
        done.rows.read,
        done.rows.written,
        done.rows.rejected,
        done.rows.dropped,
        done.rows.skipped,
        done.files,
        done.partitions,
        steps,
        f" waiting: {done.waiting}" if done.waiting else "",
    )
