"""Bring live tables to what their DDL says. `plan` only compares, so `ddl plan` prints what `ddl apply` does."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from shlex import quote
from typing import Protocol

from hivesink.config.options import PREFIXES
from hivesink.core.log import PROPERTY, LogAddress, default_root
from hivesink.core.partition import normal, same_location
from hivesink.core.table import (
    INTEGERS,
    Array,
    Column,
    Decimal,
    HiveType,
    Primitive,
    Struct,
    TableName,
    TableSpec,
    Varchar,
    quoted,
)
from hivesink.errors import DdlInvalid, TableReplaced
from hivesink.hiveql.parse import METASTORE_OWN
from hivesink.hiveql.render import NOT_NULL, column_text, stored

# Hive makes an INT32 a FLOAT on its way to DOUBLE, which rounds an INT.
_TO_DOUBLE = (Primitive.TINYINT, Primitive.SMALLINT, Primitive.FLOAT)
_SAFE = {*combinations(INTEGERS, 2), *((old, Primitive.DOUBLE) for old in _TO_DOUBLE)}
"""Seen with Hive 2.3's Parquet reader (tests/integration/test_types.py); docs/ddl.md has them all."""

_COPY = "make a new table and copy the rows (docs/ddl.md says how)"


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a table: it is created, `properties` are set and `removed` ones unset, or nothing is to do.

    `differences`: why the live table can't be changed to what the DDL says, a line each; then nothing is done.
    """

    name: TableName
    created: TableSpec | None = None
    properties: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def action(self) -> str:
        """`create`, `alter`, `nothing` or `differs`."""
        if self.differences:
            return "differs"
        return "create" if self.created else "alter" if self.properties or self.removed else "nothing"

    def __str__(self) -> str:
        sets = [f"set {key}={value}" for key, value in self.properties] + [f"unset {key}" for key in self.removed]
        done = {"create": "create", "nothing": "nothing to do"}.get(self.action, ", ".join(sets))
        return "\n".join(f"{self.name}: {line}" for line in self.differences or (done,))


def plan(wanted: TableSpec, live: TableSpec | None) -> Plan:
    """Compare a table from a DDL file with the metastore's; both as their sources return them."""
    wanted = stored(wanted)
    if live is None:
        return Plan(wanted.name, wanted)
    differences = (
        *_table_differences(wanted, live),
        *_column_differences(wanted.name, wanted.columns, live.columns),
    )
    if differences:
        return Plan(wanted.name, differences=differences)
    # The DDL owns what it declares and all settings of the sink; other properties belong to others.
    before = live.options
    after = wanted.options
    # The metastore's TransactionalValidationListener drops it if it is false.
    after.pop("transactional", None)
    if wanted.comment is not None and wanted.comment != (live.comment or ""):
        after["comment"] = wanted.comment
    changed = {key: value for key, value in after.items() if before.get(key) != value and key not in METASTORE_OWN}
    removed = [key for key in before if (key.startswith(PREFIXES) or key == NOT_NULL) and key not in after]
    return Plan(wanted.name, None, tuple(sorted(changed.items())), tuple(sorted(removed)))


def _table_differences(wanted: TableSpec, live: TableSpec) -> Iterator[str]:
    if live.options.get("transactional", "").lower() == "true":
        yield "the live table is ACID: the sink can't write to it; make a new table"
    if wanted.format != live.format:
        yield f"format {live.format}, the DDL says {wanted.format}: existing files can't be converted; make a new table"
    # Hive 4's metastore turns every plain managed table into an external table.
    translated = live.options.get("TRANSLATED_TO_EXTERNAL", "").lower() == "true"
    if wanted.external != live.external and not (translated and not wanted.external):
        kinds = {True: "external", False: "managed"}
        why = "this decides whether DROP TABLE deletes data, so change it by hand"
        yield f"{kinds[live.external]}, the DDL says {kinds[wanted.external]}: {why}"
    if wanted.location is not None:
        # A location without scheme or host is on the metastore's default file system, which isn't known here.
        scheme, separator, rest = (live.location or "").partition("://")
        path = f"/{rest.partition('/')[2]}"
        places = (live.location, path, f"{scheme}://{path}") if separator else (live.location,)
        if not any(place and same_location(wanted.location, place) for place in places):
            why = "the files would stay behind; move them first"
            yield f"location {live.location}, the DDL says {wanted.location}: {why}"
    by, now = (", ".join(f"{c.name} {c.type}" for c in spec.partition_columns) for spec in (wanted, live))
    if by != now:
        why = f"folders and metastore entries use the old columns; {_COPY}"
        yield f"partitioned by ({now}), the DDL says ({by}): {why}"


def _column_differences(table: TableName, wanted: Sequence[Column], live: Sequence[Column]) -> Iterator[str]:
    before = {column.name.lower(): column for column in live}
    after = {column.name: column for column in wanted}
    if missing := [column for column in wanted if column.name not in before]:
        text = f"ALTER TABLE {table.quoted} ADD COLUMNS ({', '.join(map(column_text, missing))})"
        names = ", ".join(column.name for column in missing)
        what = f"columns {names} are" if len(missing) > 1 else f"column {names} is"
        last = list(wanted[len(wanted) - len(missing) :]) == missing
        way = f"run hivesink query {quote(text)}" if last else "put what is new behind the others in the DDL"
        yield f"{what} not in the live table: {way}"
    for column in wanted:
        old = before.get(column.name, column)
        change = f"ALTER TABLE {table.quoted} CHANGE COLUMN {quoted(column.name)} {column_text(column)}"
        if old.type != column.type:
            why = f"Hive isn't known to read old files right with it; {_COPY}"
            if is_safe(old.type, column.type):
                run = f"run hivesink query --hiveserver2 HOST:PORT {quote(change)}"
                why = f"old files stay readable; {run}, as Spark can't. Without a HiveServer2 {_COPY}"
            yield f"column {column.name} is {old.type}, the DDL says {column.type}: {why}"
        elif column.comment is not None and column.comment != (old.comment or ""):
            has = f"the comment {old.comment!r}" if old.comment else "no comment"
            differs = f"column {column.name} has {has}, the DDL says {column.comment!r}"
            yield f"{differs}: run hivesink query {quote(change)}"
    for name, old in before.items():
        if name not in after:
            yield f"column {name} {old.type} is not in the DDL: dropping it would hide its data; add it to the DDL"
    common = [column.name for column in wanted if column.name in before]
    if common != [name for name in before if name in after]:
        why = "files are read by position where parquet.column.index.access is set; use the live order in the DDL"
        yield f"the columns' order is {', '.join(before)}, the DDL says {', '.join(after)}: {why}"


def is_safe(old: HiveType, new: HiveType) -> bool:
    """Whether Hive's Parquet reader reads files written as `old` for a column of type `new`.

    A struct may have more fields, which come last: they are NULL in the rows of old files.
    """
    if isinstance(old, Array) and isinstance(new, Array):
        return is_safe(old.element, new.element)
    if isinstance(old, Struct) and isinstance(new, Struct):
        pairs = zip(old.fields, new.fields, strict=False)
        same = all(before.lower() == after.lower() and is_safe(was, now) for (before, was), (after, now) in pairs)
        return same and len(old.fields) <= len(new.fields)
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if isinstance(old, Varchar):
        return new == Primitive.STRING or (isinstance(new, Varchar) and new.length >= old.length)
    return old == new or (old, new) in _SAFE


class Catalog(Protocol):
    """Tables of a metastore. Each method raises HiveSinkError if the metastore can't answer."""

    def find(self, name: TableName) -> TableSpec | None:
        """The table as the metastore has it, always with `location`; None if there is no such table."""

    def create_database_if_absent(self, database: str) -> None:
        """Create the database. An existing database stays as it is, also if somebody creates it at the same time."""

    def create(self, spec: TableSpec) -> None:
        """Create the table completely or not at all. Raises TableReplaced."""

    def set_properties(self, name: TableName, properties: Mapping[str, str], removed: Sequence[str] = ()) -> None:
        """Set and unset TBLPROPERTIES; the others stay. The key `comment` is the table's comment."""


def plan_all(wanted: Iterable[TableSpec], catalog: Catalog) -> tuple[Plan, ...]:
    """What `apply` would do, a plan per table."""
    return tuple(plan(spec, catalog.find(spec.name)) for spec in wanted)


def refuse_differences(plans: Iterable[Plan]) -> None:
    """Raise DdlInvalid with all differences in `plans`, if there are any."""
    if differences := [line for step in plans if step.differences for line in str(step).splitlines()]:
        raise DdlInvalid(tuple(differences))


def apply(wanted: Sequence[TableSpec], catalog: Catalog) -> tuple[Plan, ...]:
    """Apply all of `wanted` and return what was done. A second call does nothing, and two at once do no harm.

    Raises DdlInvalid with the differences of all tables before it changes anything.
    """
    plans = plan_all(wanted, catalog)
    refuse_differences(plans)
    return tuple(_apply(spec, step, catalog) for spec, step in zip(wanted, plans, strict=True))


def _apply(wanted: TableSpec, step: Plan, catalog: Catalog) -> Plan:
    if (spec := step.created) is not None:
        catalog.create_database_if_absent(spec.name.database)
        try:
            catalog.create(spec)
        except TableReplaced:
            # Somebody else created it first: theirs is compared like any live table. If it is gone again, the caller
            # may retry.
            step = plan(wanted, catalog.find(wanted.name))
            if step.created:
                raise
            return _apply(wanted, step, catalog)
        # A new table names its log, which the first start makes. With a location of its own, that start does.
        live = catalog.find(spec.name)
        if live is not None and live.location is not None and "sink.log-location" not in spec.options:
            address = LogAddress(default_root(normal(live.location), spec.name), secrets.token_hex(8))
            catalog.set_properties(spec.name, {PROPERTY: str(address)})
    elif step.action == "alter":
        catalog.set_properties(step.name, dict(step.properties), step.removed)
    refuse_differences((step,))
    return step
