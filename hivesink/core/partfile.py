"""A part file: its names, each state of its life as a type, and the one decision that publishes it.

    .part-<uid>-<epoch>-<attempt>t<task attempt>-<task>-<n><suffix>.inprogress    InProgress: being written
    .part-…<suffix>.pending                                                       Pending: whole, not published
    part-…<suffix>                                                                Finished: the table's

Hive and Spark skip names that begin with `.` or `_` (FileUtils.HIDDEN_FILES_PATH_FILTER); a mark anywhere else in the
name does not hide a file. `<attempt>` is random, drawn for each try at an epoch, and the task attempt is Spark's own
number for this run of the task, so no two tries share a name.

Paths are absolute, in the form of the table's file system (`/a/b` or `scheme://authority/a/b`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from hivesink.errors import PartLost, TargetTaken

_NAME = re.compile(
    r"""
    part-(?P<uid>[0-9a-f]{8,32})
    -(?P<epoch>[1-9][0-9]*)
    -(?P<attempt>[0-9a-f]{8,32})t(?P<task_attempt>0|[1-9][0-9]*)
    -(?P<task>0|[1-9][0-9]*)
    -(?P<n>0|[1-9][0-9]*)
    (?P<suffix>(\.\w+)*)
    """,
    re.VERBOSE | re.ASCII,
)


class Stage(Enum):
    """The hidden stages of a part file; the value is the ending of its name."""

    IN_PROGRESS = ".inprogress"
    PENDING = ".pending"


@dataclass(frozen=True, slots=True)
class PartName:
    """A part's name in its fields; `str` of it is the finished file's name."""

    uid: str
    epoch: int
    attempt: str
    task_attempt: int
    task: int
    n: int
    suffix: str = ""
    """The endings that show the format, as `.snappy.parquet`."""

    @classmethod
    def parse(cls, text: str) -> PartName | None:
        """Parse a finished part's name; None for any other name."""
        if (match := _NAME.fullmatch(text)) is None:
            return None
        numbers = {name: int(match[name]) for name in ("epoch", "task_attempt", "task", "n")}
        return cls(uid=match["uid"], attempt=match["attempt"], suffix=match["suffix"], **numbers)

    def staged(self, stage: Stage) -> str:
        return f".{self}{stage.value}"

    def __str__(self) -> str:
        attempt = f"{self.attempt}t{self.task_attempt}"
        return f"part-{self.uid}-{self.epoch}-{attempt}-{self.task}-{self.n}{self.suffix}"


def parse_staged(text: str) -> tuple[PartName, Stage] | None:
    """Parse a hidden name; None if the file isn't a staged part."""
    for stage in Stage:
        if text.startswith(".") and text.endswith(stage.value):
            name = PartName.parse(text[1 : -len(stage.value)])
            return None if name is None else (name, stage)
    return None


@dataclass(frozen=True, slots=True)
class Finished:
    """Visible and complete: part of the table."""

    path: str
    length: int


@dataclass(frozen=True, slots=True)
class Pending:
    """Complete and durable, still hidden. `staged` is where its bytes are, in the store's own terms."""

    staged: str
    target: str
    length: int

    def finish(self) -> Finished:
        return Finished(self.target, self.length)


@dataclass(frozen=True, slots=True)
class InProgress:
    """Being written by a task attempt; no other may touch it."""

    folder: str
    name: PartName

    @property
    def staged(self) -> str:
        return f"{self.folder}/{self.name.staged(Stage.IN_PROGRESS)}"

    def close(self, length: int) -> Pending:
        return Pending(f"{self.folder}/{self.name.staged(Stage.PENDING)}", f"{self.folder}/{self.name}", length)


class PublishStep(Enum):
    """The step that remains to publish a part."""

    RENAME = "rename"
    DONE = "done"
    UNLINK = "unlink"


def decide_publish(part: Pending, staged: int | None, target: int | None, *, one_file: bool = False) -> PublishStep:
    """How to publish `part`, from the lengths of the files at its two paths (None: no file).

    The same decision serves the first commit and every recovery. `one_file`: both names are the same file (a local link
    whose unlink is missing). A moved part may be at its target already, under the same name: then nothing is left to
    unlink. Raises PartLost, TargetTaken.
    """
    if part.staged == part.target:
        staged = None
    if staged is None and target is None:
        raise PartLost.missing(part.staged, part.target)
    if staged is not None and target is not None:
        if one_file and target == part.length:
            return PublishStep.UNLINK
        raise TargetTaken(part.staged, part.target)
    path, length = (part.staged, staged) if staged is not None else (part.target, target)
    if length != part.length:
        raise PartLost.wrong_length(path, part.length, length or 0)
    return PublishStep.RENAME if staged is not None else PublishStep.DONE
