"""Tables over Thrift: the metastore's own structs, and `hiveql.apply.Catalog` for applying DDL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes

from hivesink.errors import FileSystemUnknown, RegistrationFailed, TableExists, UnknownTable
from hivesink.metastore.thrift_calls import MetastoreCalls
from hivesink.metastore.thrift_table import spec_of, thrift_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.core.table import TableName, TableSpec
    from hivesink.metastore.thrift_connection import Connection


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

        The metastore has no compare-and-set: this undoes what somebody else alters in between.
        """
        table = self.get(name)
        table.parameters = table.parameters or {}
        if change(table.parameters):
            self.connection.change(str(name), action, lambda client: self.calls.alter_table(client, table))


class ThriftCatalog:
    """`owner` owns the tables that it creates. Safe to share between threads."""

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
