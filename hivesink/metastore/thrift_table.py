"""A metastore's `Table` and `Partition` structs, from and to the sink's own types."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hive_metastore import ttypes

from hivesink.core.partition import LivePartition, NewPartition
from hivesink.core.table import PARQUET_INPUT, PARQUET_OUTPUT, PARQUET_SERDE, Column, TableName, TableSpec
from hivesink.metastore.common import FLAG, Facts, column, is_accurate, values_of
from hivesink.ports import LiveTable


def facts(table: Any) -> Facts:
    """What decides whether the sink can write the table."""
    sd = table.sd
    return Facts(
        name=TableName(table.dbName, table.tableName),
        kind=table.tableType or "",
        input_format=sd.inputFormat or "",
        serde=(sd.serdeInfo and sd.serdeInfo.serializationLib) or "",
        bucketed=bool(sd.bucketCols),
        skewed=bool(sd.skewedInfo and sd.skewedInfo.skewedColNames),
        properties=table.parameters or {},
    )


def spec_of(table: Any) -> TableSpec:
    """Raises Unsupported for a type that the sink doesn't know."""
    found = facts(table)
    return TableSpec(
        name=found.name,
        columns=_columns(found.name, table.sd.cols),
        partition_columns=_columns(found.name, table.partitionKeys or []),
        location=table.sd.location,
        comment=found.properties.get("comment"),
        external=found.external,
        format="parquet" if found.input_format == PARQUET_INPUT else found.input_format or "none",
        properties=found.options,
    )


def live_table(table: Any) -> LiveTable:
    """Raises Unsupported if the sink can't write such a table."""
    facts(table).refuse()
    return LiveTable(spec_of(table), table.sd.location, is_accurate(table.parameters.get(FLAG)), table.createTime or 0)


def live_partition(partition: str, found: Any, table: Any) -> LivePartition:
    """`partition` is its escaped path, `found` and `table` are the metastore's structs."""
    return LivePartition(
        partition=partition,
        location=found.sd.location,
        accurate=is_accurate((found.parameters or {}).get(FLAG)),
        columns_behind=columns_behind(found, table),
        format=None if found.sd.inputFormat == PARQUET_INPUT else found.sd.inputFormat or "none",
    )


def columns_behind(partition: Any, table: Any) -> bool:
    """Whether names, types or order differ; comments don't matter to readers."""
    return _shape(partition) != _shape(table)


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
        createTime=0,
        lastAccessTime=0,
        sd=sd,
        parameters={"numFiles": str(wanted.files), "totalSize": str(wanted.bytes)},
    )


def thrift_table(spec: TableSpec, owner: str) -> Any:
    """What creates `spec`; without a location the metastore chooses one in the database's folder."""
    parameters = spec.options
    if spec.comment is not None:
        parameters["comment"] = spec.comment
    if spec.external:
        parameters["EXTERNAL"] = "TRUE"
    return ttypes.Table(
        tableName=spec.name.table,
        dbName=spec.name.database,
        owner=owner,
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=ttypes.StorageDescriptor(
            cols=_fields(spec.columns),
            location=spec.location,
            inputFormat=PARQUET_INPUT,
            outputFormat=PARQUET_OUTPUT,
            compressed=False,
            numBuckets=-1,
            serdeInfo=ttypes.SerDeInfo(
                name=None, serializationLib=PARQUET_SERDE, parameters={"serialization.format": "1"}
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=_fields(spec.partition_columns),
        parameters=parameters,
        tableType="EXTERNAL_TABLE" if spec.external else "MANAGED_TABLE",
    )


def _columns(table: TableName, fields: list[Any]) -> tuple[Column, ...]:
    return tuple(column(table, field.name, field.type, field.comment) for field in fields)


def _fields(columns: tuple[Column, ...]) -> list[Any]:
    return [ttypes.FieldSchema(column.name, str(column.type), column.comment) for column in columns]


def _shape(owner: Any) -> list[tuple[str, str]]:
    return [(field.name.lower(), field.type) for field in owner.sd.cols]
