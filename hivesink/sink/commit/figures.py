"""What a run tells from outside: how far readers are, and the figures of metrics. It never fails an epoch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.core import actions
from hivesink.core.lag import Lag, lag
from hivesink.core.metrics import STEPS, Figures, Histogram, Sample, commit_delay
from hivesink.core.offsets import ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from hivesink.core.lifecycle import History
    from hivesink.core.partition_commit import CommitRule
    from hivesink.sink.commit.committed import Committed

logger = logging.getLogger("hivesink")


@dataclass(slots=True)
class RunFigures:
    """The committer's thread tells it what happens; any thread reads it, without a wait.

    `recount` reads the figures from the log: where metrics are wanted, at the start, and where others have written to
    the log since. `heard` is called whenever more may be visible, and asks when it likes.
    """

    rule: CommitRule
    recount: Callable[[], Figures] | None = None
    heard: Callable[[Callable[[], Lag]], None] | None = None
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

    def told(self, done: Committed) -> None:
        """An epoch is done, as far as the metastore lets."""
        for step, spent in done.milliseconds.items():
            self._steps.setdefault(step, Histogram()).add(spent / 1000)
        if done.kind == "roll":
            self._rolls.add(sum(done.milliseconds.values()) / 1000)

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
            self._known = known = history, settled, lag(newest, done, settled.rows)
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
