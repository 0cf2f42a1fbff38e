"""A metastore's `Table` and `Partition` structs, from and to the sink's types, and its tables for applying DDL."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes

from hivesink.config.formats import FORMATS, format_name
from hivesink.core.partition import LivePartition, NewPartition
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.errors import FileSystemUnknown, RegistrationFailed, TableExists, UnknownTable
from hivesink.metastore import thrift_calls
from hivesink.metastore.common import FLAG, Described, Facts, is_trusted, values_of

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
    return facts(table).spec(described(table.sd.cols), described(table.partitionKeys), table.sd.location)


def described(fields: list[Any] | None) -> list[Described]:
    """Columns, or none of a table without partitions."""
    return [(field.name, field.type, field.comment) for field in fields or ()]


def live_partition(partition: str, struct: Any, table: Any) -> LivePartition:
    """`partition` is its escaped path, `struct` and `table` are the metastore's structs."""
    return LivePartition(
        partition=partition,
        location=struct.sd.location,
        accurate=is_trusted(struct.parameters) or is_trusted(table.parameters, is_partitioned=True),
        columns_behind=columns_behind(struct, table),
        format=None if struct.sd.inputFormat == table.sd.inputFormat else format_name(struct.sd.inputFormat),
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
            cols=_fields(spec.columns),
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
        partitionKeys=_fields(spec.partition_columns),
        parameters=parameters,
        tableType="EXTERNAL_TABLE" if spec.external else "MANAGED_TABLE",
    )


def _fields(columns: tuple[Column, ...]) -> list[Any]:
    return [ttypes.FieldSchema(column.name, str(column.type), column.comment) for column in columns]


class ThriftTables:
    """The tables of a metastore. Safe to share between threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        return self._connection.address

    def struct(self, name: TableName) -> Any:
        """The table as the metastore's own struct. Raises UnknownTable, MetastoreUnreachable."""
        try:
            return self._connection.read(thrift_calls.table, name)
        except ttypes.NoSuchObjectException as error:
            raise UnknownTable(str(name), self.address) from error

    def alter(self, name: TableName, action: str, change: Callable[[dict[str, str]], bool]) -> None:
        """Alter the table's parameters right after a fresh read, if `change` returns that it changed them.

        The metastore has no compare-and-set: this undoes what somebody else alters in between. So it never writes
        FLAG back, which another writer may have removed.
        """
        table = self.struct(name)
        table.parameters = table.parameters or {}
        if change(table.parameters):
            table.parameters.pop(FLAG, None)
            self._connection.change(str(name), action, thrift_calls.alter_table, table)

    def set_properties(self, name: TableName, properties: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Set and unset TBLPROPERTIES; the others stay. Raises UnknownTable."""

        def change(parameters: dict[str, str]) -> bool:
            before = dict(parameters)
            for key in removed:
                parameters.pop(key, None)
            parameters.update(properties)
            return parameters != before

        self.alter(name, f"set {', '.join(properties) or 'the properties'}", change)

    def close(self) -> None:
        self._connection.close()


class ThriftCatalog(ThriftTables):
    """`hiveql.apply.Catalog`."""

    def table(self, name: TableName) -> TableSpec | None:
        try:
            return spec_of(self.struct(name))
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
        struct, name = thrift_table(spec, self._connection.user), str(spec.name)
        try:
            self._connection.change(name, "create the table", lambda client: client.create_table(struct))
        except RegistrationFailed as error:
            if isinstance(error.__cause__, ttypes.AlreadyExistsException):
                raise TableExists(name) from error
            if spec.location is not None and "UnknownHostException" in error.reason:
                raise FileSystemUnknown(spec.location, f"{self.address} says: {error.reason}") from error
            raise
