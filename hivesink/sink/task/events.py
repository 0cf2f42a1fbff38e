"""Event times in a task: the newest of each partition of the source, and the rows that come too late."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import CommitTrigger, OnLate
from hivesink.core.table import TIMES_TEXT
from hivesink.core.time_format import unit_of
from hivesink.core.watermark import newest_likely
from hivesink.errors import InvalidOption
from hivesink.ports import BadRow
from hivesink.sink.task.buckets import Buckets
from hivesink.sink.task.commit_rule import commit_rule
from hivesink.sink.task.counts import counted

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from hivesink.core.partition_commit import CommitRule
    from hivesink.sink.task.messages import TaskPlan

_MICRO = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(slots=True)
class EventTimes:
    """What a task has seen of event times, in µs since 1970 UTC, by the name of the source's partition."""

    plan: TaskPlan
    newest: dict[str, int | None] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch, rows: pa.Table, good: pa.Array | None) -> None:
        """Take in the good rows of `batch`, which are `rows`. Raises InvalidOption for a column that holds no times."""
        name = self.plan.shape.event_time
        if name is None:
            return
        if good is not None:
            # Records that are no rows have come as well.
            for source in _names(self._sources(batch, None), batch.num_rows):
                self.newest.setdefault(source, None)
        times = rows.column(name) if name in rows.column_names else column_of(batch, name, good)
        if times is None:
            raise _unfit(name, "is a column neither of the table nor of the stream")
        if not (pa.types.is_timestamp(times.type) or pa.types.is_date(times.type) or pa.types.is_int64(times.type)):
            raise _unfit(name, f"is of type {times.type}, not {TIMES_TEXT}")
        if pa.types.is_int64(times.type):
            times, _ = counted(times, unit_of(self.plan.config["sink.timestamp-format"], name))
        sources = self._sources(batch, good)
        seen = {source: self._micros(newest) for source, newest in _newest(times, sources)}
        if any(at is not None and at > self._limit for at in seen.values()):
            # One wrong time must not hide the others.
            right = pc.if_else(pc.less_equal(times, self._limit_as(times.type)), times, pa.scalar(None, times.type))
            in_time = {source: self._micros(newest) for source, newest in _newest(right, sources)}
            seen |= {source: at for source, at in in_time.items() if at is not None}
        for source, at in seen.items():
            times_seen = [time for time in (self.newest.get(source), at) if time is not None]
            self.newest[source] = newest_likely(times_seen, self._limit)

    @property
    def _limit(self) -> int:
        """Beyond it a time is taken to be wrong, in µs; by so much clocks may differ."""
        return (self._latest - _EPOCH) // _MICRO

    @property
    def _latest(self) -> datetime:
        ahead: timedelta = self.plan.config["sink.partition-commit.idle-timeout"]
        return self.plan.arrival + ahead

    def _limit_as(self, kind: pa.DataType) -> pa.Scalar:
        if pa.types.is_date(kind):
            return pa.scalar(self._latest.date()).cast(kind)
        zone: ZoneInfo = self.plan.config["sink.timestamp-zone"]
        wall = self._latest if kind.tz else self._latest.astimezone(zone).replace(tzinfo=None)
        return pa.scalar(wall, pa.timestamp("us", kind.tz)).cast(kind)

    def _sources(self, batch: pa.RecordBatch, good: pa.Array | None) -> pa.Array | None:
        shape = self.plan.shape
        numbers = None if shape.partition is None else column_of(batch, shape.partition, good)
        if numbers is None:
            return None
        topics = None if shape.topic is None else column_of(batch, shape.topic, good)
        topic = pa.scalar(shape.topic_name or "") if topics is None else topics.cast(pa.string())
        return pc.binary_join_element_wise(topic, numbers.cast(pa.string()), "-")

    def _micros(self, newest: pa.Scalar) -> int | None:
        try:
            time = None if newest is None else newest.as_py()
            return None if time is None else (self._utc(time) - _EPOCH) // _MICRO
        except (OverflowError, ValueError):
            # Outside of the years 1 to 9999: in the future it counts as now, and otherwise for nothing.
            number = newest.cast(pa.int32() if pa.types.is_date32(newest.type) else pa.int64())
            return (self.plan.arrival - _EPOCH) // _MICRO if number.as_py() > 0 else None

    def _utc(self, time: datetime | date) -> datetime:
        wall = time if isinstance(time, datetime) else datetime(time.year, time.month, time.day)  # noqa: DTZ001  a date
        if wall.tzinfo:
            return wall.astimezone(timezone.utc)
        zone: ZoneInfo = self.plan.config["sink.timestamp-zone"]
        # Of a wall clock that comes twice, or never, the earlier moment: the watermark must not run ahead.
        return min(wall.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1))


def column_of(batch: pa.RecordBatch, name: str | None, good: pa.Array | None) -> pa.Array | None:
    """A column of the stream's, whatever its case, for the `good` rows of `batch`; None unless it is there once."""
    columns = [index for index, column in enumerate(batch.schema.names) if column.lower() == name]
    if len(columns) != 1:
        return None
    values = batch.column(columns[0])
    return values if good is None else values.take(good)


def _names(sources: pa.Array | None, rows: int) -> list[str]:
    if sources is None:
        return [""] if rows else []
    return [source or "" for source in pc.unique(sources).to_pylist()]


def _unfit(name: str, problem: str) -> InvalidOption:
    return InvalidOption((f"the watermark's column {name!r} {problem}: set sink.partition-commit.watermark-column",))


def _newest(times: pa.Array, sources: pa.Array | None) -> list[tuple[str, pa.Scalar]]:
    if not len(times):
        return []
    if sources is None:
        return [("", pc.max(times))]
    table = pa.table({"source": sources, "time": times}).group_by("source").aggregate([("time", "max")])
    return [(source or "", table["time_max"][row]) for row, source in enumerate(table["source"].to_pylist())]


@dataclass(frozen=True, slots=True)
class LateRows:
    """Finds the rows of partitions that were over before this batch, where they aren't simply appended."""

    rule: CommitRule
    late: datetime

    @classmethod
    def of(cls, plan: TaskPlan) -> LateRows | None:
        """None if no row of `plan` is to be treated as late."""
        config = plan.config
        by_time = config["sink.partition-commit.trigger"] is CommitTrigger.PARTITION_TIME
        if plan.late is None or not by_time or config["sink.late-rows"] is OnLate.APPEND:
            return None
        return cls(commit_rule(plan.target.spec, config), plan.late)

    def split(self, assigned: Buckets) -> tuple[Buckets, list[BadRow]]:
        """The rows that are in time, and the others."""
        ends = ((code, self.rule.end((self.rule.table, path))) for code, path in enumerate(assigned.paths))
        over = {
            code: f"late: {assigned.paths[code]} was over at {end:%Y-%m-%d %H:%M} UTC"
            for code, end in ends
            if end is not None and end <= self.late
        }
        if not over:
            return assigned, []
        late = np.isin(assigned.codes, [*over])
        rows = [BadRow(row, None, over[int(assigned.codes[row])]) for row in np.flatnonzero(late).tolist()]
        return Buckets(assigned.paths, np.where(late, -1, assigned.codes), assigned.unfit), rows
