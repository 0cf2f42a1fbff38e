"""Texts: DDL, types, partition paths, site files."""

from __future__ import annotations

from typing import NamedTuple

from hivesink.errors.base import HiveSinkError


class TypeTextInvalid(HiveSinkError):
    """A text is not a Hive type that the sink knows."""

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        super().__init__(f"type {text!r}: {reason}")


class PartitionPathInvalid(HiveSinkError):
    """A path is not `name=value/name=value`, or can't be made."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"partition path {path!r}: {reason}")


class DdlProblem(NamedTuple):
    """One thing that a DDL file says wrong; `line` counts from 1."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class DdlInvalid(HiveSinkError):
    """The DDL files of one run can't be used; all problems of all files, one a line."""

    def __init__(self, problems: tuple[DdlProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class DdlDiffers(HiveSinkError):
    """Live tables differ from their DDL in ways that can't be applied; one a line, nothing was changed."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        self.differences = differences
        super().__init__("\n".join(differences))


class SiteInvalid(HiveSinkError):
    """A file of the site's own Hadoop or Hive configuration can't be used."""

    def __init__(self, file: str, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(
            f"the site configuration {file}: {problem}; mend it, or set HADOOP_CONF_DIR and HIVE_CONF_DIR to other "
            "folders"
        )
