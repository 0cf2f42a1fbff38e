"""What the decoder takes and gives back."""

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


class InvalidValue(ValueError):
    """A value that doesn't fit: why, and its path below the column. This package turns it into a `RejectedRow`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str] = []
        super().__init__(reason)

    def within(self, step: str) -> InvalidValue:
        """The same error, seen from one level further out."""
        self.path.insert(0, step)
        return self


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A record that doesn't fit: its row in the input, the column (dotted where nested; None: all of it), why.

    The reason is short and never holds the record's own text.
    """

    index: int
    field: str | None
    reason: str

    @classmethod
    def of(cls, index: int, error: InvalidValue) -> RejectedRow:
        return cls(index, ".".join(error.path) or None, error.reason)


@dataclass(frozen=True, slots=True)
class Decoded:
    """`table` holds the good rows in input order; `good` their input rows (int32), None if that is all of them.

    Every input row is in `table`, in `bad` (sorted by row), or counted in `skipped`.
    """

    table: pa.Table
    good: pa.Array | None
    bad: tuple[RejectedRow, ...]
    skipped: int
