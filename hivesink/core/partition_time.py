"""The time that a partition stands for: its start, read from its values, and the instant at which it is over.

Names as in Flink's "Partition Time Extractor". Unlike Flink, lengths are of the wall clock: a day has 23 to 25 hours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import TYPE_CHECKING, Protocol

from hivesink.core.partition import parse_path
from hivesink.errors import OwnCodeFailed, PartitionInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from zoneinfo import ZoneInfo

    from hivesink.core.time_format import TimePattern

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

    def is_unreadable(self, partition: str) -> bool:
        """Whether it has no end though all its values are there."""
        return self.end(partition) is None and None not in dict(parse_path(partition)).values()


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
