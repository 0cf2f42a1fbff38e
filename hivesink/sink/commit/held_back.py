"""Rows that wait and can't be encoded, since they don't fit the table any more or their segment is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hivesink.errors import RowsHeldBack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesink.core.records import Slice
    from hivesink.sink.commit.patience import Patience
    from hivesink.sink.task.messages import LeftSlice


@dataclass(slots=True)
class HeldBack:
    """The slices that this run has failed to encode. It doesn't try them again, and fails in the end."""

    patience: Patience
    _left: dict[Slice, LeftSlice] = field(default_factory=dict)

    def __contains__(self, one: object) -> bool:
        return one in self._left

    def add(self, left: Iterable[LeftSlice]) -> None:
        self._left |= {one.opened.slice: one for one in left}

    @property
    def reason(self) -> str | None:
        return self.patience.reason

    def require_none(self) -> None:
        """Raise RowsHeldBack if there are some."""
        if self._left:
            raise self._error()

    def wait(self, tick: float) -> None:
        """Raise RowsHeldBack once some have been there for longer than the limit."""
        if self._left:
            error = self._error()
            if self.patience.is_at_end(error, tick):
                raise error

    def _error(self) -> RowsHeldBack:
        left = self._left.values()
        return RowsHeldBack([one.reason for one in left], retryable=all(one.retryable for one in left))
