"""Tables over Thrift, for applying DDL: `hiveql.apply.Catalog`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_metastore import ttypes

from hivesink.errors import RegistrationFailed, UnknownTable
from hivesink.metastore.thrift import ThriftTables
from hivesink.metastore.thrift_table import spec_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.core.table import TableName, TableSpec
    from hivesink.metastore.thrift_connection import Connection


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
        self._tables.create(spec, self._owner)

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
