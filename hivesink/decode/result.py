"""What the decoder takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hivesink.config.options import OnTombstone, OnUnknownField
from hivesink.ports import BadRow

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        return self.timestamp_format.get(column, self.timestamp_format.get("", "text")) == "epoch-millis"


class InvalidValue(ValueError):
    """A value that doesn't fit: why, and its path below the column. This package turns it into a `BadRow`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str] = []
        super().__init__(reason)

    def within(self, step: str) -> InvalidValue:
        """The same error, seen from one level further out."""
        self.path.insert(0, step)
        return self

    def bad_row(self, index: int) -> BadRow:
        return BadRow(index, ".".join(self.path) or None, self.reason)
