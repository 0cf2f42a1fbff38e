"""What the records of a sample become in a table: decoded, assigned and refused as a job's tasks do it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink import wiring
from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.table import Array, HiveType, Map, Struct
from hivesink.decode.scan import NotJson, document, elements, members, unquote
from hivesink.errors import InvalidOption
from hivesink.sink.commit.context import problems_of
from hivesink.sink.task.assign import assigner_for, row_columns
from hivesink.sink.task.attempt import assign, of_input
from hivesink.sink.task.messages import TablePlan, TaskPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.table import Column, TableSpec
    from hivesink.ports import BadRow
    from hivesink.sample.records import Sample


@dataclass(frozen=True, slots=True)
class Preview:
    """`rows` are those that the table would get, in the sample's order, and `partitions` the partition of each.

    `bad` are sorted by record. `unknown` counts the records that have a field which the table lacks, by the field's
    path in lower case. `skipped` are the tombstones.
    """

    rows: pa.Table
    partitions: tuple[str, ...]
    bad: tuple[BadRow, ...]
    skipped: int
    unknown: Mapping[str, int]


def settings_of(spec: TableSpec) -> SinkConfig:
    """The table's settings. Raises InvalidOption with all that a job's start would refuse."""
    config = SinkConfig.parse(spec.options)
    if problems := problems_of(spec, config, own=False):
        raise InvalidOption(problems)
    return config


def preview(sample: Sample, spec: TableSpec, config: SinkConfig, arrival: datetime) -> Preview:
    """Decode and assign the sample as one batch that arrives at `arrival` (UTC).

    Raises InvalidOption for settings that don't fit such a stream.
    """
    target = TablePlan(spec, spec.location or "")
    plan = TaskPlan(target, None, config, sample.shape, uid="", epoch=Epoch(0), attempt="", arrival=arrival)
    decoded, assigned = assign(sample.batch, plan, wiring.row_reader(plan), assigner_for(spec, config))
    fit = np.flatnonzero(assigned.codes >= 0)
    bad = sorted([*decoded.bad, *of_input(assigned.unfit, decoded.good)], key=lambda row: row.index)
    return Preview(
        rows=decoded.table.select([column.name for column in spec.columns]).take(pa.array(fit)),
        partitions=tuple(assigned.paths[code] for code in assigned.codes[fit].tolist()),
        bad=tuple(bad),
        skipped=decoded.skipped,
        unknown=_unknown_fields(sample.records(), row_columns(spec, config)),
    )


def _unknown_fields(records: Iterable[bytes | None], columns: Sequence[Column]) -> Counter[str]:
    fields = {column.name: column.type for column in columns}
    found: Counter[str] = Counter()
    for record in records:
        # A record that is no JSON object is bad, and has no fields.
        with suppress(UnicodeDecodeError, NotJson):
            raw = document((record or b"").decode())
            if raw[0] == "{":
                found.update(set(_unknown(raw, fields, "")))
    return found


def _unknown(raw: str, fields: Mapping[str, HiveType], path: str) -> Iterator[str]:
    for quoted, value in members(raw):
        name = unquote(quoted).lower()
        kind = fields.get(name)
        if kind is None:
            yield f"{path}{name}"
        else:
            yield from _below(value, kind, f"{path}{name}.")


def _below(raw: str, kind: HiveType, path: str) -> Iterator[str]:
    match kind, raw[0]:
        case Struct(fields), "{":
            yield from _unknown(raw, dict(fields), path)
        case Map(_, value), "{":
            for _, item in members(raw):
                yield from _below(item, value, path)
        case Array(element), "[":
            for item in elements(raw):
                yield from _below(item, element, path)
