"""HiveServer2 by SQL, for sites where the metastore itself can't be reached.

SQL can't clear the flag by which Hive trusts statistics. So an epoch that would write where it is set fails before
anything is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from hivesink import errors
from hivesink.config.formats import format_name
from hivesink.core.partition import DEFAULT_PARTITION, Estimate, LivePartition, NewPartition
from hivesink.core.progress import count
from hivesink.core.table import TableName, TableSpec, quoted
from hivesink.hive import BROKEN, REFUSED, Hive, reason
from hivesink.metastore import common
from hivesink.metastore.common import Described, Facts, is_trusted, values_of
from hivesink.ports import LiveTable

SPECS_A_STATEMENT = 500
ASK_ONE_BY_ONE = 32
"""Up to this many partitions are looked up singly; above it, SHOW PARTITIONS lists the whole table."""
_BY_THRIFT = "use the metastore's own address (thrift://…)"
# `$` because Hive substitutes `${…}` inside of literals as well.
_LITERAL = {ord(char): f"\\u{ord(char):04x}" for char in (*map(chr, range(0x20)), "\x7f", "$", "'", "\\", ";")}


class HiveServer2Metastore:
    """ports.Metastore by SQL. Safe to share between threads; a broken session is replaced by the next call."""

    def __init__(self, session: Hive) -> None:
        self._session = session
        self.address = session.address
        self.close = session.close

    def table(self, name: TableName) -> LiveTable:
        live = self._describe(name)
        properties = dict(self._read(f"SHOW TBLPROPERTIES {name.quoted}"))
        if comment := live.fields.get("comment"):
            properties.setdefault("comment", comment)
        facts = live.facts(name, properties)
        facts.refuse()
        return LiveTable(facts.spec(), facts.location or "")

    def create(self, spec: TableSpec) -> None:
        what = f"creating {spec.name} through HiveServer2"
        way = "run `hivesink ddl apply` or `hivesink recover` where the metastore itself can be reached"
        raise errors.Unsupported(what, "hivesink writes no DDL there", way)

    def names(self, table: LiveTable) -> Sequence[str]:
        return self._registered(table.spec, None) if table.spec.is_partitioned else [""]

    def lookup(self, table: LiveTable, partitions: Sequence[str] | None) -> Mapping[str, LivePartition]:
        if partitions is not None and not partitions:
            return {}
        spec = table.spec
        fresh = self._describe(spec.name)
        fresh.facts(spec.name, fresh.parameters).require(table)
        if not spec.is_partitioned:
            accurate = is_trusted(fresh.parameters)
            return {"": LivePartition("", fresh.fields.get("location", ""), accurate, columns_behind=False)}
        listed = self._registered(spec, partitions)
        places = [self._partition(spec, partition, fresh.columns) for partition in listed]
        if self._trusts_columns(spec.name):
            places = [replace(place, accurate=True) for place in places]
        return {place.partition: place for place in places}

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        spec = table.spec
        if not spec.is_partitioned or not partitions:
            return
        names = [wanted.partition for wanted in partitions]
        if self._trusts_columns(spec.name):
            raise self._trusted(spec, names)
        existing = self._registered(spec, names)
        try:
            common.change_all(
                dict(zip(partitions, names, strict=True)),
                lambda chunk: self._add(spec, chunk),
                action="register",
                per_call=SPECS_A_STATEMENT,
                ask=lambda: self._describe(spec.name),
            )
        except errors.RegistrationFailed:
            self._update_columns(spec, existing)
            raise
        self._update_columns(spec, existing)

    def _add(self, spec: TableSpec, partitions: Sequence[NewPartition]) -> None:
        clauses: dict[bool, list[str]] = {False: [], True: []}
        for wanted in partitions:
            # With the settings for null, Hive reads no escapes in the other partitions' values.
            clause = f"{partition_clause(spec, wanted.partition)} LOCATION {literal(wanted.location)}"
            clauses[DEFAULT_PARTITION in values_of(spec, wanted.partition)].append(clause)
        for has_null, added in clauses.items():
            if added:
                with self._null_partitions(spec.name) if has_null else nullcontext():
                    statement = f"ALTER TABLE {spec.name.quoted} ADD IF NOT EXISTS {' '.join(added)}"
                    self._change(spec.name, f"register {count(len(added), 'partition')}", statement)

    @contextmanager
    def _null_partitions(self, name: TableName) -> Iterator[None]:
        """Hive refuses to name the partition of null: error 10111, and 10248 where the column is no string."""
        settings = {"hive.exec.default.partition.name": "__HIVESINK_NONE__", "hive.typecheck.on.insert": "false"}
        with self._session.lock:
            for key, value in settings.items():
                self._change(name, f"set {key} for the partition of null", f"SET {key}={value}")
            try:
                yield
            finally:
                self._read(f"RESET {' '.join(settings)}")

    def _update_columns(self, spec: TableSpec, partitions: Sequence[str]) -> None:
        """Give partitions the table's columns; ADD COLUMNS without CASCADE changes the table only."""
        columns = self._describe(spec.name).columns if partitions else []
        fields = ", ".join(
            f"{quoted(name)} {kind}" + (f" COMMENT {literal(comment)}" if comment else "")
            for name, kind, comment in columns
        )
        for partition in partitions:
            if self._partition(spec, partition, columns).columns_behind:
                altered = f"ALTER TABLE {spec.name.quoted} {partition_clause(spec, partition)}"
                action = f"update the columns of partition {partition}"
                self._change(spec.name, action, f"{altered} REPLACE COLUMNS ({fields})")

    def set_property(self, name: TableName, key: str, value: str) -> None:
        self._describe(name)
        statement = f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({literal(key)}={literal(value)})"
        self._change(name, f"set {key}", statement)

    def tables_with(self, key: str) -> Mapping[TableName, str]:
        what = f"asking for the tables with {key}"
        raise errors.Unsupported(what, "HiveQL can't", _BY_THRIFT)

    def clear_accurate(self, table: LiveTable, partitions: Sequence[str]) -> None:
        trusted = [partition for partition, live in self.lookup(table, partitions).items() if live.accurate]
        if trusted:
            raise self._trusted(table.spec, trusted)

    def estimate(self, table: LiveTable, estimates: Sequence[Estimate]) -> None:
        """Does nothing: HiveQL has no statement that sets the number of rows."""

    def announce(self, table: LiveTable, files: Mapping[str, Sequence[str]]) -> None:  # noqa: ARG002
        what = "insert-event in sink.partition-commit.policy.kind"
        raise errors.Unsupported(what, "HiveQL can't fire it", f"{_BY_THRIFT}, or leave it out")

    def _trusts_columns(self, name: TableName) -> bool:
        """By the table's flag. DESCRIBE shows another, summed up over its partitions."""
        return is_trusted(dict(self._read(f"SHOW TBLPROPERTIES {name.quoted}")), is_partitioned=True)

    def _trusted(self, spec: TableSpec, partitions: Sequence[str]) -> errors.RegistrationFailed:
        return errors.RegistrationFailed(
            str(spec.name),
            "drop the accuracy of statistics" + (" of" if spec.is_partitioned else ""),
            f"HiveQL can't; {_BY_THRIFT}, and run ANALYZE TABLE … COMPUTE STATISTICS only while no stream writes",
            self.address,
            tuple(partitions) if spec.is_partitioned else (),
        )

    def _partition(self, spec: TableSpec, partition: str, columns: list[Described]) -> LivePartition:
        live = description(self._read(f"DESCRIBE FORMATTED {spec.name.quoted} {partition_clause(spec, partition)}"))
        stored = format_name(live.fields["inputformat"])
        return LivePartition(
            partition,
            live.fields["location"],
            is_trusted(live.parameters),
            columns_behind=[column[:2] for column in live.columns] != [column[:2] for column in columns],
            format=None if stored == spec.format else stored,
        )

    def _registered(self, spec: TableSpec, partitions: Sequence[str] | None) -> Sequence[str]:
        """Those of `partitions` that are registered by exactly that name; None: all."""
        shows = [f"SHOW PARTITIONS {spec.name.quoted}"]
        if partitions is not None and len(partitions) <= ASK_ONE_BY_ONE:
            shows = [f"{shows[0]} {partition_clause(spec, partition)}" for partition in partitions]
        listed = {str(row[0]) for show in shows for row in self._read(show)}
        if partitions is None:
            return list(listed)
        return [each for each in partitions if common.name_of(spec, values_of(spec, each)) in listed]

    def _describe(self, name: TableName) -> Description:
        databases = self._read(f"SHOW DATABASES LIKE {literal(name.database)}")
        show = f"SHOW TABLES IN {quoted(name.database)} {literal(name.table)}"
        if not any(name.database in row for row in databases) or not any(name.table in row for row in self._read(show)):
            raise errors.UnknownTable(str(name), self.address)
        described = description(self._read(f"DESCRIBE FORMATTED {name.quoted}"))
        if "table type" not in described.fields:
            what = f"a server other than Hive's own ({self.address})"
            why = "it doesn't show where Hive trusts statistics, so Hive might count wrong"
            raise errors.Unsupported(what, why, _BY_THRIFT)
        return described

    def _read(self, statement: str) -> Sequence[Any]:
        try:
            try:
                return self._session.run(statement).rows
            except BROKEN:
                return self._session.run(statement).rows
        except (*BROKEN, REFUSED) as error:
            raise errors.unanswered(self.address, reason(error)) from error

    def _change(self, name: TableName, action: str, statement: str) -> None:
        try:
            self._session.run(statement)
        except (*BROKEN, REFUSED) as error:
            kind = errors.RegistrationFailed if isinstance(error, REFUSED) else errors.RegistrationUnknown
            raise kind(str(name), action, reason(error), self.address) from error


def literal(text: str) -> str:
    """A string literal that Hive reads as `text`."""
    return f"'{text.translate(_LITERAL)}'"


def partition_clause(spec: TableSpec, partition: str) -> str:
    """`PARTITION (dt='…', hour='3')`; null is its folder's name."""
    values = ", ".join(
        f"{quoted(column.name)}={literal(value)}"
        for column, value in zip(spec.partition_columns, values_of(spec, partition), strict=True)
    )
    return f"PARTITION ({values})"


@dataclass(slots=True)
class Description:
    """DESCRIBE FORMATTED, taken apart: columns, and the first value of each field by its lower-case name."""

    columns: list[Described] = field(default_factory=list)
    partition_columns: list[Described] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)

    def facts(self, name: TableName, properties: Mapping[str, str]) -> Facts:
        fields = self.fields
        bucketed, skewed = fields.get("bucket columns", ""), fields.get("skewed columns", "[]")
        return Facts(
            name=name,
            kind=fields["table type"],
            input_format=fields.get("inputformat", ""),
            serde=fields.get("serde library", ""),
            clustered=bucketed not in {"[]", ""} or skewed != "[]",
            properties=properties,
            columns=self.columns,
            partition_columns=self.partition_columns,
            location=fields.get("location"),
        )


def description(rows: Iterable[Sequence[str | None]]) -> Description:
    """Cells are padded, and each parameter has a row."""
    table = Description()
    section = "columns"
    for row in rows:
        name, value, more = ((cell or "").strip() for cell in (*row, "", "")[:3])
        if name.startswith("# "):
            if not name.startswith("# col_name"):
                section = "partition" if name.startswith("# Partition Information") else "detail"
        elif section in {"columns", "partition"} and name:
            target = table.columns if section == "columns" else table.partition_columns
            target.append((name, value, more or None))
        elif name.rstrip(":").lower() in {"table parameters", "partition parameters"} and not value:
            section = "parameters"
        elif section == "parameters" and not name and value:
            table.parameters[value] = more
        elif name:
            section = "detail"
            table.fields.setdefault(name.rstrip(":").lower(), value)
    keys = {name for name, _, _ in table.partition_columns}
    table.columns = [column for column in table.columns if column[0] not in keys]
    return table
