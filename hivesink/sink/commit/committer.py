"""The committer: one object in the driver for a whole query, which takes batches through the commit protocol.

    judge the batch ─▶ tasks write ─▶ look up partitions ─▶ MANIFEST ─▶ register ─▶ publish ─▶ settle ─▶ sweep

`core.plan` says what comes next and the runner does it. The committer says when, and tolerates a metastore that is
down.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.epoch import BatchRef, Epoch, LastBatch, Place, Replay, judge
from hivesink.core.lifecycle import Stamp
from hivesink.core.offsets import with_ids
from hivesink.core.progress import count
from hivesink.core.snapshot import Snapshot
from hivesink.errors import EpochTaken, HiveSinkError, StoreUnavailable
from hivesink.sink.commit.after_publish import write_estimates
from hivesink.sink.commit.commits import InputTraits, PartitionCommits
from hivesink.sink.commit.committed import Committed, RunCounters, Stopwatch, log_epoch
from hivesink.sink.commit.context import watermark_policy
from hivesink.sink.commit.deadline import BlockedSlices, Deadline
from hivesink.sink.commit.epochwriter import METASTORE_TROUBLE, EpochWriter, Write, Written
from hivesink.sink.commit.recovery import recover
from hivesink.sink.commit.roller import Encode, Roller
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.commit.table_watch import TableWatch
from hivesink.sink.task.messages import InputShape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime, timedelta

    from hivesink.core.lifecycle import History
    from hivesink.core.manifest import Manifest
    from hivesink.core.offsets import TopicIds
    from hivesink.core.partition import PartitionKey
    from hivesink.core.progress import Progress
    from hivesink.core.rolling import OpenRows
    from hivesink.sink.commit.context import CommitContext, WriterSpec

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
        self._runner: PlanRunner | None = None
        self._is_current = False
        self._writer = EpochWriter(context, spec, self._tolerate)
        rule = spec.commit_rule
        self._commits = PartitionCommits(context, rule, watermark_policy(spec.config))
        check: timedelta = spec.config["sink.rolling-policy.check-interval"]
        self._roller = Roller(spec.rolling, tasks, check, max(spec.rolling.rollover, rule.delay))
        self._encode = encode
        own = dict(spec.identity.options)
        self._table_watch = TableWatch(context, spec.target.spec, spec.config, own, check.total_seconds())
        self._seen: set[PartitionKey] = set()
        self._counters = RunCounters()
        limit = spec.config["sink.registration.max-delay"] if spec.tolerant else None
        self._deadline = Deadline(limit, "epochs wait to be published or registered")
        self._blocked = BlockedSlices(Deadline(limit, "rows wait that can't be published"))

    def recover(self) -> PlanRunner:
        """Finish what earlier runs decided. `commit` does so itself if nobody has.

        Raises EpochTaken where another run is at work, LogDamaged, NewerFormat, and what `keep_up` raises.
        """
        with self.lock:
            self._is_current = False
            self._commits.forget()
            begin = partial(PlanRunner.begin, self.context, self.spec.identity, self.spec.policy)

            def take_over(runner: PlanRunner) -> None:
                self._runner = runner
                self._commits.start(runner.history.head)
                self._finish(runner)

            runner = recover(begin, take_over)
            self._note(runner)
            self._is_current = True
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
            self._counters.begin(watch.began)
            self._counters.behind = behind
            runner = self._recovered()
            # Until this batch has ended well, memory may be behind the log.
            self._is_current = False
            self._finish(runner)
            head = runner.history.head
            last = head.last_batch if head else None
            place = Place(self.spec.target.name, self.context.log.location, checkpoint)
            verdict = judge(last, batch, self.spec.history_policy, place, raw=shape.is_raw)
            if isinstance(verdict, Replay):
                logger.info("batch %d was committed as epoch %d", batch.batch, verdict.epoch)
                done = Committed(verdict.epoch, replayed=True)
            else:
                epoch = Epoch(runner.history.epoch + 1)
                new = LastBatch(epoch, batch, appended=verdict.appended, raw=shape.is_raw)
                if last is None and self.spec.was_written(batch):
                    done = self._commit_known(runner, new, topic_ids())
                else:
                    done = self._commit_new(runner, new, shape, write, watch, topic_ids=topic_ids)
            self._is_current = True
            self._tell(done)
            self._roll_due(runner)
            self._commits.ended()
            return done

    def _tell(self, done: Committed) -> None:
        own = os.getpid()
        try:
            self.spec.on_commit(done)
        finally:
            # A process that the function has forked must not go on as this query.
            if os.getpid() != own:
                os._exit(0)

    def keep_up(self, asked: float | None = None) -> None:
        """While no batch comes: try again what waits for the metastore, roll what is due, commit partitions.

        Spark has `asked` the source for new rows then or later, by the context's `tick`; None: nobody knows.

        Raises the metastore's errors once the limit is passed, and what `commit` raises.
        """
        with self.lock:
            if (runner := self._current) is not None:
                if asked is not None:
                    self._commits.asked(asked)
                self._finish(runner)
                self._roll_due(runner)
                self._write_mark(runner)

    def finish(self, *, roll: bool = True) -> None:
        """End the query: make everything readable and write estimates. Without `roll`, rows that wait still do.

        Raises if a publish or a registration stays open, so that the run doesn't end well.
        """
        with self.lock:
            for _ in range(_ROLLS):
                left = self._end(roll=roll)
                if not left:
                    break
            else:
                reason = f"something deletes its files before they can be read: {left} rows wait"
                raise StoreUnavailable(action="publish", path=self.spec.target.location, reason=reason)
            self._deadline.clear()
            # The next run goes on from there; one that has begun already does so by itself.
            with suppress(EpochTaken):
                self._write_mark(self._recovered(), always=True)
            write_estimates(self.context, self._seen, self.spec.measure)
            self._blocked.require_none()

    def _end(self, *, roll: bool) -> int:
        """Publish what is decided, and with `roll` what waits. Returns how many rows wait again."""
        runner = self._recovered()
        if roll:
            self._roll(runner, runner.history.rows.buckets)
            runner = self._recovered()
        try:
            self._carry_out(runner)
        except HiveSinkError as error:
            self._left_open(error)
            raise
        return runner.history.rows.beside(self._blocked).rows if roll else 0

    def read_from(self, traits: InputTraits) -> None:
        """Say what is known of the query's input. To be called before its first batch."""
        self._commits.traits = traits

    def knows_next(self, mark: datetime) -> None:
        """Spark's next batch will have the watermark `mark`."""
        with self.lock:
            self._commits.knows_next(mark)

    def progress(self) -> Progress:
        """What this run has committed. Waits for no batch."""
        runner = self._runner
        waiting = runner.history.rows.rows if runner else 0
        return self._counters.progress(waiting, self.context.tick())

    def tell_end(self) -> None:
        """Log the end of a query that has committed nothing: silence could be a job that does nothing by mistake."""
        if not self.progress().epochs:
            text = "table=%s writer=%s nothing new (%s so far)"
            logger.info(text, self.spec.target.name, self.spec.identity.writer, count(self.head, "epoch"))

    @property
    def head(self) -> Epoch:
        """The newest epoch that this run knows of."""
        return self._runner.history.epoch if self._runner else Epoch(0)

    @property
    def waiting(self) -> str | None:
        """Why epochs wait to be finished, or None."""
        return self._deadline.reason or self._blocked.deadline.reason

    @property
    def _current(self) -> PlanRunner | None:
        """What advances the history, if that is the log's as far as this run can know."""
        runner = self._runner
        return runner if runner and self._is_current and not runner.in_doubt else None

    def _recovered(self) -> PlanRunner:
        return self._current or self.recover()

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
            self._commits.read()
        before = history.head.watermark if history.head else None
        written = self._writer.write(batch.epoch, shape, write, watch, late=before.at if before else None)
        # Not before: all of the batch has been read by now.
        batch = _with_ids(batch, topic_ids())
        watch.lap("lookup")
        mark = self._commits.mark_after(history.head, batch.ref, shape, written.reports, watch.began)
        manifest = self._manifest(runner, batch, written)
        # What waits since `on-epoch` was false is rolled next, and commits its partitions then.
        whole = {part.key for part in written.parts if not history.rows.waits(part.key)}
        ages = self._roller.ages(self.context.tick())
        commits = self._commits.records(whole, history.rows, written.parts, ages, mark)
        # Before the epoch is told: when its rows can be read depends on its own buckets, too.
        self._roller.came((new.key for new in written.opened), self.context.tick())
        done = self._decide(runner, replace(manifest, commits=commits, watermark=mark), written, watch)
        self._note(runner)
        self._settle(self._commits.final({commit.key for commit in commits}))
        return done

    def _roll_due(self, runner: PlanRunner) -> None:
        self._table_watch.log_changes()
        ages, history = self._roller.ages(self.context.tick()), runner.history
        fresh, waits = history.rows.beside(self._blocked), self._commits.waits(ages, history.head)
        done = self._roll(runner, self._roller.due(fresh, ages, waits))
        self._settle(self._commits.final(done) | self._roller.at_rest(done, ages))
        self._blocked.require_none(self.context.tick())

    def _write_mark(self, runner: PlanRunner, *, always: bool = False) -> None:
        """Write down that the watermark has gone on, `always` or where somebody may wait for that."""
        head = runner.history.head
        mark = self._commits.mark(head)
        if head and self._commits.is_news(head, mark) and (always or self._commits.is_awaited(head, mark)):
            manifest = runner.history.following("watermark", self.context.stamp())
            runner.decide(Snapshot(), decision=replace(manifest, watermark=mark))
            self._finish(runner)

    def _roll(self, runner: PlanRunner, due: Collection[PartitionKey]) -> set[PartitionKey]:
        """Make part files of the rows that wait in these buckets, and commit what is over, by an epoch of its own.

        Rows that can't be encoded are held back: their partitions aren't committed. Returns those that are.
        """
        watch, history = Stopwatch(self.context.tick), runner.history
        rows, fresh = history.rows, history.rows.beside(self._blocked)
        keys = fresh.buckets.keys() & set(due)
        if not keys:
            return set()
        self._is_current = False
        mark, ages = self._commits.mark(history.head), self._roller.ages(self.context.tick())
        self._commits.read()
        written = self._encoded(history, fresh, sorted(key for key in keys if fresh.waits(key)), watch)
        if written.left:
            # Their segments may have gone with the log.
            self.context.require_head(history.epoch)
        self._blocked.add(written.left)
        rolled = tuple(sorted({part.key for part in written.parts}))
        whole = {key for key in keys if not any(part in self._blocked for part in rows.buckets[key].slices)}
        stamp = Stamp(self.context.now(), written.attempt)
        manifest = replace(
            history.following("roll" if rolled else "commit", stamp),
            add=written.parts,
            rolled=rolled,
            commits=self._commits.records(whole, rows, written.parts, ages, mark),
            watermark=mark,
        )
        if not manifest.is_bare:
            self._decide(runner, rows.leaving(manifest, self._blocked), written, watch)
            self._roller.rolled(rows, manifest)
            self._note(runner)
        self._is_current = True
        return {commit.key for commit in manifest.commits}

    def _settle(self, places: Collection[PartitionKey]) -> None:
        if places and not self.waiting:
            try:
                write_estimates(self.context, places, self.spec.measure)
            except HiveSinkError as error:
                # An epoch clears the flag itself, and the query's end does all this again.
                logger.warning("no estimates of %s: %s", count(len(places), "partition"), error)

    def _note(self, runner: PlanRunner) -> None:
        # Blocked slices don't age: otherwise each new row of their bucket would become a file of its own.
        self._roller.note(runner.history.rows.beside(self._blocked), self.context.tick(), self.context.now())

    def _encoded(self, history: History, rows: OpenRows, keys: Collection[PartitionKey], watch: Stopwatch) -> Written:
        if not keys:
            return Written(self.context.stamp().attempt, (), (), None)
        encode = partial(self._encode, self._roller.work(rows, keys))
        written = self._writer.write(Epoch(history.epoch + 1), InputShape(), encode, watch)
        left = sum(left_slice.opened.slice.rows for left_slice in written.left)
        waited, encoded = sum(rows.buckets[key].rows for key in keys) - left, sum(part.rows for part in written.parts)
        if waited != encoded:
            message = f"{encoded} rows were encoded where {waited} wait"
            raise AssertionError(message)
        return written

    def _decide(self, runner: PlanRunner, manifest: Manifest, written: Written, watch: Stopwatch) -> Committed:
        runner.decide(Snapshot(), decision=manifest)
        self._commits.decided(manifest)
        watch.lap("manifest")
        # The lookup before the manifest says nothing about older epochs that still wait.
        fresh = len(runner.history.open) == 1 and self._deadline.trouble is None and written.live is not None
        staged = {part.staged: part.length for part in written.parts}
        self._finish(runner, Snapshot(staged, written.live) if fresh else None)
        watch.lap("publish")
        winners = frozenset((written.attempt, report.task_attempt) for report in written.reports)
        runner.clean_up(winners, segments=bool(manifest.rolled))
        watch.lap("sweep")
        ages = self._roller.ages(self.context.tick())
        # What a user counts are the table's own, without those of dead letters.
        own = self.spec.target.name
        published = {part.key for part in written.parts if part.table == own}
        opened = runner.history.rows
        done = Committed(
            epoch=manifest.epoch,
            replayed=False,
            rows=manifest.rows,
            files=len(manifest.created),
            partitions=len(published),
            milliseconds=watch.laps,
            waiting=self.waiting,
            kind=manifest.kind,
            committed=sum(commit.table == own for commit in manifest.commits),
            open_rows=opened.rows,
            readable_in=self._roller.readable_in(opened, ages, self._commits.waits(ages, runner.history.head)),
        )
        self._counters.add(done, published, self.context.tick())
        own_rolling = self._roller.policy.own is not None
        log_epoch(self.spec.target.name, self.spec.identity.writer, done, self.progress(), own_rolling=own_rolling)
        return done

    def _commit_known(self, runner: PlanRunner, batch: LastBatch, ids: TopicIds) -> Committed:
        """Begin the log with an epoch without rows: another log has committed them."""
        logger.info("batch %d was committed before the reset: its rows are in the table", batch.ref.batch)
        attempt = self.context.stamp().attempt
        batch = _with_ids(batch, ids)
        runner.decide(Snapshot(), decision=self._manifest(runner, batch, Written(attempt, (), (), None)))
        self._finish(runner)
        return Committed(batch.epoch, replayed=True)

    def _manifest(self, runner: PlanRunner, batch: LastBatch, written: Written) -> Manifest:
        identity = self.spec.identity
        return replace(
            runner.history.following("batch", Stamp(self.context.now(), written.attempt)),
            last_batch=batch,
            rows=written.rows,
            add=written.parts,
            opened=written.opened,
            tables=identity.tables,
            zones=identity.zones,
        )

    def _finish(self, runner: PlanRunner, first: Snapshot | None = None) -> None:
        try:
            self._carry_out(runner, first)
        except METASTORE_TROUBLE as error:
            self._tolerate(error)
        else:
            self._deadline.clear()

    def _carry_out(self, runner: PlanRunner, first: Snapshot | None = None) -> None:
        before = runner.history.epoch
        self._seen |= runner.history.keys
        try:
            runner.finish(first)
        finally:
            if runner.history.epoch > before:
                # Rows of missing files may wait again.
                self._commits.forget()
                self._note(runner)

    def _tolerate(self, error: HiveSinkError) -> None:
        if self._deadline.has_passed(error, self.context.tick()):
            raise self._left_open(error)

    def _left_open(self, error: HiveSinkError) -> HiveSinkError:
        """`error`, with what it means for the rows that are decided."""
        if error.retryable and self._runner and self._runner.history.open:
            waits = "are committed but can't be read until the job or `hivesink recover` runs"
            error.args = (f"rows of {self.spec.target.name} {waits}: {error}",)
        return error


def _with_ids(batch: LastBatch, ids: TopicIds) -> LastBatch:
    return replace(batch, ref=replace(batch.ref, end=with_ids(batch.ref.end, ids)))
