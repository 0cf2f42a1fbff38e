"""The names of part files: formatted and parsed here and nowhere else.

    part-<uid>-<epoch>-<attempt>t<task attempt>-<task>-<n>.snappy.parquet      finished
    .part-….snappy.parquet.inprogress                                          being written
    .part-….snappy.parquet.pending                                             whole, not yet published

Hive and Spark pass over names that begin with `.` or `_`, wherever else the mark stands they read the file
(FileUtils.HIDDEN_FILES_PATH_FILTER). `<attempt>` is random, drawn for each try at an epoch, and the task
attempt is Spark's own number for this run of the task, so no two tries can aim at one name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

PREFIX = re.compile(r"[A-Za-z0-9]\w*(-\w+)*")
SUFFIX = re.compile(r"(\.\w+)*")
TOKEN = re.compile(r"[0-9a-f]{8,32}")

_NAME = re.compile(
    r"""
    (?P<prefix>[A-Za-z0-9]\w*(-\w+)*?)
    -(?P<uid>[0-9a-f]{8,32})
    -(?P<epoch>[1-9][0-9]*)
    -(?P<attempt>[0-9a-f]{8,32})t(?P<task_attempt>0|[1-9][0-9]*)
    -(?P<task>0|[1-9][0-9]*)
    -(?P<n>0|[1-9][0-9]*)
    (?P<suffix>(\.\w+)*)
    """,
    re.VERBOSE | re.ASCII,
)


class Stage(Enum):
    """The two hidden stages of a part file; the value is the ending of its name."""

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
    prefix: str = "part"
    suffix: str = ".snappy.parquet"

    @classmethod
    def parse(cls, text: str) -> PartName | None:
        """The parsed name of a finished part, or None where the file isn't one."""
        found = _NAME.fullmatch(text)
        if found is None:
            return None
        return cls(
            uid=found["uid"],
            epoch=int(found["epoch"]),
            attempt=found["attempt"],
            task_attempt=int(found["task_attempt"]),
            task=int(found["task"]),
            n=int(found["n"]),
            prefix=found["prefix"],
            suffix=found["suffix"],
        )

    def staged(self, stage: Stage) -> str:
        return f".{self}{stage.value}"

    def __str__(self) -> str:
        attempt = f"{self.attempt}t{self.task_attempt}"
        return f"{self.prefix}-{self.uid}-{self.epoch}-{attempt}-{self.task}-{self.n}{self.suffix}"


def parse_staged(text: str) -> tuple[PartName, Stage] | None:
    """The parts of a hidden name, or None where the file isn't a staged part."""
    for stage in Stage:
        if text.startswith(".") and text.endswith(stage.value):
            name = PartName.parse(text[1 : -len(stage.value)])
            return None if name is None else (name, stage)
    return None
