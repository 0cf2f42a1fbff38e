"""HiveServer2 (and Spark's Thrift Server) by SQL, for sites where the metastore itself can't be reached.

What SQL can't do isn't done: exact statistics are not set, and a partition whose statistics Hive trusts can't be
taken out of trust, so an epoch that would write into it fails before anything is published.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyhive import hive
from pyhive.exc import Error as PyHiveError
from TCLIService.ttypes import TGetInfoReq, TGetInfoType
from thrift.Thrift import TException

from hivesink.core.table import TableName, TableSpec
from hivesink.errors import (
    InvalidOption,
    MetastoreUnreachable,
    RegistrationFailed,
    RegistrationUnknown,
    UnknownTable,
    Unsupported,
)
from hivesink.metastore.accuracy import FLAG, is_accurate
from hivesink.metastore.hive_text import (
    Described,
    DescribedColumn,
    described,
    identifier,
    literal,
    partition_clause,
    table_name,
)
from hivesink.metastore.partition_names import name_of, values_of
from hivesink.metastore.refusals import PARQUET_INPUT, Facts, column
from hivesink.ports import LivePartition, LiveTable, NewPartition, Statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPECS_A_STATEMENT = 500
ASK_ONE_BY_ONE = 32
"""Up to so many partitions are asked for singly; SHOW PARTITIONS of the whole table serves more."""
_BROKEN = (TException, OSError, EOFError)


@dataclass(frozen=True, slots=True)
class Login:
    """How PyHive logs in: `auth` is NONE, NOSASL, LDAP, CUSTOM or KERBEROS. The password is never shown."""

    auth: str = "NONE"
    username: str | None = None
    password: str | None = None
    kerberos_service_name: str | None = None

    def __repr__(self) -> str:
        return f"Login(auth={self.auth!r}, username={self.username!r})"

    def arguments(self) -> dict[str, str]:
        """Those that are set, by PyHive's names."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in named.items() if value is not None}


class HiveServer2Registrar:
    """ports.Registrar by SQL. Safe to share between threads; a broken session is replaced by the next call."""

    def __init__(self, host: str, port: int, login: Login | None = None) -> None:
        self._host = host
        self._port = port
        self._login = login or Login()
        self._lock = threading.RLock()
        self._session: Any = None
        self._spark = False

    @property
    def address(self) -> str:
        return f"hiveserver2://{self._host}:{self._port}"

    def table(self, name: TableName) -> LiveTable:
        found = self._describe(name)
        properties = self._properties(name)
        facts = _facts(name, found, properties)
        facts.refuse()
        if self._spark and not found.partition_columns:
            msg = f"{name}, a table without partitions, through Spark's Thrift Server"
            raise Unsupported(
                msg,
                f"it doesn't show {FLAG}, so that Hive might count wrong",
                "use the metastore's own address (registrar thrift), or HiveServer2",
            )
        spec = TableSpec(
            name=name,
            columns=tuple(column(name, *described) for described in found.columns),
            partition_columns=tuple(column(name, *described) for described in found.partition_columns),
            location=found.fields.get("location"),
            comment=properties.get("comment") or found.fields.get("comment"),
            external=facts.external,
            properties=tuple(sorted((key, value) for key, value in properties.items() if key not in _FIELDS)),
        )
        return LiveTable(spec, found.fields.get("location", ""), is_accurate(_flag(properties)))

    def create(self, spec: TableSpec) -> None:
        """Raise Unsupported: the DDL of a table belongs to `hivesink ddl apply`, over the metastore's address."""
        msg = f"creating {spec.name} through HiveServer2"
        raise Unsupported(msg, "this registrar only registers partitions", "create it with its DDL first")

    def lookup(self, table: LiveTable, partitions: Sequence[str]) -> Mapping[str, LivePartition]:
        if not partitions:
            return {}
        spec = table.spec
        if not spec.is_partitioned:
            live = self.table(spec.name)
            return {"": LivePartition("", live.location, live.accurate, columns_behind=False)}
        names = {partition: name_of(spec, values_of(spec, partition)) for partition in partitions}
        registered = self._registered(spec, partitions)
        columns = self._describe(spec.name).columns if registered else []
        found = [partition for partition in partitions if names[partition] in registered]
        return {partition: self._partition(spec, partition, columns) for partition in found}

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not table.spec.is_partitioned:
            return
        spec = table.spec
        for start in range(0, len(partitions), SPECS_A_STATEMENT):
            chunk = partitions[start : start + SPECS_A_STATEMENT]
            self._connected()
            clauses = " ".join(
                f"{partition_clause(spec, wanted.partition, spark=self._spark)} LOCATION {literal(wanted.location)}"
                for wanted in chunk
            )
            statement = f"ALTER TABLE {table_name(spec.name)} ADD IF NOT EXISTS {clauses}"
            self._change(spec.name, f"register {len(chunk)} partitions", statement)

    def distrust(self, table: LiveTable, partitions: Sequence[str]) -> None:
        trusted = [partition for partition, live in self.lookup(table, partitions).items() if live.accurate]
        if trusted:
            raise RegistrationFailed(
                str(table.spec.name),
                f"drop the accuracy of statistics of {', '.join(trusted[:3]) or 'the table'}",
                "HiveQL can't; use the metastore's own address (registrar thrift), and run ANALYZE TABLE … COMPUTE "
                "STATISTICS only while no stream writes",
            )

    def set_statistics(self, table: LiveTable, statistics: Sequence[Statistics]) -> bool:  # noqa: ARG002
        """Return False: HiveQL has no statement that sets the number of rows and keeps it trusted."""
        return False

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                try:
                    session.close()
                except (*_BROKEN, PyHiveError):
                    return  # The server forgets a session whose connection is gone.

    def _partition(self, spec: TableSpec, partition: str, columns: list[DescribedColumn]) -> LivePartition:
        clause = partition_clause(spec, partition, spark=self._spark)
        found = described(self._read(f"DESCRIBE FORMATTED {table_name(spec.name)} {clause}"))
        # Spark shows the table's columns here, Hive the partition's own.
        behind = [column[:2] for column in found.columns] != [column[:2] for column in columns]
        return LivePartition(partition, found.fields["location"], is_accurate(_flag(found.parameters)), behind)

    def _registered(self, spec: TableSpec, partitions: Sequence[str]) -> set[str]:
        self._connected()
        show = f"SHOW PARTITIONS {table_name(spec.name)}"
        if len(partitions) > ASK_ONE_BY_ONE:
            return {str(row[0]) for row in self._read(show)}
        clauses = (partition_clause(spec, partition, spark=self._spark) for partition in partitions)
        return {str(row[0]) for clause in clauses for row in self._read(f"{show} {clause}")}

    def _describe(self, name: TableName) -> Described:
        # An unknown table's error has other words and codes on each server; the list of tables has not.
        databases = self._read(f"SHOW DATABASES LIKE {literal(name.database)}")
        show = f"SHOW TABLES IN {identifier(name.database)} {literal(name.table)}"
        if not any(name.database in row for row in databases) or not any(name.table in row for row in self._read(show)):
            raise UnknownTable(str(name), self.address)
        return described(self._read(f"DESCRIBE FORMATTED {table_name(name)}"))

    def _properties(self, name: TableName) -> dict[str, str]:
        rows = self._read(f"SHOW TBLPROPERTIES {table_name(name)}")
        return {key: value for key, value in rows if not (self._spark and key.startswith("option."))}

    def _read(self, statement: str) -> list[Any]:
        with self._lock:
            try:
                return self._run_again(statement)
            except (*_BROKEN, PyHiveError) as error:
                raise MetastoreUnreachable(self.address, _reason(error)) from error

    def _run_again(self, statement: str) -> list[Any]:
        try:
            return self._run(statement)
        except _BROKEN:
            return self._run(statement)

    def _change(self, name: TableName, action: str, statement: str) -> None:
        with self._lock:
            try:
                self._run(statement)
            except PyHiveError as error:
                raise RegistrationFailed(str(name), action, _reason(error)) from error
            except _BROKEN as error:
                raise RegistrationUnknown(str(name), action, _reason(error)) from error

    def _run(self, statement: str) -> list[Any]:
        session = self._connected()
        try:
            with session.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        except PyHiveError:
            raise
        except BaseException:
            self._session = None
            raise

    def _connected(self) -> Any:
        with self._lock:
            if self._session is None:
                try:
                    session = hive.connect(host=self._host, port=self._port, **self._login.arguments())
                    self._spark = "spark" in _server_name(session).lower()
                except (*_BROKEN, PyHiveError) as error:
                    raise MetastoreUnreachable(self.address, _reason(error)) from error
                except (ValueError, AssertionError) as error:
                    raise InvalidOption((f"hiveserver2 login: {_reason(error)}",)) from error
                self._session = session
            return self._session


_FIELDS = {"comment", "EXTERNAL"}


def _server_name(session: Any) -> str:
    request = TGetInfoReq(session.sessionHandle, TGetInfoType.CLI_DBMS_NAME)
    return str(session.client.GetInfo(request).infoValue.stringValue)


def _flag(parameters: Mapping[str, str]) -> str | None:
    text = parameters.get(FLAG)
    # Hive escapes the quotes of this value when it describes.
    return None if text is None else text.replace('\\"', '"')


def _facts(name: TableName, found: Described, properties: Mapping[str, str]) -> Facts:
    fields = found.fields
    return Facts(
        name=name,
        kind=fields.get("table type") or fields.get("type", ""),
        input_format=fields.get("inputformat", PARQUET_INPUT if fields.get("provider") == "parquet" else ""),
        serde=fields.get("serde library", ""),
        bucketed=fields.get("bucket columns", "[]") not in {"[]", ""},
        skewed="skewed columns" in fields and fields["skewed columns"] != "[]",
        properties=properties,
    )


def _reason(error: BaseException) -> str:
    """The server's own first line; PyHive's text would hold the whole reply with Java's stack."""
    status = getattr(error.args[0], "status", None) if error.args else None
    text = getattr(status, "errorMessage", None) or getattr(error, "message", None) or str(error)
    return (str(text).strip().splitlines() or [type(error).__name__])[0][:500]
