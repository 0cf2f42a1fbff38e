"""How long something that a person has to mend is waited for. Nothing is lost meanwhile."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from hivesink.errors import HiveSinkError

logger = logging.getLogger("hivesink")


@dataclass(slots=True)
class Patience:
    """Waits for at most `limit`; None: not at all. `what` says what waits."""

    limit: timedelta | None
    what: str
    trouble: HiveSinkError | None = None
    _since: float | None = None

    @property
    def reason(self) -> str | None:
        """Why epochs wait to be finished, or None."""
        return None if self.trouble is None else str(self.trouble)

    def is_at_end(self, error: HiveSinkError, tick: float) -> bool:
        """Whether `error` has come too late or too often. `tick` isn't the wall clock, which people set."""
        since = self._since = tick if self._since is None else self._since
        before, self.trouble = self.reason, error
        if self.limit is None or tick - since > self.limit.total_seconds():
            return True
        # Each batch's own line repeats it.
        if self.reason != before:
            logger.warning("%s, at most %s: %s", self.what, self.limit, error)
        return False

    def clear(self) -> None:
        self.trouble = self._since = None
