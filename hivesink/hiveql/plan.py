"""What `ddl apply` would do to a live table: pure, so that `plan` prints what `apply` does.

Which type changes old files survive: seen with Hive 2.3's Parquet reader (docs/ddl.md has the table).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.bucket import same_location
from hivesink.core.table import Column, Decimal, HiveType, Primitive, TableName, TableSpec
from hivesink.hiveql.clauses import METASTORE_OWN
from hivesink.hiveql.stored import NOT_NULL, stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SAFE = {
    (Primitive.INT, Primitive.BIGINT),
    (Primitive.INT, Primitive.DOUBLE),
    (Primitive.FLOAT, Primitive.DOUBLE),
}
_LATER = "changing columns is not supported yet"


@dataclass(frozen=True, slots=True)
class Create:
    """The table is not there."""

    spec: TableSpec

    def __str__(self) -> str:
        return f"{self.spec.name}: create"


@dataclass(frozen=True, slots=True)
class Nothing:
    """The live table is what the DDL says."""

    name: TableName

    def __str__(self) -> str:
        return f"{self.name}: nothing to do"


@dataclass(frozen=True, slots=True)
class Alter:
    """Only properties differ: `properties` are to be set, `removed` to be unset."""

    name: TableName
    properties: tuple[tuple[str, str], ...]
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = [f"set {key}={value}" for key, value in self.properties] + [f"unset {key}" for key in self.removed]
        return f"{self.name}: {', '.join(changes)}"


@dataclass(frozen=True, slots=True)
class Differs:
    """The live table can't be made what the DDL says; each difference says why."""

    name: TableName
    differences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(f"{self.name}: {difference}" for difference in self.differences)


Plan = Create | Nothing | Alter | Differs


def plan(wanted: TableSpec, live: TableSpec | None) -> Plan:
    """Compare a parsed DDL file with the metastore's table; both as their sources give them."""
    wanted = stored(wanted)
    if live is None:
        return Create(wanted)
    differences = (
        *_table_differences(wanted, live),
        *_column_differences(wanted.columns, live.columns),
        *_partition_differences(wanted.partition_columns, live.partition_columns),
    )
    if differences:
        return Differs(wanted.name, differences)
    return _properties(wanted, live)


def _table_differences(wanted: TableSpec, live: TableSpec) -> Iterator[str]:
    if live.options.get("transactional", "").lower() == "true":
        yield "the live table is ACID; it takes no files from outside Hive"
    if wanted.format != live.format:
        yield f"format {live.format}, the DDL says {wanted.format}: the files that are there can't be converted"
    # Hive 4's metastore makes an external table of every plain managed one, and says so.
    translated = live.options.get("TRANSLATED_TO_EXTERNAL", "").lower() == "true"
    if wanted.external != live.external and not (translated and not wanted.external):
        kinds = {True: "external", False: "managed"}
        yield (
            f"{kinds[live.external]}, the DDL says {kinds[wanted.external]}: "
            "this decides whether DROP TABLE deletes data, so change it by hand"
        )
    if wanted.location is not None and not _same_place(wanted.location, live.location):
        yield f"location {live.location}, the DDL says {wanted.location}: the files would stay behind; move them first"


def _same_place(wanted: str, live: str | None) -> bool:
    """A location without scheme or host is on the metastore's default file system, whatever that is."""
    if live is None:
        return False
    if same_location(wanted, live):
        return True
    scheme, separator, rest = live.partition("://")
    path = f"/{rest.partition('/')[2]}"
    return bool(separator) and (
        same_location(wanted, path)
        or (wanted.startswith((f"{scheme}:/", f"{scheme}:///")) and same_location(wanted, f"{scheme}://{path}"))
    )


def _column_differences(wanted: Sequence[Column], live: Sequence[Column]) -> Iterator[str]:
    before = {column.name.lower(): column for column in live}
    after = {column.name: column for column in wanted}
    for column in wanted:
        old = before.get(column.name)
        if old is None:
            yield f"column {column.name} is not in the live table: {_LATER}"
        elif old.type != column.type:
            why = _type_change(old.type, column.type)
            yield f"column {column.name} is {old.type}, the DDL says {column.type}: {why}"
        elif column.comment is not None and column.comment != (old.comment or ""):
            yield f"column {column.name} has the comment {old.comment!r}, the DDL says {column.comment!r}: {_LATER}"
    for name, old in before.items():
        if name not in after:
            yield f"column {name} {old.type} is not in the DDL: dropping it would hide its data; write it into the DDL"
    common = [column.name for column in wanted if column.name in before]
    if common != [name for name in before if name in after]:
        yield (
            f"the columns' order is {', '.join(before)}, the DDL says {', '.join(after)}: files are read by position "
            "where parquet.column.index.access is set; write the DDL in the live order"
        )


def _type_change(old: HiveType, new: HiveType) -> str:
    if is_safe(old, new):
        return f"old files could be read so, but {_LATER}"
    return "Hive can't read old files so; make a new table and copy the rows"


def is_safe(old: HiveType, new: HiveType) -> bool:
    """Whether Hive's Parquet reader reads files written as `old` under a column of type `new`."""
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    return old == new or (old, new) in _SAFE


def _partition_differences(wanted: Sequence[Column], live: Sequence[Column]) -> Iterator[str]:
    texts = [", ".join(f"{column.name} {column.type}" for column in columns) for columns in (live, wanted)]
    if texts[0] != texts[1]:
        yield (
            f"partitioned by ({texts[0]}), the DDL says ({texts[1]}): folders and metastore entries follow the old "
            "columns; make a new table and copy the rows"
        )


def _properties(wanted: TableSpec, live: TableSpec) -> Alter | Nothing:
    """The DDL owns what it declares and every setting of the sink; the rest belongs to others."""
    before = live.options
    after = wanted.options
    # The metastore's TransactionalValidationListener drops it again where it is false.
    after.pop("transactional", None)
    if wanted.comment is not None and wanted.comment != (live.comment or ""):
        after["comment"] = wanted.comment
    changed = {key: value for key, value in after.items() if before.get(key) != value and key not in METASTORE_OWN}
    removed = [key for key in before if (key.startswith("sink.") or key == NOT_NULL) and key not in after]
    if not changed and not removed:
        return Nothing(wanted.name)
    return Alter(wanted.name, tuple(sorted(changed.items())), tuple(sorted(removed)))
