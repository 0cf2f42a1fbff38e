"""The calls of a metastore: those that Hive 2.3 to 4 know, and a pair where no such call serves.

None of them needs the metastore's transaction, lock or notification tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hive_metastore import ttypes
from thrift.Thrift import TApplicationException

from hivesink.config.formats import FORMATS
from hivesink.core.partition import NewPartition
from hivesink.core.table import TableName, TableSpec
from hivesink.metastore.common import FLAG, Facts, values_of
from hivesink.metastore.thrift_connection import Client

KEEP_STATISTICS = ttypes.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
"""Without it an alter lists the folder and, for a table, overwrites numFiles and totalSize."""

_STATE = ["values", "sd.location", "sd.inputFormat", "sd.cols.name", "sd.cols.type", "parameters"]

# Without it Hive 4 doesn't show an insert-only table, so the sink couldn't refuse it by its kind.
_CAPABILITIES = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])


def table(client: Client, name: TableName) -> Any:
    """The table of that name. Raises NoSuchObjectException."""
    return client.get_table_req(ttypes.GetTableRequest(name.database, name.table, _CAPABILITIES)).table


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


def states(client: Client, name: TableName, names: list[str]) -> Any:
    """As `partitions`, with what LivePartition needs: all else only from a server that can't leave it out."""
    if client.gives_states:
        try:
            return _states(client, name, names)
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
            client.gives_states = False
    return partitions(client, name, names)


def insert_event(client: Client, name: TableName, values: list[str] | None, files: Sequence[str]) -> None:
    """As `Hive.fireInsertEvent` does since Hive 3; before, the event's fields have other numbers."""
    event = ttypes.FireEventRequestData(insertData=ttypes.InsertEventRequestData(replace=False, filesAdded=list(files)))
    request = ttypes.FireEventRequest(True, event, dbName=name.database, tableName=name.table, partitionVals=values)
    client.fire_listener_event(request)


def facts(table: Any) -> Facts:
    """What the metastore's struct says of the table."""
    sd = table.sd
    columns, keys = (
        [(field.name, field.type, field.comment) for field in fields or ()] for fields in (sd.cols, table.partitionKeys)
    )
    return Facts(
        name=TableName(table.dbName, table.tableName),
        kind=table.tableType or "",
        input_format=sd.inputFormat or "",
        serde=(sd.serdeInfo and sd.serdeInfo.serializationLib) or "",
        clustered=bool(sd.bucketCols or (sd.skewedInfo and sd.skewedInfo.skewedColNames)),
        properties=table.parameters or {},
        columns=columns,
        partition_columns=keys,
        location=sd.location,
    )


def columns_behind(partition: Any, table: Any) -> bool:
    """Whether names, types or order differ; comments don't matter to readers."""
    before, now = ([(field.name.lower(), field.type) for field in struct.sd.cols] for struct in (partition, table))
    return before != now


def new_partition(wanted: NewPartition, spec: TableSpec, table: Any) -> Any:
    """A partition with the table's columns, formats and serde.

    Its parameters don't claim accuracy. The metastore replaces them with what it finds in the folder.
    """
    sd = deepcopy(table.sd)
    sd.location = wanted.location
    return ttypes.Partition(
        values=list(values_of(spec, wanted.partition)),
        dbName=table.dbName,
        tableName=table.tableName,
        sd=sd,
        parameters={"numFiles": str(wanted.files), "totalSize": str(wanted.bytes)},
    )


def thrift_table(spec: TableSpec, owner: str) -> Any:
    """What creates `spec`; without a location the metastore chooses it in the database's folder."""
    parameters, hive = spec.options, FORMATS[spec.format]
    columns, keys = (
        [ttypes.FieldSchema(column.name, str(column.type), column.comment) for column in columns]
        for columns in (spec.columns, spec.partition_columns)
    )
    if spec.comment is not None:
        parameters["comment"] = spec.comment
    if spec.external:
        parameters["EXTERNAL"] = "TRUE"
    serde = ttypes.SerDeInfo(name=None, serializationLib=hive.serde, parameters={"serialization.format": "1"})
    return ttypes.Table(
        tableName=spec.name.table,
        dbName=spec.name.database,
        owner=owner,
        sd=ttypes.StorageDescriptor(
            cols=columns,
            location=spec.location,
            inputFormat=hive.input_format,
            outputFormat=hive.output_format,
            compressed=False,
            numBuckets=-1,
            serdeInfo=serde,
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=keys,
        parameters=parameters,
        tableType="EXTERNAL_TABLE" if spec.external else "MANAGED_TABLE",
    )
