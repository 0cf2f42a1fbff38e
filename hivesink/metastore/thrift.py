"""The metastore over Thrift, in bulk: its tables for applying DDL, and the default registrar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hive_metastore import ttypes

from hivesink import errors
from hivesink.config.formats import format_name
from hivesink.core.partition import Estimate, LivePartition, NewPartition
from hivesink.core.progress import count
from hivesink.core.table import TableName, TableSpec
from hivesink.metastore import common, thrift_calls
from hivesink.metastore.common import FLAG, Values, is_trusted, name_of, values_of
from hivesink.metastore.thrift_connection import Connection
from hivesink.ports import LiveTable

NAMES_A_CALL = 1000
PARTITIONS_A_CALL = 500
TRIES = 4
DROP_FLAG = "drop the accuracy of statistics"


class ThriftMetastore:
    """ports.Metastore and `hiveql.apply.Catalog` over Thrift. Safe to share between threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.address = connection.address
        self.close = connection.close

    def struct(self, name: TableName) -> Any:
        """The table as the metastore's own struct. Raises UnknownTable, MetastoreUnreachable."""
        try:
            return self._connection.read(thrift_calls.table, name)
        except ttypes.NoSuchObjectException as error:
            raise errors.UnknownTable(str(name), self.address) from error

    def create(self, spec: TableSpec) -> None:
        """Create the table, or nothing. Raises TableReplaced, Unsupported, and what `Connection.change` raises."""
        struct, name = thrift_calls.thrift_table(spec, self._connection.user), str(spec.name)
        try:
            self._connection.change(name, "create the table", lambda client: client.create_table(struct))
        except errors.RegistrationFailed as error:
            if isinstance(error.__cause__, ttypes.AlreadyExistsException):
                raise errors.TableReplaced(name, "somebody has created it") from error
            if spec.location is not None and "UnknownHostException" in error.reason:
                raise errors.unknown_file_system(spec.location, f"{self.address} says: {error.reason}") from error
            raise

    def alter(self, name: TableName, action: str, change: Callable[[dict[str, str]], bool]) -> None:
        """Alter the table's parameters right after a fresh read, if `change` returns that it changed them.

        The metastore has no compare-and-set: this undoes what somebody else alters in between. So it never writes
        FLAG back, which another writer may have removed.
        """
        table = self.struct(name)
        table.parameters = table.parameters or {}
        if change(table.parameters):
            table.parameters.pop(FLAG, None)
            self._connection.change(
                str(name),
                action,
                lambda client: client.alter_table_with_environment_context(
                    name.database, name.table, table, thrift_calls.KEEP_STATISTICS
                ),
            )

    def set_properties(self, name: TableName, properties: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Set and unset TBLPROPERTIES; the others stay. Raises UnknownTable."""

        def change(parameters: dict[str, str]) -> bool:
            before = dict(parameters)
            for key in removed:
                parameters.pop(key, None)
            parameters.update(properties)
            return parameters != before

        self.alter(name, f"set {', '.join(properties) or 'the properties'}", change)

    def find(self, name: TableName) -> TableSpec | None:
        with suppress(errors.UnknownTable):
            return thrift_calls.facts(self.struct(name)).spec()
        return None

    def create_database_if_absent(self, database: str) -> None:
        wanted = ttypes.Database(name=database, parameters={})
        try:
            self._connection.change(f"database {database}", "create", lambda client: client.create_database(wanted))
        except errors.RegistrationFailed as error:
            if not isinstance(error.__cause__, ttypes.AlreadyExistsException):
                raise

    def table(self, name: TableName) -> LiveTable:
        struct = self.struct(name)
        facts = thrift_calls.facts(struct)
        facts.refuse()
        return LiveTable(facts.spec(), struct.sd.location)

    def names(self, table: LiveTable) -> Sequence[str]:
        if not table.spec.is_partitioned:
            return [""]
        name = table.spec.name
        return list(self._connection.read(lambda client: client.get_partition_names(name.database, name.table, -1)))

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        if partitions is not None and not partitions:
            return {}
        fresh = self.struct(table.spec.name)
        thrift_calls.facts(fresh).require(table)
        if not table.spec.is_partitioned:
            return {"": LivePartition("", fresh.sd.location, is_trusted(fresh.parameters), columns_behind=False)}
        if partitions is None:
            partitions = self.names(table)
        wanted = {values_of(table.spec, partition): partition for partition in partitions}
        live = self._read(table, tuple(wanted), thrift_calls.states)
        trusted = is_trusted(fresh.parameters, is_partitioned=True)
        return {
            wanted[values]: LivePartition(
                wanted[values],
                struct.sd.location,
                trusted or is_trusted(struct.parameters),
                columns_behind=thrift_calls.columns_behind(struct, fresh),
                format=None if struct.sd.inputFormat == fresh.sd.inputFormat else format_name(struct.sd.inputFormat),
            )
            for values, struct in live.items()
        }

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not partitions or not table.spec.is_partitioned:
            return
        fresh = self.struct(table.spec.name)
        if is_trusted(fresh.parameters, is_partitioned=True):
            self._clear_table(table)
        structs = {
            values_of(table.spec, wanted.partition): thrift_calls.new_partition(wanted, table.spec, fresh)
            for wanted in partitions
        }

        def register(chunk: Sequence[Values]) -> None:
            new, name = [structs[values] for values in chunk], table.spec.name
            request = ttypes.AddPartitionsRequest(name.database, name.table, new, ifNotExists=True, needResult=False)
            action = f"register {count(len(new), 'partition')}"
            self._connection.change(str(name), action, lambda client: client.add_partitions_req(request))

        try:
            self._change_all(table, "register", list(structs), register)
        except errors.RegistrationFailed:
            self._update_columns(table, list(structs))
            raise
        self._update_columns(table, list(structs))

    def set_property(self, name: TableName, key: str, value: str) -> None:
        self.set_properties(name, {key: value})

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        having = f'hive_filter_field_params__{key} like ".*"'
        names = self._connection.read(
            lambda client: [
                TableName(database, table)
                for database in client.get_all_databases()
                for table in client.get_table_names_by_filter(database, having, -1)
            ]
        )
        values: dict[TableName, str] = {}
        for name in names:
            # A table that is dropped meanwhile has none.
            with suppress(errors.UnknownTable):
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
        action = "write estimates"
        if not table.spec.is_partitioned:
            for estimate in estimates:
                self.alter(table.spec.name, action, partial(_write, estimate))
            return
        wanted = {values_of(table.spec, estimate.partition): estimate for estimate in estimates}
        self._alter(table, action, list(wanted), lambda values, partition: _write(wanted[values], partition.parameters))

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        name = table.spec.name
        try:
            self._connection.read(lambda client: client.get_catalogs())
        except errors.MetastoreNotUnderstood as error:
            what = "insert-event in sink.partition-commit.policy.kind"
            raise errors.Unsupported(what, "Hive before 3 has another form of it", "leave it out") from error
        for partition, added in files.items():
            values = list(values_of(table.spec, partition)) if table.spec.is_partitioned else None
            action = f"announce {partition or name}"
            self._connection.change(str(name), action, thrift_calls.insert_event, name, values, added)

    def _clear_table(self, table: LiveTable) -> None:
        self.alter(table.spec.name, DROP_FLAG, partial(is_trusted, is_partitioned=table.spec.is_partitioned))

    def _read(self, table: LiveTable, wanted: Sequence[Values], call: Callable[..., Any]) -> dict[Values, Any]:
        """The registered ones of `wanted`. Raises UnknownTable, MetastoreUnreachable."""
        structs: dict[Values, Any] = {}
        for start in range(0, len(wanted), NAMES_A_CALL):
            names = [name_of(table.spec, values) for values in wanted[start : start + NAMES_A_CALL]]
            try:
                partitions = self._connection.read(call, table.spec.name, names)
            except ttypes.NoSuchObjectException as error:
                raise errors.UnknownTable(str(table.spec.name), self.address) from error
            # A partition that is dropped meanwhile has no values here: the metastore reads them later than the rest.
            structs.update({tuple(struct.values): struct for struct in partitions if struct.values and struct.sd})
        # A database that ignores trailing blanks or case may return another partition than requested.
        return {values: structs[values] for values in wanted if values in structs}

    def _change_all(
        self, table: LiveTable, action: str, wanted: Sequence[Values], change: Callable[[Sequence[Values]], None]
    ) -> None:
        def repeated(chunk: Sequence[Values]) -> None:
            # A refused call changed nothing, and two concurrent calls refuse each other.
            for _ in range(TRIES - 1):
                with suppress(errors.RegistrationFailed):
                    return change(chunk)
            return change(chunk)

        common.change_all(
            {values: name_of(table.spec, values) for values in wanted},
            repeated,
            action=action,
            per_call=PARTITIONS_A_CALL,
            ask=lambda: self.struct(table.spec.name),
        )

    def _update_columns(self, table: LiveTable, wanted: list[Values]) -> None:
        """Alter partitions with old columns: somebody may have added columns to the table."""
        fresh = self.struct(table.spec.name)

        def update(_values: Values, partition: Any) -> bool:
            behind = thrift_calls.columns_behind(partition, fresh)
            if behind:
                partition.sd.cols = fresh.sd.cols
            return behind

        states = self._read(table, wanted, thrift_calls.states)
        late = [values for values, state in states.items() if thrift_calls.columns_behind(state, fresh)]
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
                self._connection.change(
                    str(name),
                    what,
                    lambda client: client.alter_partitions_with_environment_context(
                        name.database, name.table, changed, thrift_calls.KEEP_STATISTICS
                    ),
                )

        self._change_all(table, f"{action} of", wanted, alter)


def _write(estimate: Estimate, parameters: dict[str, str]) -> bool:
    before = dict(parameters)
    parameters |= common.figures_of(estimate)
    return parameters != before or FLAG in before
