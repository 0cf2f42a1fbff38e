"""What one run of a query has committed so far, for `Progress`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.core.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Collection

    from hivesink.core.partition import PartitionKey
    from hivesink.sink.commit.committed import Committed

RECENT = 60.0
"""Seconds over which the rate is taken."""


@dataclass(slots=True)
class Tally:
    """The committer's thread adds to it; any thread reads. Times (`tick`) are seconds of a monotonic clock."""

    behind: int | None = None
    """The records that the source had beyond the newest batch."""
    _total: Progress = field(default_factory=Progress)
    _partitions: set[PartitionKey] = field(default_factory=set)
    _began: float | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _readable_at: float | None = None

    def begin(self, tick: float) -> None:
        """A batch begins: the first one starts the clock of the rate."""
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
