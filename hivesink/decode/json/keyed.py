"""Records of any shape, a chunk at once: msgspec finds the values of each record's fields.

A record without doubt has the values that the exact decoder gives it; a record in doubt goes to the exact decoder.
Two things need proof, since msgspec reports neither.

*Each record is one value.* The records are joined by line feeds and decoded as one text. Each begins with `{` and ends
with `}`. No string spans a line feed, so at each boundary an opening brace follows a closing one, which JSON allows
only between values: each record is one or more whole values. As there are as many values as records, each is one.

*No field is lost.* msgspec silently keeps the last of two fields of one name, and passes over those that its Struct
lacks. So quotes are counted: two for each field, and those within values. A lost field leaves more in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.decode.clocks import Mask, not_utf8
from hivesink.decode.json.scan import NotJson, document, members, unquote
from hivesink.decode.json.spans import REFUSED, Spans
from hivesink.decode.json.text import QUOTE, SPACE, Text, counts, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hivesink.decode.json.columns import JsonColumns

_SLICE = 500
"""Records whose values fit into a core's cache."""
_SAMPLE = 16
"""Records to learn from."""
_EXTRA_NAMES = 100
"""Beyond this a stream's field names are data rather than a schema, and its records go to the exact decoder."""
_ABSENT = b"null "
"""In place of a field that a record lacks. No value ends with a space."""


@dataclass(slots=True)
class _Fields:
    """The fields of records, a column for each name: where their values are in a text, and which records have them."""

    text: Text
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, parts: list[bytes], records: int, names: int) -> _Fields:
        """From the values of all records, row by row, with zeros between them."""
        text, begins, ends = Text.joined(parts, records * names)
        absent = text.octets[ends - 1] == SPACE
        shape = records, names
        return cls(text, begins.reshape(shape), (ends - absent).reshape(shape), ~absent.reshape(shape))

    def lost(self, records: pa.StringArray) -> Mask | bool:
        """Which of `records` have more quotes than their fields."""
        quotes = self.text.octets == QUOTE
        given = np.frombuffer(joined(records, ""), np.uint8) == QUOTE
        if np.count_nonzero(quotes) + 2 * np.count_nonzero(self.present) == np.count_nonzero(given):
            return False
        offsets = np.append(self.begins[:, 0], self.text.length) if self.begins.size else None
        within = 0 if offsets is None else counts(np.flatnonzero(quotes), offsets)
        each = pc.count_substring(records, '"').to_numpy(zero_copy_only=False)
        lost: Mask = each != within + 2 * self.present.sum(axis=1)
        return lost

    def values(self, places: list[int]) -> tuple[Spans, Mask | bool]:
        """The values of the columns at `places`, which are one field, and the records that have it more than once."""
        if len(places) == 1:
            return Spans.of(self.text, self.begins[:, places[0]], self.ends[:, places[0]]), False
        last = np.array(places)[np.argmax(self.present[:, places], axis=1)]
        each = np.arange(len(last))
        twice: Mask = self.present[:, places].sum(axis=1) > 1
        return Spans.of(self.text, self.begins[each, last], self.ends[each, last]), twice


class KeyedDecoder:
    """Learns the names of a stream's fields. That changes its speed, never its results."""

    def __init__(self, columns: JsonColumns) -> None:
        self._columns = columns
        self._names: list[str] = []
        self._decoder = self._built()

    def decode(self, records: pa.StringArray) -> tuple[pa.RecordBatch, Mask]:
        """The columns of `records`, which may hold any bytes but no nulls, and the records in doubt."""
        records, doubt = _whole(records)
        if doubt.any():
            records = pc.if_else(pa.array(doubt), "{}", records)
        while True:
            fields, wrong = self._fields(records)
            wrong |= fields.lost(records)
            if not (wrong.any() and self._learn(records.take(pa.array(np.flatnonzero(wrong)[:_SAMPLE])))):
                break
        spelled: dict[str, list[int]] = {}
        for place, name in enumerate(self._names):
            spelled.setdefault(name.lower(), []).append(place)
        values: dict[str, Spans] = {}
        for name in spelled.keys() & self._columns.readers.keys():
            values[name], twice = fields.values(spelled[name])
            wrong |= twice
        batch, unfit = self._columns.read(values, len(records))
        return batch, doubt | wrong | unfit

    def _fields(self, records: pa.StringArray) -> tuple[_Fields, Mask]:
        """The fields of each record, and the records that msgspec refuses."""
        refused = np.zeros(len(records), dtype=np.bool_)
        parts: list[bytes] = []
        for at in range(0, len(records), _SLICE):
            part = records.slice(at, _SLICE)
            try:
                rows = self._decoder.decode_lines(joined(part, "\n"))
            except REFUSED:
                rows = []
            if len(rows) != len(part):
                rows, refused[at : at + _SLICE] = self._one_by_one(part)
            parts.append(b"\0".join(chain.from_iterable(map(msgspec.structs.astuple, rows))))
        return _Fields.of(parts, len(records), len(self._names)), refused

    def _one_by_one(self, records: pa.StringArray) -> tuple[list[Any], Mask]:
        refused = np.zeros(len(records), dtype=np.bool_)
        blank = self._decoder.decode(b"{}")
        rows: list[Any] = []
        for index, record in enumerate(records.view(pa.binary()).to_pylist()):
            try:
                rows.append(self._decoder.decode(record))
            except REFUSED:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                rows.append(blank)
                refused[index] = True
        return rows, refused

    def _learn(self, records: pa.StringArray) -> bool:
        """Add the names of the fields of `records`; return whether any is new."""
        before = len(self._names)
        for record in records.to_pylist():
            for name in _names(record):
                column = name.lower() in self._columns.readers
                room = len(self._names) < len(self._columns.readers) + _EXTRA_NAMES
                # A Struct's names are UTF-8 without quotes and backslashes.
                plain = name.isprintable() and not {*'"\\'} & {*name}
                if name not in self._names and room and plain and (column or self._columns.ignore_unknown):
                    self._names.append(name)
        if len(self._names) == before:
            return False
        self._decoder = self._built()
        return True

    def _built(self) -> msgspec.json.Decoder[Any]:
        names = {f"f{place}": name for place, name in enumerate(self._names)}
        fields = [(field, msgspec.Raw, _ABSENT) for field in names]
        return msgspec.json.Decoder(msgspec.defstruct("Record", fields, rename=names, gc=False))


def _names(record: str) -> list[str]:
    try:
        raw = document(record)
    except NotJson:
        return []
    return [unquote(quoted) for quoted, _ in members(raw)] if raw[0] == "{" else []


def _whole(records: pa.StringArray) -> tuple[pa.StringArray, Mask]:
    """The records without surrounding white space, and which aren't UTF-8 between two braces."""
    doubt = not_utf8(records)
    if doubt.any():
        records = pc.if_else(pa.array(doubt), "{}", records)
    if not (braced := _braced(records)).all():
        records = pc.utf8_trim(records, characters=" \t\r\n")
        braced = _braced(records)
    return records, doubt | ~braced


def _braced(records: pa.StringArray) -> Mask:
    both = pc.and_(pc.starts_with(records, "{"), pc.ends_with(records, "}"))
    return np.asarray(both.to_numpy(zero_copy_only=False), dtype=np.bool_)
