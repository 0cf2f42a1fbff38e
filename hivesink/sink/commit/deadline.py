"""How long a run waits for what a person has to mend. Nothing is lost meanwhile."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.errors import RowsHeldBack

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from hivesink.core.records import Slice
    from hivesink.errors import HiveSinkError
    from hivesink.sink.task.messages import LeftSlice

logger = logging.getLogger("hivesink")


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
