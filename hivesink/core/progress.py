"""How far a running query is: what it has committed, what waits, and how far it is behind its source."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts since the query began; None is what nobody knows.

    `rows` are those read, rejected ones too, and `epochs` the batches and rolls that committed them. `partitions` are
    the ones that got files. `rows_per_second` is that of the last minute. Readers see `waiting_rows` within
    `readable_in`; None where their partitions must be over first. Kafka has `behind_records` more.
    """

    rows: int = 0
    rows_per_second: float | None = None
    epochs: int = 0
    partitions: int = 0
    rejected: int = 0
    waiting_rows: int = 0
    readable_in: timedelta | None = None
    behind_records: int | None = None

    def __str__(self) -> str:
        rate = "" if self.rows_per_second is None else f" ({self.rows_per_second:,.0f}/s)"
        parts = [f"{self.rows:,} rows{rate}", count(self.epochs, "epoch"), count(self.partitions, "partition")]
        parts.append(f"{self.rejected:,} rejected")
        if self.waiting_rows:
            when = "" if self.readable_in is None else f", readable within {self.readable_in.total_seconds():.0f} s"
            parts.append(f"{self.waiting_rows:,} waiting{when}")
        if self.behind_records:
            parts.append(f"behind {self.behind_records:,} records")
        return " · ".join(parts)

    def _repr_html_(self) -> str:
        """A table for notebooks, without what isn't known."""
        cells = ((figure.name.replace("_", " "), getattr(self, figure.name)) for figure in fields(self))
        known = (f"<tr><th>{name}</th><td>{_cell(value)}</td></tr>" for name, value in cells if value is not None)
        return f"<table>{''.join(known)}</table>"


def count(number: int, noun: str) -> str:
    """`1 gap`, `2,000 gaps`: any noun that a message counts, with an s for the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cell(value: object) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.0f} s"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
