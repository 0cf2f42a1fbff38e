"""Partitions of one table, by escaped path and by value, in the table's order of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.partition import DEFAULT_PARTITION, parse_path, partition_path
from hivesink.errors import PartitionPathInvalid

if TYPE_CHECKING:
    from hivesink.core.table import TableSpec

Values = tuple[str, ...]
"""Unescaped values as the metastore keeps them: null is DEFAULT_PARTITION."""


def values_of(spec: TableSpec, partition: str) -> Values:
    """Raises PartitionPathInvalid unless `partition` names the table's partition columns in their order."""
    parsed = parse_path(partition)
    names = [column.name for column in spec.partition_columns]
    if [name for name, _ in parsed] != names:
        raise PartitionPathInvalid(partition, f"{spec.name} is partitioned by {', '.join(names) or 'nothing'}")
    return tuple(DEFAULT_PARTITION if value is None else value for _, value in parsed)


def name_of(spec: TableSpec, values: Values) -> str:
    """The metastore's own name of the partition: it escapes as `core.partition` does."""
    return partition_path([column.name for column in spec.partition_columns], values)
