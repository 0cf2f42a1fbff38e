"""Metastores, and what they hold of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError, few

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 100
"""Of a partition's name, which may have thousands of characters."""


class UnknownTable(HiveSinkError, code="HS080"):
    """The metastore has no such table. `gone`: it had it when this run began."""

    def __init__(self, table: str, metastore: str, *, gone: bool = False) -> None:
        self.table = table
        owner = table.removesuffix("__rejected")
        fix = "create it with `hivesink ddl apply PATH`"
        if table.startswith("default.") and not gone:
            fix = f"if it is in another database, write database.table; else {fix}"
        if owner != table:
            fix = f"if dead letters wait for it, the job's next start or `hivesink recover {owner}` creates it again"
        elif gone:
            fix = f"if it has another name now, start the job with that; if it was dropped, {fix}"
        state = "is no longer" if gone else "is not"
        super().__init__(f"table {table} {state} in the metastore at {metastore}; {fix}")


class MetastoreUnreachable(HiveSinkError, code="HS081", retryable=True):
    """No answer, or an error of the metastore's own; it is safe to ask again."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(f"the metastore at {metastore} can't answer ({reason}); is it running? See its own log")


class MetastoreNotUnderstood(HiveSinkError, code="HS082"):
    """What answers is no metastore, or has a version that hivesink doesn't know, or wants another login."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(
            f"the server at {metastore} is no Hive Metastore that hivesink understands ({reason}); hivesink works with "
            "2.3 to 4.0, plain or with Kerberos: check the address, the server's version, and hive.metastore.uris and "
            "hive.metastore.sasl.enabled in hive-site.xml"
        )


class RegistrationFailed(HiveSinkError, code="HS083", retryable=True):
    """The metastore refused a change, and has left what it refused as it was.

    `partitions` are those at fault, all others of the call are changed. None: the call was refused as a whole.
    """

    def __init__(self, table: str, action: str, reason: str, metastore: str, partitions: tuple[str, ...] = ()) -> None:
        self.table = table
        self.reason = reason
        self.partitions = partitions
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
    """A partition lives where this table's parts can't go; `staged` if parts already wait for it."""

    def __init__(
        self, table: str, partition: str, location: str, reason: str, metastore: str, *, folder: str, staged: bool
    ) -> None:
        wait = f"; its new parts wait in {folder}: move them there under their last names, or" if staged else ";"
        super().__init__(
            f"the metastore {metastore} has partition {partition} of {table} at {location}, where this table's parts "
            f"can't go ({reason}){wait} alter the partition's location to {folder}, then start again"
        )


class TableExists(HiveSinkError, code="HS087", retryable=True):
    """Somebody else has created the table in the meantime."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} exists already; retry to compare it with its DDL")


class TableReplaced(HiveSinkError, code="HS088", retryable=True):
    """The table names another log, or has other partition columns, than when this run began."""

    def __init__(self, table: str, change: str) -> None:
        super().__init__(f"{table} has changed under this job: {change}; start the job again")

    @classmethod
    def other_log(cls, table: str) -> TableReplaced:
        """Its property names another log, or none."""
        return cls(table, "it names another log")


class QueryFailed(HiveSinkError, code="HS089"):
    """A SQL statement was refused, or failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the query failed: {reason}")


class NotCovered(HiveSinkError, code="HS090"):
    """DuckDB can't answer a statement, or would read its tables otherwise than Spark: `reason` says what."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"duckdb doesn't answer this: {reason}; use --engine spark")
