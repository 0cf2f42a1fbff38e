"""What a run tells: the outcome of its epochs, what it waits for, and how a user has changed its table."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hivesink.core.manifest import Manifest, Rows, Slice
from hivesink.core.partition import PartitionKey
from hivesink.core.progress import Progress
from hivesink.errors import HiveSinkError, RowsHeldBack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from hivesink.core.epoch import Epoch
    from hivesink.sink.task.messages import LeftSlice

logger = logging.getLogger("hivesink")

RECENT = 60.0
"""Seconds over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An epoch's outcome.

    `epoch` counts from 1. `replayed`: Spark ran a batch again that the log had already, and nothing was written.
    `rows` has the counts `read`, `written`, `rejected`, `dropped`, `late` and `skipped`, of which the first is the sum,
    and `extra`, how many more rows than records were read.
    `files` and `partitions` count what it has published, `committed` the partitions that it commits; neither counts
    partitions of dead letters. `kind` is `batch`, or why there is an epoch without a batch. `open_rows` wait after it:
    `hivesink partitions` says for what. `milliseconds` are by step. `waiting` says why epochs wait to be finished, None
    if none does.
    """

    epoch: Epoch
    replayed: bool
    rows: Rows = field(default_factory=Rows)
    files: int = 0
    partitions: int = 0
    kind: str = "batch"
    committed: int = 0
    open_rows: int = 0
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


class RunCounters:
    """What a run of a query has committed so far, for its log and for `Progress`.

    The committer's thread adds to it; any thread reads. `tick` is a monotonic clock in seconds.
    """

    def __init__(self, table: str, writer: str, tick: Callable[[], float]) -> None:
        self.behind: int | None = None
        """The records that the source had beyond the newest batch."""
        self._names, self._tick = (table, writer), tick
        self._total = Progress()
        self._partitions = set[PartitionKey]()
        self._began: float | None = None
        self._recent = deque[tuple[float, int]]()

    def add(self, manifest: Manifest, open_rows: int, spent: Stopwatch, waiting: str | None) -> Committed:
        """Count the epoch of `manifest`, and log it in a line with the query's progress after it."""
        (table, writer), tick, rows = self._names, self._tick(), manifest.rows
        # The first batch starts the clock of the rate.
        self._began = spent.began if self._began is None else self._began
        places = {part.key for part in manifest.add if part.table == table}
        self._partitions |= places
        self._recent.append((tick, rows.read))
        while self._recent[0][0] <= tick - RECENT:
            self._recent.popleft()
        # One assignment: a reader in another thread sees all of an epoch or nothing.
        self._total = replace(
            self._total,
            rows=self._total.rows + rows.read,
            epochs=self._total.epochs + 1,
            partitions=len(self._partitions),
            rejected=self._total.rejected + rows.rejected,
        )
        done = Committed(
            manifest.epoch,
            replayed=False,
            rows=rows,
            files=len(manifest.created),
            partitions=len(places),
            kind=manifest.kind,
            committed=sum(commit.table == table for commit in manifest.commits),
            open_rows=open_rows,
            milliseconds=spent.laps,
            waiting=waiting,
        )
        steps = " ".join(f"{step}={lap}ms" for step, lap in spent.laps.items())
        still = f" open={open_rows}" if open_rows else ""
        counts = (rows.read, rows.written, rows.rejected, rows.dropped, rows.late, rows.skipped)
        published, so_far = (done.files, done.partitions, done.committed), self.progress(open_rows)
        trouble = f" waiting: {waiting}" if waiting else ""
        text = "table=%s writer=%s epoch=%d %s rows=%d written=%d rejected=%d dropped=%d late=%d skipped=%d "
        text += "files=%d partitions=%d committed=%d %s%s%s total=%d%s%s"
        rate = "" if so_far.rows_per_second is None else f" ({so_far.rows_per_second:.0f} rows/s)"
        behind = "" if so_far.behind_records is None else f" behind: {so_far.behind_records:,} records"
        values = (*counts, *published, steps, still, trouble, so_far.rows, rate, behind)
        logger.info(text, table, writer, done.epoch, done.kind, *values)
        return done

    def progress(self, waiting_rows: int) -> Progress:
        """What is known now."""
        total, began, tick, rate = self._total, self._began, self._tick(), None
        if began is not None and total.epochs and tick > began:
            rows = sum(rows for added, rows in tuple(self._recent) if added > tick - RECENT)
            rate = rows / min(RECENT, tick - began)
        return replace(total, rows_per_second=rate, behind_records=self.behind, waiting_rows=waiting_rows)


@dataclass(slots=True)
class Deadline:
    """Waits for at most `limit`; None: not at all. `what` says what waits."""

    limit: timedelta | None
    what: str
    trouble: HiveSinkError | None = None
    _since: float | None = None

    @property
    def reason(self) -> str | None:
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


class BlockedSlices(dict["Slice", "LeftSlice"]):
    """Slices that this run couldn't encode, since they don't fit the table any more or their segment is lost.

    The run doesn't try them again, and fails once the deadline has passed, or at its end.
    """

    def __init__(self, patience: timedelta | None) -> None:
        super().__init__()
        self.deadline = Deadline(patience, "rows wait that can't be published")

    def require_none(self, tick: float | None = None) -> None:
        """Raise RowsHeldBack if there are some; with a `tick`, only once their deadline has passed."""
        if self:
            reasons = [blocked.reason for blocked in self.values()]
            error = RowsHeldBack(reasons, retryable=all(blocked.retryable for blocked in self.values()))
            if tick is None or self.deadline.has_passed(error, tick):
                raise error
