"""The metastore over Thrift, in bulk: the default registrar."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes
from thrift.Thrift import TException

from hivesink.core.partition import LivePartition, NewPartition, Statistics
from hivesink.core.progress import count
from hivesink.errors import HiveSinkError, RegistrationFailed, TableReplaced, UnknownTable
from hivesink.metastore import thrift_table
from hivesink.metastore.common import (
    FLAG,
    Values,
    change_all,
    figures_of,
    is_accurate,
    name_of,
    require_partition_columns,
    values_of,
)
from hivesink.metastore.thrift_calls import add_partitions, set_column_statistics, version
from hivesink.metastore.thrift_statistics import TIMESTAMPS_SINCE, column_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from hivesink.core.table import TableName
    from hivesink.metastore.thrift_calls import PartitionsCall
    from hivesink.metastore.thrift_connection import Client, Connection
    from hivesink.ports import LiveTable

NAMES_A_CALL = 1000
PARTITIONS_A_CALL = 500
STATISTICS_A_CALL = 50
"""Partitions whose columns' statistics are set in one call: each column is a row of the metastore's database."""
LONGEST_FLAG = 3900
"""Characters of a flag's columns: Hive 2.3 has room for 4000 of a parameter."""
TRIES = 4


class ThriftRegistrar:
    """ports.Registrar over Thrift. Safe to share between threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables = thrift_table.ThriftTables(connection)

    @property
    def address(self) -> str:
        return self._connection.address

    def table(self, name: TableName) -> LiveTable:
        try:
            return thrift_table.live_table(self._tables.get(name))
        except UnknownTable as error:
            raise UnknownTable(str(name), self.address, self._near(name)) from error

    def _near(self, name: TableName) -> str | None:
        """A table of this name in another database, else the one of the same database whose name is most like it.

        None if there is neither, or it can't be asked.
        """
        # Nobody writes the name of a dead-letter table, and a start looks for one that may not be there yet.
        if name.table.endswith("__rejected"):
            return None
        with suppress(HiveSinkError, TException):
            others = self._connection.read(lambda client: client.get_table_meta("*", name.table, []))
            if others:
                return min(f"{one.dbName}.{one.tableName}" for one in others)
            tables = self._connection.read(lambda client: client.get_all_tables(name.database))
            return next((f"{name.database}.{near}" for near in get_close_matches(name.table, tables, n=1)), None)
        return None

    def names(self, table: LiveTable) -> Sequence[str]:
        if not table.spec.is_partitioned:
            return [""]
        name = table.spec.name
        found: list[str] = self._connection.read(
            lambda client: client.get_partition_names(name.database, name.table, -1)
        )
        return found

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        if partitions is not None and not partitions:
            return {}
        name = table.spec.name
        fresh = self._tables.get(name)
        if (fresh.createTime or 0) != table.created:
            raise TableReplaced(str(name), self.address)
        thrift_table.facts(fresh).refuse()
        require_partition_columns(table.spec, thrift_table.partition_columns(fresh))
        if not table.spec.is_partitioned:
            accurate = is_accurate((fresh.parameters or {}).get(FLAG))
            return {"": LivePartition("", fresh.sd.location, accurate, columns_behind=False)}
        if partitions is None:
            partitions = self.names(table)
        wanted = {values_of(table.spec, partition): partition for partition in partitions}
        found = self._read(table, tuple(wanted), self._tables.calls.states)
        return {wanted[values]: thrift_table.live_partition(wanted[values], found[values], fresh) for values in found}

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not partitions or not table.spec.is_partitioned:
            return
        fresh = self._tables.get(table.spec.name)
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

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        if table.spec.is_partitioned:
            values = [values_of(table.spec, partition) for partition in partitions]
            self._alter(table, "drop the accuracy of statistics", values, lambda _, found: _cleared(found.parameters))
        elif partitions:
            self._tables.alter(table.spec.name, "drop the accuracy of statistics", _cleared)

    def set_statistics(self, table: LiveTable, statistics: Sequence[Statistics]) -> bool:
        name, action = table.spec.name, "set statistics"
        if not table.spec.is_partitioned:
            for figures in statistics:
                exact = _settable(figures, self._tables.get(name))
                self._set_columns(table, [exact])
                self._tables.alter(name, action, partial(_set_figures, exact=exact))
            return True
        wanted = {values_of(table.spec, figures.partition): figures for figures in statistics}
        some = [values for values, figures in wanted.items() if figures.columns]

        def set_columns(chunk: Sequence[Values]) -> None:
            found = self._read(table, chunk, self._tables.calls.states)
            self._set_columns(table, [_settable(wanted[values], found[values]) for values in found])

        def set_figures(refused: Collection[str] = ()) -> None:
            self._alter(
                table,
                action,
                [values for values, figures in wanted.items() if figures.partition not in refused],
                lambda values, found: _set_figures(found.parameters, _settable(wanted[values], found)),
            )

        # First, so that the flag never names a column whose statistics aren't there.
        try:
            self._change_all(table, "set the columns' statistics of", some, set_columns, per_call=STATISTICS_A_CALL)
        except RegistrationFailed as error:
            set_figures(error.partitions)
            raise
        set_figures()
        return True

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        name = table.spec.name
        for partition, added in files.items():
            values = list(values_of(table.spec, partition)) if table.spec.is_partitioned else None

            def fire(client: Client, values: list[str] | None = values, added: Sequence[str] = added) -> None:
                self._tables.calls.insert_event(client, name, values, added)

            self._connection.change(str(name), f"announce {partition or name}", fire)

    def close(self) -> None:
        self._connection.close()

    def _set_columns(self, table: LiveTable, statistics: Sequence[Statistics]) -> None:
        name = table.spec.name
        has_timestamps = self._connection.read(version) >= TIMESTAMPS_SINCE
        found = [column_statistics(name, exact, has_timestamps=has_timestamps) for exact in statistics if exact.columns]
        if found:
            action = f"set the columns' statistics of {count(len(found), 'partition')}"
            self._connection.change(str(name), action, lambda client: set_column_statistics(client, found))

    def _read(self, table: LiveTable, wanted: Sequence[Values], call: PartitionsCall) -> dict[Values, Any]:
        """The registered ones of `wanted`. Raises UnknownTable, MetastoreUnreachable."""
        name = table.spec.name
        found: dict[Values, Any] = {}
        for start in range(0, len(wanted), NAMES_A_CALL):
            names = [name_of(table.spec, values) for values in wanted[start : start + NAMES_A_CALL]]

            def ask(client: Client, names: list[str] = names) -> Any:
                return call(client, name.database, name.table, names)

            try:
                partitions = self._connection.read(ask)
            except ttypes.NoSuchObjectException as error:
                raise UnknownTable(str(name), self.address) from error
            # One that is dropped meanwhile comes without its values, which the metastore reads later than the rest.
            found.update({tuple(one.values): one for one in partitions if one.values and one.sd})
        # A database that ignores trailing blanks or case may return another partition than requested.
        return {values: found[values] for values in wanted if values in found}

    def _change_all(
        self,
        table: LiveTable,
        action: str,
        wanted: Sequence[Values],
        change: Callable[[Sequence[Values]], None],
        *,
        per_call: int = PARTITIONS_A_CALL,
    ) -> None:
        change_all(
            {values: name_of(table.spec, values) for values in wanted},
            lambda chunk: _repeat_refused(partial(change, chunk)),
            table=str(table.spec.name),
            action=action,
            address=self.address,
            per_call=per_call,
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
        late = [values for values, found in states.items() if thrift_table.columns_behind(found, fresh)]
        self._alter(table, "update the columns", late, update)

    def _alter(
        self, table: LiveTable, action: str, wanted: Sequence[Values], change: Callable[[Values, Any], bool]
    ) -> None:
        """Alter the registered ones of `wanted` for which `change` returns True, each after a fresh read.

        The metastore refuses the whole call if one was dropped in between; it is then read and altered again.
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
                    f"{action} of {count(len(changed), 'partition')}",
                    lambda client: self._tables.calls.alter_partitions(client, name.database, name.table, changed),
                )

        self._change_all(table, f"{action} of", wanted, alter)


def _cleared(parameters: dict[str, str]) -> bool:
    accurate = is_accurate(parameters.get(FLAG))
    if accurate:
        del parameters[FLAG]
    return accurate


def _set_figures(parameters: dict[str, str], exact: Statistics) -> bool:
    parameters |= figures_of(exact)
    return True


def _settable(exact: Statistics, owner: Any) -> Statistics:
    """With no column whose type in `owner` is another, nor more of them than the flag has room for."""
    types = {field.name.lower(): field.type for field in owner.sd.cols}
    kept = [one for one in exact.columns if types.get(one[0].name) == str(one[0].type)]
    # Its own characters, and those of `"":"true",`.
    room = accumulate(len(column.name) + 10 for column, _ in kept)
    return replace(exact, columns=tuple(one for one, length in zip(kept, room, strict=True) if length < LONGEST_FLAG))


def _repeat_refused(call: Callable[[], None]) -> None:
    """Repeat a refused call a few times: it changed nothing, and two concurrent calls refuse each other."""
    for _ in range(TRIES - 1):
        with suppress(RegistrationFailed):
            return call()
    return call()
