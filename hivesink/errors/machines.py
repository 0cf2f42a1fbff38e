"""Files, file systems, the JVM and its jars, servers, executors."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError

if TYPE_CHECKING:
    from typing_extensions import Self


class PartLost(HiveSinkError, code="HS060"):
    """A decided part is neither staged nor published, or has another length than its task wrote."""

    def __init__(self, what: str) -> None:
        self._what = what
        super().__init__(what)

    @classmethod
    def missing(cls, staged: str, target: str) -> Self:
        """Neither name has a file."""
        both = f"{target} is missing" if staged == target else f"{staged} and {target} are both missing"
        return cls(f"{both}, so rows that the log counts as committed can't be published")

    @classmethod
    def wrong_length(cls, path: str, expected: int, length: int) -> Self:
        """Something else changed the file."""
        return cls(f"{path} has {length} bytes where {expected} were written: something else changed it")

    def of(self, table: str, partition: str) -> Self:
        """This error, with the command for that table and partition."""
        command = f"hivesink recover {table} --forget {quote(partition or 'all')}"
        self.args = (
            f"{self._what}. Restore the file, or, if its rows are elsewhere, or to stay deleted, run `{command}`.",
        )
        return self


class TargetTaken(HiveSinkError, code="HS061"):
    """Both the staged part and a file under its final name exist."""

    def __init__(self, staged: str, target: str) -> None:
        super().__init__(
            f"{staged} can't be published as {target}, which exists already. Read both, and move the one without the "
            "rows away (either, if they are alike)"
        )


class StoreUnavailable(HiveSinkError, code="HS062", retryable=True):
    """The file system did not do what it was asked, for a reason that may pass."""

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"could not {action} {path}: {reason}")


class OutcomeUnknown(HiveSinkError, code="HS063", retryable=True):
    """The file system may or may not have done what it was asked: look before trying again."""

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no answer to: {action} {path} ({reason}); it may have happened or not; a retry checks first")


class NotWritable(HiveSinkError, code="HS064"):
    """A place can't be used by this user: no access, a link to nothing, a folder on a disk that isn't mounted."""

    def __init__(
        self,
        path: str,
        reason: str,
        advice: str = "give this user access, or set another location",
        *,
        retryable: bool = False,
    ) -> None:
        self.retryable = retryable
        super().__init__(f"{path} can't be used ({reason}); {advice}")


class FileSystemUnknown(HiveSinkError, code="HS065"):
    """A location whose file system nobody knows: a wrong host or nameservice, or no site files."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(
            f"{location}: unknown file system ({reason}); correct the location, or set HADOOP_CONF_DIR to the folder "
            "of the site's core-site.xml and hdfs-site.xml"
        )


class JavaFailed(HiveSinkError, code="HS066"):
    """There is no Java that all servers run on, or it didn't do what it was started for."""

    def __init__(self, problem: str, advice: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(f"{problem}; {advice}")


class ServerFailed(HiveSinkError, code="HS067", retryable=True):
    """An embedded server did not start; `tail` holds the last lines of its log."""

    def __init__(self, name: str, problem: str, log: str, tail: str) -> None:
        self.log = log
        super().__init__(f"{name} {problem}; its log {log} ends with: {tail or '(nothing)'}")


class TaskFailed(HiveSinkError, code="HS068"):
    """A task ended with an error of the sink's; Spark's own exception is the cause."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(f"a task failed: {message}")


class ExecutorsDiffer(HiveSinkError, code="HS069"):
    """The Python of the executors has another hivesink than the driver, or lacks a module that tasks need."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}; {advice}")


def folder_gone(table: str, location: str, log: str | None = None) -> NotWritable:
    """The table's folder isn't there, though by `log` its writer has written files to it, or with all logs."""
    reason = f"but by its log {log} there are files in it" if log else "and no log of it is known"
    advice = "mount the disk or restore the folder, or, if its files were deleted on purpose, create it empty"
    return NotWritable(f"the folder {location} of {table}", f"it doesn't exist, {reason}", advice)


def property_refused(table: str, reason: str, statement: str) -> NotWritable:
    """The metastore doesn't let this user set the property by which a table names its log."""
    return NotWritable(f"the property hivesink_log of {table}", reason, f"let the table's owner run: {statement}")
