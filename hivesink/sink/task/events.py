"""Event times: a task's newest of each partition of the source, when partitions are over, and which rows come late."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import CommitTrigger, SinkConfig
from hivesink.config.plugins import load_plugin
from hivesink.core.partition_commit import (
    CommitRule,
    FromPatterns,
    FromTemplate,
    PartitionClock,
    TimeExtractor,
    newest_likely,
)
from hivesink.core.table import INTEGERS, TIMES, TIMES_TEXT, Primitive, TableSpec
from hivesink.core.time_format import unit_of
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow
from hivesink.sink.task.assign import row_columns, time_patterns
from hivesink.sink.task.buckets import Buckets, counted
from hivesink.sink.task.messages import TaskPlan

_MICRO = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class EventTimes:
    """What a task has seen of event times: `newest`, in µs since 1970 UTC, by the name of the source's partition."""

    def __init__(self, plan: TaskPlan) -> None:
        self.newest: dict[str, int | None] = {}
        self._plan = plan
        self._zone: ZoneInfo = plan.config["sink.timestamp-zone"]
        # Beyond it a time is taken to be wrong; by so much clocks may differ.
        self._latest: datetime = plan.arrival + plan.config["sink.partition-commit.idle-timeout"]

    def take(self, batch: pa.RecordBatch, rows: pa.Table, good: pa.Array | None) -> None:
        """Take in the good rows of `batch`, which are `rows`. Raises InvalidOption for a column that holds no times."""
        name = self._plan.shape.event_time
        if name is None:
            return
        if good is not None and batch.num_rows:
            # Records that are no rows have come as well.
            every = self._sources(batch, None)
            for source in [""] if every is None else pc.unique(every).to_pylist():
                self.newest.setdefault(source or "", None)
        times = rows.column(name) if name in rows.column_names else column_of(batch, name, good)
        if times is None:
            raise _unfit(name, "is a column neither of the table nor of the stream")
        kind, latest = times.type, self._latest
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_int64(kind)):
            raise _unfit(name, f"is of type {kind}, not {TIMES_TEXT}")
        if pa.types.is_int64(kind):
            times, _ = counted(times, unit_of(self._plan.config["sink.timestamp-format"], name))
            kind = times.type
        sources, limit = self._sources(batch, good), (latest - _EPOCH) // _MICRO
        seen = self._newest(times, sources)
        if any(at is not None and at > limit for at in seen.values()):
            # A wrong time must not hide the others.
            if pa.types.is_date(kind):
                most = pa.scalar(latest.date()).cast(kind)
            else:
                wall = latest if kind.tz else latest.astimezone(self._zone).replace(tzinfo=None)
                most = pa.scalar(wall, pa.timestamp("us", kind.tz)).cast(kind)
            right = pc.if_else(pc.less_equal(times, most), times, pa.scalar(None, kind))
            seen |= {source: at for source, at in self._newest(right, sources).items() if at is not None}
        for source, at in seen.items():
            times_seen = [time for time in (self.newest.get(source), at) if time is not None]
            self.newest[source] = newest_likely(times_seen, limit)

    def _sources(self, batch: pa.RecordBatch, good: pa.Array | None) -> pa.Array | None:
        shape = self._plan.shape
        numbers = None if shape.partition is None else column_of(batch, shape.partition, good)
        if numbers is None:
            return None
        topics = None if shape.topic is None else column_of(batch, shape.topic, good)
        topic = pa.scalar(shape.topic_name or "") if topics is None else topics.cast(pa.string())
        return pc.binary_join_element_wise(topic, numbers.cast(pa.string()), "-")

    def _newest(self, times: pa.Array, sources: pa.Array | None) -> dict[str, int | None]:
        """The newest time of each source, None if it has none."""
        if not len(times):
            return {}
        if sources is None:
            return {"": self._micros(pc.max(times))}
        table = pa.table({"source": sources, "time": times}).group_by("source").aggregate([("time", "max")])
        both = zip(table["source"].to_pylist(), table["time_max"], strict=True)
        return {source or "": self._micros(newest) for source, newest in both}

    def _micros(self, newest: pa.Scalar) -> int | None:
        try:
            time: datetime | date | None = newest.as_py()
            if time is None:
                return None
            at = time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)  # noqa: DTZ001  a date
            if at.tzinfo is None:
                # Of a wall clock that comes twice, or never, the earlier moment: the watermark must not run ahead.
                at = min(at.replace(tzinfo=self._zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1))
            return (at - _EPOCH) // _MICRO
        except (OverflowError, ValueError):
            # Outside of the years 1 to 9999: in the future it counts as now, and otherwise for nothing.
            number = newest.cast(pa.int32() if pa.types.is_date32(newest.type) else pa.int64())
            return (self._plan.arrival - _EPOCH) // _MICRO if number.as_py() > 0 else None


def column_of(batch: pa.RecordBatch, name: str | None, good: pa.Array | None) -> pa.Array | None:
    """A column of the stream's, whatever its case, for the `good` rows of `batch`; None unless it is there once."""
    columns = [index for index, column in enumerate(batch.schema.names) if column.lower() == name]
    if len(columns) != 1:
        return None
    values = batch.column(columns[0])
    return values if good is None else values.take(good)


def _unfit(name: str, problem: str) -> InvalidOption:
    return InvalidOption((f"the watermark's column {name!r} {problem}: set sink.partition-commit.watermark-column",))


def split_late(assigned: Buckets, rule: CommitRule, late: datetime | None) -> tuple[Buckets, list[BadRow]]:
    """The rows that are in time, and those of partitions that were over at the watermark `late`."""
    ends = ((code, rule.end((rule.table, path))) for code, path in enumerate(assigned.paths))
    over = {
        code: f"late: {assigned.paths[code]} was over at {end:%Y-%m-%d %H:%M} UTC"
        for code, end in ends
        if end is not None and late is not None and end <= late
    }
    if not over:
        return assigned, []
    is_late = np.isin(assigned.codes, [*over])
    rows = [BadRow(row, None, over[int(assigned.codes[row])]) for row in np.flatnonzero(is_late).tolist()]
    return Buckets(assigned.paths, np.where(is_late, -1, assigned.codes), assigned.unfit), rows


_ANY_NUMBERS = ("1", "2024", "20240102", "2024010203")
"""A field, a year, a day and an hour, as a column of numbers may hold them."""
_PATTERN = "partition.time-extractor.timestamp-pattern"


def commit_rule(spec: TableSpec, config: SinkConfig) -> CommitRule:
    """Raises InvalidOption where no time can be read from the table's partitions, or their length isn't known."""
    delay: timedelta | None = config["sink.partition-commit.delay"]
    if config["sink.partition-commit.trigger"] is CommitTrigger.PROCESS_TIME:
        return CommitRule(str(spec.name), None, delay or timedelta(0))
    option = "sink.partition-commit"
    if not spec.is_partitioned:
        raise InvalidOption((f"{option}.trigger = 'partition-time': {spec.name} has no partitions",))
    name: str | None = config["sink.partition-commit.watermark-column"]
    kinds = {column.name: column.type for column in row_columns(spec, config)}
    if name in kinds and kinds[name] not in TIMES:
        problem = f"{name} is of type {kinds[name]}: name a column of type {TIMES_TEXT}"
        raise InvalidOption((f"{option}.watermark-column: {problem}",))
    extractor, unit = _extractor(spec, config)
    lasts = unit if delay is None else delay
    if not lasts:
        problem = "with the trigger partition-time, say how long a partition lasts, such as 1h"
        raise InvalidOption((f"{option}.delay is missing, or 0: {problem}",))
    return CommitRule(str(spec.name), PartitionClock(extractor, lasts, config["sink.bucket.time-zone"]))


def time_extractor(spec: TableSpec, config: SinkConfig) -> TimeExtractor | None:
    """What reads the times of the table's partitions, whatever commits them; None if no setting says how."""
    try:
        return _extractor(spec, config)[0] if spec.is_partitioned else None
    except InvalidOption:
        # Only the trigger partition-time needs times, and each start of such a job refuses these settings.
        return None


def patterns_of_names(spec: TableSpec, config: SinkConfig) -> FromPatterns | None:
    """The patterns that a time makes the partitions' names of; None if there are none from which it can be read."""
    try:
        names = FromPatterns(tuple(time_patterns(spec, config).items()))
    except InvalidOption:
        # No job starts with these settings.
        return None
    return names if names.patterns and names.problem is None else None


def _extractor(spec: TableSpec, config: SinkConfig) -> tuple[TimeExtractor, str | None]:
    """What reads a partition's time, and the unit that it lasts, if that is known."""
    option = "partition.time-extractor.class"
    if (plugin := config[option]) is not None:
        return load_plugin(option, plugin, "start", spec, config), None
    template: str | None = config[_PATTERN]
    names = tuple(column.name for column in spec.partition_columns)
    patterns = time_patterns(spec, config)
    if template is None and patterns:
        made = FromPatterns(tuple(patterns.items()))
        if made.problem is not None:
            raise InvalidOption((f"sink.bucket.time-pattern: {made.problem}; set {_PATTERN}",))
        return made, made.unit
    if template is None and len(names) > 1:
        problem = f"say how {', '.join(names)} make a time, as in '$dt $hour:00:00'"
        raise InvalidOption((f"{_PATTERN} is missing: {problem}",))
    of_columns = FromTemplate(template or f"${names[0]}", config["partition.time-extractor.timestamp-formatter"])
    unknown = [name for name in of_columns.columns if name not in names]
    if unknown or not of_columns.columns:
        what = f"names {unknown[0]}, which is no partition column" if unknown else "names no partition column"
        raise InvalidOption((f"{_PATTERN} = {template!r} {what}; {spec.name} has {', '.join(names)}",))
    kinds = {column.name: column.type for column in spec.partition_columns}
    numbers = all(kinds[name] in INTEGERS for name in of_columns.columns)
    if numbers and not of_columns.reads(_ANY_NUMBERS):
        wanted = "in the form of its timestamp-formatter" if of_columns.formatter else "such as 2024-01-02 03:00:00"
        problem = f"{_PATTERN} = {of_columns.template!r} makes no time {wanted}, as its columns are numbers"
        raise InvalidOption((f"{problem}; name columns with year, month and day",))
    is_date = template is None and spec.partition_columns[0].type is Primitive.DATE
    return of_columns, "day" if is_date else None
