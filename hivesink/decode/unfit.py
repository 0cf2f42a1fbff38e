"""A value that doesn't fit its column."""

from __future__ import annotations


class Unfit(ValueError):
    """Why, and where below the column; caught in this package, which makes a `BadRecord` of it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str] = []
        super().__init__(reason)

    def within(self, step: str) -> Unfit:
        """The same, seen from one level further out."""
        self.path.insert(0, step)
        return self
