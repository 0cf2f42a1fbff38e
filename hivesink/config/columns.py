"""Which of a table's columns its settings may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.table import Array, Map, Struct
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.table import HiveType, TableSpec

_SORT = "sink.sort-by"


def require_columns(spec: TableSpec, config: SinkConfig) -> None:
    """Raise InvalidOption for a setting's columns that the table lacks, or that the setting can't use."""
    kinds = {column.name: column.type for column in spec.columns}
    problems = [
        f"{_SORT} names {key.column!r}, {problem}"
        for key in config[_SORT] or ()
        if (problem := _problem(key.column, kinds, spec))
    ]
    every = {"", *kinds, *(column.name for column in spec.partition_columns)}
    times = (name for name in config["sink.timestamp-format"] if name not in every)
    problems += [f"sink.timestamp-format names {name!r}, which is no column of {spec.name}" for name in times]
    if problems:
        raise InvalidOption(tuple(problems))


def _problem(name: str, kinds: dict[str, HiveType], spec: TableSpec) -> str | None:
    if name in {column.name for column in spec.partition_columns}:
        return "a partition column: it has one value for all rows of a file"
    if name not in kinds:
        return f"which is no column of {spec.name}"
    kind = kinds[name]
    return f"which is {kind}: write columns that are not nested" if isinstance(kind, Array | Map | Struct) else None
