"""The field names in a stream's records, learnt from the records, as a msgspec Struct with exactly these fields.

The Struct matches names exactly and refuses all others, so each spelling that occurs gets its own field: a column
may have several, an ignored field has one too, and nothing passes unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hivesink.decode.scan import NotJson, document, members, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hivesink.decode.columns import ColumnReader

# Beyond this a stream's field names are data rather than a schema, and its records go to the exact decoder.
EXTRA_NAMES = 100


@dataclass(frozen=True, slots=True)
class Slot:
    """One Struct field, and the index of its column; None for an ignored field."""

    name: str
    column: int | None
    get: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """The decoder for a record, and the fields of what it returns."""

    record: type[msgspec.Struct]
    decoder: msgspec.json.Decoder[Any]
    slots: tuple[Slot, ...]


class FieldNames:
    """The field names seen so far, and the columns read as raw JSON text as their type was wrong too often."""

    def __init__(self, readers: Sequence[ColumnReader], *, ignore_unknown: bool) -> None:
        self._readers = readers
        self._columns = {reader.column.name.lower(): index for index, reader in enumerate(readers)}
        self._ignore_unknown = ignore_unknown
        self._seen: dict[str, int | None] = {}
        self.raw = {index for index, reader in enumerate(readers) if reader.type is None}
        self.layout = self._build()

    def learn(self, records: Iterable[bytes]) -> bool:
        """Add the field names of `records`; return whether any is new."""
        before = len(self._seen)
        for record in records:
            for name in _names(record):
                self._add(name)
        if len(self._seen) == before:
            return False
        self.layout = self._build()
        return True

    def read_raw(self, columns: set[int]) -> bool:
        """Keep the JSON text of `columns` from now on; return whether that changes anything."""
        if columns <= self.raw:
            return False
        self.raw |= columns
        self.layout = self._build()
        return True

    def column(self, name: str) -> int | None:
        return self._seen.get(name)

    def _add(self, name: str) -> None:
        column = self._columns.get(name.lower())
        full = len(self._seen) >= len(self._columns) + EXTRA_NAMES
        if name in self._seen or full or not (self._ignore_unknown or column is not None):
            return
        # The proof against duplicate fields counts quotes, and a Struct's names are UTF-8.
        if '"' not in name and name.isprintable():
            self._seen[name] = column

    def _build(self) -> Layout:
        slots = tuple(
            Slot(name, column, attrgetter(f"f{index}")) for index, (name, column) in enumerate(self._seen.items())
        )
        record = msgspec.defstruct(
            "Record",
            [(f"f{index}", self._type(slot.column), UNSET) for index, slot in enumerate(slots)],
            rename={f"f{index}": slot.name for index, slot in enumerate(slots)},
            forbid_unknown_fields=True,
            gc=False,
        )
        return Layout(record, msgspec.json.Decoder(record), slots)

    def _type(self, column: int | None) -> Any:
        if column is None or column in self.raw:
            return Raw | UnsetType
        return self._readers[column].type | None | UnsetType  # type: ignore[operator]


def _names(record: bytes) -> list[str]:
    try:
        raw = document(record.decode())
    except (UnicodeDecodeError, NotJson):
        return []
    return [unquote(quoted) for quoted, _ in members(raw)] if raw[0] == "{" else []
