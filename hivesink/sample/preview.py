"""What the records of a sample become in a table: decoded, assigned and refused as a job's tasks do it."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hivesink import wiring
from hivesink.config.options import SinkConfig
from hivesink.core.column_source import JsonPath, stream_column
from hivesink.core.epoch import Epoch
from hivesink.errors import InvalidOption
from hivesink.sink.commit.writer import problems_of
from hivesink.sink.task.assign import assigner_for, row_columns
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.sink.task.route import assign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from hivesink.core.table import TableSpec
    from hivesink.ports.rows import BadRow
    from hivesink.sample.source import Sample


@dataclass(frozen=True, slots=True)
class Preview:
    """`rows` are those that the table would get, in the sample's order, and `partitions` the partition of each.

    `bad` are sorted by record. `unknown` counts the fields that the table lacks, by their names in lower case, the most
    first. `skipped` are the tombstones.
    """

    config: SinkConfig
    rows: pa.Table
    partitions: tuple[str, ...]
    bad: tuple[BadRow, ...]
    skipped: int
    unknown: Mapping[str, int]


def settings_of(spec: TableSpec) -> SinkConfig:
    """The table's settings. Raises InvalidOption with all that a job's start would refuse."""
    config = SinkConfig.parse(spec.options)
    if problems := problems_of(spec, config):
        raise InvalidOption(problems)
    return config


def preview(sample: Sample, spec: TableSpec, arrival: datetime) -> Preview:
    """Decode and assign the sample as one batch that arrives at `arrival` (UTC).

    Raises InvalidOption for settings that a job's start would refuse, or that don't fit such a stream.
    """
    config = settings_of(spec)
    for name, source in config.sources.items():
        column, _ = stream_column(source) or (None, None)
        if column is not None and column not in sample.batch.schema.names:
            option = f"sink.column.{name}.from"
            raise InvalidOption((f"{option} = {config.text(option)!r}: records of this sample have no such thing",))
    target, shape = TablePlan(spec, spec.location or ""), replace(sample.shape, batch=0)
    plan = TaskPlan(target, None, config, shape, uid="", epoch=Epoch(0), attempt="", arrival=arrival)
    decoded, assigned, bad = assign(sample.batch, plan, wiring.row_reader(plan), assigner_for(spec, config))
    fit = np.flatnonzero(assigned.codes >= 0)
    paths = (source for source in config.sources.values() if isinstance(source, JsonPath))
    columns = {column.name for column in row_columns(spec, config)} - config.sources.keys()
    taken = columns | {str(path.steps[0]) for path in paths}
    # A lone surrogate can't be printed: it is shown as the record has it.
    fields = (name.lower().encode("utf-8", "backslashreplace").decode() for item in objects(sample) for name in item)
    return Preview(
        config=config,
        rows=decoded.table.select([column.name for column in spec.columns]).take(pa.array(fit)),
        partitions=tuple(assigned.paths[code] for code in assigned.codes[fit].tolist()),
        bad=tuple(bad),
        skipped=decoded.skipped,
        unknown=dict(Counter(name for name in fields if name not in taken).most_common()),
    )


def objects(sample: Sample) -> Iterator[dict[str, Any]]:
    """The records that are JSON objects; not those that are nested too deeply for Python's own reader."""
    for record in sample.records():
        with suppress(ValueError, RecursionError):
            value = json.loads((record or b"").decode())
            if isinstance(value, dict):
                yield value
