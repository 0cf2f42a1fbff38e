"""Rolls waiting rows: decides which buckets are due, has them encoded, and says how far that has come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.roll_policy import Ages, Encoding, due, spread
from hivesink.sink.commit.epochwriter import EpochWriter, Written
from hivesink.sink.task.messages import InputShape

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_commit import Waits
    from hivesink.core.roll_policy import RollingPolicy
    from hivesink.core.rolling import OpenRows
    from hivesink.sink.commit.committed import Stopwatch
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
