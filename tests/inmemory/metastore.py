"""A metastore in memory that behaves like the real ones, with hooks for what its users do to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hivesink.config.formats import FORMATS, format_name
from hivesink.core.log import PROPERTY
from hivesink.core.partition import Estimate, LivePartition, NewPartition, partition_path
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.errors import MetastoreUnreachable, RegistrationFailed, TableReplaced, UnknownTable
from hivesink.metastore.common import (
    FLAG,
    Facts,
    Values,
    figures_of,
    is_trusted,
    name_of,
    require_layout,
    values_of,
)
from hivesink.ports import LiveTable

LONGEST_NAME = 767
"""As Derby has it, which also ignores blanks at the end of a name."""


@dataclass(slots=True)
class MemoryPartition:
    """A registered partition: where it is, the columns that it was given, and its parameters."""

    location: str
    columns: tuple[Column, ...]
    parameters: dict[str, str] = field(default_factory=dict)
    format: str | None = None


@dataclass(slots=True)
class MemoryTable:
    """A table, its own parameters that aren't properties, and its partitions by value."""

    spec: TableSpec
    location: str
    parameters: dict[str, str] = field(default_factory=dict)
    partitions: dict[Values, MemoryPartition] = field(default_factory=dict)


class MemoryMetastore:
    """ports.Metastore. Safe to share between threads."""

    address = "memory"

    def __init__(self, *tables: TableSpec, warehouse: str = "/warehouse") -> None:
        self._lock = threading.RLock()
        self._warehouse = warehouse
        self._down = False
        self._entries: dict[TableName, MemoryTable] = {}
        self.events: list[tuple[str, str, tuple[str, ...]]] = []
        for spec in tables:
            self.create(spec)

    def table(self, name: TableName) -> LiveTable:
        with self._entry(name) as entry:
            properties = entry.spec.options
            kind = "EXTERNAL_TABLE" if entry.spec.external else "MANAGED_TABLE"
            hive = FORMATS.get(entry.spec.format)
            source, serde = (hive.input_format, hive.serde) if hive else (entry.spec.format, "")
            Facts(name, kind, source, serde, clustered=False, properties=properties).refuse()
            return LiveTable(entry.spec, entry.location)

    def names(self, table: LiveTable) -> Sequence[str]:
        return list(self.partitions(table.spec.name)) if table.spec.is_partitioned else [""]

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        with self._entry(table.spec.name) as entry:
            if entry.spec.options.get(PROPERTY) != table.log:
                raise TableReplaced(str(table.spec.name), "it names another log")
            if entry.spec.format not in FORMATS:
                self.table(table.spec.name)
            require_layout(table.spec, entry.spec.partition_columns, entry.spec.format)
            if not table.spec.is_partitioned:
                live = LivePartition("", entry.location, is_trusted(entry.parameters), columns_behind=False)
                return {} if partitions == [] else {"": live}
            if partitions is None:
                partitions = list(self.partitions(table.spec.name))
            wanted = {partition: entry.partitions.get(values_of(table.spec, partition)) for partition in partitions}
            return {
                partition: LivePartition(
                    partition,
                    place.location,
                    is_trusted(place.parameters) or is_trusted(entry.parameters, is_partitioned=True),
                    columns_behind=place.columns != entry.spec.columns,
                    format=place.format,
                )
                for partition, place in wanted.items()
                if place is not None
            }

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        if not table.spec.is_partitioned:
            return
        refused: dict[str, str] = {}
        with self._entry(table.spec.name) as entry:
            if partitions:
                entry.parameters.pop(FLAG, None)
            names = (name_of(entry.spec, values) for values in entry.partitions)
            there = {name.rstrip(" "): name for name in names}
            for wanted in partitions:
                name = wanted.partition
                namesake = there.get(name.rstrip(" "), name)
                if len(name) > LONGEST_NAME or namesake != name:
                    refused[name] = f"{namesake!r} is there" if namesake != name else f"it has {len(name)} characters"
                    continue
                figures = {"numFiles": str(wanted.files), "totalSize": str(wanted.bytes)}
                new = MemoryPartition(wanted.location, entry.spec.columns, figures)
                entry.partitions.setdefault(values_of(table.spec, name), new).columns = entry.spec.columns
                there[name.rstrip(" ")] = name
        if refused:
            raise RegistrationFailed(
                str(table.spec.name), "register", "; ".join(refused.values()), self.address, tuple(refused)
            )

    def set_property(self, name: TableName, key: str, value: str) -> None:
        with self._entry(name) as entry:
            entry.spec = replace(entry.spec, properties=tuple(sorted({**entry.spec.options, key: value}.items())))

    def unset_property(self, name: TableName, key: str) -> None:
        """A user's UNSET TBLPROPERTIES, or a client that writes back what it read before the property was set."""
        with self._entry(name) as entry:
            entry.spec = replace(entry.spec, properties=tuple(one for one in entry.spec.properties if one[0] != key))

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        with self._lock:
            if self._down:
                raise MetastoreUnreachable(self.address, "it was taken down")
            return {name: one.spec.options[key] for name, one in self._entries.items() if key in one.spec.options}

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        with self._entry(table.spec.name) as entry:
            for parameters in (*_parameters(entry, partitions), *([entry.parameters] if partitions else [])):
                parameters.pop(FLAG, None)

    def estimate(self, table: LiveTable, estimates: Sequence[Estimate]) -> None:
        with self._entry(table.spec.name) as entry:
            for estimate in estimates:
                for parameters in _parameters(entry, [estimate.partition]):
                    parameters.update(figures_of(estimate))
                    parameters.pop(FLAG, None)

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:
        with self._entry(table.spec.name):
            self.events += [(str(table.spec.name), partition, tuple(added)) for partition, added in files.items()]

    def close(self) -> None:
        """Nothing is open."""

    def create(self, spec: TableSpec) -> None:
        """Create a table. Raises TableReplaced."""
        with self._lock:
            if spec.name in self._entries:
                raise TableReplaced(str(spec.name), "somebody has created it")
            location = spec.location or f"{self._warehouse}/{spec.name.database}.db/{spec.name.table}"
            self._entries[spec.name] = MemoryTable(replace(spec, location=location), location)

    def go_down(self) -> None:
        """From now on every call of the sink raises MetastoreUnreachable, until `come_up`."""
        self._down = True

    def come_up(self) -> None:
        """Answer again, with all that was there."""
        self._down = False

    def analyze(self, name: TableName, partition: str, rows: int) -> None:
        """A user's ANALYZE TABLE: Hive trusts the figures from now on."""
        for parameters in _parameters(self._entries[name], [partition]):
            parameters.update({"numRows": str(rows), FLAG: '{"BASIC_STATS":"true"}'})

    def analyze_table(self, name: TableName) -> None:
        """A user's ANALYZE TABLE … FOR COLUMNS, of a partitioned table itself."""
        self._entries[name].parameters[FLAG] = '{"COLUMN_STATS":{"id":"true"}}'

    def drop_table(self, name: TableName) -> None:
        """A user's DROP TABLE; whose files go is the test's matter."""
        with self._lock:
            self._entries.pop(name, None)

    def rename_table(self, name: TableName, new: TableName, location: str) -> None:
        """A user's ALTER TABLE … RENAME of a managed table; its folder, with the partitions', moves by the test."""
        with self._lock:
            entry = self._entries[new] = self._entries.pop(name)
            for place in entry.partitions.values():
                place.location = place.location.replace(entry.location, location, 1)
            entry.spec, entry.location = replace(entry.spec, name=new, location=location), location

    def drop_partition(self, name: TableName, partition: str) -> None:
        """A user's DROP PARTITION; whose files go is the test's matter."""
        entry = self._entries[name]
        with self._lock:
            entry.partitions.pop(values_of(entry.spec, partition), None)

    def register(self, name: TableName, partition: str, location: str) -> None:
        """Register or move a partition as somebody else would, by ADD PARTITION or SET LOCATION."""
        entry = self._entries[name]
        with self._lock:
            place = MemoryPartition(location, entry.spec.columns)
            entry.partitions.setdefault(values_of(entry.spec, partition), place).location = location

    def add_columns(self, name: TableName, *columns: Column) -> None:
        """A user's ADD COLUMNS without CASCADE: the partitions that are there keep their columns."""
        with self._lock:
            entry = self._entries[name]
            entry.spec = replace(entry.spec, columns=entry.spec.columns + columns)

    def change_column(self, name: TableName, column: Column) -> None:
        """A user's ALTER TABLE … CHANGE COLUMN or … PARTITION COLUMN, to another type."""
        with self._entry(name) as entry:

            def changed(columns: tuple[Column, ...]) -> tuple[Column, ...]:
                return tuple(column if one.name == column.name else one for one in columns)

            spec = entry.spec
            entry.spec = replace(spec, columns=changed(spec.columns), partition_columns=changed(spec.partition_columns))

    def set_format(self, name: TableName, partition: str, source: str) -> None:
        """As ALTER TABLE … [PARTITION …] SET FILEFORMAT does."""
        with self._entry(name) as entry:
            if partition:
                entry.partitions[values_of(entry.spec, partition)].format = format_name(source)
            else:
                entry.spec = replace(entry.spec, format=format_name(source))

    def partitions(self, name: TableName) -> Mapping[str, str]:
        """All registered partitions and their locations, sorted."""
        entry = self._entries[name]
        names = [column.name for column in entry.spec.partition_columns]
        with self._lock:
            found = {partition_path(names, values): place for values, place in entry.partitions.items()}
            return {partition: found[partition].location for partition in sorted(found)}

    def parameters(self, name: TableName, partition: str) -> Mapping[str, str]:
        """The parameters of a registered partition, or of the table."""
        with self._lock:
            (found,) = _parameters(self._entries[name], [partition])
            return dict(found)

    def table_parameters(self, name: TableName) -> Mapping[str, str]:
        """The table's own, whether it is partitioned or not."""
        with self._lock:
            return dict(self._entries[name].parameters)

    @contextmanager
    def _entry(self, name: TableName) -> Iterator[MemoryTable]:
        with self._lock:
            if self._down:
                raise MetastoreUnreachable(self.address, "it was taken down")
            if name not in self._entries:
                raise UnknownTable(str(name), self.address)
            yield self._entries[name]


def _parameters(entry: MemoryTable, partitions: Sequence[str]) -> list[dict[str, str]]:
    if not entry.spec.is_partitioned:
        return [entry.parameters for _ in partitions[:1]]
    found = [entry.partitions.get(values_of(entry.spec, partition)) for partition in partitions]
    return [place.parameters for place in found if place is not None]
