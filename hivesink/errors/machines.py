"""Files, file systems, the JVM and its jars, servers, executors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError, Unsupported, few

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


def unknown_file_system(location: str, reason: str) -> Unsupported:
    """A location whose file system nobody knows: a wrong host or nameservice, or no site files."""
    way = "correct the location, or set HADOOP_CONF_DIR to the folder of the site's core-site.xml and hdfs-site.xml"
    return Unsupported(location, f"unknown file system ({reason})", way)


class LoginFailed(HiveSinkError, code="HS070"):
    """A login failed, by Kerberos or at a schema registry; `reason` is why.

    `retryable` if the KDC is silent, or others may mend it.
    """

    def __init__(self, server: str, who: str, reason: str, advice: str, *, retryable: bool = False) -> None:
        self.reason, self.advice = reason, advice
        self.retryable = retryable
        super().__init__(f"no login to {server} as {who}: {reason}; {advice}")


def folder_gone(table: str, location: str, log: str | None = None) -> NotWritable:
    """The table's folder isn't there, though by `log` its writer has written files to it, or with all logs."""
    reason = f"but by its log {log} there are files in it" if log else "and no log of it is known"
    advice = "mount the disk or restore the folder, or, if its files were deleted on purpose, create it empty"
    return NotWritable(f"the folder {location} of {table}", f"it doesn't exist, {reason}", advice)


def property_refused(table: str, reason: str, statement: str) -> NotWritable:
    """The metastore doesn't let this user set the property by which a table names its log."""
    return NotWritable(f"the property hivesink_log of {table}", reason, f"let the table's owner run: {statement}")


_SHOWN = 100
"""Of a partition's name, which may have thousands of characters."""


class UnknownTable(HiveSinkError, code="HS080"):
    """The metastore has no such table. `gone`: it had it when this run began."""

    def __init__(self, table: str, metastore: str, *, gone: bool = False) -> None:
        self.table = table
        owner = table.removesuffix("__rejected")
        fix = "if it was renamed, give its new name; else create it with `hivesink ddl apply PATH`"
        if table.startswith("default.") and not gone:
            fix = f"if it is in another database, write database.table; {fix}"
        if owner != table:
            fix = f"if dead letters wait for it, the job's next start or `hivesink recover {owner}` creates it again"
        state = "is no longer" if gone else "is not"
        super().__init__(f"table {table} {state} in the metastore at {metastore}; {fix}")


class MetastoreUnreachable(HiveSinkError, code="HS081", retryable=True):
    """No answer, or an error of the metastore's own; it is safe to ask again."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(f"the metastore at {metastore} can't answer ({reason}); is it running? See its own log")


_NO_RIGHT = re.compile(r"AccessControl|Authorization|permission denied|privilege", re.IGNORECASE)
"""What a refusal says, by the folders' rights, of SQL's grants, of Ranger or Sentry, or the name of its class."""


def unanswered(metastore: str, reason: str) -> MetastoreUnreachable | NotWritable:
    """The error for a question that the metastore, or HiveServer2, hasn't answered."""
    if _NO_RIGHT.search(reason):
        return NotWritable(f"the metastore at {metastore}", reason, "let this user be given the right to it")
    return MetastoreUnreachable(metastore, reason)


class MetastoreNotUnderstood(HiveSinkError, code="HS082"):
    """What answers is no metastore, or has a version that hivesink doesn't know, or wants another login."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(
            f"the server at {metastore} is no Hive Metastore that hivesink understands ({reason}); hivesink works with "
            "2.3 to 4.0, plain or with Kerberos: check the address, the server's version, and hive.metastore.uris, "
            "hive.metastore.use.SSL and hive.metastore.sasl.enabled in hive-site.xml"
        )


class RegistrationFailed(HiveSinkError, code="HS083", retryable=True):
    """The metastore refused a change, and has left what it refused as it was.

    `partitions` are those at fault, all others of the call are changed. None: the call was refused as a whole.
    Where this user has no right to it, it isn't `retryable`.
    """

    def __init__(self, table: str, action: str, reason: str, metastore: str, partitions: tuple[str, ...] = ()) -> None:
        self.table = table
        self.reason = reason
        self.metastore = metastore
        self.partitions = partitions
        self.retryable = _NO_RIGHT.search(reason) is None
        # Quoted: a blank at the end may be what is wrong.
        shown = [repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…") for name in partitions]
        plural = "s" if len(partitions) > 1 else ""
        what = f"{action} partition{plural} {few(shown, 3)}" if partitions else action
        super().__init__(f"the metastore at {metastore} couldn't {_change(what, table)}: {reason}; fix this and retry")


class FolderTaken(RegistrationFailed, code="HS084"):
    """Partitions were not registered, since others are at their folders: `taken` are locations and owners by name."""

    def __init__(self, table: str, taken: Mapping[str, tuple[str, str]], metastore: str) -> None:
        said = (f"{location} is also the folder of {owner}" for location, owner in taken.values())
        reason = f"{'; '.join(said)}: its rows would be read twice; rename that partition back, or move it"
        super().__init__(table, "register", reason, metastore, tuple(taken))


class RegistrationUnknown(HiveSinkError, code="HS085", retryable=True):
    """A changing call to the metastore got no answer: look before trying again."""

    def __init__(self, table: str, action: str, reason: str, metastore: str) -> None:
        super().__init__(
            f"no answer from the metastore at {metastore} to: {_change(action, table)} ({reason}); it may have "
            "happened or not; a retry checks first"
        )


def _change(action: str, table: str) -> str:
    """`create` of `database demo` is "create database demo"; of a table it is "create the table of demo.t"."""
    return f"{action} of {table}" if " " in action else f"{action} {table}"


class PartitionElsewhere(HiveSinkError, code="HS086"):
    """A partition lives where this table's parts can't go that wait in `folder`."""

    def __init__(self, table: str, partition: str, location: str, reason: str, metastore: str, *, folder: str) -> None:
        super().__init__(
            f"the metastore {metastore} has partition {partition} of {table} at {location}, where this table's parts "
            f"can't go ({reason}); its new parts wait in {folder}: move them there under their last names, or alter "
            f"the partition's location to {folder}, then start again"
        )


class TableReplaced(HiveSinkError, code="HS088", retryable=True):
    """The table names another log, has other partition columns, or is there at all, unlike when this run began."""

    def __init__(self, table: str, change: str) -> None:
        super().__init__(f"{table} has changed under this job: {change}; start the job again")


class QueryFailed(HiveSinkError, code="HS089"):
    """A SQL statement was refused, or failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the query failed: {reason}")


class NotCovered(HiveSinkError, code="HS090"):
    """DuckDB can't answer a statement, or would read its tables otherwise than Spark: `reason` says what."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"duckdb doesn't answer this: {reason}; use --engine spark")
