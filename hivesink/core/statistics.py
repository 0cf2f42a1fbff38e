"""What files hold, as figures that add up: one file's plus another's are those of both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf, log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REGISTER_BITS = 12
"""A sketch has 2^12 registers: 4 KB, and a standard error of 1.6 % (1.04 / sqrt(2^12))."""
_RANK_BITS = 64 - REGISTER_BITS

Bound = int | float | Decimal
"""A DATE is its days since 1970-01-01, a TIMESTAMP its clock's seconds since then, rounded down."""


@dataclass(frozen=True, slots=True)
class ColumnFigures:
    """Exact figures of one column, but for `distinct`.

    `low` and `high` are None if all is null, and for types without bounds in a metastore (texts, BINARY, BOOLEAN).
    `longest` and `length`, the sum, count a text's characters and a BINARY's bytes. `sketch`: a HyperLogLog's
    registers, one byte each; empty for BINARY and BOOLEAN.
    """

    nulls: int
    low: Bound | None = None
    high: Bound | None = None
    longest: int = 0
    length: int = 0
    trues: int = 0
    sketch: bytes = b""

    @property
    def distinct(self) -> int:
        """About how many distinct values; at least 1, as Hive has it for a column of nulls."""
        return max(1, round(_estimate(self.sketch))) if self.sketch else 1

    def __add__(self, other: ColumnFigures) -> ColumnFigures:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return ColumnFigures(
            nulls=self.nulls + other.nulls,
            low=min(lows, default=None),
            high=max(highs, default=None),
            longest=max(self.longest, other.longest),
            length=self.length + other.length,
            trues=self.trues + other.trues,
            sketch=bytes(map(max, self.sketch, other.sketch)) or self.sketch or other.sketch,
        )


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """Figures of one or more files; of none by default. `raw_bytes`: encoded, before compression.

    `columns` has those of the wanted columns whose figures are exact.
    """

    rows: int = 0
    raw_bytes: int = 0
    columns: Mapping[str, ColumnFigures] = field(default_factory=dict)

    def __add__(self, other: FileStatistics) -> FileStatistics:
        if not (self.rows and other.rows):
            columns = self.columns if self.rows else other.columns
        else:
            both = self.columns.keys() & other.columns.keys()
            columns = {name: self.columns[name] + other.columns[name] for name in sorted(both)}
        return FileStatistics(self.rows + other.rows, self.raw_bytes + other.raw_bytes, columns)


def _estimate(sketch: bytes) -> float:
    """Without tables or bias: Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017), 6."""
    size, counts = len(sketch), Counter(sketch)
    total = size * _tau(1 - counts[_RANK_BITS + 1] / size)
    for rank in range(_RANK_BITS, 0, -1):
        total = (total + counts[rank]) / 2
    total += size * _sigma(counts[0] / size)
    return size * size / (2 * log(2) * total)


def _sigma(x: float) -> float:
    if x == 1:
        return inf
    before, total, weight = -1.0, x, 1.0
    while total != before:
        x *= x
        before, total, weight = total, total + x * weight, 2 * weight
    return total


def _tau(x: float) -> float:
    if x in {0.0, 1.0}:
        return 0.0
    before, total, weight = -1.0, 1 - x, 1.0
    while total != before:
        x, weight = sqrt(x), weight / 2
        before, total = total, total - (1 - x) ** 2 * weight
    return total / 3
