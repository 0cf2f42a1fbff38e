"""Bucket assigners on Arrow: the values of the partition columns for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache, partial
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from hivesink.config.options import SinkConfig
from hivesink.config.plugins import load_plugin
from hivesink.core.table import TIMES, TIMES_TEXT, Column, TableSpec
from hivesink.core.time_format import EpochUnit, TimePattern, unit_of
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow
from hivesink.sink.task.buckets import counted


@dataclass(frozen=True, slots=True)
class Moment:
    """What an assigner may know besides the rows.

    `record_times` has a time for each row: the stream's column that `sink.bucket.time-column` names, without it Kafka's
    `timestamp`, in the type that it has there; None without such a column. `arrival` is when the batch came, in UTC.
    """

    record_times: pa.Array | None
    arrival: datetime


class BucketAssigner(Protocol):
    """A custom assigner is a class with this method; it is built with the table's spec and settings.

    It may depend only on the row, the record's time and the batch's arrival: a retried task must assign the same
    buckets.
    """

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:
        """An array of values per partition column, in the table's order, each as long as `rows`.

        `rows` has the table's columns and, where the stream has them, those of its partitions. A value is text or of
        the column's type; null means what `sink.bucket.on-null` says, and a value that doesn't fit makes a bad row. An
        error that it raises ends the query as OwnCodeFailed, anything but such arrays as InvalidOption.
        """


Assign = Callable[[pa.Table, Moment], tuple[Sequence[pa.Array], list[BadRow]]]
"""A value of each partition column for each row, and the rows that can have none."""


@dataclass(frozen=True, slots=True)
class ByTime:
    """A time's values for the partition columns in `patterns`, for the others of `names` the rows' own.

    As Flink's DateTimeBucketAssigner: a time's wall clock in `zone`, formatted by the column's pattern.
    """

    names: tuple[str, ...]
    patterns: Mapping[str, TimePattern]
    column: str | None
    unit: EpochUnit
    """What whole numbers of the column count."""
    column_zone: ZoneInfo
    zone: ZoneInfo

    def __call__(self, rows: pa.Table, moment: Moment) -> tuple[Sequence[pa.Array], list[BadRow]]:
        """A null time gives null, and so does a time outside the years 1 to 9999."""
        bad: list[BadRow] = []
        made: dict[str, pa.Array] = {}
        if self.column is None:
            local = moment.arrival.astimezone(self.zone)
            made = {name: pa.repeat(pattern.format(local), rows.num_rows) for name, pattern in self.patterns.items()}
        else:
            times = rows.column(self.column) if self.column in rows.column_names else moment.record_times
            if times is None:
                problem = f"sink.bucket.time-column = {self.column!r} is a column neither of the table nor of the "
                way = "name a column of the table, which may take a field of another name by sink.column.<name>.from"
                raise InvalidOption((f"{problem}stream; {way}",))
            if pa.types.is_integer(times.type):
                times, unfit = counted(times, self.unit)
                # Not a time in the column's unit.
                bad = [BadRow(row, self.column, why) for mask, why in unfit for row in np.flatnonzero(mask).tolist()]
            kind = times.type
            if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
                raise InvalidOption((_no_time(self.column, str(kind)),))
            # In which zone a value shows a time that is stored as UTC, and in which it is stored as a wall clock.
            zone = stored = None
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                zone = self.zone
            elif pa.types.is_timestamp(kind) and self.column_zone.key != self.zone.key:
                zone, stored = self.zone, self.column_zone
            made = {name: _formatted(times, pattern, zone, stored) for name, pattern in self.patterns.items()}
        return [made[name] if name in made else rows.column(name) for name in self.names], bad


def _own(made: BucketAssigner, setting: str, columns: int, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:
    """What the user's own class makes, which `setting` names. Raises InvalidOption if it isn't as the protocol asks."""
    given: Any = made.assign(rows, moment)
    values = list(given) if isinstance(given, Iterable) else [given]
    kinds = pa.Array | pa.ChunkedArray
    shapes = [f"{len(array)} values" if isinstance(array, kinds) else type(array).__name__ for array in values]
    # The start tries it with no rows.
    if shapes != [f"{rows.num_rows} values"] * columns:
        way = f"return a list of {columns} pyarrow arrays, with a value of each partition column for each of the "
        told = ", ".join(shapes) or "nothing"
        raise InvalidOption((f"{setting}: your own assign made {told}; {way}{rows.num_rows} rows",))
    return values


def _no_time(column: str | None, kind: str) -> str:
    return f"sink.bucket.time-column = {column!r} is of type {kind}, not {TIMES_TEXT}"


_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_STEPS = {"minute": (60, 1), "second": (1,)}
_QUARTER = (900, 1)
"""Seconds in which a zone's offset rarely changes, and in which it never does."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNEVEN = "\0"


def _formatted(
    times: pa.Array, pattern: TimePattern, zone: ZoneInfo | None, stored: ZoneInfo | None
) -> pa.DictionaryArray:
    """Format each distinct stretch of time once, by Python's zones: Arrow's know no rules beyond 2037."""
    whole = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    if pa.types.is_date(whole.type):
        whole = whole.cast(pa.timestamp("s"))
    per_second = _PER_SECOND[whole.type.unit]
    numbers = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    absent = whole.is_null().to_numpy(zero_copy_only=False) if whole.null_count else None
    for step in _STEPS.get(pattern.unit, _QUARTER):
        steps = pa.array(numbers // (per_second * step)).dictionary_encode()
        texts = [_text(code * step, step, pattern, zone, stored) for code in steps.dictionary.to_pylist()]
        if _UNEVEN not in texts:
            break
    indices = pa.array(steps.indices.to_numpy(), mask=absent)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


# A year has 35,000 quarters of an hour, which come again with each batch.
@lru_cache(maxsize=1 << 16)
def _text(start: int, step: int, pattern: TimePattern, zone: ZoneInfo | None, stored: ZoneInfo | None) -> str | None:
    """The stretch's value; None beyond what a clock shows, `_UNEVEN` where a value may not fit all of it.

    A time that the clock of `stored` shows twice means the first; from a time that it skips it counts on from before.
    """
    try:
        first, last = (_EPOCH + timedelta(seconds=at) for at in (start, start + step - 1))
        if zone is not None:
            first, last = ((at.replace(tzinfo=stored) if stored else at).astimezone(zone) for at in (first, last))
    except OverflowError:
        return None if step == 1 else _UNEVEN
    even = (last.replace(tzinfo=None) - first.replace(tzinfo=None)).total_seconds() == step - 1
    return pattern.format(first) if even and (first.minute * 60 + first.second) % step == 0 else _UNEVEN


def assigner_for(spec: TableSpec, config: SinkConfig) -> Assign:
    """What the table declares to assign rows to partitions. Raises InvalidOption if it doesn't fit the table."""
    kind: str = config["sink.bucket.assigner"]
    names = tuple(column.name for column in spec.partition_columns)
    if names and kind not in {"partition-columns", "date-time"}:
        made = load_plugin("sink.bucket.assigner", kind, "assign", spec, config)
        own = partial(_own, made, f"sink.bucket.assigner = {kind!r}", len(names))
        return lambda rows, moment: (own(rows, moment), [])
    patterns, time = time_patterns(spec, config), config["sink.bucket.time-column"]
    if not patterns:
        return lambda rows, _: ([rows.column(name) for name in names], [])
    for column in row_columns(spec, config):
        if column.name == time and column.type not in TIMES:
            raise InvalidOption((_no_time(time, str(column.type)),))
    unit = unit_of(config["sink.timestamp-format"], time or "")
    return ByTime(names, patterns, time, unit, config["sink.timestamp-zone"], config["sink.bucket.time-zone"])


def time_patterns(spec: TableSpec, config: SinkConfig) -> dict[str, TimePattern]:
    """The partition columns that are made of a time, each with its pattern, in the order of the table.

    Only this decides that: none, unless the assigner is `date-time`. Raises InvalidOption.
    """
    names = [column.name for column in spec.partition_columns]
    if config["sink.bucket.assigner"] != "date-time" or not names:
        return {}
    option = "sink.bucket.time-pattern"
    patterns: dict[str, TimePattern] = config[option]
    if set(patterns) == {""}:
        if len(names) > 1:
            text = config.text(option)
            problem = f"{option} = {text!r} names no column, and {spec.name} has several partition columns: name those "
            raise InvalidOption((f"{problem}that the time fills, such as {names[-1]}={text}",))
        return {names[0]: patterns[""]}
    if others := [name for name in patterns if name not in names]:
        problem = f"{option} names {', '.join(others)}, no partition column of {spec.name}; it has {', '.join(names)}"
        raise InvalidOption((problem,))
    return {name: patterns[name] for name in names if name in patterns}


def row_columns(spec: TableSpec, config: SinkConfig) -> tuple[Column, ...]:
    """All columns but those made of a time. Decoded rows may lack `classes_columns`. Raises InvalidOption."""
    made = time_patterns(spec, config)
    return (*spec.columns, *(column for column in spec.partition_columns if column.name not in made))


def classes_columns(spec: TableSpec, config: SinkConfig) -> frozenset[str]:
    """The partition columns that a class of the user's own makes, from the rows' own values or not."""
    is_own = config["sink.bucket.assigner"] not in {"partition-columns", "date-time"}
    return frozenset(column.name for column in spec.partition_columns) if is_own else frozenset()
