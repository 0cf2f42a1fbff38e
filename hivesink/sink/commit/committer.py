"""The committer: an object in the driver for a whole query, which takes batches through the commit protocol.

    judge the batch ─▶ tasks write ─▶ look up partitions ─▶ MANIFEST ─▶ register ─▶ publish ─▶ settle ─▶ sweep

`core.plan` says what comes next, the runner does it. The committer says when; a metastore may be down for a while.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from hivesink.core.actions import Snapshot
from hivesink.core.epoch import BatchRef, Epoch, LastBatch, Place, Replay, judge
from hivesink.core.lifecycle import Stamp
from hivesink.core.manifest import Manifest, Rows
from hivesink.core.offsets import TopicIds, with_ids
from hivesink.core.partition import PartitionKey
from hivesink.core.progress import Progress, count
from hivesink.core.rolling import OpenRows
from hivesink.errors import EpochTaken, HiveSinkError, StoreUnavailable
from hivesink.sink.commit.committed import BlockedSlices, Committed, RunFigures, Stopwatch
from hivesink.sink.commit.context import CommitContext, write_estimates
from hivesink.sink.commit.epochwriter import EpochWriter, Write, Written
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.commit.source_clock import SourceClock
from hivesink.sink.commit.waiting import Encode, LiveHistory, OpenPartitions
from hivesink.sink.commit.writer import WriterSpec, watermark_policy
from hivesink.sink.task.messages import InputShape

logger = logging.getLogger("hivesink")

_ROLLS = 3
"""How often the end of a query rolls rows whose files a user's statement has taken."""


class Committer:
    """Commits batches one at a time, after `recover`. Safe to call from the query's thread and a timer's."""

    def __init__(self, context: CommitContext, spec: WriterSpec, encode: Encode, tasks: int = 1) -> None:
        """`encode` runs on `tasks` tasks at a time."""
        self.context = context
        self.spec = spec
        self.lock = threading.RLock()
        self.clock = SourceClock(context, watermark_policy(spec.config))
        self._table = spec.target.name
        self.figures = RunFigures(self._table, spec.identity.writer, spec.commit_rule, context.tick)
        self._live = LiveHistory(context, spec, self._rows_changed, self.figures)
        self._writer = EpochWriter(context, spec, self._live.tolerate)
        self._open = OpenPartitions(self._writer, encode, tasks)
        self._blocked = BlockedSlices(spec.patience)

    def recover(self) -> PlanRunner:
        """Finish what earlier runs decided. `commit` does so itself if nobody has.

        Raises EpochTaken where another run is at work, LogDamaged, and what `keep_up` raises.
        """
        with self.lock, self._live.advancing(anew=True) as runner:
            return runner

    def commit(
        self,
        batch: BatchRef,
        shape: InputShape,
        write: Write,
        behind: int | None = None,
        checkpoint: str = "DIR",
        *,
        topic_ids: Callable[[], TopicIds] = tuple,
    ) -> Committed:
        """Write and decide `batch`, or prove that it was committed. Returns only then.

        `behind`: the records that the source has beyond it. `checkpoint` is the query's, for errors. `topic_ids` says
        which ids the topics of each source have, once the batch has been written.

        Raises the errors of `judge`, what `write` and `topic_ids` raise, BadRecord, EpochTaken, FencedOut,
        StoreUnavailable, PartitionElsewhere, and the metastore's if it is down for too long, or at all without
        `tolerant`; RowsHeldBack.
        """
        with self.lock:
            watch = Stopwatch(self.context.tick)
            self.figures.behind = behind
            with self._live.advancing() as runner:
                self._live.finish(runner)
                last = runner.history.head.last_batch if runner.history.head else None
                place = Place(self._table, self.context.log.location, checkpoint)
                verdict = judge(last, batch, self.spec.append, place, raw=shape.is_raw)
                if isinstance(verdict, Replay):
                    logger.info("batch %d was committed as epoch %d", batch.batch, verdict.epoch)
                    done = Committed(verdict.epoch, replayed=True)
                else:
                    new = LastBatch(Epoch(runner.history.epoch + 1), batch, appended=verdict.appended, raw=shape.is_raw)
                    is_written = last is None and self.spec.was_written(batch)
                    if is_written:
                        logger.info("batch %d was committed before the reset: its rows are in the table", batch.batch)
                    tasks = (lambda _: ()) if is_written else write
                    done = self._commit_new(runner, new, shape, tasks, watch, topic_ids=topic_ids)
                    done = replace(done, replayed=is_written)
                self.spec.on_commit(done)
                self._roll_due(runner)
            self.clock.ended()
            return done

    def keep_up(self, asked: float | None = None, following: datetime | None = None) -> None:
        """While no batch comes: try again what waits for the metastore, roll what is due, commit partitions.

        Spark has `asked` the source for new rows then or later, by the context's `tick`; None: nobody knows.
        `following` is the watermark that its next batch will have.

        Raises the metastore's errors once the limit is passed, and what `commit` raises.
        """
        with self.lock:
            if self._live.is_current:
                with self._live.advancing() as runner:
                    if asked is not None:
                        self.clock.asked(asked, following)
                    self._live.finish(runner)
                    self._roll_due(runner)

    def finish(self, *, roll: bool = True) -> None:
        """End the query: make everything readable and write estimates. Without `roll`, rows that wait still do.

        Raises if a publish or a registration stays open, so that the run doesn't end well.
        """
        with self.lock, self._live.advancing() as runner:
            for _ in range(_ROLLS):
                if roll:
                    self._roll(runner, runner.history.rows.buckets)
                self._live.finish(runner, at_end=True)
                left = self._fresh(runner).rows if roll else 0
                if not left:
                    break
            else:
                reason = f"something deletes its files before they can be read: {left} rows wait"
                raise StoreUnavailable(action="publish", path=self.spec.target.location, reason=reason)
            # The next run goes on from there; a run that has begun already does so by itself.
            with suppress(EpochTaken):
                self._write_mark(runner)
            write_estimates(self.context, self._live.seen, self.spec.measure)
        self._blocked.require_none()

    def progress(self) -> Progress:
        """What this run has committed. Waits for no batch."""
        runner = self._live.runner
        progress = self.figures.progress(runner.history.rows.rows if runner else 0)
        return replace(progress, offsets=self.figures.lag)

    def tell_end(self) -> None:
        """Log the end of a query that has committed nothing: silence could be a job that does nothing by mistake."""
        if not self.progress().epochs:
            text = "table=%s writer=%s nothing new (%s so far)"
            logger.info(text, self._table, self.spec.identity.writer, count(self.head, "epoch"))

    @property
    def head(self) -> Epoch:
        return self._live.runner.history.epoch if self._live.runner else Epoch(0)

    @property
    def waiting(self) -> str | None:
        """Why epochs wait to be finished, or None."""
        return self._live.deadline.reason or self._blocked.deadline.reason

    def _commit_new(
        self,
        runner: PlanRunner,
        batch: LastBatch,
        shape: InputShape,
        write: Write,
        watch: Stopwatch,
        *,
        topic_ids: Callable[[], TopicIds],
    ) -> Committed:
        history = runner.history
        if self.spec.config["sink.rolling-policy.on-epoch"]:
            self._open.committed()
        before = history.head.watermark if history.head else None
        written = self._writer.write(batch.epoch, shape, write, watch, late=before.at if before else None)
        # Not before: all of the batch has been read by now.
        batch = replace(batch, ref=replace(batch.ref, end=with_ids(batch.ref.end, topic_ids())))
        watch.lap("lookup")
        behind = self.figures.behind
        mark = self.clock.mark_after(history.head, batch.ref, shape, written.reports, watch.began, behind=behind)
        # What waits since `on-epoch` was false is rolled next, and commits its partitions then.
        whole = {part.key for part in written.parts if not history.rows.waits(part.key)}
        commits = self._open.commits(whole, history.rows, written.parts, mark)
        # Before the epoch is told: when its rows can be read depends on its own buckets, too.
        self._open.came(new.key for new in written.opened)
        manifest = replace(
            history.following("batch", Stamp(self.context.now(), written.attempt)),
            last_batch=batch,
            rows=sum((report.rows for report in written.reports), Rows()),
            add=written.parts,
            replaces=written.replaces,
            opened=written.opened,
            commits=commits,
            watermark=mark,
        )
        done = self._decide(runner, manifest, written, watch)
        self._estimate(manifest)
        return done

    def _roll_due(self, runner: PlanRunner) -> None:
        due = self._open.due(self._fresh(runner), self.clock.mark(runner.history.head))
        # Before the roll: a rolled bucket has no age. Most epochs have nothing due.
        at_rest = self._open.at_rest() if due else ()
        if rolled := self._roll(runner, due):
            self._estimate(rolled, at_rest)
        self._blocked.require_none(self.context.tick())

    def _roll(self, runner: PlanRunner, due: Collection[PartitionKey]) -> Manifest | None:
        """Make part files of the rows that wait in these buckets, and commit what is over, by an epoch of its own.

        Rows that can't be encoded are held back: their partitions aren't committed.
        """
        watch, history = Stopwatch(self.context.tick), runner.history
        rows, fresh = history.rows, self._fresh(runner)
        keys = fresh.buckets.keys() & set(due)
        if not keys:
            return None
        mark = self.clock.mark(history.head)
        self._open.committed()
        written = self._open.encode(history.epoch, fresh, keys, watch)
        self._blocked.update({left.opened.slice: left for left in written.left})
        rolled = tuple(sorted({part.key for part in written.parts}))
        whole = {key for key in keys if not any(part in self._blocked for part in rows.buckets[key].slices)}
        manifest = replace(
            history.following("roll" if rolled else "commit", Stamp(self.context.now(), written.attempt)),
            add=written.parts,
            rolled=rolled,
            commits=self._open.commits(whole, rows, written.parts, mark),
            watermark=mark,
        )
        if not manifest.is_bare:
            self._decide(runner, rows.leaving(manifest, self._blocked), written, watch)
        return manifest

    def _write_mark(self, runner: PlanRunner) -> None:
        """Write down that the watermark has gone on since the newest epoch."""
        head = runner.history.head
        if head is None:
            return
        before, mark = head.watermark, self.clock.mark(head)
        if mark and mark.at and mark.at != (before and before.at):
            manifest = runner.history.following("watermark", self.context.stamp())
            runner.decide(replace(manifest, watermark=mark))
            self._live.finish(runner)

    def _decide(self, runner: PlanRunner, manifest: Manifest, written: Written, watch: Stopwatch) -> Committed:
        """Decide `manifest`, publish what was `written` for it, and sweep what lost."""
        rows = runner.history.rows
        runner.decide(manifest)
        watch.lap("manifest")
        # The lookup before the manifest says nothing about older epochs that still wait.
        first = None
        if len(runner.history.open) == 1 and not self._live.deadline.trouble and written.live is not None:
            first = Snapshot({part.staged: part.length for part in written.parts}, written.live)
        self._live.finish(runner, first)
        watch.lap("publish")
        winners = frozenset((written.attempt, report.task_attempt) for report in written.reports)
        runner.clean_up(winners, segments=bool(manifest.rolled))
        watch.lap("sweep")
        self._open.decided(rows, manifest)
        self._open.note(self._fresh(runner))
        return self.figures.ended(manifest, runner.history.rows.rows, watch, self.waiting)

    def _estimate(self, manifest: Manifest, at_rest: Collection[PartitionKey] = ()) -> None:
        """Write estimates of partitions that are committed and expect no more rows: they are over, or `at_rest`."""
        committed = {commit.key for commit in manifest.commits}
        places = {key for key in committed if key in at_rest or self._open.rule.holds(key)}
        if places and not self.waiting:
            try:
                write_estimates(self.context, places, self.spec.measure)
            except HiveSinkError as error:
                # An epoch clears the flag itself, and the query's end repeats all this.
                logger.warning("no estimates of %s: %s", count(len(places), "partition"), error)

    def _rows_changed(self, runner: PlanRunner) -> None:
        self._open.forget_commits()
        self.clock.start(runner.history.head)
        self._open.note(self._fresh(runner))

    def _fresh(self, runner: PlanRunner) -> OpenRows:
        return runner.history.rows.beside(self._blocked)
