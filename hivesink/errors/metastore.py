"""Metastores, and what they say of tables."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError


class UnknownTable(HiveSinkError):
    """The metastore has no such table."""

    def __init__(self, table: str, metastore: str) -> None:
        self.table = table
        owner = table.removesuffix("__rejected")
        way_on = "create it with `hivesink ddl apply PATH`"
        if owner != table:
            way_on = f"if dead letters wait for it, the job's next start or `hivesink recover {owner}` makes it again"
        super().__init__(f"table {table} is not in the metastore at {metastore}; {way_on}")


class MetastoreUnreachable(HiveSinkError):
    """The metastore doesn't answer; nothing was asked of it, or what was asked is safe to repeat."""

    retryable = True

    def __init__(self, metastore: str, reason: str) -> None:
        self.metastore = metastore
        self.reason = reason
        super().__init__(f"the metastore at {metastore} doesn't answer ({reason}); is it running?")


class MetastoreFailing(MetastoreUnreachable):
    """The metastore answers a question with an error of its own; asking again is safe."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(metastore, reason)
        self.args = (f"the metastore at {metastore} answers with an error ({reason}); its own log says more",)


class MetastoreNotUnderstood(HiveSinkError):
    """What answers is no metastore, or one of a version that hivesink doesn't know, or it wants another login."""

    def __init__(self, metastore: str, reason: str) -> None:
        self.metastore = metastore
        self.reason = reason
        super().__init__(
            f"what answers at {metastore} is no Hive Metastore that hivesink understands ({reason}); it speaks to "
            "2.3 up to 4.0, plain or with Kerberos: check the address, hive.metastore.uris and "
            "hive.metastore.sasl.enabled in hive-site.xml, and the server's version"
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
        self.action = action
        self.reason = reason
        self.metastore = metastore
        self.partitions = partitions
        who = f"the metastore at {metastore}" if metastore else "the metastore"
        what = f"{action} {_named(partitions)}" if partitions else action
        super().__init__(f"{who} refused to {what} of {table}: {reason}; fix this, then run the same again")


def _named(partitions: tuple[str, ...]) -> str:
    """Quoted, since a blank at the end may be what is wrong; the first few of many, cut where they are long."""
    shown = ", ".join(repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…") for name in partitions[:_MOST])
    more = f" and {len(partitions) - _MOST} more" if len(partitions) > _MOST else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{more}"


_SHOWN = 100
_MOST = 3


class RegistrationUnknown(HiveSinkError):
    """A changing call to the metastore got no answer: look before trying again."""

    retryable = True

    def __init__(self, table: str, action: str, reason: str, metastore: str | None = None) -> None:
        self.table = table
        self.action = action
        self.reason = reason
        self.metastore = metastore
        who = f"no answer from the metastore at {metastore}" if metastore else "no answer"
        super().__init__(
            f"{who} to: {action} of {table} ({reason}); it may have happened or not, and the next try looks first"
        )


class PartitionElsewhere(HiveSinkError):
    """A partition lives where this table's parts can't go; `staged` where there are parts that wait already."""

    def __init__(
        self, table: str, partition: str, location: str, reason: str, metastore: str, *, folder: str, staged: bool
    ) -> None:
        self.table = table
        self.partition = partition
        wait = f"; its new parts wait in {folder}: copy them there by hand, or" if staged else ";"
        super().__init__(
            f"the metastore {metastore} has partition {partition} of {table} registered at {location}, where this "
            f"table's parts can't go ({reason}){wait} alter the partition's location to {folder}, then start again"
        )


class TableExists(HiveSinkError):
    """A table to be created is there already: somebody else was faster."""

    retryable = True

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(f"table {table} exists already; plan again to compare it with its DDL")


class TableReplaced(HiveSinkError):
    """The table of that name is another one by now: it was dropped and created again under a running job."""

    retryable = True

    def __init__(self, table: str, metastore: str) -> None:
        self.table = table
        super().__init__(
            f"table {table} at {metastore} was dropped and created again while this job ran; start the job again: "
            "where the table's files are still there it goes on, else it says how"
        )


class QueryFailed(HiveSinkError):
    """A SQL statement was refused, or failed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the query failed: {reason}")
