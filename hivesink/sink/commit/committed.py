"""What a run tells: the outcome of its epochs, what it waits for, and how a user has changed its table."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.config.options import OPTIONS
from hivesink.core.manifest import NO_ROWS, Rows
from hivesink.core.progress import Progress
from hivesink.errors import MetastoreUnreachable, RowsHeldBack, UnknownTable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from hivesink.core.epoch import Epoch
    from hivesink.core.partition import PartitionKey
    from hivesink.core.records import Slice
    from hivesink.core.table import TableSpec
    from hivesink.errors import HiveSinkError
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.task.messages import LeftSlice

logger = logging.getLogger("hivesink")

RECENT = 60.0
"""Seconds over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One epoch's outcome.

    `epoch` counts from 1. `replayed`: Spark ran a batch again that the log had already, and nothing was written.
    `rows` has the counts `read`, `written`, `rejected`, `dropped`, `late` and `skipped`, of which the first is the sum.
    `files` and `partitions` count what it has published, `committed` the partitions that it commits; neither counts
    partitions of dead letters. `kind` is `batch`, or why there is an epoch without a batch. `open_rows` wait after it;
    readers see them within `readable_in`, None if their partitions must be over first, or the user's own rolling policy
    decides. `milliseconds` are by step. `waiting` says why epochs wait to be finished, None if none does.
    """

    epoch: Epoch
    replayed: bool
    rows: Rows = NO_ROWS
    files: int = 0
    partitions: int = 0
    kind: str = "batch"
    committed: int = 0
    open_rows: int = 0
    readable_in: timedelta | None = None
    milliseconds: Mapping[str, int] = field(default_factory=dict)
    waiting: str | None = None


class Stopwatch:
    """Milliseconds per step. `tick` is a monotonic clock in seconds. Laps of the same name add up."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self.laps: dict[str, int] = {}
        self._tick = tick
        self.began = self._last = tick()

    def lap(self, name: str) -> None:
        now = self._tick()
        self.laps[name] = self.laps.get(name, 0) + round(1000 * (now - self._last))
        self._last = now


@dataclass(slots=True)
class RunCounters:
    """What a run of a query has committed so far, for `Progress`.

    The committer's thread adds to it; any thread reads. Times (`tick`) are seconds of a monotonic clock.
    """

    behind: int | None = None
    """The records that the source had beyond the newest batch."""
    _total: Progress = field(default_factory=Progress)
    _partitions: set[PartitionKey] = field(default_factory=set)
    _began: float | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _readable_at: float | None = None

    def begin(self, tick: float, behind: int | None) -> None:
        """A batch begins: the first starts the clock of the rate."""
        self.behind = behind
        if self._began is None:
            self._began = tick

    def add(self, done: Committed, partitions: Collection[PartitionKey], tick: float) -> None:
        """Count an epoch that has published files in `partitions`."""
        self._partitions |= set(partitions)
        self._recent.append((tick, done.rows.read))
        while self._recent[0][0] <= tick - RECENT:
            self._recent.popleft()
        self._readable_at = None if done.readable_in is None else tick + done.readable_in.total_seconds()
        # One assignment: a reader in another thread sees all of an epoch or nothing.
        self._total = replace(
            self._total,
            rows=self._total.rows + done.rows.read,
            epochs=self._total.epochs + 1,
            partitions=len(self._partitions),
            rejected=self._total.rejected + done.rows.rejected,
        )

    def progress(self, waiting_rows: int, tick: float) -> Progress:
        """What is known at `tick`."""
        total, readable_at = self._total, self._readable_at
        readable = None
        if waiting_rows and readable_at is not None:
            readable = timedelta(seconds=max(0.0, readable_at - tick))
        return replace(
            total,
            rows_per_second=self._rate(tick),
            waiting_rows=waiting_rows,
            readable_in=readable,
            behind_records=self.behind,
        )

    def _rate(self, tick: float) -> float | None:
        if self._began is None or not self._total.epochs or tick <= self._began:
            return None
        rows = sum(rows for at, rows in tuple(self._recent) if at > tick - RECENT)
        return rows / min(RECENT, tick - self._began)


def log_epoch(table: str, writer: str, done: Committed, so_far: Progress) -> None:
    """Log the epoch in a line, with the query's progress after it."""
    rows, steps = done.rows, " ".join(f"{step}={spent}ms" for step, spent in done.milliseconds.items())
    counts = (rows.read, rows.written, rows.rejected, rows.dropped, rows.late, rows.skipped)
    published = (done.files, done.partitions, done.committed)
    still = f" open={done.open_rows} ({_readable(done.readable_in)})" if done.open_rows else ""
    waiting = f" waiting: {done.waiting}" if done.waiting else ""
    text = "table=%s writer=%s epoch=%d %s rows=%d written=%d rejected=%d dropped=%d late=%d skipped=%d "
    text += "files=%d partitions=%d committed=%d %s%s%s total=%d%s%s"
    rate = "" if so_far.rows_per_second is None else f" ({so_far.rows_per_second:.0f} rows/s)"
    behind = "" if so_far.behind_records is None else f" behind: {so_far.behind_records:,} records"
    values = (*counts, *published, steps, still, waiting, so_far.rows, rate, behind)
    logger.info(text, table, writer, done.epoch, done.kind, *values)


def _readable(within: timedelta | None) -> str:
    if within is None:
        return "readable once rolled, those of unfinished partitions once these are over"
    return f"readable within {max(0, round(within.total_seconds()))} s"


@dataclass(slots=True)
class Deadline:
    """Waits for at most `limit`; None: not at all. `what` says what waits."""

    limit: timedelta | None
    what: str
    trouble: HiveSinkError | None = None
    _since: float | None = None

    @property
    def reason(self) -> str | None:
        """Why epochs wait to be finished, or None."""
        return None if self.trouble is None else str(self.trouble)

    def has_passed(self, error: HiveSinkError, tick: float) -> bool:
        """Whether `error` has lasted longer than the limit. `tick` is monotonic: people set the wall clock."""
        since = self._since = tick if self._since is None else self._since
        before, self.trouble = self.reason, error
        if self.limit is None or tick - since > self.limit.total_seconds():
            return True
        # Each batch's line in the log repeats it.
        if self.reason != before:
            logger.warning("%s, at most %s: %s", self.what, self.limit, error)
        return False

    def clear(self) -> None:
        self.trouble = self._since = None


@dataclass(slots=True)
class BlockedSlices:
    """Slices that this run couldn't encode, since they don't fit the table any more or their segment is lost.

    The run doesn't try them again, and fails once the deadline has passed, or at its end.
    """

    deadline: Deadline
    _left: dict[Slice, LeftSlice] = field(default_factory=dict)

    def __contains__(self, part: object) -> bool:
        return part in self._left

    def add(self, left: Iterable[LeftSlice]) -> None:
        self._left |= {blocked.opened.slice: blocked for blocked in left}

    def require_none(self, tick: float | None = None) -> None:
        """Raise RowsHeldBack if there are some; with a `tick`, only once their deadline has passed."""
        if not self._left:
            return
        left = self._left.values()
        reasons = [blocked.reason for blocked in left]
        error = RowsHeldBack(reasons, retryable=all(blocked.retryable for blocked in left))
        if tick is None or self.deadline.has_passed(error, tick):
            raise error


@dataclass(slots=True)
class TableWatch:
    """Compares the table with `known` every `interval` seconds at most; the job's `own` settings outrank it."""

    context: CommitContext
    known: TableSpec
    own: Collection[str]
    interval: float
    _next: float | None = None

    def log_changes(self) -> None:
        """Log what has changed since the last look. Others report a metastore that is down.

        Raises what `ask_again` raises where the table was made again: rows that come now would wait for a table
        that is gone.
        """
        tick, due = self.context.tick(), self._next
        if due is not None and tick < due:
            return
        self._next = tick + self.interval
        with suppress(MetastoreUnreachable, UnknownTable, Unsupported):
            first = self.context.table(str(self.known.name))
            if due is None:
                return  # It was read just now.
            live = self.context.registrar.table(self.known.name)
            if live.log != first.log:
                self.context.ask_again(str(self.known.name))
            before, now = self._texts(self.known), self._texts(live.spec)
            for name in sorted(before.keys() | now.keys()):
                if before.get(name) != now.get(name):
                    text = "%s: %s is %s, and was %s; the running query goes on without that until its next start"
                    logger.warning(text, live.spec.name, name, now.get(name, "gone"), before.get(name, "not there"))
            self.known = live.spec

    def _texts(self, spec: TableSpec) -> dict[str, str]:
        own = (item for item in spec.options.items() if item[0] in OPTIONS or item[0].startswith("sink."))
        options = {name: repr(value) for name, value in own}
        columns = {f"column {column.name}": str(column.type) for column in spec.columns}
        return columns | {name: value for name, value in options.items() if name not in self.own}
