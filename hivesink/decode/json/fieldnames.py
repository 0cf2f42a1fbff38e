"""The names of fields that a stream has had so far, and the msgspec Struct of them.

The Struct has exactly these fields. It matches names exactly and refuses all others, so each spelling that occurs gets
its own field: a column may have several, an ignored field has one too, and nothing passes unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hivesink.decode.json.scan import NotJson, document, members, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hivesink.decode.json.columns import ColumnReader, PathsReader

# Beyond this a stream's field names are data rather than a schema, and its records go to the exact decoder.
EXTRA_NAMES = 100


@dataclass(frozen=True, slots=True)
class Slot:
    """One Struct field, and the index of its reader; None for an ignored field."""

    name: str
    reader: int | None
    get: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """The decoder for a record, and the fields of what it returns."""

    record: type[msgspec.Struct]
    decoder: msgspec.json.Decoder[Any]
    slots: tuple[Slot, ...]


class FieldNames:
    """The field names seen so far, and the readers that get raw JSON text as their type was wrong too often."""

    def __init__(self, readers: Sequence[ColumnReader | PathsReader], *, ignore_unknown: bool) -> None:
        self._readers = readers
        self._known = {reader.name: index for index, reader in enumerate(readers)}
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

    def read_raw(self, readers: set[int]) -> bool:
        """Keep the JSON text for `readers` from now on; return whether that changes anything."""
        if readers <= self.raw:
            return False
        self.raw |= readers
        self.layout = self._build()
        return True

    def reader(self, name: str) -> int | None:
        return self._seen.get(name)

    def _add(self, name: str) -> None:
        reader = self._known.get(name.lower())
        full = len(self._seen) >= len(self._known) + EXTRA_NAMES
        if name in self._seen or full or not (self._ignore_unknown or reader is not None):
            return
        # The proof against duplicate fields counts quotes, and a Struct's names are UTF-8 without backslashes.
        if '"' not in name and "\\" not in name and name.isprintable():
            self._seen[name] = reader

    def _build(self) -> Layout:
        slots = tuple(
            Slot(name, reader, attrgetter(f"f{index}")) for index, (name, reader) in enumerate(self._seen.items())
        )
        record = msgspec.defstruct(
            "Record",
            [(f"f{index}", self._type(slot.reader), UNSET) for index, slot in enumerate(slots)],
            rename={f"f{index}": slot.name for index, slot in enumerate(slots)},
            forbid_unknown_fields=True,
            gc=False,
        )
        return Layout(record, msgspec.json.Decoder(record), slots)

    def _type(self, reader: int | None) -> Any:
        if reader is None or reader in self.raw:
            return Raw | UnsetType
        return self._readers[reader].type | None | UnsetType  # type: ignore[operator]


def _names(record: bytes) -> list[str]:
    try:
        raw = document(record.decode())
    except (UnicodeDecodeError, NotJson):
        return []
    return [unquote(quoted) for quoted, _ in members(raw)] if raw[0] == "{" else []
