"""The calls of a metastore, each the newest that this server knows.

Hive 4 dropped `get_table` (HIVE-26537 deprecates the older calls), Hive 2.3 knows only the older ones of most
pairs. None of the calls here needs the metastore's transaction, lock or notification tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes
from thrift.Thrift import TApplicationException, TType

from hivesink.metastore.common import FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hivesink.core.table import TableName
    from hivesink.metastore.thrift_connection import Client

    PartitionsCall = Callable[[Client, str, str, list[str]], list[Any]]

_KEEP_STATISTICS = ttypes.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
"""Without it an alter lists the folder and, for a table, overwrites numFiles and totalSize."""

_STATE = ["values", "sd.location", "sd.inputFormat", "sd.cols.name", "sd.cols.type", "parameters"]

# Without it Hive 4 doesn't show an insert-only table, so the sink couldn't refuse it by its kind.
_CAPABILITIES = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])


class FirstKnown:
    """Calls that do the same, the newest Hive's first; the one that this server knows moves to the front.

    Raises the server's UNKNOWN_METHOD if it knows none of them. An unknown call has done nothing,
    so a change can also be repeated with the next.
    """

    def __init__(self, *calls: Callable[..., Any]) -> None:
        self._calls = list(calls)

    def __call__(self, *arguments: object) -> Any:
        *others, last = self._calls
        for call in others:
            try:
                return call(*arguments)
            except TApplicationException as error:  # noqa: PERF203  a few calls, once
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                # Keep it: the server may be replaced by one of another version.
                self._calls.remove(call)
                self._calls.append(call)
        return last(*arguments)


class MetastoreCalls:
    """The calls of one connection. Its lock guards which of them the server knows."""

    def __init__(self) -> None:
        self.table: Callable[[Client, str, str], Any] = FirstKnown(
            _table_req, lambda client, database, table: client.get_table(database, table)
        )
        self.create_table: Callable[[Client, Any], None] = FirstKnown(
            lambda client, table: client.create_table_req(ttypes.CreateTableRequest(table=table)),
            lambda client, table: client.create_table(table),
        )
        self.alter_table: Callable[[Client, Any], None] = FirstKnown(_alter_table_req, _alter_table)
        self._partitions: PartitionsCall = FirstKnown(
            _partitions_req,
            lambda client, database, table, names: client.get_partitions_by_names(database, table, names),
        )
        self.states: PartitionsCall = FirstKnown(_states, self.partitions)
        self.alter_partitions: Callable[[Client, str, str, list[Any]], None] = FirstKnown(
            _alter_partitions_req, _alter_partitions
        )
        self.insert_event: Callable[[Client, TableName, list[str] | None, Sequence[str]], None] = FirstKnown(
            _insert_event, _insert_event_of_hive_2
        )

    def partitions(self, client: Client, database: str, table: str, names: list[str]) -> list[Any]:
        """Those of `names` that are registered. Raises NoSuchObjectException where there is no such table."""
        try:
            return self._partitions(client, database, table, names)
        except TApplicationException as error:
            if error.type == TApplicationException.MISSING_RESULT:
                # Hive 4 answers InvalidObjectException for a missing table, in a field that the bindings don't know.
                self.table(client, database, table)
            raise


def add_partitions(client: Client, parts: list[Any]) -> None:
    """Register partitions of one table; existing ones stay as they are. Known since Hive 0.13."""
    database, table = parts[0].dbName, parts[0].tableName
    client.add_partitions_req(ttypes.AddPartitionsRequest(database, table, parts, ifNotExists=True, needResult=False))


def version(client: Client) -> tuple[int, ...]:
    """The version that the metastore reports: 4.0.1 is (4, 0, 1), every Hive before 4 reports (3, 0)."""
    # A distribution may add to the numbers: 4.0.0-fork-7.
    return tuple(int(number) for number in re.split(r"[^\d.]", str(client.getVersion()))[0].split(".") if number)


def _table_req(client: Client, database: str, table: str) -> Any:
    request = ttypes.GetTableRequest(dbName=database, tblName=table, capabilities=_CAPABILITIES)
    return client.get_table_req(request).table


def _alter_table_req(client: Client, table: Any) -> None:
    request = ttypes.AlterTableRequest(
        dbName=table.dbName, tableName=table.tableName, table=table, environmentContext=_KEEP_STATISTICS
    )
    client.alter_table_req(request)


def _alter_table(client: Client, table: Any) -> None:
    client.alter_table_with_environment_context(table.dbName, table.tableName, table, _KEEP_STATISTICS)


def _partitions_req(client: Client, database: str, table: str, names: list[str]) -> list[Any]:
    request = ttypes.GetPartitionsByNamesRequest(db_name=database, tbl_name=table, names=names)
    return list(client.get_partitions_by_names_req(request).partitions)


def _states(client: Client, database: str, table: str, names: list[str]) -> list[Any]:
    """Partitions with their values, location, columns and accurate flag, and nothing else (HIVE-20306).

    Reading ten of 10,000 takes tens of ms on Derby. Whole ones take seconds, since the database joins all their tables.
    """
    request = ttypes.GetPartitionsRequest(
        dbName=database,
        tblName=table,
        withAuth=False,
        projectionSpec=ttypes.GetProjectionsSpec(fieldList=_STATE, includeParamKeyPattern=FLAG),
        filterSpec=ttypes.GetPartitionsFilterSpec(filterMode=ttypes.PartitionFilterMode.BY_NAMES, filters=names),
    )
    partitions: list[Any] = []
    for spec in client.get_partitions_with_specs(request).partitionSpec:
        shared = spec.sharedSDPartitionSpec
        if shared is None:
            partitions += spec.partitionList.partitions
            continue
        for partition in shared.partitions:
            # The rest after the table's location: a folder in it, or the rest of a longer name.
            location = f"{shared.sd.location}{partition.relativePath}"
            sd = ttypes.StorageDescriptor(cols=shared.sd.cols, location=location, inputFormat=shared.sd.inputFormat)
            partitions.append(ttypes.Partition(values=partition.values, sd=sd, parameters=partition.parameters))
    return partitions


def _alter_partitions_req(client: Client, database: str, table: str, partitions: list[Any]) -> None:
    request = ttypes.AlterPartitionsRequest(
        dbName=database, tableName=table, partitions=partitions, environmentContext=_KEEP_STATISTICS
    )
    client.alter_partitions_req(request)


def _alter_partitions(client: Client, database: str, table: str, partitions: list[Any]) -> None:
    client.alter_partitions_with_environment_context(database, table, partitions, _KEEP_STATISTICS)


def _insert_event(client: Client, name: TableName, values: list[str] | None, files: Sequence[str]) -> None:
    # Known since Hive 3, as is the event's form of today: its fields have other numbers in Hive 2.
    client.get_catalogs()
    _fire(client, name, values, ttypes.InsertEventRequestData(replace=False, filesAdded=list(files)))


def _insert_event_of_hive_2(client: Client, name: TableName, values: list[str] | None, files: Sequence[str]) -> None:
    protocol = client._oprot  # noqa: SLF001  the bindings have no other way to write a struct by hand
    fast, protocol._fast_encode = protocol._fast_encode, None  # noqa: SLF001  the same
    try:
        _fire(client, name, values, _InsertOfHive2(filesAdded=list(files)))
    finally:
        protocol._fast_encode = fast  # noqa: SLF001  the same


class _InsertOfHive2(ttypes.InsertEventRequestData):  # type: ignore[misc]  # the bindings have no types
    """Hive 2.3's `struct InsertEventRequestData { 1: required list<string> filesAdded, … }`."""

    def write(self, oprot: Any) -> None:
        oprot.writeStructBegin("InsertEventRequestData")
        oprot.writeFieldBegin("filesAdded", TType.LIST, 1)
        oprot.writeListBegin(TType.STRING, len(self.filesAdded))
        for file in self.filesAdded:
            oprot.writeString(file)
        oprot.writeListEnd()
        oprot.writeFieldEnd()
        oprot.writeFieldStop()
        oprot.writeStructEnd()


def _fire(client: Client, name: TableName, values: list[str] | None, data: Any) -> None:
    """As `Hive.fireInsertEvent` does."""
    event = ttypes.FireEventRequestData(insertData=data)
    request = ttypes.FireEventRequest(True, event, dbName=name.database, tableName=name.table, partitionVals=values)
    client.fire_listener_event(request)
