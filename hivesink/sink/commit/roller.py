"""What waits: rows to be rolled, and partitions to be committed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import Watermark, due_commits
from hivesink.core.records import commit_after
from hivesink.core.rolling import Ages, Encoding, due, spread
from hivesink.sink.commit.epochwriter import EpochWriter, Written
from hivesink.sink.commit.observe import load_commits
from hivesink.sink.task.messages import InputShape

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition_commit import CommitRule, Waits
    from hivesink.core.records import Commit
    from hivesink.core.rolling import OpenRows, RollingPolicy
    from hivesink.sink.commit.committed import Stopwatch
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.task.messages import TaskPlan, TaskReport

Encode = Callable[[Sequence[Sequence[Encoding]], "TaskPlan"], Iterable["TaskReport"]]
"""Encodes waiting rows as parts, each inner sequence in a task of its own."""

_RATIO = 0.5
"""What a byte of a segment becomes in a Parquet file, until a roll has shown it."""


@dataclass(slots=True)
class Roller:
    """How long buckets have waited, by a monotonic clock, so that a wall clock that people set rolls nothing."""

    policy: RollingPolicy
    tasks: int
    check: timedelta
    """How often somebody asks what is due."""
    longest: timedelta
    """No bucket waits for longer by the clock alone."""
    writer: EpochWriter
    encoder: Encode
    _since: dict[PartitionKey, tuple[float, float]] = field(default_factory=dict)
    _ratio: float = _RATIO

    def note(self, rows: OpenRows, tick: float, now: datetime) -> None:
        """Take up the buckets in `rows` that aren't known yet, with the age that their epochs' times (UTC) show."""
        for key, bucket in rows.buckets.items():
            if key not in self._since:
                # A clock that was set makes a bucket wait for at most an interval more, or none.
                ages = (min(max(now - at, timedelta(0)), self.longest) for at in (bucket.first, bucket.last))
                first, last = (tick - age.total_seconds() for age in ages)
                self._since[key] = first, last
        for key in self._since.keys() - rows.buckets.keys():
            del self._since[key]

    def came(self, keys: Iterable[PartitionKey], tick: float) -> None:
        """Rows of these buckets have come just now."""
        for key in keys:
            first, _ = self._since.get(key, (tick, tick))
            self._since[key] = first, tick

    def ages(self, tick: float) -> dict[PartitionKey, Ages]:
        """Those of all open buckets."""
        return {
            key: Ages(timedelta(seconds=tick - first), timedelta(seconds=tick - last))
            for key, (first, last) in self._since.items()
        }

    def due(self, rows: OpenRows, ages: Mapping[PartitionKey, Ages], waits: Waits) -> set[PartitionKey]:
        """The buckets that are to be rolled or committed now."""
        # Earlier settings held these, and have published all their rows.
        published = {key for key, bucket in rows.buckets.items() if not bucket.slices and key not in waits.held}
        return due(rows, ages, self.policy, self._ratio, waits.held) | waits.over | published

    def readable_in(self, rows: OpenRows, ages: Mapping[PartitionKey, Ages], waits: Waits) -> timedelta | None:
        """How long open rows stay out of readers' sight at most; None if the watermark or the user's class decides."""
        policy = self.policy
        # Of a bucket without slices only the commit waits: its rows are published. What is held back has no age.
        opened = {key for key, bucket in rows.buckets.items() if bucket.slices} & ages.keys()
        if not waits.held.isdisjoint(opened) or (policy.own is not None and not policy.at_once):
            return None
        left = (min(policy.rollover - ages[key].open, policy.inactivity - ages[key].idle) for key in opened)
        return max((timedelta(0), *left)) + self.check

    def at_rest(self, keys: Iterable[PartitionKey], ages: Mapping[PartitionKey, Ages]) -> set[PartitionKey]:
        """Those for which no row has come for long."""
        return {key for key in keys if key in ages and ages[key].idle >= self.policy.inactivity}

    def encode(self, epoch: Epoch, rows: OpenRows, keys: Collection[PartitionKey], watch: Stopwatch) -> Written:
        """Make parts of the rows that wait in these buckets, but for slices that can't be encoded. Nothing is decided.

        Raises as `EpochWriter.write`.
        """
        if not keys:
            return Written(self.writer.context.stamp().attempt, (), (), None)
        work = spread(rows, keys, self.policy.file_size / self._ratio, self.tasks)
        written = self.writer.write(epoch, InputShape(), partial(self.encoder, work), watch)
        left = sum(left_slice.opened.slice.rows for left_slice in written.left)
        waited, encoded = sum(rows.buckets[key].rows for key in keys) - left, sum(part.rows for part in written.parts)
        if waited != encoded:
            message = f"{encoded} rows were encoded where {waited} wait"
            raise AssertionError(message)
        return written

    def rolled(self, rows: OpenRows, manifest: Manifest) -> None:
        """`manifest` has rolled buckets of `rows`: learn what became of their bytes."""
        before = sum(part.length for slices in rows.closed(manifest).values() for part in slices)
        after = sum(part.length for part in manifest.add)
        if before and after:
            self._ratio = after / before


logger = logging.getLogger("hivesink")


@dataclass(slots=True)
class PartitionCommits:
    """The commits of the log, and those that its next manifest can have."""

    context: CommitContext
    rule: CommitRule
    _known: dict[PartitionKey, Commit] | None = None
    _warned: bool = False

    def passes_an_end(self, before: Watermark | None, now: Watermark | None) -> bool:
        """Whether a committed partition ends between these watermarks, which other settings have committed early."""
        ends = [end for end in map(self.rule.end, self.read()) if end is not None]
        was, mark = before or Watermark(), now or Watermark()
        return any(mark.has_passed(end) and not was.has_passed(end) for end in ends)

    def waits(self, ages: Mapping[PartitionKey, Ages], mark: Watermark | None) -> Waits:
        """As `due_commits`."""
        return due_commits(self.rule, {key: age.open for key, age in ages.items()}, mark or Watermark(), self)

    def __contains__(self, key: object) -> bool:
        """Whether the log has a commit of that partition."""
        return key in self.read()

    def records(
        self,
        keys: Iterable[PartitionKey],
        rows: OpenRows,
        parts: Iterable[PartEntry],
        ages: Mapping[PartitionKey, Ages],
        mark: Watermark | None,
    ) -> tuple[Commit, ...]:
        """The commits of those of `keys` that can be committed, once `parts` are published: no row of these waits."""
        counts, files = Counter[PartitionKey](), Counter[PartitionKey]()
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
            is_late = key in self and self.rule.end(key) is None
            if is_late or self.rule.is_over(key, ages[key].open if key in ages else timedelta(0), mark or Watermark()):
                before_rows, before_files = rows.published(key)
                total = before_rows + counts[key], before_files + files[key]
                commits.append(commit_after(self.read().get(key), key, *total))
        return tuple(commits)

    def decided(self, manifest: Manifest) -> None:
        """Remember what `manifest` commits."""
        if self._known is not None:
            self._known |= {commit.key: commit for commit in manifest.commits}

    def forget(self) -> None:
        """Another run may have written to the log."""
        self._known = None

    def read(self) -> dict[PartitionKey, Commit]:
        """The log's commits, read once.

        A start doesn't wait for that. An epoch that may commit reads them before its tasks run, since nothing may take
        time between the last look at staged files and the decision.
        """
        if self._known is None:
            self._known = load_commits(self.context, self.rule.table)
        return self._known
