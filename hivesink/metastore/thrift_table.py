"""A metastore's `Table` and `Partition` structs, from and to the sink's own types, and its tables for applying DDL."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes

from hivesink.config.formats import FORMATS, format_name
from hivesink.core.partition import LivePartition, NewPartition
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.errors import FileSystemUnknown, RegistrationFailed, TableExists, UnknownTable
from hivesink.metastore.common import FLAG, Facts, column, is_accurate, trusts_columns, values_of
from hivesink.metastore.thrift_calls import MetastoreCalls
from hivesink.ports import LiveTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.metastore.thrift_connection import Connection


def facts(table: Any) -> Facts:
    """What decides whether the sink can write the table."""
    sd = table.sd
    return Facts(
        name=TableName(table.dbName, table.tableName),
        kind=table.tableType or "",
        input_format=sd.inputFormat or "",
        serde=(sd.serdeInfo and sd.serdeInfo.serializationLib) or "",
        clustered=bool(sd.bucketCols or (sd.skewedInfo and sd.skewedInfo.skewedColNames)),
        properties=table.parameters or {},
    )


def spec_of(table: Any) -> TableSpec:
    """Raises Unsupported for a type that the sink doesn't know."""
    known = facts(table)
    return TableSpec(
        name=known.name,
        columns=_columns(known.name, table.sd.cols),
        partition_columns=partition_columns(table),
        location=table.sd.location,
        comment=known.properties.get("comment"),
        external=known.external,
        format=format_name(known.input_format),
        properties=known.options,
    )


def partition_columns(table: Any) -> tuple[Column, ...]:
    """Raises Unsupported for a type that the sink doesn't know."""
    return _columns(TableName(table.dbName, table.tableName), table.partitionKeys or [])


def live_table(table: Any) -> LiveTable:
    """Raises Unsupported if the sink can't write such a table."""
    facts(table).refuse()
    return LiveTable(spec_of(table), table.sd.location)


def live_partition(partition: str, struct: Any, table: Any) -> LivePartition:
    """`partition` is its escaped path, `struct` and `table` are the metastore's structs."""
    return LivePartition(
        partition=partition,
        location=struct.sd.location,
        accurate=is_trusted(struct) or is_trusted(table, is_partitioned=True),
        columns_behind=columns_behind(struct, table),
        format=None if struct.sd.inputFormat == table.sd.inputFormat else format_name(struct.sd.inputFormat),
    )


def is_trusted(owner: Any, *, is_partitioned: bool = False) -> bool:
    """Whether Hive answers from the statistics of this partition or table, which may be partitioned itself."""
    flag = (owner.parameters or {}).get(FLAG)
    return trusts_columns(flag) if is_partitioned else is_accurate(flag)


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
    parameters, hive = spec.options, FORMATS[spec.format]
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
            inputFormat=hive.input_format,
            outputFormat=hive.output_format,
            compressed=False,
            numBuckets=-1,
            serdeInfo=ttypes.SerDeInfo(
                name=None, serializationLib=hive.serde, parameters={"serialization.format": "1"}
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


class ThriftTables:
    """Tables of one metastore, as its own structs."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.calls = MetastoreCalls()

    def get(self, name: TableName) -> Any:
        """The table. Raises UnknownTable, MetastoreUnreachable."""
        try:
            return self.connection.read(lambda client: self.calls.table(client, name.database, name.table))
        except ttypes.NoSuchObjectException as error:
            raise UnknownTable(str(name), self.connection.address) from error

    def alter(self, name: TableName, action: str, change: Callable[[dict[str, str]], bool]) -> None:
        """Alter the table's parameters right after a fresh read, if `change` returns that it changed them.

        The metastore has no compare-and-set: this undoes what somebody else alters in between. So it never writes
        FLAG back, which another writer may have removed.
        """
        table = self.get(name)
        table.parameters = table.parameters or {}
        if change(table.parameters):
            table.parameters.pop(FLAG, None)
            self.connection.change(str(name), action, lambda client: self.calls.alter_table(client, table))


class ThriftCatalog:
    """`hiveql.apply.Catalog`. `owner` owns the tables that it creates. Safe to share between threads."""

    def __init__(self, connection: Connection, owner: str) -> None:
        self._connection = connection
        self._owner = owner
        self._tables = ThriftTables(connection)

    def table(self, name: TableName) -> TableSpec | None:
        try:
            return spec_of(self._tables.get(name))
        except UnknownTable:
            return None

    def create_database_if_absent(self, database: str) -> None:
        wanted = ttypes.Database(name=database, parameters={})
        try:
            self._connection.change(f"database {database}", "create", lambda client: client.create_database(wanted))
        except RegistrationFailed as error:
            if not isinstance(error.__cause__, ttypes.AlreadyExistsException):
                raise

    def create(self, spec: TableSpec) -> None:
        """Create the table, or nothing. Raises TableExists, FileSystemUnknown, and what `Connection.change` raises."""
        table = thrift_table(spec, self._owner)
        try:
            self._connection.change(
                str(spec.name), "create the table", lambda client: self._tables.calls.create_table(client, table)
            )
        except RegistrationFailed as error:
            if isinstance(error.__cause__, ttypes.AlreadyExistsException):
                raise TableExists(str(spec.name)) from error
            if spec.location is not None and "UnknownHostException" in error.reason:
                raise FileSystemUnknown(spec.location, f"{self._connection.address} says: {error.reason}") from error
            raise

    def set_properties(self, name: TableName, properties: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        def change(parameters: dict[str, str]) -> bool:
            before = dict(parameters)
            for key in removed:
                parameters.pop(key, None)
            parameters.update(properties)
            return parameters != before

        self._tables.alter(name, "set the properties", change)

    def close(self) -> None:
        self._connection.close()
