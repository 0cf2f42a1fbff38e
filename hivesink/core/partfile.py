"""A part file's life, each state a type, and the one decision that publishes it.

    InProgress --close--> Pending --publish--> Finished

Paths are absolute, in the form of the table's file system (`/a/b` or `scheme://authority/a/b`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hivesink.core.partname import PartName, Stage
from hivesink.errors import LengthMismatch, PartLost, TargetTaken


@dataclass(frozen=True, slots=True)
class Finished:
    """Visible, whole, and the table's."""

    path: str
    length: int


@dataclass(frozen=True, slots=True)
class Pending:
    """Whole and durable, still hidden. `staged` is where its bytes are, in the store's own terms."""

    staged: str
    target: str
    length: int

    def finish(self) -> Finished:
        return Finished(self.target, self.length)


@dataclass(frozen=True, slots=True)
class InProgress:
    """Being written by one task attempt, which alone may touch it."""

    folder: str
    name: PartName

    @property
    def staged(self) -> str:
        return f"{self.folder}/{self.name.staged(Stage.IN_PROGRESS)}"

    def close(self, length: int) -> Pending:
        return Pending(
            staged=f"{self.folder}/{self.name.staged(Stage.PENDING)}",
            target=f"{self.folder}/{self.name}",
            length=length,
        )


PartFile = InProgress | Pending | Finished


class Publish(Enum):
    """What is left to do to publish a part."""

    RENAME = "rename"
    DONE = "done"
    UNLINK = "unlink"


def decide_publish(part: Pending, staged: int | None, target: int | None, *, one_file: bool = False) -> Publish:
    """What publishes `part`, from the lengths now found at its two places (None = nothing there).

    The same decision serves the first commit and every recovery. `one_file`: both names are known to be one
    file (a local link whose unlink is missing). A part that was moved may be at its target already, by the same
    name: then there is nothing to take away. Raises PartLost, LengthMismatch, TargetTaken.
    """
    if part.staged == part.target:
        staged = None
    if staged is None and target is None:
        raise PartLost(part.staged, part.target)
    if staged is not None and target is not None:
        if one_file and target == part.length:
            return Publish.UNLINK
        raise TargetTaken(part.staged, part.target)
    path, found = (part.staged, staged) if staged is not None else (part.target, target)
    if found != part.length:
        raise LengthMismatch(path, part.length, found or 0)
    return Publish.RENAME if staged is not None else Publish.DONE
