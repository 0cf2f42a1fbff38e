"""One epoch's outcome, the time that it took, and the line of the log that tells it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.core.manifest import NO_ROWS, Rows
from hivesink.core.progress import count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from hivesink.core.epoch import Epoch
    from hivesink.core.progress import Progress

logger = logging.getLogger("hivesink")


@dataclass(frozen=True, slots=True)
class Committed:
    """One epoch's outcome.

    `epoch` counts from 1. `replayed`: Spark ran a batch again that the log had already, and nothing was written.
    `rows` has the counts `read`, `written`, `rejected`, `dropped`, `late` and `skipped`, of which the first is the sum.
    `files` and `partitions` count what it has published, `committed` the partitions that it commits. `kind` is `batch`,
    or why there is an epoch without one. `open_rows` wait after it; readers see them within `readable_in`, None if
    their partitions must be over first, or the user's own rolling policy decides. `milliseconds` are by step.
    `waiting` says why epochs wait to be finished, None if none does.
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
    """Milliseconds per step. `tick` is a monotonic clock in seconds. Laps of one name add up."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self.laps: dict[str, int] = {}
        self._tick = tick
        self.began = self._last = tick()

    def lap(self, name: str) -> None:
        now = self._tick()
        self.laps[name] = self.laps.get(name, 0) + round(1000 * (now - self._last))
        self._last = now


def tell_nothing_new(table: str, writer: str, head: Epoch) -> None:
    """Log the end of a query that has committed nothing: silence could be a job that does nothing by mistake."""
    logger.info("table=%s writer=%s nothing new (%s so far)", table, writer, count(head, "epoch"))


def tell(table: str, writer: str, done: Committed, so_far: Progress, *, own_rolling: bool = False) -> None:
    """Log the epoch in one line, with the query's progress after it."""
    rows, steps = done.rows, " ".join(f"{step}={spent}ms" for step, spent in done.milliseconds.items())
    counts = (rows.read, rows.written, rows.rejected, rows.dropped, rows.late, rows.skipped)
    published = (done.files, done.partitions, done.committed)
    still = f" open={done.open_rows} ({_readable(done.readable_in, own_rolling=own_rolling)})" if done.open_rows else ""
    waiting = f" waiting: {done.waiting}" if done.waiting else ""
    text = "table=%s writer=%s epoch=%d %s rows=%d written=%d rejected=%d dropped=%d late=%d skipped=%d "
    text += "files=%d partitions=%d committed=%d %s%s%s total=%d%s%s"
    rate = "" if so_far.rows_per_second is None else f" ({so_far.rows_per_second:.0f} rows/s)"
    behind = "" if so_far.behind_records is None else f" behind: {so_far.behind_records:,} records"
    told = (*counts, *published, steps, still, waiting, so_far.rows, rate, behind)
    logger.info(text, table, writer, done.epoch, done.kind, *told)


def _readable(within: timedelta | None, *, own_rolling: bool) -> str:
    if within is None:
        return "readable once rolled, those of unfinished partitions once these are over" + (
            ", or your sink.rolling-policy.class rolls them" if own_rolling else ""
        )
    return f"readable within {max(0, round(within.total_seconds()))} s"
