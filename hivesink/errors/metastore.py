"""Metastores, and what they hold of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError, appending, few

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnknownTable(HiveSinkError):
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
            fix = f"if it has another name now, rename it back and start the job again; if it was dropped, {fix}"
        state = "is no longer" if gone else "is not"
        super().__init__(f"table {table} {state} in the metastore at {metastore}; {fix}")


class MetastoreUnreachable(HiveSinkError):
    """The metastore doesn't answer; nothing was asked of it, or what was asked is safe to repeat."""

    retryable = True

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(f"the metastore at {metastore} doesn't answer ({reason}); is it running?")


class MetastoreFailing(MetastoreUnreachable):
    """The metastore answers a question with an error of its own; asking again is safe."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(metastore, reason)
        self.args = (f"the metastore at {metastore} answers with an error ({reason}); see its own log, and retry",)


class MetastoreNotUnderstood(HiveSinkError):
    """What answers is no metastore, or one of a version that hivesink doesn't know, or it wants another login."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(
            f"the server at {metastore} is no Hive Metastore that hivesink understands ({reason}); hivesink works with "
            "2.3 to 4.0, plain or with Kerberos: check the address, the server's version, and hive.metastore.uris and "
            "hive.metastore.sasl.enabled in hive-site.xml"
        )


class RegistrationFailed(HiveSinkError):
    """The metastore refused a change, and has left what it refused as it was.

    `partitions` are those at fault, all others of the call are changed. None: the call was refused as a whole.
    """

    retryable = True

    def __init__(
        self, table: str, action: str, reason: str, metastore: str | None = None, partitions: tuple[str, ...] = ()
    ) -> None:
        self.table = table
        self.reason = reason
        self.partitions = partitions
        who = f"the metastore at {metastore}" if metastore else "the metastore"
        what = f"{action} {_named(partitions)}" if partitions else action
        super().__init__(f"{who} couldn't {_change(what, table)}: {reason}; fix this and retry")


class FolderTaken(RegistrationFailed):
    """Partitions were not registered, since others are at their folders: `taken` are locations and owners by name."""

    def __init__(self, table: str, taken: Mapping[str, tuple[str, str]], metastore: str) -> None:
        said = (f"{location} is also the folder of {owner}" for location, owner in taken.values())
        reason = f"{'; '.join(said)}: its rows would be read twice; rename that partition back, or move it"
        super().__init__(table, "register", reason, metastore, tuple(taken))


class RegistrationUnknown(HiveSinkError):
    """A changing call to the metastore got no answer: look before trying again."""

    retryable = True

    def __init__(self, table: str, action: str, reason: str, metastore: str | None = None) -> None:
        who = f"no answer from the metastore at {metastore}" if metastore else "no answer"
        super().__init__(
            f"{who} to: {_change(action, table)} ({reason}); it may have happened or not; a retry checks first"
        )


def _change(action: str, table: str) -> str:
    """`create` of `database demo` is "create database demo"; of a table it is "create the table of demo.t"."""
    return f"{action} of {table}" if " " in action else f"{action} {table}"


_SHOWN = 100
_MOST = 3


def _named(partitions: tuple[str, ...]) -> str:
    """The first few, cut if they are long. Quoted: a blank at the end may be what is wrong."""
    shown = [repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…") for name in partitions]
    return f"partition{'s' if len(partitions) > 1 else ''} {few(shown, _MOST)}"


class PartitionElsewhere(HiveSinkError):
    """A partition lives where this table's parts can't go; `staged` if parts already wait for it."""

    def __init__(
        self, table: str, partition: str, location: str, reason: str, metastore: str, *, folder: str, staged: bool
    ) -> None:
        wait = f"; its new parts wait in {folder}: copy them there by hand, or" if staged else ";"
        super().__init__(
            f"the metastore {metastore} has partition {partition} of {table} at {location}, where this table's parts "
            f"can't go ({reason}){wait} alter the partition's location to {folder}, then start again"
        )


class TableExists(HiveSinkError):
    """Somebody else has created the table in the meantime."""

    retryable = True

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} exists already; retry to compare it with its DDL")


class TableReplaced(HiveSinkError):
    """The table of that name is another one by now: it was dropped and created again under a running job."""

    retryable = True

    def __init__(self, table: str, metastore: str) -> None:
        super().__init__(
            f"table {table} at {metastore} was dropped and created again while this job ran; start the job again: "
            "it goes on if the table's files are still there, and otherwise says what to do"
        )


class PartitionColumnsChanged(HiveSinkError):
    """Somebody has changed the type of a partition column under a running job: it would register values of the old."""

    retryable = True

    def __init__(self, table: str, before: str, now: str) -> None:
        super().__init__(
            f"{table} is partitioned by ({now}) now, and was by ({before}) when this job began; start the job again"
        )


class TableRemade(HiveSinkError):
    """The table is not the one that the log knows, and the newest rows that the log counts are not in it.

    `waiting` is the first epoch that isn't settled; `rows` wait in segments. `replays`: the log is that of
    `rejects replay`, which has no checkpoint. `shifted`: the table's creation time, where it may be that of the log's
    table in another time zone.
    """

    def __init__(
        self,
        table: str,
        writer: str,
        log: str,
        epoch: int,
        *,
        waiting: int | None = None,
        rows: int = 0,
        replays: bool = False,
        shifted: int | None = None,
    ) -> None:
        wait = f"Epoch {waiting} waits, perhaps unpublished" if waiting is not None else ""
        if rows:
            wait = f"{rows} rows wait in the log, in no table; a new checkpoint reads them again, append=0 doesn't"
        if wait:
            wait += ": if the old table has another name now, first rename both back and run "
            wait += f"`hivesink recover {table}`. "
        anew = f"begin anew with `hivesink reset {table} --writer {writer}`, which keeps the log aside, then"
        onward = (
            f"{anew} replay again; what was replayed into the old table stays marked: "
            f"`hivesink rejects {table} --replayed --export FILE` writes it out for the source"
            if replays
            else f"if the old table has another name now, give this job another writer name; or {anew} start with a "
            "new checkpoint (reads the source from the beginning), or with the old one and "
            f"{appending(0)} (reads on where that stands)"
        )
        if shifted is not None:
            wait += (
                "Its creation time differs by whole quarter hours, as HiveServer2 shows it in another time zone: if "
                f"nobody dropped the table, create the empty file {log}/tables/{table}@{shifted} and start again. "
            )
        super().__init__(
            f"{table} was dropped, or renamed, and created again: the log {log} is at epoch {epoch}, and the files of "
            f"its newest rows are not in this table. {wait}To go on: restore the files; or {onward}"
        )


class TableRenamed(HiveSinkError):
    """An unsettled epoch, or rows that wait, are under another name than the table has now.

    `rows`: so many wait in a log that is not this writer's.
    """

    def __init__(self, table: str, old: str, epoch: int, log: str, *, rows: int = 0) -> None:
        what = f": {rows} rows wait" if rows else " waits"
        alike = "tables of one second look alike"
        stray = f"; if {table} never had that name ({alike}), give this job another writer name" if rows else ""
        self.log = log
        super().__init__(
            f"epoch {epoch} of the log {log}{what} under the table's old name, {old}: rename {table} back (a new "
            f"table of that name first makes room), run `hivesink recover {old}`, then rename it again{stray}"
        )


class QueryFailed(HiveSinkError):
    """A SQL statement was refused, or failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the query failed: {reason}")


class NotCovered(HiveSinkError):
    """DuckDB isn't sure to answer a statement as Spark does: `reason` says which part of it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"duckdb doesn't answer this: {reason}; use --engine spark")


class FilesVanished(HiveSinkError):
    """Files of a table went while a statement read them: a DROP, TRUNCATE or INSERT OVERWRITE took them."""

    retryable = True

    def __init__(self, first: str, count: int) -> None:
        super().__init__(
            f"{count} files of the statement's tables, such as {first}, were removed while it read them, and more at "
            "a second try; run it again once the statement that removes them has ended"
        )
