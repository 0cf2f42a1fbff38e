"""The calls of a metastore: those that Hive 2.3 to 4 know, and pairs where no such call serves.

None of them needs the metastore's transaction, lock or notification tables.
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

_KEEP_STATISTICS = ttypes.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
"""Without it an alter lists the folder and, for a table, overwrites numFiles and totalSize."""

_STATE = ["values", "sd.location", "sd.inputFormat", "sd.cols.name", "sd.cols.type", "parameters"]

# Without it Hive 4 doesn't show an insert-only table, so the sink couldn't refuse it by its kind.
_CAPABILITIES = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])


def newest(newer: Callable[..., Any], older: Callable[..., Any]) -> Callable[..., Any]:
    """The newer of two calls that this server knows: an unknown call has done nothing, so `older` may follow.

    Raises the server's UNKNOWN_METHOD if it knows neither.
    """

    def call(client: Client, *arguments: object) -> Any:
        if newer not in client.unknown:
            try:
                return newer(client, *arguments)
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                client.unknown.add(newer)
        return older(client, *arguments)

    return call


def version(client: Client) -> tuple[int, ...]:
    """The version that the metastore reports: 4.0.1 is (4, 0, 1), every Hive before 4 reports (3, 0)."""
    # A distribution may add to the numbers: 4.0.0-fork-7.
    return tuple(int(number) for number in re.split(r"[^\d.]", str(client.getVersion()))[0].split(".") if number)


def tables_with(client: Client, key: str) -> list[tuple[str, str]]:
    """Databases and names of the tables that have the property `key`."""
    having = f'hive_filter_field_params__{key} like ".*"'
    return [
        (database, table)
        for database in client.get_all_databases()
        for table in client.get_table_names_by_filter(database, having, -1)
    ]


def partition_names(client: Client, name: TableName) -> list[str]:
    """The names of all partitions."""
    return list(client.get_partition_names(name.database, name.table, -1))


table = newest(
    lambda client, name: client.get_table_req(ttypes.GetTableRequest(name.database, name.table, _CAPABILITIES)).table,
    lambda client, name: client.get_table(name.database, name.table),
)
"""The table of that name. Raises NoSuchObjectException."""


def alter_table(client: Client, struct: Any) -> None:
    """Replace the table's struct."""
    client.alter_table_with_environment_context(struct.dbName, struct.tableName, struct, _KEEP_STATISTICS)


def add_partitions(client: Client, parts: list[Any]) -> None:
    """Register partitions of a table; existing partitions stay as they are."""
    database, table = parts[0].dbName, parts[0].tableName
    client.add_partitions_req(ttypes.AddPartitionsRequest(database, table, parts, ifNotExists=True, needResult=False))


def alter_partitions(client: Client, name: TableName, parts: list[Any]) -> None:
    """Replace the structs of registered partitions: all, or none."""
    client.alter_partitions_with_environment_context(name.database, name.table, parts, _KEEP_STATISTICS)


def partitions(client: Client, name: TableName, names: list[str]) -> Any:
    """Those of `names` that are registered. Raises NoSuchObjectException where there is no such table."""
    try:
        return client.get_partitions_by_names(name.database, name.table, names)
    except TApplicationException as error:
        if error.type == TApplicationException.MISSING_RESULT:
            # Hive 4 answers InvalidObjectException for a missing table, in a field that the bindings don't know.
            table(client, name)
        raise


def _states(client: Client, name: TableName, names: list[str]) -> Any:
    """Partitions with their values, location, columns and accurate flag, and nothing else (HIVE-20306).

    Reading ten of 10,000 takes tens of ms on Derby. Whole ones take seconds, since the database joins all their tables.
    """
    request = ttypes.GetPartitionsRequest(
        dbName=name.database,
        tblName=name.table,
        withAuth=False,
        projectionSpec=ttypes.GetProjectionsSpec(fieldList=_STATE, includeParamKeyPattern=FLAG),
        filterSpec=ttypes.GetPartitionsFilterSpec(filterMode=ttypes.PartitionFilterMode.BY_NAMES, filters=names),
    )
    structs: list[Any] = []
    for spec in client.get_partitions_with_specs(request).partitionSpec:
        shared = spec.sharedSDPartitionSpec
        if shared is None:
            structs += spec.partitionList.partitions
            continue
        for partition in shared.partitions:
            # The rest after the table's location: a folder in it, or the rest of a longer name.
            location = f"{shared.sd.location}{partition.relativePath}"
            sd = ttypes.StorageDescriptor(cols=shared.sd.cols, location=location, inputFormat=shared.sd.inputFormat)
            structs.append(ttypes.Partition(values=partition.values, sd=sd, parameters=partition.parameters))
    return structs


states = newest(_states, partitions)
"""As `partitions`, with what LivePartition needs."""


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


insert_event = newest(_insert_event, _insert_event_of_hive_2)
"""Fire the INSERT event of a table, or of its partition of `values`, with these files."""
