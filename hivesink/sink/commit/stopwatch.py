"""Milliseconds per step of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Stopwatch:
    """`tick` is a monotonic clock in seconds. Laps of one name add up."""

    tick: Callable[[], float]
    laps: dict[str, int] = field(default_factory=dict)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.tick()

    def lap(self, name: str) -> None:
        now = self.tick()
        self.laps[name] = self.laps.get(name, 0) + round(1000 * (now - self._last))
        self._last = now
