"""Whether a table's columns can come from where `sink.column.<name>.from` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.column_source import misfit
from hivesink.errors import InvalidOption
from hivesink.sink.task.assign import row_columns

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec


def require_sources(spec: TableSpec, config: SinkConfig) -> None:
    """Raise InvalidOption with each source of a column that the rows don't fill, or that can't have its type."""
    every = {column.name for column in (*spec.columns, *spec.partition_columns)}
    kinds = {column.name: column.type for column in row_columns(spec, config)}
    problems = []
    for name, source in config.sources.items():
        option = f"sink.column.{name}.from = {config.text(f'sink.column.{name}.from')!r}"
        if name not in every:
            problems.append(f"{option}: {spec.name} has no column {name}; it has {', '.join(sorted(every))}")
        elif name not in kinds:
            problems.append(f"{option}: {name} is made of a time (sink.bucket.time-pattern); remove one of them")
        elif types := misfit(source, kinds[name]):
            problems.append(f"{option}: {name} is {kinds[name]}; declare it as {types}")
    if problems:
        raise InvalidOption(tuple(problems))
