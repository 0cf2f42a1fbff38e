"""What waits in a run: epochs to be finished, rows to be rolled, partitions to be committed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from hivesink.core.actions import Snapshot
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Commit, Manifest, Opened, PartEntry, commit_after
from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import Watermark
from hivesink.core.rolling import Ages, OpenRows, due, spread
from hivesink.errors import HiveSinkError
from hivesink.sink.commit.committed import Deadline, RunFigures, Stopwatch
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.epochwriter import METASTORE_TROUBLE, EpochWriter, Written
from hivesink.sink.commit.observe import load_commits
from hivesink.sink.commit.recovery import recover
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.commit.writer import WriterSpec
from hivesink.sink.task.messages import InputShape, TaskPlan, TaskReport

logger = logging.getLogger("hivesink")

Encode = Callable[[Sequence[Sequence[Opened]], "TaskPlan"], Iterable["TaskReport"]]
"""Encodes waiting rows as parts, each inner sequence in a task of its own."""

_RATIO = 0.5
"""What a byte of a segment becomes in a Parquet file, until a roll has shown it."""


class OpenPartitions:
    """The partitions with rows that wait or without their commit: which are due, and which the log has committed.

    Ages follow a monotonic clock, so that a wall clock that people set rolls nothing.
    """

    def __init__(self, writer: EpochWriter, encode: Encode, tasks: int) -> None:
        """`encode` runs on `tasks` tasks at a time. Raises InvalidOption."""
        self.rule, self._policy = writer.spec.commit_rule, writer.spec.rolling
        self._writer, self._context, self._encode, self._tasks = writer, writer.context, encode, tasks
        self._since: dict[PartitionKey, tuple[float, float]] = {}
        self._ratio = _RATIO
        self._commits: dict[PartitionKey, Commit] | None = None
        self._warned = False

    def note(self, rows: OpenRows) -> None:
        """Take up the buckets in `rows` that aren't known yet, with the age that their epochs' times (UTC) show.

        Blocked slices aren't in `rows`, and don't age: otherwise each new row of their bucket would become a file.
        """
        tick, now = self._context.tick(), self._context.now()
        # No bucket waits for longer by the clock alone.
        longest = max(self._policy.rollover, self.rule.delay)
        for key, bucket in rows.buckets.items():
            if key not in self._since:
                # A clock that was set makes a bucket wait for at most an interval more, or none.
                ages = (min(max(now - at, timedelta(0)), longest) for at in (bucket.first, bucket.last))
                first, last = (tick - age.total_seconds() for age in ages)
                self._since[key] = first, last
        for key in self._since.keys() - rows.buckets.keys():
            del self._since[key]

    def came(self, keys: Iterable[PartitionKey]) -> None:
        """Rows of these buckets have come just now."""
        tick = self._context.tick()
        for key in keys:
            first, _ = self._since.get(key, (tick, tick))
            self._since[key] = first, tick

    def due(self, rows: OpenRows, mark: Watermark | None) -> set[PartitionKey]:
        """Those whose time has come, and those that the rolling policy chooses, but for what must wait for its commit.

        The policy has late rows too, and all where nothing waits for a commit. With a clock a partition waits for its
        end though it is committed: other settings have done that.
        """
        ages = self._ages()
        waiting = {key for key in ages if self.rule.holds(key)}
        committed = self.committed() if waiting else {}
        over = {key for key in waiting if self.rule.is_over(key, ages[key].open, mark or Watermark())}
        held = {key for key in waiting - over if key not in committed or self.rule.end(key) is not None}
        # Earlier settings held these, and have published all their rows.
        published = {key for key, bucket in rows.buckets.items() if not bucket.slices and key not in held}
        return due(rows, ages, self._policy, self._ratio, held) | (over - committed.keys()) | published

    def at_rest(self) -> set[PartitionKey]:
        """Those for which no row has come for long."""
        return {key for key, age in self._ages().items() if age.idle >= self._policy.inactivity}

    def encode(self, head: Epoch, rows: OpenRows, keys: Iterable[PartitionKey], watch: Stopwatch) -> Written:
        """Make parts of the rows that wait in these buckets, but for slices that can't be encoded. Nothing is decided.

        Raises as `EpochWriter.write`; FencedOut, LogMissing where rows are left and the log has gone on from `head`.
        """
        waiting = sorted(key for key in keys if rows.waits(key))
        if not waiting:
            return Written(self._context.stamp().attempt)
        work = spread(rows, waiting, self._policy.file_size / self._ratio, self._tasks)
        written = self._writer.write(Epoch(head + 1), InputShape(), partial(self._encode, work), watch)
        if written.left:
            # Their segments may have gone with the log.
            self._context.require_head(head)
        left = sum(left_slice.opened.slice.rows for left_slice in written.left)
        waited = sum(rows.buckets[key].rows for key in waiting) - left
        encoded = sum(part.rows for part in written.parts)
        if waited != encoded:
            message = f"{encoded} rows were encoded where {waited} wait"
            raise AssertionError(message)
        return written

    def commits(
        self, keys: Collection[PartitionKey], rows: OpenRows, parts: Iterable[PartEntry], mark: Watermark | None
    ) -> tuple[Commit, ...]:
        """The commits of those of `keys` that can be committed, once `parts` are published: no row of these waits."""
        if not keys:
            return ()
        ages, counts, files = self._ages(), Counter[PartitionKey](), Counter[PartitionKey]()
        for part in parts:
            counts[part.key] += part.rows
            files[part.key] += 1
        commits = []
        for key in sorted(keys):
            if self.rule.is_unknown(key):
                if not self._warned:
                    logger.warning("%s %s is never committed: no time can be read from its values", *key)
                self._warned = True
                continue
            is_late = self.rule.end(key) is None and key in self.committed()
            if is_late or self.rule.is_over(key, ages[key].open if key in ages else timedelta(0), mark or Watermark()):
                bucket = rows.buckets.get(key)
                before = (bucket.published, bucket.files) if bucket else (0, 0)
                total = before[0] + counts[key], before[1] + files[key]
                commits.append(commit_after(self.committed().get(key), key, *total))
        return tuple(commits)

    def decided(self, rows: OpenRows, manifest: Manifest) -> None:
        """Remember what `manifest` commits, and what became of the bytes that waited in its buckets of `rows`."""
        if self._commits is not None:
            self._commits |= {commit.key: commit for commit in manifest.commits}
        before = sum(part.length for slices in rows.closed(manifest).values() for part in slices)
        after = sum(part.length for part in manifest.add)
        if before and after:
            self._ratio = after / before

    def forget_commits(self) -> None:
        """Another run may have written to the log."""
        self._commits = None

    def committed(self) -> Mapping[PartitionKey, Commit]:
        """The log's commits, read once.

        A start doesn't wait for that. An epoch that may commit reads them before its tasks run, since nothing may take
        time between the last look at staged files and the decision.
        """
        if self._commits is None:
            self._commits = load_commits(self._context, self.rule.table)
        return self._commits

    def _ages(self) -> dict[PartitionKey, Ages]:
        tick = self._context.tick()
        return {
            key: Ages(timedelta(seconds=tick - first), timedelta(seconds=tick - last))
            for key, (first, last) in self._since.items()
        }


@dataclass(slots=True)
class LiveHistory:
    """The writer's history during a run: recovered where it is in doubt, finished as far as the metastore lets.

    `rows_changed` is called whenever other rows may wait than those that the run has seen; `figures` are the run's.
    """

    context: CommitContext
    spec: WriterSpec
    rows_changed: Callable[[PlanRunner], None]
    figures: RunFigures
    deadline: Deadline = field(init=False)
    runner: PlanRunner | None = None
    is_current: bool = False
    """Whether the runner's history is the log's, as far as this run can know."""
    seen: set[PartitionKey] = field(default_factory=set)
    """The partitions that this run has published into."""

    def __post_init__(self) -> None:
        self.deadline = Deadline(self.spec.patience, "epochs wait to be published or registered")

    @contextmanager
    def advancing(self, *, anew: bool = False) -> Iterator[PlanRunner]:
        """What advances the history, once what earlier runs decided is finished. Raises as `Committer.recover`.

        Until the block has ended well, memory may be behind the log: then, or with `anew`, the log is read again.
        """

        def take_over(runner: PlanRunner) -> None:
            self.runner = runner
            self.finish(runner)

        runner = self.runner
        if runner is None or anew or not self.is_current:
            self.is_current = False
            spec = self.spec
            runner = recover(
                partial(PlanRunner.begin, self.context, spec.identity, spec.policy, self.figures.acted), take_over
            )
            self.rows_changed(runner)
        self.is_current = False
        yield runner
        self.is_current = True
        self.figures.rested(runner.history)

    def finish(self, runner: PlanRunner, first: Snapshot | None = None, *, at_end: bool = False) -> None:
        """Bring open epochs to their end (`first` as of `runner`). A metastore may be down, but not `at_end`."""
        if not runner.history.open:
            self.deadline.clear()
            return
        before = runner.history.epoch
        self.seen |= runner.history.places
        try:
            runner.finish(first)
        except HiveSinkError as error:
            if at_end:
                self._left_open(error)
                raise
            if not isinstance(error, METASTORE_TROUBLE):
                raise
            self.tolerate(error)
        else:
            self.deadline.clear()
        finally:
            if runner.history.epoch > before:
                # Rows of missing files may wait again.
                self.rows_changed(runner)

    def tolerate(self, error: HiveSinkError) -> None:
        """Raises `error` once it has lasted for too long."""
        if self.deadline.has_passed(error, self.context.tick()):
            raise self._left_open(error)

    def _left_open(self, error: HiveSinkError) -> HiveSinkError:
        """`error`, with what it means for the rows that are decided."""
        if error.retryable and self.runner and self.runner.history.open:
            waits = "are committed but can't be read until the job or `hivesink recover` runs"
            error.args = (f"rows of {self.spec.target.name} {waits}: {error}",)
        return error
