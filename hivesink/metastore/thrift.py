"""The metastore over Thrift, in bulk: the default registrar."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes

from hivesink.core.ownership import PROPERTY
from hivesink.core.partition import Estimate, LivePartition, NewPartition
from hivesink.core.progress import count
from hivesink.core.table import TableName
from hivesink.errors import RegistrationFailed, TableReplaced, UnknownTable
from hivesink.metastore import thrift_table
from hivesink.metastore.common import (
    FLAG,
    Values,
    change_all,
    figures_of,
    is_accurate,
    name_of,
    require_partition_columns,
    trusts_columns,
    values_of,
)
from hivesink.metastore.thrift_calls import add_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.metastore.thrift_calls import PartitionsCall
    from hivesink.metastore.thrift_connection import Client, Connection
    from hivesink.ports import LiveTable

NAMES_A_CALL = 1000
PARTITIONS_A_CALL = 500
TRIES = 4
DROP_FLAG = "drop the accuracy of statistics"


class ThriftMetastore:
    """ports.Metastore over Thrift. Safe to share between threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables = thrift_table.ThriftTables(connection)

    @property
    def address(self) -> str:
        return self._connection.address

    def table(self, name: TableName) -> LiveTable:
        return thrift_table.live_table(self._tables.get(name))

    def names(self, table: LiveTable) -> Sequence[str]:
        if not table.spec.is_partitioned:
            return [""]
        name = table.spec.name
        names: list[str] = self._connection.read(
            lambda client: client.get_partition_names(name.database, name.table, -1)
        )
        return names

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        if partitions is not None and not partitions:
            return {}
        name = table.spec.name
        fresh = self._tables.get(name)
        if (fresh.parameters or {}).get(PROPERTY) != table.log:
            raise TableReplaced.other_log(str(name))
        thrift_table.facts(fresh).refuse()
        require_partition_columns(table.spec, thrift_table.partition_columns(fresh))
        if not table.spec.is_partitioned:
            return {"": LivePartition("", fresh.sd.location, thrift_table.is_trusted(fresh), columns_behind=False)}
        if partitions is None:
            partitions = self.names(table)
        wanted = {values_of(table.spec, partition): partition for partition in partitions}
        live = self._read(table, tuple(wanted), self._tables.calls.states)
        return {wanted[values]: thrift_table.live_partition(wanted[values], live[values], fresh) for values in live}

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not partitions or not table.spec.is_partitioned:
            return
        fresh = self._tables.get(table.spec.name)
        if thrift_table.is_trusted(fresh, is_partitioned=True):
            self._clear_table(table)
        structs = {
            values_of(table.spec, wanted.partition): thrift_table.new_partition(wanted, table.spec, fresh)
            for wanted in partitions
        }

        def register(chunk: Sequence[Values]) -> None:
            some = [structs[values] for values in chunk]
            action = f"register {count(len(some), 'partition')}"
            self._connection.change(str(table.spec.name), action, lambda client: add_partitions(client, some))

        try:
            self._change_all(table, "register", list(structs), register)
        except RegistrationFailed:
            self._update_columns(table, list(structs))
            raise
        self._update_columns(table, list(structs))

    def set_property(self, name: TableName, key: str, value: str) -> None:
        def change(parameters: dict[str, str]) -> bool:
            is_news = parameters.get(key) != value
            parameters[key] = value
            return is_news

        self._tables.alter(name, f"set {key}", change)

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        names: list[TableName] = []
        for database in self._connection.read(lambda client: client.get_all_databases()):

            def ask(client: Client, database: str = database) -> Any:
                return client.get_table_names_by_filter(database, f'hive_filter_field_params__{key} like ".*"', -1)

            names += [TableName(database, table) for table in self._connection.read(ask)]
        values: dict[TableName, str] = {}
        for name in names:
            # One that is dropped meanwhile has none.
            with suppress(UnknownTable):
                parameters = self._tables.get(name).parameters or {}
                values |= {name: parameters[key]} if key in parameters else {}
        return values

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        if partitions:
            self._clear_table(table)
        if table.spec.is_partitioned:
            values = [values_of(table.spec, partition) for partition in partitions]
            self._alter(table, DROP_FLAG, values, lambda _, partition: thrift_table.is_trusted(partition))

    def estimate(self, table: LiveTable, estimates: Sequence[Estimate]) -> None:
        if not table.spec.is_partitioned:
            for estimate in estimates:
                self._tables.alter(table.spec.name, "write estimates", partial(_write, estimate))
            return
        wanted = {values_of(table.spec, estimate.partition): estimate for estimate in estimates}
        self._alter(
            table,
            "write estimates",
            list(wanted),
            lambda values, partition: _write(wanted[values], partition.parameters),
        )

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        name = table.spec.name
        for partition, added in files.items():
            values = list(values_of(table.spec, partition)) if table.spec.is_partitioned else None

            def fire(client: Client, values: list[str] | None = values, added: Sequence[str] = added) -> None:
                self._tables.calls.insert_event(client, name, values, added)

            self._connection.change(str(name), f"announce {partition or name}", fire)

    def close(self) -> None:
        self._connection.close()

    def _clear_table(self, table: LiveTable) -> None:
        trusts = trusts_columns if table.spec.is_partitioned else is_accurate
        self._tables.alter(table.spec.name, DROP_FLAG, lambda parameters: trusts(parameters.get(FLAG)))

    def _read(self, table: LiveTable, wanted: Sequence[Values], call: PartitionsCall) -> dict[Values, Any]:
        """The registered ones of `wanted`. Raises UnknownTable, MetastoreUnreachable."""
        name = table.spec.name
        structs: dict[Values, Any] = {}
        for start in range(0, len(wanted), NAMES_A_CALL):
            names = [name_of(table.spec, values) for values in wanted[start : start + NAMES_A_CALL]]

            def ask(client: Client, names: list[str] = names) -> Any:
                return call(client, name.database, name.table, names)

            try:
                partitions = self._connection.read(ask)
            except ttypes.NoSuchObjectException as error:
                raise UnknownTable(str(name), self.address) from error
            # One that is dropped meanwhile comes without its values, which the metastore reads later than the rest.
            structs.update({tuple(struct.values): struct for struct in partitions if struct.values and struct.sd})
        # A database that ignores trailing blanks or case may return another partition than requested.
        return {values: structs[values] for values in wanted if values in structs}

    def _change_all(
        self,
        table: LiveTable,
        action: str,
        wanted: Sequence[Values],
        change: Callable[[Sequence[Values]], None],
    ) -> None:
        change_all(
            {values: name_of(table.spec, values) for values in wanted},
            lambda chunk: _repeat_refused(partial(change, chunk)),
            table=str(table.spec.name),
            action=action,
            address=self.address,
            per_call=PARTITIONS_A_CALL,
            ask=lambda: self._tables.get(table.spec.name),
        )

    def _update_columns(self, table: LiveTable, wanted: list[Values]) -> None:
        """Alter partitions with old columns: somebody may have added columns to the table."""
        fresh = self._tables.get(table.spec.name)

        def update(_values: Values, partition: Any) -> bool:
            behind = thrift_table.columns_behind(partition, fresh)
            if behind:
                partition.sd.cols = fresh.sd.cols
            return behind

        states = self._read(table, wanted, self._tables.calls.states)
        late = [values for values, partition in states.items() if thrift_table.columns_behind(partition, fresh)]
        self._alter(table, "update the columns", late, update)

    def _alter(
        self, table: LiveTable, action: str, wanted: Sequence[Values], change: Callable[[Values, Any], bool]
    ) -> None:
        """Alter the registered ones of `wanted` for which `change` returns True, each after a fresh read.

        FLAG is never written back: another writer may have removed it since that read.
        The metastore refuses the whole call if one was dropped in between; it is then read and altered again.
        """
        name = table.spec.name

        def alter(chunk: Sequence[Values]) -> None:
            structs = self._read(table, chunk, self._tables.calls.partitions)
            for partition in structs.values():
                partition.parameters = partition.parameters or {}
            changed = [partition for values, partition in structs.items() if change(values, partition)]
            for partition in changed:
                partition.parameters.pop(FLAG, None)
            if changed:
                self._connection.change(
                    str(name),
                    f"{action} of {count(len(changed), 'partition')}",
                    lambda client: self._tables.calls.alter_partitions(client, name.database, name.table, changed),
                )

        self._change_all(table, f"{action} of", wanted, alter)


def _write(estimate: Estimate, parameters: dict[str, str]) -> bool:
    before = dict(parameters)
    parameters |= figures_of(estimate)
    return parameters != before or FLAG in before


def _repeat_refused(call: Callable[[], None]) -> None:
    """Repeat a refused call a few times: it changed nothing, and two concurrent calls refuse each other."""
    for _ in range(TRIES - 1):
        with suppress(RegistrationFailed):
            return call()
    return call()
