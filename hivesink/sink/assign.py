"""Bucket assigners on Arrow: which partition each row belongs to.

An assigner returns one Arrow array of values for each partition column; `Buckets` makes partition paths of them,
working on distinct values only, since a batch has millions of rows and few partitions.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.partition_path import DEFAULT_PARTITION, canonical, partition_path
from hivesink.errors import InvalidOption, PartitionPathInvalid, ValueUnfit
from hivesink.options import OnNull, SinkConfig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from hivesink.core.bucket import TimePattern
    from hivesink.core.table import Column, TableSpec

_EPOCH_MS = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class Moment:
    """What an assigner may know beside the rows: record times (UTC instants) and the batch's arrival (UTC)."""

    record_times: pa.Array | None
    arrival: datetime


class BucketAssigner(Protocol):
    """One's own assigner is a class with this method, built with the table's spec and settings.

    It must be a function of the row, the record's time and the batch's arrival alone: a task that is retried
    must assign the same buckets.
    """

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:
        """One array of values for each partition column, each as long as `rows`."""
        ...


@dataclass(frozen=True, slots=True)
class ByPartitionColumns:
    """The rows' own values of the partition columns."""

    names: tuple[str, ...]

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:  # noqa: ARG002  the protocol's
        return [rows.column(name) for name in self.names]


@dataclass(frozen=True, slots=True)
class ByTime:
    """Flink's DateTimeBucketAssigner: a time's wall clock in `zone`, formatted by a pattern per partition column."""

    column: str | None
    column_zone: ZoneInfo
    zone: ZoneInfo
    patterns: tuple[TimePattern, ...]

    def assign(self, rows: pa.Table, moment: Moment) -> Sequence[pa.Array]:
        times = self._times(rows, moment)
        if times is None:
            local = moment.arrival.astimezone(self.zone)
            return [pa.repeat(pattern.format(local), rows.num_rows) for pattern in self.patterns]
        return [_format(times, pattern) for pattern in self.patterns]

    def _times(self, rows: pa.Table, moment: Moment) -> pa.Array | None:
        """Wall clocks in the bucket zone."""
        if self.column is None:
            return None
        if self.column not in rows.column_names:
            return _wall_clock(moment.record_times, self.zone)
        values = rows.column(self.column)
        if pa.types.is_date(values.type):
            return values.cast(pa.timestamp("s"))
        if pa.types.is_integer(values.type):
            return _wall_clock(values.cast(pa.int64()).cast(pa.timestamp("ms")).cast(_EPOCH_MS), self.zone)
        if self.column_zone.key == self.zone.key:
            return values
        # Of a wall clock that the zone has twice or not at all, the earlier instant is taken.
        instants = pc.assume_timezone(values, self.column_zone.key, ambiguous="earliest", nonexistent="earliest")
        return _wall_clock(instants, self.zone)


def _wall_clock(instants: pa.Array, zone: ZoneInfo) -> pa.Array:
    return pc.local_timestamp(instants.cast(pa.timestamp(instants.type.unit, zone.key)))


def _format(times: pa.Array, pattern: TimePattern) -> pa.DictionaryArray:
    floored = pc.floor_temporal(times, unit=pattern.unit).cast(pa.timestamp("s"))
    codes = floored.combine_chunks() if isinstance(floored, pa.ChunkedArray) else floored
    codes = codes.dictionary_encode()
    texts = [pattern.format(at) for at in codes.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(codes.indices, pa.array(texts, pa.string()))


def assigner_for(spec: TableSpec, config: SinkConfig) -> BucketAssigner:
    """The assigner that the table declares. Raises InvalidOption where it doesn't fit the table."""
    kind: str = config["sink.bucket.assigner"]
    names = tuple(column.name for column in spec.partition_columns)
    if kind == "partition-columns" or not names:
        return ByPartitionColumns(names)
    if kind == "date-time":
        return ByTime(
            config["sink.bucket.time-column"],
            config["sink.timestamp-zone"],
            config["sink.bucket.time-zone"],
            _patterns(names, config["sink.bucket.time-pattern"]),
        )
    module, _, name = kind.partition(":")
    try:
        made: BucketAssigner = getattr(importlib.import_module(module), name)(spec, config)
    except (ImportError, AttributeError) as error:
        raise InvalidOption((f"sink.bucket.assigner = {kind!r}: {error}",)) from error
    return made


def _patterns(names: tuple[str, ...], patterns: dict[str, TimePattern]) -> tuple[TimePattern, ...]:
    if set(patterns) == {""} and len(names) == 1:
        return (patterns[""],)
    if set(patterns) != set(names):
        problem = f"sink.bucket.time-pattern must name each of the partition columns {', '.join(names)} once"
        raise InvalidOption((problem,))
    return tuple(patterns[name] for name in names)


def needed_columns(spec: TableSpec, config: SinkConfig) -> tuple[Column, ...]:
    """The partition columns whose values come from the rows; the others are made by the assigner."""
    if config["sink.bucket.assigner"] == "date-time":
        return ()
    return spec.partition_columns


@dataclass(frozen=True, slots=True)
class Unfit:
    """A row whose partition value can't be one."""

    row: int
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Buckets:
    """The rows of a batch by partition: `codes[i]` is row i's index into `paths`, -1 for an unfit row."""

    paths: tuple[str, ...]
    codes: np.ndarray[Any, np.dtype[np.int64]]
    unfit: tuple[Unfit, ...]


def buckets(columns: Sequence[Column], values: Sequence[pa.Array], rows: int, on_null: OnNull) -> Buckets:
    """Partition paths, with Hive's escaping and canonical value texts."""
    if not columns:
        return Buckets(("",), np.zeros(rows, dtype=np.int64), ())
    keys = np.zeros(rows, dtype=np.int64)
    texts: list[list[str | None]] = []
    unfit: dict[int, Unfit] = {}
    for column, array in zip(columns, values, strict=True):
        indices, distinct = _encode(array)
        found, problems = _texts(column, distinct, on_null)
        for code, reason in problems.items():
            for row in np.flatnonzero(indices == code).tolist():
                unfit.setdefault(row, Unfit(row, column.name, reason))
        texts.append(found)
        keys = keys * max(1, len(found)) + indices
    combined, codes = np.unique(keys, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64)
    # Null and the empty string are two values and one partition.
    paths: dict[str, int] = {}
    merged = [paths.setdefault(_path(columns, texts, int(key)), len(paths)) for key in combined]
    codes = np.asarray(merged, dtype=np.int64)[codes]
    if unfit:
        codes[list(unfit)] = -1
    return Buckets(tuple(paths), codes, tuple(unfit.values()))


def _encode(array: pa.Array) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[Any]]:
    """Codes into the distinct values, which end with None where there is a null."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    encoded = whole if isinstance(whole, pa.DictionaryArray) else whole.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if encoded.null_count:
        distinct.append(None)
    filled = pc.fill_null(encoded.indices.cast(pa.int64()), len(distinct) - 1)
    return filled.to_numpy(zero_copy_only=False), distinct


def _texts(column: Column, distinct: list[Any], on_null: OnNull) -> tuple[list[str | None], dict[int, str]]:
    found: list[str | None] = []
    problems: dict[int, str] = {}
    for code, value in enumerate(distinct):
        text = None
        try:
            text = canonical(value, column.type)
            partition_path([column.name], [text])
        except (ValueUnfit, PartitionPathInvalid) as error:
            problems[code] = error.reason
            text = None
        else:
            if not text and on_null is OnNull.BAD_RECORD:
                problems[code] = "the partition value is null or empty"
        found.append(text or DEFAULT_PARTITION)
    return found, problems


def _path(columns: Sequence[Column], texts: list[list[str | None]], key: int) -> str:
    values: list[str | None] = []
    for found in reversed(texts):
        key, code = divmod(key, max(1, len(found)))
        values.append(found[code])
    return partition_path([column.name for column in columns], values[::-1])
