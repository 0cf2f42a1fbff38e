"""The metastore over Thrift, in bulk: the default registrar."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hive_metastore import ttypes

from hivesink.core.partition import LivePartition, NewPartition, Statistics
from hivesink.errors import FileSystemUnknown, RegistrationFailed, TableExists, TableReplaced, UnknownTable
from hivesink.metastore.accuracy import BASIC_ONLY, FLAG, is_accurate
from hivesink.metastore.one_by_one import change_all
from hivesink.metastore.partition_names import Values, name_of, values_of
from hivesink.metastore.thrift_calls import Calls, add_partitions
from hivesink.metastore.thrift_table import columns_behind, live_partition, live_table, new_partition, thrift_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hivesink.core.table import TableName, TableSpec
    from hivesink.metastore.thrift_calls import PartitionsCall
    from hivesink.metastore.thrift_connection import Client, Connection
    from hivesink.ports import LiveTable

T = TypeVar("T")

NAMES_A_CALL = 1000
PARTITIONS_A_CALL = 500
TRIES = 4


class ThriftTables:
    """Tables of one metastore, as its own structs."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.calls = Calls()

    def get(self, name: TableName) -> Any:
        """Raises UnknownTable, MetastoreUnreachable."""
        try:
            return self.connection.read(lambda client: self.calls.table(client, name.database, name.table))
        except ttypes.NoSuchObjectException as error:
            raise UnknownTable(str(name), self.connection.address) from error

    def create(self, spec: TableSpec, owner: str) -> None:
        """Create the table, or nothing. Raises TableExists, FileSystemUnknown, and what `Connection.change` raises."""
        table = thrift_table(spec, owner)
        try:
            self.connection.change(
                str(spec.name), "create the table", lambda client: self.calls.create_table(client, table)
            )
        except RegistrationFailed as error:
            if isinstance(error.__cause__, ttypes.AlreadyExistsException):
                raise TableExists(str(spec.name)) from error
            if spec.location is not None and "UnknownHostException" in error.reason:
                raise FileSystemUnknown(spec.location, f"{self.connection.address} says: {error.reason}") from error
            raise

    def alter(self, name: TableName, action: str, change: Callable[[dict[str, str]], bool]) -> None:
        """Alter the table's parameters straight after a fresh read, if `change` says that it changed them.

        The metastore has no compare-and-set: what somebody else alters in between is undone.
        """
        table = self.get(name)
        table.parameters = table.parameters or {}
        if change(table.parameters):
            self.connection.change(str(name), action, lambda client: self.calls.alter_table(client, table))


class ThriftRegistrar:
    """ports.Registrar over Thrift. Safe to share between threads."""

    def __init__(self, connection: Connection, owner: str = "hivesink") -> None:
        self._connection = connection
        self._owner = owner
        self._tables = ThriftTables(connection)

    @property
    def address(self) -> str:
        return self._connection.address

    def table(self, name: TableName) -> LiveTable:
        return live_table(self._tables.get(name))

    def create(self, spec: TableSpec) -> None:
        """Create a table that the sink itself needs (dead letters). Raises TableExists."""
        self._tables.create(spec, self._owner)

    def lookup(self, table: LiveTable, partitions: Sequence[str]) -> Mapping[str, LivePartition]:
        if not partitions:
            return {}
        fresh = self._tables.get(table.spec.name)
        if (fresh.createTime or 0) != table.created:
            raise TableReplaced(str(table.spec.name), self.address)
        if not table.spec.is_partitioned:
            accurate = is_accurate((fresh.parameters or {}).get(FLAG))
            return {"": LivePartition("", fresh.sd.location, accurate, columns_behind=False)}
        wanted = {values_of(table.spec, partition): partition for partition in partitions}
        found = self._read(table, tuple(wanted), self._tables.calls.states)
        return {wanted[values]: live_partition(wanted[values], found[values], fresh) for values in found}

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not partitions or not table.spec.is_partitioned:
            return
        fresh = self._tables.get(table.spec.name)
        structs = {
            values_of(table.spec, wanted.partition): new_partition(wanted, table.spec, fresh) for wanted in partitions
        }
        try:
            self._change_all(
                table, "register", list(structs), lambda chunk: self._add(table, [structs[values] for values in chunk])
            )
        except RegistrationFailed:
            self._bring_columns(table, list(structs))
            raise
        self._bring_columns(table, list(structs))

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        if table.spec.is_partitioned:
            values = [values_of(table.spec, partition) for partition in partitions]
            self._alter(table, "drop the accuracy of statistics", values, lambda _, found: _cleared(found.parameters))
        elif partitions:
            self._tables.alter(table.spec.name, "drop the accuracy of statistics", _cleared)

    def set_statistics(self, table: LiveTable, statistics: Sequence[Statistics]) -> bool:
        action = "set statistics"
        if table.spec.is_partitioned:
            exact = {values_of(table.spec, figures.partition): figures for figures in statistics}
            self._alter(table, action, list(exact), lambda values, found: _set_figures(found.parameters, exact[values]))
        else:
            for figures in statistics:
                self._tables.alter(table.spec.name, action, partial(_set_figures, exact=figures))
        return True

    def close(self) -> None:
        self._connection.close()

    def _read(self, table: LiveTable, wanted: Sequence[Values], call: PartitionsCall) -> dict[Values, Any]:
        """The registered ones of `wanted`. Raises UnknownTable, MetastoreUnreachable."""
        name = table.spec.name
        found: dict[Values, Any] = {}
        for chunk in _chunks(wanted, NAMES_A_CALL):
            names = [name_of(table.spec, values) for values in chunk]

            def ask(client: Client, names: list[str] = names) -> Any:
                return call(client, name.database, name.table, names)

            try:
                partitions = self._connection.read(ask)
            except ttypes.NoSuchObjectException as error:
                raise UnknownTable(str(name), self.address) from error
            found.update({tuple(partition.values): partition for partition in partitions})
        # A database that ignores blanks at the end, or case, answers with another partition than was asked for.
        return {values: found[values] for values in wanted if values in found}

    def _add(self, table: LiveTable, partitions: list[Any]) -> None:
        name = table.spec.name
        self._connection.change(
            str(name),
            f"register {len(partitions)} partitions",
            lambda client: add_partitions(client, name.database, name.table, partitions),
        )

    def _change_all(
        self, table: LiveTable, action: str, wanted: Sequence[Values], change: Callable[[Sequence[Values]], None]
    ) -> None:
        change_all(
            {values: name_of(table.spec, values) for values in wanted},
            lambda chunk: _repeat_refused(partial(change, chunk)),
            table=str(table.spec.name),
            action=action,
            address=self.address,
            parallelism=PARTITIONS_A_CALL,
            ask=lambda: self._tables.get(table.spec.name),
        )

    def _bring_columns(self, table: LiveTable, wanted: list[Values]) -> None:
        """Alter those whose columns are behind: somebody may have added columns to the table meanwhile."""
        fresh = self._tables.get(table.spec.name)

        def bring(_values: Values, partition: Any) -> bool:
            behind = columns_behind(partition, fresh)
            if behind:
                partition.sd.cols = fresh.sd.cols
            return behind

        states = self._read(table, wanted, self._tables.calls.states)
        late = [values for values, found in states.items() if columns_behind(found, fresh)]
        self._alter(table, "bring the columns", late, bring)

    def _alter(
        self, table: LiveTable, action: str, wanted: Sequence[Values], change: Callable[[Values, Any], bool]
    ) -> None:
        """Alter those of `wanted` that are there and that `change` says it changed, each after a fresh read.

        One that somebody drops in between refuses the whole call, which is then read and altered again.
        """
        name = table.spec.name

        def alter(chunk: Sequence[Values]) -> None:
            found = self._read(table, chunk, self._tables.calls.partitions)
            for partition in found.values():
                partition.parameters = partition.parameters or {}
            changed = [partition for values, partition in found.items() if change(values, partition)]
            if changed:
                self._connection.change(
                    str(name),
                    f"{action} of {len(changed)} partitions",
                    lambda client: self._tables.calls.alter_partitions(client, name.database, name.table, changed),
                )

        self._change_all(table, f"{action} of", wanted, alter)


def _cleared(parameters: dict[str, str]) -> bool:
    accurate = is_accurate(parameters.get(FLAG))
    if accurate:
        del parameters[FLAG]
    return accurate


def _set_figures(parameters: dict[str, str], exact: Statistics) -> bool:
    # The size of the rows in memory isn't known any more; Hive estimates it from totalSize then.
    parameters.pop("rawDataSize", None)
    parameters.update(
        {
            "numFiles": str(exact.files),
            "totalSize": str(exact.bytes),
            "numRows": str(exact.rows),
            FLAG: BASIC_ONLY,
        }
    )
    return True


def _repeat_refused(call: Callable[[], None]) -> None:
    """A refused call has changed nothing, and two at once refuse each other; so it is repeated a few times."""
    for _ in range(TRIES - 1):
        try:
            call()
        except RegistrationFailed:
            continue
        return
    call()


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
