"""The form in which a declared table is kept: what a metastore has no field for travels in TBLPROPERTIES.

Metastores before Hive 3 know no NOT NULL, and later ones keep it apart from the table, so a table made from its
metastore entry alone would forget it: `hivesink.not-null` carries the columns' names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivesink.core.table import TableSpec

NOT_NULL = "hivesink.not-null"
DISCOVER = "discover.partitions"


def stored(declared: TableSpec) -> TableSpec:
    """`declared` as `ddl apply` writes it: NOT NULL as a property, and no partitions found by the metastore itself."""
    properties = declared.options
    properties.setdefault(DISCOVER, "false")
    names = [column.name for column in declared.columns if not column.nullable]
    if names:
        properties[NOT_NULL] = ",".join(names)
    columns = tuple(replace(column, nullable=True) for column in declared.columns)
    return replace(declared, columns=columns, properties=tuple(sorted(properties.items())))


def declared(stored: TableSpec) -> TableSpec:
    """A table from the metastore with its columns' NOT NULL back; undoes `stored`, but for its properties."""
    names = frozenset(stored.options.get(NOT_NULL, "").split(","))
    columns = tuple(replace(column, nullable=column.nullable and column.name not in names) for column in stored.columns)
    return replace(stored, columns=columns)
