"""The metastore over Thrift, in bulk: the default registrar."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_metastore import ttypes

from hivesink.core.log import PROPERTY
from hivesink.core.partition import Estimate, LivePartition, NewPartition
from hivesink.core.progress import count
from hivesink.core.table import TableName
from hivesink.errors import RegistrationFailed, TableReplaced, UnknownTable
from hivesink.metastore import thrift_calls, thrift_table
from hivesink.metastore.common import (
    FLAG,
    Values,
    change_all,
    figures_of,
    is_trusted,
    name_of,
    require_partition_columns,
    values_of,
)
from hivesink.ports import LiveTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NAMES_A_CALL = 1000
PARTITIONS_A_CALL = 500
TRIES = 4
DROP_FLAG = "drop the accuracy of statistics"


class ThriftMetastore(thrift_table.ThriftTables):
    """ports.Metastore over Thrift."""

    def table(self, name: TableName) -> LiveTable:
        struct = self.struct(name)
        thrift_table.facts(struct).refuse()
        return LiveTable(thrift_table.spec_of(struct), struct.sd.location)

    def names(self, table: LiveTable) -> Sequence[str]:
        if not table.spec.is_partitioned:
            return [""]
        name = table.spec.name
        return self._connection.read(thrift_calls.partition_names, name)

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        if partitions is not None and not partitions:
            return {}
        name = table.spec.name
        fresh = self.struct(name)
        if (fresh.parameters or {}).get(PROPERTY) != table.log:
            raise TableReplaced.other_log(str(name))
        facts = thrift_table.facts(fresh)
        facts.refuse()
        require_partition_columns(table.spec, facts.columns(thrift_table.described(fresh.partitionKeys)))
        if not table.spec.is_partitioned:
            return {"": LivePartition("", fresh.sd.location, is_trusted(fresh.parameters), columns_behind=False)}
        if partitions is None:
            partitions = self.names(table)
        wanted = {values_of(table.spec, partition): partition for partition in partitions}
        live = self._read(table, tuple(wanted), thrift_calls.states)
        return {wanted[values]: thrift_table.live_partition(wanted[values], live[values], fresh) for values in live}

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not partitions or not table.spec.is_partitioned:
            return
        fresh = self.struct(table.spec.name)
        if is_trusted(fresh.parameters, is_partitioned=True):
            self._clear_table(table)
        structs = {
            values_of(table.spec, wanted.partition): thrift_table.new_partition(wanted, table.spec, fresh)
            for wanted in partitions
        }

        def register(chunk: Sequence[Values]) -> None:
            new = [structs[values] for values in chunk]
            action = f"register {count(len(new), 'partition')}"
            self._connection.change(str(table.spec.name), action, thrift_calls.add_partitions, new)

        try:
            self._change_all(table, "register", list(structs), register)
        except RegistrationFailed:
            self._update_columns(table, list(structs))
            raise
        self._update_columns(table, list(structs))

    def set_property(self, name: TableName, key: str, value: str) -> None:
        self.set_properties(name, {key: value})

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        values: dict[TableName, str] = {}
        for database, table in self._connection.read(thrift_calls.tables_with, key):
            # A table that is dropped meanwhile has none.
            with suppress(UnknownTable):
                name = TableName(database, table)
                parameters = self.struct(name).parameters or {}
                values |= {name: parameters[key]} if key in parameters else {}
        return values

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        if partitions:
            self._clear_table(table)
        if table.spec.is_partitioned:
            values = [values_of(table.spec, partition) for partition in partitions]
            self._alter(table, DROP_FLAG, values, lambda _, partition: is_trusted(partition.parameters))

    def estimate(self, table: LiveTable, estimates: Sequence[Estimate]) -> None:
        if not table.spec.is_partitioned:
            for estimate in estimates:
                self.alter(table.spec.name, "write estimates", partial(_write, estimate))
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
            action = f"announce {partition or name}"
            self._connection.change(str(name), action, thrift_calls.insert_event, name, values, added)

    def _clear_table(self, table: LiveTable) -> None:
        self.alter(table.spec.name, DROP_FLAG, partial(is_trusted, is_partitioned=table.spec.is_partitioned))

    def _read(self, table: LiveTable, wanted: Sequence[Values], call: Callable[..., Any]) -> dict[Values, Any]:
        """The registered ones of `wanted`. Raises UnknownTable, MetastoreUnreachable."""
        name = table.spec.name
        structs: dict[Values, Any] = {}
        for start in range(0, len(wanted), NAMES_A_CALL):
            names = [name_of(table.spec, values) for values in wanted[start : start + NAMES_A_CALL]]
            try:
                partitions = self._connection.read(call, name, names)
            except ttypes.NoSuchObjectException as error:
                raise UnknownTable(str(name), self.address) from error
            # A partition that is dropped meanwhile has no values here: the metastore reads them later than the rest.
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
            ask=lambda: self.struct(table.spec.name),
        )

    def _update_columns(self, table: LiveTable, wanted: list[Values]) -> None:
        """Alter partitions with old columns: somebody may have added columns to the table."""
        fresh = self.struct(table.spec.name)

        def update(_values: Values, partition: Any) -> bool:
            behind = thrift_table.columns_behind(partition, fresh)
            if behind:
                partition.sd.cols = fresh.sd.cols
            return behind

        states = self._read(table, wanted, thrift_calls.states)
        late = [values for values, partition in states.items() if thrift_table.columns_behind(partition, fresh)]
        self._alter(table, "update the columns", late, update)

    def _alter(
        self, table: LiveTable, action: str, wanted: Sequence[Values], change: Callable[[Values, Any], bool]
    ) -> None:
        """Alter the registered ones of `wanted` for which `change` returns True, each after a fresh read.

        FLAG is never written back: another writer may have removed it since that read.
        The metastore refuses the whole call if a partition was dropped in between; it is then read and altered again.
        """
        name = table.spec.name

        def alter(chunk: Sequence[Values]) -> None:
            structs = self._read(table, chunk, thrift_calls.partitions)
            for partition in structs.values():
                partition.parameters = partition.parameters or {}
            changed = [partition for values, partition in structs.items() if change(values, partition)]
            for partition in changed:
                partition.parameters.pop(FLAG, None)
            if changed:
                what = f"{action} of {count(len(changed), 'partition')}"
                self._connection.change(str(name), what, thrift_calls.alter_partitions, name, changed)

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
