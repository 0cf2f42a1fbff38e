"""What the records of a sample become in a table: decoded, assigned and refused as a job's tasks do it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink import wiring
from hivesink.config.options import SinkConfig
from hivesink.core.column_source import JsonPath, stream_column
from hivesink.core.epoch import Epoch
from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.decode.json.scan import NotJson, document, elements, members, unquote
from hivesink.errors import InvalidOption
from hivesink.sink.commit.context import problems_of
from hivesink.sink.task.assign import assigner_for, row_columns
from hivesink.sink.task.attempt import assign, of_input
from hivesink.sink.task.messages import TablePlan, TaskPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from hivesink.core.table import TableSpec
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
    if problems := problems_of(spec, config):
        raise InvalidOption(problems)
    return config


def preview(sample: Sample, spec: TableSpec, config: SinkConfig, arrival: datetime) -> Preview:
    """Decode and assign the sample as one batch that arrives at `arrival` (UTC).

    Raises InvalidOption for settings that don't fit such a stream.
    """
    _require_columns(sample, config)
    target, shape = TablePlan(spec, spec.location or ""), replace(sample.shape, batch=0)
    plan = TaskPlan(target, None, config, shape, uid="", epoch=Epoch(0), attempt="", arrival=arrival)
    decoded, assigned = assign(sample.batch, plan, wiring.row_reader(plan), assigner_for(spec, config))
    fit = np.flatnonzero(assigned.codes >= 0)
    bad = sorted([*decoded.bad, *of_input(assigned.unfit, decoded.good)], key=lambda row: row.index)
    return Preview(
        rows=decoded.table.select([column.name for column in spec.columns]).take(pa.array(fit)),
        partitions=tuple(assigned.paths[code] for code in assigned.codes[fit].tolist()),
        bad=tuple(bad),
        skipped=decoded.skipped,
        unknown=_unknown_fields(sample.records(), _fields(spec, config)),
    )


def _require_columns(sample: Sample, config: SinkConfig) -> None:
    for name, source in config.sources.items():
        column, _ = stream_column(source) or (None, None)
        if column is not None and column not in sample.batch.schema.names:
            option = f"sink.column.{name}.from"
            raise InvalidOption((f"{option} = {config.text(option)!r}: records of this sample have no such thing",))


def _fields(spec: TableSpec, config: SinkConfig) -> dict[str, HiveType]:
    """The fields of a record that some column reads; of what a path leads through, nothing deeper is judged."""
    sources = config.sources
    paths = (source for source in sources.values() if isinstance(source, JsonPath))
    own = {column.name: column.type for column in row_columns(spec, config) if column.name not in sources}
    return {**{str(path.steps[0]): Primitive.STRING for path in paths}, **own}


def _unknown_fields(records: Iterable[bytes | None], fields: Mapping[str, HiveType]) -> Counter[str]:
    found: Counter[str] = Counter()
    for record in records:
        # A record that is no JSON object is bad, and has no fields.
        with suppress(UnicodeDecodeError, NotJson):
            raw = document((record or b"").decode())
            if raw[0] == "{":
                # Half of a surrogate pair is in no text that can be written: it is shown as the record has it.
                names = set(_unknown(raw, fields, ""))
                found.update(name.encode("utf-8", "backslashreplace").decode() for name in names)
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
