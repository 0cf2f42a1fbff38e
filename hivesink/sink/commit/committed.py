"""What a run tells: its epochs, its progress, how far readers are, metrics, what it waits for."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hivesink.core import actions
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import History
from hivesink.core.manifest import Manifest, Rows, Slice
from hivesink.core.metrics import RESULTS, STEPS, Figures, Histogram, Sample, commit_delay
from hivesink.core.offsets import ends
from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import CommitRule
from hivesink.core.progress import Progress
from hivesink.core.reads import Lag, lag
from hivesink.errors import HiveSinkError, RowsHeldBack
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

    def __str__(self) -> str:
        rows = {"rows": self.rows.read, **{result: getattr(self.rows, result) for result in RESULTS}}
        counts = {**rows, "files": self.files, "partitions": self.partitions, "committed": self.committed}
        counts |= {step: f"{lap}ms" for step, lap in self.milliseconds.items()}
        counts |= {"open": self.open_rows} if self.open_rows else {}
        text = " ".join(f"{name}={number}" for name, number in counts.items())
        return f"epoch={self.epoch} {self.kind} {text}{f' waiting: {self.waiting}' if self.waiting else ''}"


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
class RunFigures:
    """The committer's thread tells it what happens; any thread reads it, without a wait. `tick` as in `CommitContext`.

    `behind` are the records that the source had beyond the newest batch. `recount` reads the figures from the log:
    where metrics are wanted, at the start, and where others have written to the log since. `heard` is called whenever
    more may be visible, and asks when it likes.
    """

    table: str
    writer: str
    rule: CommitRule
    tick: Callable[[], float]
    behind: int | None = None
    recount: Callable[[], Figures] | None = None
    heard: Callable[[Callable[[], Lag]], None] | None = None
    _total: Progress = field(default_factory=Progress)
    _partitions: set[PartitionKey] = field(default_factory=set)
    _began: float | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _log: Figures | None = None
    _history: History | None = None
    _settled: History | None = None
    """As it was when nothing was unsettled last."""
    _known: tuple[object, object, Lag] | None = None
    _steps: dict[str, Histogram] = field(default_factory=lambda: {step: Histogram() for step in STEPS})
    _rolls: Histogram = field(default_factory=Histogram)

    def count(self, recount: Callable[[], Figures]) -> None:
        """From now on there are figures for metrics."""
        self.recount, self._log = recount, recount()

    def acted(self, action: actions.Action) -> None:
        """The log has got this."""
        if isinstance(action, actions.Decide) and self.recount is not None:
            manifest, before = action.manifest, self._log
            try:
                if before is None or before.total.epoch != manifest.epoch - 1:
                    self._log = self.recount()
                    return
                delay = commit_delay(manifest, self.rule)
                self._log = before.after(manifest, before.commit_delay if delay is None else delay)
            except Exception as error:  # noqa: BLE001  no epoch fails by it
                # To read the whole log at each epoch would cost too much.
                self.recount = None
                logger.warning("metrics may be wrong until the next start: %s: %s", type(error).__name__, error)

    def ended(self, manifest: Manifest, open_rows: int, spent: Stopwatch, waiting: str | None) -> Committed:
        """An epoch has ended, as far as the metastore lets: its outcome, and its line in the log.

        `open_rows` and `waiting` as in `Committed`; `spent` began with the epoch.
        """
        tick, rows = self.tick(), manifest.rows
        # The first batch starts the clock of the rate.
        self._began = spent.began if self._began is None else self._began
        places = {part.key for part in manifest.add if part.table == self.table}
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
        for step, lap in spent.laps.items():
            self._steps.setdefault(step, Histogram()).add(lap / 1000)
        if manifest.kind == "roll":
            self._rolls.add(sum(spent.laps.values()) / 1000)
        done = Committed(
            manifest.epoch,
            replayed=False,
            rows=rows,
            files=len(manifest.created),
            partitions=len(places),
            kind=manifest.kind,
            committed=sum(commit.table == self.table for commit in manifest.commits),
            open_rows=open_rows,
            milliseconds=spent.laps,
            waiting=waiting,
        )
        so_far = self.progress()
        rate = "" if so_far.rows_per_second is None else f" ({so_far.rows_per_second:.0f} rows/s)"
        behind = "" if self.behind is None else f" behind: {self.behind:,} records"
        logger.info("table=%s writer=%s %s total=%d%s%s", self.table, self.writer, done, so_far.rows, rate, behind)
        return done

    def progress(self, waiting_rows: int = 0) -> Progress:
        """What is known now, but for offsets: an epoch's line asks, and these may take long."""
        total, began, tick, rate = self._total, self._began, self.tick(), None
        if began is not None and total.epochs and tick > began:
            rows = sum(rows for added, rows in tuple(self._recent) if added > tick - RECENT)
            rate = rows / min(RECENT, tick - began)
        return replace(total, rows_per_second=rate, behind_records=self.behind, waiting_rows=waiting_rows)

    def rested(self, history: History) -> None:
        """Nothing more can be done for now."""
        self._history = history
        if not history.open:
            self._settled = history
            self.hear()

    def hear(self) -> None:
        """Call `heard`, once anything has been settled."""
        if self.heard is not None and self._settled is not None:
            self.heard(lambda: self.lag)

    @property
    def lag(self) -> Lag:
        """As far as this run knows: until its log is settled, what the log told, if anybody has asked it."""
        history, settled = self._history, self._settled
        newest = history.head.last_batch if history and history.head else None
        if settled is None:
            read = ends(newest.ref.end) if newest else {}
            return (self._log.lag if self._log else Lag()).of(read)
        known = self._known
        if known is None or known[0] is not history or known[1] is not settled:
            done = settled.head.last_batch if settled.head else None
            self._known = known = history, settled, lag(newest, done, settled.rows.reads, settled.rows.buckets.values())
        return known[2]

    def samples(self, now: datetime) -> Iterator[Sample]:
        """At the time `now` (UTC)."""
        log, history = self._log, self._history
        if log is not None and history is not None:
            log = Figures(
                log.total, history.head, self.lag, history.rows, len(history.open), history.waiting, log.commit_delay
            )
        if log is not None:
            yield from log.samples(now)
        for step, spent in self._steps.items():
            yield from spent.samples("epoch_seconds", {"step": step})
        yield from self._rolls.samples("roll_seconds", {})


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
