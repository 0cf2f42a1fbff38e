"""Which of a table's columns its settings may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.table import Array, Map, Struct
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec


def require_columns(spec: TableSpec, config: SinkConfig) -> None:
    """Raise InvalidOption for a setting's columns that the table lacks, or that the setting can't use."""
    kinds = {column.name: column.type for column in spec.columns}
    partitions = {column.name for column in spec.partition_columns}
    problems = []
    for key in config["sink.sort-by"] or ():
        kind = kinds.get(key.column)
        if key.column in partitions:
            problem = "a partition column: it has the same value for all rows of a file"
        elif kind is None:
            problem = f"which is no column of {spec.name}"
        elif isinstance(kind, Array | Map | Struct):
            problem = f"which is {kind}: write columns that are not nested"
        else:
            continue
        problems.append(f"sink.sort-by names {key.column!r}, {problem}")
    times = config["sink.timestamp-format"].keys() - kinds.keys() - partitions - {""}
    problems += [f"sink.timestamp-format names {name!r}, which is no column of {spec.name}" for name in sorted(times)]
    if problems:
        raise InvalidOption(tuple(problems))
