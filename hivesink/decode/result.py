"""What decoding is told, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hivesink.config.values import OnTombstone, OnUnknownField

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

EPOCH_MILLIS = "epoch-millis"


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """The table's settings for its decoder.

    `timestamp_format` maps a lower-case column name, or `""` for all columns, to `text` or `epoch-millis`:
    whether numbers are accepted for its TIMESTAMPs and DATEs.
    """

    timestamp_zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    timestamp_format: Mapping[str, str] = field(default_factory=dict)
    tombstone: OnTombstone = OnTombstone.SKIP
    unknown_field: OnUnknownField = OnUnknownField.IGNORE

    def is_epoch(self, column: str) -> bool:
        return self.timestamp_format.get(column, self.timestamp_format.get("", "text")) == EPOCH_MILLIS


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that doesn't fit: its row in the input, the column (dotted where nested; None: all of it), why.

    The reason is short and never holds the record's own text.
    """

    index: int
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """`table` holds the good rows in input order; `good` their input rows (int32), None if that is all of them.

    Every input row is in `table`, in `bad` (sorted by row), or counted in `skipped`.
    """

    table: pa.Table
    good: pa.Array | None
    bad: tuple[BadRecord, ...]
    skipped: int
