"""Bucket assigners on Arrow: the values of the partition columns for each row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from hivesink.config.plugins import load_plugin
from hivesink.core.table import TIMES, TIMES_TEXT, Column, TableSpec
from hivesink.core.time_format import unit_of
from hivesink.errors import InvalidOption
from hivesink.ports import BadRow
from hivesink.sink.task.buckets import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray

    from hivesink.config.options import SinkConfig
    from hivesink.core.time_format import EpochUnit, TimePattern


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
        """One array of values per partition column, in the table's order, each as long as `rows`.

        `rows` has the table's columns and, where the stream has them, those of its partitions. A value is text or of
        the column's type; null means what `sink.bucket.on-null` says, and a value that doesn't fit makes a bad row. An
        error that it raises ends the query as OwnCodeFailed, anything but such arrays as InvalidOption.
        """


@dataclass(frozen=True, slots=True)
class ByPartitionColumns:
    """The rows' own values of the partition columns."""

    names: tuple[str, ...]

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:  # noqa: ARG002  the protocol's
        return [rows.column(name) for name in self.names]


@dataclass(frozen=True, slots=True)
class ByTime:
    """Flink's DateTimeBucketAssigner: a time's wall clock in `zone`, formatted by a pattern per partition column.

    A partition column of `names` without a pattern has the rows' own values.
    """

    column: str | None
    unit: EpochUnit
    """What whole numbers of the column count."""
    column_zone: ZoneInfo
    zone: ZoneInfo
    names: tuple[str, ...]
    patterns: Mapping[str, TimePattern]

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:
        """A null time gives null, and so does a time outside the years 1 to 9999."""
        made = dict(zip(self.patterns, self._times(rows, moment), strict=True))
        return [made[name] if name in made else rows.column(name) for name in self.names]

    def _times(self, rows: pa.Table, moment: Moment) -> list[pa.Array]:
        times = self._given(rows, moment)
        if times is None:
            local = moment.arrival.astimezone(self.zone)
            return [pa.repeat(pattern.format(local), rows.num_rows) for pattern in self.patterns.values()]
        if pa.types.is_integer(times.type):
            times, _ = counted(times, self.unit)
        clock = self._clock(times.type)
        return [_formatted(times, pattern, clock) for pattern in self.patterns.values()]

    def unfit(self, rows: pa.Table, moment: Moment) -> list[BadRow]:
        """The rows whose number can't be a time in the column's unit."""
        times = self._given(rows, moment)
        if times is None or not pa.types.is_integer(times.type):
            return []
        _, unfit = counted(times, self.unit)
        return [BadRow(row, self.column, why) for mask, why in unfit for row in np.flatnonzero(mask).tolist()]

    def _given(self, rows: pa.Table, moment: Moment) -> pa.Array | pa.ChunkedArray | None:
        if self.column is None:
            return None
        times = rows.column(self.column) if self.column in rows.column_names else moment.record_times
        if times is None:
            problem = f"sink.bucket.time-column = {self.column!r} is a column neither of the table nor of the stream"
            way = "name a column of the table, which may take a field of another name by sink.column.<name>.from"
            raise InvalidOption((f"{problem}; {way}",))
        return times

    def _clock(self, kind: pa.DataType) -> _Clock:
        """What leads from a stored time, read as UTC, to the wall clock in the bucket zone."""
        if pa.types.is_date(kind):
            return _Clock()
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return _Clock(self.zone)
        if not pa.types.is_timestamp(kind):
            raise InvalidOption((_no_time(self.column, str(kind)),))
        return _Clock() if self.column_zone.key == self.zone.key else _Clock(self.zone, self.column_zone)


@dataclass(frozen=True, slots=True)
class _Clock:
    """The wall clock of `zone` at an instant, or when that of `stored` shows a time; without a zone, that time itself.

    A time that a clock shows twice means the first; from a time that it skips it counts on from before.
    """

    zone: ZoneInfo | None = None
    stored: ZoneInfo | None = None

    def __call__(self, at: datetime) -> datetime:
        if self.zone is None:
            return at
        return (at.replace(tzinfo=self.stored) if self.stored else at).astimezone(self.zone)


@dataclass(frozen=True, slots=True)
class OwnAssigner:
    """A class of the user's own. `setting` names it."""

    made: BucketAssigner
    setting: str
    columns: int

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:
        """Raises InvalidOption unless the class returns such arrays as the protocol asks for."""
        given: Any = self.made.assign(rows, moment)
        values = list(given) if isinstance(given, Iterable) else [given]
        if others := [type(value).__name__ for value in values if not isinstance(value, pa.Array | pa.ChunkedArray)]:
            way = "return a list, with a pyarrow array of values for each partition column"
            raise InvalidOption((f"{self.setting}: your own assign made a {others[0]}, no array; {way}",))
        if [len(array) for array in values] != [rows.num_rows] * self.columns:
            made = ", ".join(str(len(array)) for array in values)
            problem = f"your own assign made arrays of {made} values, for {self.columns} partition columns and "
            # The start tries it with none.
            raise InvalidOption((f"{self.setting}: {problem}{rows.num_rows} rows; make a value for each row",))
        return values


def _no_time(column: str | None, kind: str) -> str:
    return f"sink.bucket.time-column = {column!r} is of type {kind}, not {TIMES_TEXT}"


_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_STEPS = {"minute": (60, 1), "second": (1,)}
_QUARTER = (900, 1)
"""Seconds in which a zone's offset rarely changes, and in which it never does."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNEVEN = "\0"
_NEAR = 1 << 16
"""Numbers of a range that is smaller than this are looked up in a table of it."""


def _formatted(times: pa.Array, pattern: TimePattern, clock: _Clock) -> pa.DictionaryArray:
    """Format each distinct stretch of time once, by Python's zones: Arrow's know no rules beyond 2037."""
    whole = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    if pa.types.is_date(whole.type):
        whole = whole.cast(pa.timestamp("s"))
    per_second = _PER_SECOND[whole.type.unit]
    stored = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    absent = whole.is_null().to_numpy(zero_copy_only=False) if whole.null_count else None
    for step in _STEPS.get(pattern.unit, _QUARTER):
        indices, codes = _distinct(stored // (per_second * step))
        texts = [_text(code * step, step, pattern, clock) for code in codes]
        if _UNEVEN not in texts:
            break
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=absent), pa.array(texts, pa.string()))


def _distinct(numbers: NDArray[np.int64]) -> tuple[NDArray[np.integer[Any]], list[int]]:
    """The place of each number among the distinct ones, and these."""
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if most - least >= _NEAR:
        encoded = pa.array(numbers).dictionary_encode()
        return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    # A look-up for each number costs a third of a hash.
    places = numbers - least
    occurs = np.zeros(most - least + 1, np.bool_)
    occurs[places] = True
    return (np.cumsum(occurs, dtype=np.int32) - 1)[places], (np.flatnonzero(occurs) + least).tolist()


# A year has 35,000 quarters of an hour, which come again with each batch.
@lru_cache(maxsize=1 << 16)
def _text(start: int, step: int, pattern: TimePattern, clock: _Clock) -> str | None:
    """The stretch's value; None beyond what a clock shows, `_UNEVEN` where a value may not fit all of it."""
    try:
        first = clock(_EPOCH + timedelta(seconds=start))
        last = clock(_EPOCH + timedelta(seconds=start + step - 1))
    except OverflowError:
        return None if step == 1 else _UNEVEN
    even = (last.replace(tzinfo=None) - first.replace(tzinfo=None)).total_seconds() == step - 1
    return pattern.format(first) if even and (first.minute * 60 + first.second) % step == 0 else _UNEVEN


def assigner_for(spec: TableSpec, config: SinkConfig) -> BucketAssigner:
    """The assigner that the table declares. Raises InvalidOption if it doesn't fit the table."""
    kind: str = config["sink.bucket.assigner"]
    names = tuple(column.name for column in spec.partition_columns)
    if kind == "partition-columns" or not names:
        return ByPartitionColumns(names)
    if kind == "date-time":
        time: str | None = config["sink.bucket.time-column"]
        for column in row_columns(spec, config):
            if column.name == time and column.type not in TIMES:
                raise InvalidOption((_no_time(time, str(column.type)),))
        unit = unit_of(config["sink.timestamp-format"], time or "")
        zones = config["sink.timestamp-zone"], config["sink.bucket.time-zone"]
        return ByTime(time, unit, *zones, names, time_patterns(spec, config))
    made = load_plugin("sink.bucket.assigner", kind, "assign", spec, config)
    return OwnAssigner(made, f"sink.bucket.assigner = {kind!r}", len(names))


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
    """The columns whose values come from the rows: all but those made of a time. Raises InvalidOption.

    Decoded rows may lack `classes_columns`.
    """
    made = time_patterns(spec, config)
    return (*spec.columns, *(column for column in spec.partition_columns if column.name not in made))


def classes_columns(spec: TableSpec, config: SinkConfig) -> frozenset[str]:
    """The partition columns that a class of the user's own makes, from the rows' own values or not."""
    is_own = config["sink.bucket.assigner"] not in {"partition-columns", "date-time"}
    return frozenset(column.name for column in spec.partition_columns) if is_own else frozenset()
