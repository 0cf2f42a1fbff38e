"""Partition commits: when a partition's rows are all there, and what is written down about it then.

A commit says that all rows of the partition which the writer has read, up to the offsets of the commit's manifest, are
published. Rows that come later make a new revision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from itertools import product
from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo

from hivesink.core.partition import PartitionKey, parse_path
from hivesink.core.time_format import TimePattern
from hivesink.errors import OwnCodeFailed, PartitionInvalid


class PolicyKind(Enum):
    """How a partition's commit is made known, with Flink's names; `insert-event` is the metastore's listener event."""

    METASTORE = "metastore"
    SUCCESS_FILE = "success-file"
    INSERT_EVENT = "insert-event"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class CommitRule:
    """When the partitions of `table` are committed. Those of other tables (dead letters) are at each publish.

    With a `clock`, once the watermark has passed their end (Flink's trigger `partition-time`); without a clock, `delay`
    after their first row (`process-time`).
    """

    table: str
    clock: PartitionClock | None = None
    delay: timedelta = timedelta(0)

    def end(self, key: PartitionKey) -> datetime | None:
        """The event time (UTC) at which the partition is over; None if its commit doesn't wait for that."""
        return self.clock.end(key[1]) if self.clock and key[0] == self.table else None

    def is_unknown(self, key: PartitionKey) -> bool:
        """Whether nobody can say when it is over: its values are no time, and aren't null either."""
        is_own = self.clock is not None and key[0] == self.table
        return is_own and self.end(key) is None and None not in dict(parse_path(key[1])).values()

    def holds(self, key: PartitionKey) -> bool:
        """Whether its rows wait for its commit; otherwise each publish commits it."""
        return self.end(key) is not None or (key[0] == self.table and self.clock is None and bool(self.delay))

    def is_over(self, key: PartitionKey, age: timedelta, mark: Watermark) -> bool:
        """Whether it can be committed, `age` after its first row."""
        end = self.end(key)
        if end is not None:
            return mark.has_passed(end)
        return not self.is_unknown(key) and (age >= self.delay or not self.holds(key))


_T = TypeVar("_T", int, datetime)

_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)


def newest_likely(times: Iterable[_T], limit: _T) -> _T | None:
    """The newest of `times` up to `limit`, beyond which a time is taken to be wrong; if there are no others, of all."""
    return max(times, key=lambda at: (at <= limit, at), default=None)


def latest(*times: datetime | None) -> datetime | None:
    """The latest of those that are known."""
    return max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class WatermarkPolicy:
    """`delay` is how late rows may come in order; a source partition without records for `idle` holds nothing back."""

    delay: timedelta
    idle: timedelta


@dataclass(frozen=True, slots=True)
class Watermark:
    """`at` (UTC) never goes back; None: nothing is known yet.

    `newest` holds the newest event time (UTC) of each partition of the source, None where there is none. It is empty
    if the watermark is Spark's own. `quiet` says since when (UTC) partitions have had no rows; those of which the batch
    of this very epoch had some are left out.
    """

    at: datetime | None = None
    newest: Mapping[str, datetime | None] = field(default_factory=dict)
    quiet: Mapping[str, datetime] = field(default_factory=dict)
    clock: datetime | None = None
    """Where (UTC) the clock goes on in the next silence, if the newest event time isn't later: never back."""

    def saw(self, newest: Mapping[str, datetime | None], now: datetime) -> Watermark:
        """These event times have come too. A time that is later than `now` counts as `now`: that hour isn't over."""
        times = {name: latest(self.newest.get(name), time and min(time, now)) for name, time in newest.items()}
        return replace(self, newest={**self.newest, **times})

    def reached(self, silence: Mapping[str, timedelta], policy: WatermarkPolicy) -> Watermark:
        """The watermark once each partition in `newest` has had no row for so long.

        The clock waits for every `silence`, also for that of no partition.
        """
        active = [time for name, time in self.newest.items() if silence[name] < policy.idle]
        if None in active:
            return self
        times = [behind(time, policy) for time in active or self.newest.values() if time is not None]
        if active:
            return self.at_least(min(times))
        start, shortest = max(times, default=None), min(silence.values(), default=policy.idle)
        mark, clock = self.at_least(start), latest(start, self.clock)
        return mark if clock is None or shortest < policy.idle else mark.at_least(clock + (shortest - policy.idle))

    def has_passed(self, end: datetime) -> bool:
        """Whether all rows before `end` are taken to have come."""
        return self.at is not None and end <= self.at

    def at_least(self, time: datetime | None) -> Watermark:
        """At `time`, or where it is already."""
        return replace(self, at=latest(self.at, time))


def behind(newest: datetime, policy: WatermarkPolicy) -> datetime:
    """The watermark that follows from the newest event time."""
    return max(newest, _BEGINNING + policy.delay) - policy.delay


_VARIABLE = re.compile(r"\$(\w+)", re.ASCII)
_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_UNITS = {unit: timedelta(**{f"{unit}s": 1}) for unit in ("day", "hour", "minute", "second")}
_TICK = timedelta(microseconds=1)


class TimeExtractor(Protocol):
    """A custom extractor is a class with this method; it is built with the table's spec and settings."""

    def start(self, values: Mapping[str, str | None]) -> datetime | None:
        """The wall clock at which the partition begins, without a zone; None if its values hold no time.

        `values` are texts by column, as in the partition's folder but not escaped; None for null. A partition without
        a time is never committed. An error that it raises ends the query, or the command, as OwnCodeFailed.
        """


@dataclass(frozen=True, slots=True)
class FromPatterns:
    """Reads the values that bucket patterns have made, a value for each partition column that a time fills."""

    patterns: tuple[tuple[str, TimePattern], ...]

    def start(self, values: Mapping[str, str | None]) -> datetime | None:
        texts = [values.get(name) for name, _ in self.patterns]
        formats = "|".join(pattern.strftime for _, pattern in self.patterns)
        return None if None in texts else _parsed("|".join(map(str, texts)), formats)

    @property
    def problem(self) -> str | None:
        """Why no time can be read from them."""
        codes = re.findall(r"%([YmdHMS])", "".join(pattern.strftime for _, pattern in self.patterns).replace("%%", ""))
        if "Y" not in codes:
            return "its values show no year"
        return "its values show the same field twice" if len(set(codes)) < len(codes) else None

    @property
    def unit(self) -> str:
        """The finest unit that they show, which is how long a partition lasts."""
        return max((str(pattern.unit) for _, pattern in self.patterns), key=["year", "month", *_UNITS].index)


@dataclass(frozen=True, slots=True)
class FromTemplate:
    """Flink's `timestamp-pattern`, such as `$dt $hour:00:00`, read by `formatter`.

    Without a formatter: a date with or without a time, as in `2024-01-02 03:00:00`.
    """

    template: str
    formatter: TimePattern | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The partition columns that it names."""
        return tuple(name.lower() for name in _VARIABLE.findall(self.template))

    def start(self, values: Mapping[str, str | None]) -> datetime | None:
        if any(values.get(name) is None for name in self.columns):
            return None
        text = _VARIABLE.sub(lambda match: str(values[match[1].lower()]), self.template)
        formats = (self.formatter.strftime,) if self.formatter else _FORMATS
        return next((parsed for form in formats if (parsed := _parsed(text, form)) is not None), None)

    def reads(self, samples: Sequence[str]) -> bool:
        """Whether it makes a time of any values of the columns among `samples`."""
        columns = dict.fromkeys(self.columns)
        every = product(samples, repeat=len(columns))
        return any(self.start(dict(zip(columns, values, strict=True))) is not None for values in every)


@dataclass(frozen=True, slots=True)
class PartitionClock:
    """When partitions are over. `lasts` is a length of the wall clock in `zone`, or a unit such as `month`."""

    extractor: TimeExtractor
    lasts: timedelta | str
    zone: ZoneInfo
    _ends: dict[str, datetime | None] = field(default_factory=dict, compare=False, repr=False)

    def end(self, partition: str) -> datetime | None:
        """The instant (UTC) from which no clock in the zone shows a time in `partition`; None if it has no time."""
        # The driver asks for all open partitions, several times at each epoch; reading a time takes 10 µs.
        if partition not in self._ends:
            start = start_of(partition, self.extractor)
            try:
                self._ends[partition] = None if start is None else self._instant(after(start, self.lasts))
            except (OverflowError, ValueError):
                self._ends[partition] = None
        return self._ends[partition]

    def _instant(self, wall: datetime) -> datetime:
        """The instant from which no clock in the zone shows a time before `wall` any more.

        If the last moment before it comes twice, since clocks are set back, the second moment counts (PEP 495's fold).
        """
        first, second = ((wall - _TICK).replace(tzinfo=self.zone, fold=fold).utcoffset() for fold in (0, 1))
        comes_twice = first is not None and second is not None and first > second
        return wall.replace(tzinfo=self.zone, fold=int(comes_twice)).astimezone(timezone.utc)


def start_of(partition: str, extractor: TimeExtractor) -> datetime | None:
    """What `extractor` reads from the partition's values; None if they hold no time.

    Raises OwnCodeFailed for a user's own extractor that fails; by a ValueError it says that a value is no time.
    """
    try:
        return extractor.start(dict(parse_path(partition)))
    except (PartitionInvalid, OverflowError, ValueError):
        return None
    except OwnCodeFailed as error:
        if isinstance(error.__cause__, ValueError):
            return None
        raise


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007  a wall clock
    except ValueError:
        return None


def after(start: datetime, lasts: timedelta | str) -> datetime:
    """The wall clock that long after `start`. Raises OverflowError or ValueError beyond the year 9999."""
    if isinstance(lasts, timedelta):
        return start + lasts
    if lasts in _UNITS:
        return start + _UNITS[lasts]
    months = 12 if lasts == "year" else 1
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1)
