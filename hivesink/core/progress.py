"""How far a running query is: what it has committed, what waits, and how far it is behind its source."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Behind:
    """What a source has beyond a batch: records, the time of their oldest (Unix, seconds), files. None: unknown."""

    records: int | None = None
    oldest: float | None = None
    files: int | None = None


UNKNOWN = Behind()


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts since the query began; None is what nobody knows.

    `rows` are those read, rejected ones too, and `epochs` the batches and rolls that committed them. `partitions` are
    the ones that got files. `rows_per_second` is that of the last minute. Readers see `waiting_rows` within
    `readable_in`; None where their partitions must be over first. The source has `behind_records` or `behind_files`
    more; the oldest of those records is `behind_seconds` old.
    """

    rows: int = 0
    rows_per_second: float | None = None
    epochs: int = 0
    partitions: int = 0
    rejected: int = 0
    waiting_rows: int = 0
    readable_in: timedelta | None = None
    behind_records: int | None = None
    behind_seconds: float | None = None
    behind_files: int | None = None

    @property
    def behind(self) -> str:
        """How far behind the source, such as `1,200 records, 35 s`; empty where nothing is known."""
        counts = ((self.behind_records, "records"), (self.behind_files, "files"))
        known = [f"{count:,.0f} {unit}" for count, unit in counts if count is not None]
        return ", ".join(known if self.behind_seconds is None else [*known, _age(self.behind_seconds)])

    def __str__(self) -> str:
        """One line."""
        rate = "" if self.rows_per_second is None else f" ({self.rows_per_second:,.0f}/s)"
        parts = [f"{self.rows:,} rows{rate}", count(self.epochs, "epoch"), count(self.partitions, "partition")]
        parts.append(f"{self.rejected:,} rejected")
        if self.waiting_rows:
            when = "" if self.readable_in is None else f", readable within {self.readable_in.total_seconds():.0f} s"
            parts.append(f"{self.waiting_rows:,} waiting{when}")
        if self.behind_records or self.behind_files:
            parts.append(f"behind {self.behind}")
        return " · ".join(parts)

    def _repr_html_(self) -> str:
        """A table for notebooks, without what isn't known."""
        cells = ((one.name.replace("_", " "), getattr(self, one.name)) for one in fields(self))
        known = (f"<tr><th>{name}</th><td>{_cell(value)}</td></tr>" for name, value in cells if value is not None)
        return f"<table>{''.join(known)}</table>"


def _age(seconds: float) -> str:
    """In the largest unit of which it has two or more."""
    for unit, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"


def count(number: int, noun: str) -> str:
    """`1 gap`, `2,000 gaps`: any noun that a message counts, with an s for the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cell(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.0f} s"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
