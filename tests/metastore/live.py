"""A table in each kind of metastore, with what a test does to it behind the sink's back."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hive_metastore import ThriftHiveMetastore, ttypes

from hivesink.config.formats import FORMATS, format_name
from hivesink.core.partition import NewPartition
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.hive import Hive
from hivesink.metastore.common import values_of
from hivesink.metastore.hiveserver2 import HiveServer2Metastore
from hivesink.metastore.thrift import ThriftMetastore
from hivesink.metastore.thrift_calls import KEEP_STATISTICS
from hivesink.metastore.thrift_connection import Connection
from hivesink.ports import LiveTable, Metastore
from jobs.cluster.hive import HiveServer2
from tests.inmemory.metastore import MemoryMetastore
from tests.secure.site import site_of

if TYPE_CHECKING:
    import pytest

_RUN = secrets.token_hex(3)
_NUMBERS = itertools.count()
DATABASE = "contracts"
DT = Column("dt", Primitive.STRING)
ACCURATE = '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}'


def declared(folder: Path, *partition_columns: Column) -> TableSpec:
    """A new table's declaration, in a folder of its own."""
    name = TableName(DATABASE, f"t{_RUN}_{next(_NUMBERS)}")
    columns = (Column("id", Primitive.BIGINT, "the key"), Column("v", Primitive.DOUBLE))
    return TableSpec(name, columns, partition_columns, f"file:{folder / name.table}", external=True)


def dt(day: int) -> str:
    return f"dt=2024-01-{day:02d}"


def new(table: LiveTable, partition: str, folder: str | None = None) -> NewPartition:
    return NewPartition(partition, f"{table.location}/{folder or partition}", 1, 10)


class InMemory:
    kind = "memory"

    def __init__(self) -> None:
        self.metastore = MemoryMetastore()

    def connect(self) -> Metastore:
        return self.metastore

    def create(self, spec: TableSpec) -> None:
        self.metastore.create(spec)

    def register(self, table: LiveTable, partition: str, location: str) -> None:
        self.metastore.register(table.spec.name, partition, location)

    def analyze(self, table: LiveTable, partition: str) -> None:
        if table.spec.is_partitioned and not partition:
            self.metastore.analyze_table(table.spec.name)
        else:
            self.metastore.analyze(table.spec.name, partition, 5)

    def add_column(self, table: LiveTable, column: Column) -> None:
        self.metastore.add_columns(table.spec.name, column)

    def change_partition_column(self, table: LiveTable, column: Column) -> None:
        self.metastore.change_column(table.spec.name, column)

    def set_format(self, table: LiveTable, partition: str, source: str) -> None:
        self.metastore.set_format(table.spec.name, partition, source)

    def drop(self, table: LiveTable, partition: str) -> None:
        self.metastore.drop_partition(table.spec.name, partition)

    def drop_table(self, table: LiveTable) -> None:
        self.metastore.drop_table(table.spec.name)

    def parameters(self, table: LiveTable, partition: str) -> dict[str, str]:
        name = table.spec.name
        return dict(self.metastore.parameters(name, partition) if partition else self.metastore.table_parameters(name))


class OverThrift:
    """A real metastore, changed by raw Thrift calls as another client would."""

    def __init__(
        self,
        uri: str,
        make: Callable[[], Metastore] | None = None,
        kind: str = "thrift",
        site: Mapping[str, str] | None = None,
    ) -> None:
        self.uri = uri
        self.kind = kind
        self._make = make
        self._site = site
        self.raw = Connection(uri, site)
        self._catalog = ThriftMetastore(self.raw)
        self._opened: list[Metastore] = []

    def connect(self) -> Metastore:
        self._opened.append(self._make() if self._make else ThriftMetastore(Connection(self.uri, self._site)))
        return self._opened[-1]

    def close(self) -> None:
        self.raw.close()
        for registrar in self._opened:
            registrar.close()

    def create(self, spec: TableSpec) -> None:
        self._catalog.create_database_if_absent(spec.name.database)
        self._catalog.create(spec)

    def register(self, table: LiveTable, partition: str, location: str) -> None:
        ThriftMetastore(self.raw).add(table, [NewPartition(partition, location, 0, 0)])

    def analyze(self, table: LiveTable, partition: str) -> None:
        for found in self._changed(table, partition):
            found.parameters.update({"numRows": "5", "COLUMN_STATS_ACCURATE": ACCURATE, "mine": "stays"})

    def add_column(self, table: LiveTable, column: Column) -> None:
        found = self.table(table)
        found.sd.cols.append(ttypes.FieldSchema(column.name, str(column.type), column.comment))
        self._alter_table(table, found)

    def change_partition_column(self, table: LiveTable, column: Column) -> None:
        found = self.table(table)
        for key in found.partitionKeys:
            key.type = str(column.type) if key.name == column.name else key.type
        self._alter_table(table, found)

    def set_format(self, table: LiveTable, partition: str, source: str) -> None:
        for found in self._changed(table, partition):
            found.sd.inputFormat = source
            if hive := FORMATS.get(format_name(source)):
                found.sd.serdeInfo.serializationLib = hive.serde

    def drop(self, table: LiveTable, partition: str) -> None:
        name, values = table.spec.name, list(values_of(table.spec, partition))
        self.raw.read(lambda client: client.drop_partition(name.database, name.table, values, False))

    def drop_table(self, table: LiveTable) -> None:
        name = table.spec.name
        self.raw.read(lambda client: client.drop_table(name.database, name.table, False))

    def parameters(self, table: LiveTable, partition: str) -> dict[str, str]:
        return dict(self.owner(table, partition).parameters)

    def owner(self, table: LiveTable, partition: str) -> Any:
        """The raw struct: of the partition, or of a table without any."""
        if not partition:
            return self.table(table)
        name, values = table.spec.name, list(values_of(table.spec, partition))
        return self.raw.read(lambda client: client.get_partition(name.database, name.table, values))

    def table(self, table: LiveTable) -> Any:
        return self._catalog.struct(table.spec.name)

    def _changed(self, table: LiveTable, partition: str) -> Iterator[Any]:
        found, name = self.owner(table, partition), table.spec.name
        yield found
        if not partition:
            self._alter_table(table, found)
            return
        self.raw.read(
            lambda client: client.alter_partitions_with_environment_context(
                name.database, name.table, [found], KEEP_STATISTICS
            )
        )

    def _alter_table(self, table: LiveTable, found: Any) -> None:
        name = table.spec.name
        self.raw.read(
            lambda client: client.alter_table_with_environment_context(
                name.database, name.table, found, KEEP_STATISTICS
            )
        )


LiveMetastore: TypeAlias = InMemory | OverThrift
"""One kind of metastore. `connect` gives a new registrar, as another process would have."""


def made(server: LiveMetastore, folder: Path, *partition_columns: Column) -> LiveTable:
    """A new table, without partitions yet."""
    spec = declared(folder, *partition_columns)
    server.create(spec)
    return server.connect().table(spec.name)


KINDS = ["memory", "thrift-2.3", "thrift-3.1.3", "thrift-4.0.1", "thrift-secured", "hiveserver2-4.0.1"]
NOSASL = {"hive.server2.authentication": "NOSASL"}


@contextmanager
def world_of(kind: str, request: pytest.FixtureRequest) -> Iterator[LiveMetastore]:
    """One of KINDS, on the run's own servers."""
    if kind == "memory":
        yield InMemory()
        return
    version, make = kind.rpartition("-")[2], None
    site: Mapping[str, str] = NOSASL
    uri = metastore_of(version, request)
    if version == "secured":
        site = site_of(request.getfixturevalue("secured")).hive
    if kind.startswith("hiveserver2"):
        host, port = hiveserver2_of(version, request)
        make = lambda: HiveServer2Metastore(Hive(f"{host}:{port}", site))  # noqa: E731
    over = OverThrift(uri, make, kind, site)
    try:
        yield over
    finally:
        over.close()


def metastore_of(version: str, request: pytest.FixtureRequest) -> str:
    """The Thrift address of Hive Metastore 4.0.1, plain or `secured`, of 3.1.3, or of 2.3 for any other `version`."""
    if version == "3.1.3":
        return str(request.getfixturevalue("hive3")[0].uri)
    if version == "secured":
        return str(request.getfixturevalue("alice").metastore_uri)
    if version == "4.0.1":
        return str(request.getfixturevalue("cluster").metastore_uri)
    return str(request.getfixturevalue("metastore").uri)


def hiveserver2_of(version: str, request: pytest.FixtureRequest) -> tuple[str, int]:
    """Host and port of HiveServer2 4.0.1, plain or `secured`, or of 3.1.3."""
    if version == "3.1.3":
        server: HiveServer2 = request.getfixturevalue("hive3")[1]
    else:
        # The secured cluster is started without one.
        server = request.getfixturevalue("alice" if version == "secured" else "cluster").servers.hiveserver2
    server.start()
    host, _, port = server.address.rpartition(":")
    return host, int(port)


def counted(monkeypatch: pytest.MonkeyPatch, thread: int | None = None) -> Counter[str]:
    """What goes over the wire from now on, by the name of the call; of one thread, if it is given."""
    calls: Counter[str] = Counter()
    for name in [name for name in dir(ThriftHiveMetastore.Client) if name.startswith("send_")]:
        send = getattr(ThriftHiveMetastore.Client, name)

        def counting(client: Any, *arguments: Any, send: Any = send, name: str = name) -> None:
            if thread in {None, threading.get_ident()}:
                calls[name.removeprefix("send_")] += 1
            send(client, *arguments)

        monkeypatch.setattr(ThriftHiveMetastore.Client, name, counting)
    return calls
