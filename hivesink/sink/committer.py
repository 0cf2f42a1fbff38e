"""The committer: one object in the driver for a whole query, which decides epochs.

    judge the batch ─▶ tasks write ─▶ look up partitions ─▶ MANIFEST ─▶ publish ─▶ register ─▶ sweep

Before the manifest everything may be thrown away; after it everything must be finished, by this run or the next.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from hivesink.core.epoch import BatchRef, Epoch, LastBatch, Replay, judge
from hivesink.core.manifest import Manifest, floor_over
from hivesink.errors import LogDamaged
from hivesink.sink.backlog import Backlog, unregistered_after
from hivesink.sink.declared import Committed, Sink
from hivesink.sink.history import Identity, first_manifest, recover
from hivesink.sink.statistics import refresh_statistics
from hivesink.sink.stopwatch import Stopwatch
from hivesink.sink.sweep import sweep
from hivesink.sink.tries import METASTORE_TROUBLE, Tries, Write, Written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from hivesink.errors import HiveSinkError
    from hivesink.ports import LivePartition
    from hivesink.sink.plan import InputShape
    from hivesink.sink.world import Place, World

logger = logging.getLogger("hivesink")


class Committer:
    """Commits batches one at a time; `recover` first. Safe to call from the query's thread and a timer's."""

    def __init__(self, world: World, sink: Sink) -> None:
        self.world = world
        self.sink = sink
        self.lock = threading.RLock()
        self._backlog: Backlog | None = None
        self._recovered = False
        self._tries = Tries(world, sink, self._endure)
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
            verdict = judge(last, batch, self.sink.ways, self.world.log.location)
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
        written = self._tries.write(batch.epoch, shape, write, watch)
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

    def _manifest(self, batch: LastBatch, written: Written) -> Manifest:
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
        since = self._waiting_since.isoformat(" ", "seconds")
        logger.warning("epochs wait to be published or registered since %s: %s", since, error)

    def _clear_trouble(self) -> None:
        self._trouble = self._waiting_since = None

    def _trim(self, backlog: Backlog) -> None:
        """Let go of old manifests, in strides, so that most epochs don't pay for it."""
        keep: int = self.sink.config["sink.log.retained-epochs"]
        if backlog.head.epoch % max(1, keep // 4) or not backlog.is_empty:
            return
        view = self.world.log.view()
        before = self.world.log.floor()
        highest = Epoch(min(backlog.settled, view.head - keep))
        if highest <= view.floor:
            return
        manifests: list[Manifest] = []
        try:
            for epoch in view.manifests:
                manifests.append(self.world.log.manifest(epoch))
                if manifests[-1].settled >= highest:
                    break  # `floor_over` needs no more; mostly, this is the first one that stays.
        except LogDamaged:
            # A run that has gone on from here, or one that this run has overtaken, may have let go of them.
            self.world.require_head(backlog.head.epoch)
            if self.world.log.view().floor == view.floor:
                raise
            return
        self.world.require_head(backlog.head.epoch)
        self.world.log.trim(floor_over(before, manifests, highest))


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
