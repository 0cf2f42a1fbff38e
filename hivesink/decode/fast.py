"""The fast decoder: a chunk of records at once, and for each record the certainty that it was read right.

It is one-sided: a record that it has no doubt about has the values that the exact decoder gives it, and every
other one is left to that. Two things have to be proved, since msgspec tells neither.

*Each record is one value.* The records are joined by line feeds and decoded as one text. Each begins with `{` and ends
with `}`. No string goes over a line feed, so at a boundary a closing brace is followed by an opening one, which JSON
allows between values only: each record is one or more whole values. There were as many values as records.

*No field occurs twice.* msgspec keeps the last one in silence. Quotes are counted: two for each field that was
found, two for each string, and those within strings and ignored values. A field that was overwritten left two more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from hivesink.decode.columns import ColumnReader, Converted, quotes_in
from hivesink.decode.layout import Slot, Spellings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.decode.clocks import Mask
    from hivesink.decode.exact import ExactDecoder

_REFUSED = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
_PATH = re.compile(r"`\$\.(.+?)`$")
_SAMPLE = 16  # records to learn from, of those that were refused
_OFTEN = 64  # a column is loosened where more than one record in so many is refused


class FastDecoder:
    """Learns a stream's field names and habits; what it has learnt changes its speed only, never its results."""

    def __init__(self, exact: ExactDecoder) -> None:
        self._readers = [
            ColumnReader(column, values) for column, values in zip(exact.columns, exact.values, strict=True)
        ]
        self._spellings = Spellings(self._readers, ignore_unknown=exact.ignore_unknown)
        self._primed = False

    def decode(self, records: pa.StringArray) -> tuple[list[pa.Array], Mask]:
        """Columns of `records`, which may hold any bytes but no nulls, and the records in doubt."""
        trimmed, doubt = _whole(records)
        escapes = hidden = False
        if doubt.any():
            trimmed = pc.if_else(pa.array(doubt), "{}", trimmed)
        text = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(trimmed)], pa.int32()), trimmed), "\n")
        joined = text[0].as_buffer()
        octets = np.frombuffer(joined, np.uint8)
        if (octets == ord("\\")).any():
            escapes = True
            unseen = pc.match_substring(trimmed, "\\u0022").to_numpy(zero_copy_only=False)
            hidden = bool(unseen.any())
            doubt |= unseen
        rows, refused = self._rows(joined, trimmed)
        columns, missing = self._columns(rows, escapes=escapes)
        for column in columns:
            doubt |= column.doubt
        quotes = sum(column.quotes for column in columns) - 2 * missing
        quotes += 2 * len(rows) * len(self._spellings.layout.slots) + self._ignored(rows)
        if refused is not None:
            doubt |= refused
        if hidden or refused is not None or quotes != np.count_nonzero(octets == ord('"')):
            doubt |= self._miscounted(rows, trimmed)
        return [column.array for column in columns], doubt

    def _rows(self, joined: pa.Buffer, records: pa.StringArray) -> tuple[list[Any], Mask | None]:
        """A Struct for each record, and which were refused; None: the chunk was decoded in one go."""
        if not self._primed:
            self._primed = True
            self._spellings.learn(_bytes(records.slice(0, _SAMPLE)))
        while True:
            try:
                rows = self._spellings.layout.decoder.decode_lines(joined)
            except _REFUSED:
                rows = []
            if len(rows) == len(records):
                return rows, None
            each, refused, paths = self._one_by_one(records)
            if not self._adapt(records, refused, paths):
                return each, refused

    def _one_by_one(self, records: pa.StringArray) -> tuple[list[Any], Mask, list[str]]:
        layout = self._spellings.layout
        decode, blank = layout.decoder.decode, layout.record()
        refused = np.zeros(len(records), dtype=np.bool_)
        rows: list[Any] = []
        paths: list[str] = []
        for place, record in enumerate(_bytes(records)):
            try:
                rows.append(decode(record))
            except _REFUSED as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                rows.append(blank)
                refused[place] = True
                found = _PATH.search(str(error)) if isinstance(error, msgspec.ValidationError) else None
                paths += [found[1]] if found else []
        return rows, refused, paths

    def _adapt(self, records: pa.StringArray, refused: Mask, paths: list[str]) -> bool:
        """Learn from what was refused, if it may have been refused for want of knowledge; whether that helped."""
        sample = np.flatnonzero(refused)[:_SAMPLE]
        if self._spellings.learn(_bytes(records.take(pa.array(sample)))):
            return True
        columns = {self._spellings.column(name) for name in paths} - {None}
        often = {
            column
            for column in columns
            if sum(self._spellings.column(name) == column for name in paths) * _OFTEN > len(records)
        }
        return self._spellings.loosen({column for column in often if column is not None})

    def _columns(self, rows: list[Any], *, escapes: bool) -> tuple[list[Converted], int]:
        """Every column, and how many of the fields that have a slot were missing in the records."""
        spelled: dict[int, list[Slot]] = {}
        missing = 0
        for slot in self._spellings.layout.slots:
            if slot.column is not None:
                spelled.setdefault(slot.column, []).append(slot)
        columns = []
        for place, reader in enumerate(self._readers):
            slots = spelled.get(place, [])
            values, twice = _merged(slots, rows)
            found = reader.convert(values, loose=place in self._spellings.loose, escapes=escapes)
            if twice is not None:
                found.doubt |= twice
            # Of a column's other spellings all but one are missing, or the record is in doubt.
            missing += found.absent + len(rows) * (len(slots) - 1)
            columns.append(found)
        return columns, missing

    def _ignored(self, rows: list[Any]) -> int:
        """The quotes in ignored fields, less two for each one that is missing."""
        quotes = 0
        for slot in self._spellings.layout.slots:
            if slot.column is None:
                values = [value for value in map(slot.get, rows) if value is not UNSET]
                quotes += b"".join(values).count(b'"') - 2 * (len(rows) - len(values))
        return quotes

    def _miscounted(self, rows: list[Any], records: pa.StringArray) -> Mask:
        """The records whose quotes aren't those of what was found in them."""
        getters = [slot.get for slot in self._spellings.layout.slots]
        counted = pc.count_substring(records, '"').to_numpy(zero_copy_only=False)
        expected = np.zeros(len(rows), dtype=np.int64)
        for place, row in enumerate(rows):
            found = [value for value in (get(row) for get in getters) if value is not UNSET]
            expected[place] = 2 * len(found) + sum(map(quotes_in, found))
        return np.asarray(counted != expected, dtype=np.bool_)


def _merged(slots: Sequence[Slot], rows: list[Any]) -> tuple[list[Any], Mask | None]:
    """A column's values from all of its spellings, and the records that have more than one of them."""
    if len(slots) == 1:
        return list(map(slots[0].get, rows)), None
    twice = np.zeros(len(rows), dtype=np.bool_)
    values: list[Any] = [UNSET] * len(rows)
    for slot in slots:
        for place, value in enumerate(map(slot.get, rows)):
            if value is not UNSET:
                twice[place] |= values[place] is not UNSET
                values[place] = value
    return values, twice


def _whole(records: pa.StringArray) -> tuple[pa.StringArray, Mask]:
    """The records without white space around them, and those that aren't UTF-8 from one brace to another."""
    doubt = np.zeros(len(records), dtype=np.bool_)
    try:
        records.validate(full=True)
    except pa.ArrowInvalid:
        for place, record in enumerate(_bytes(records)):
            try:
                record.decode()
            except UnicodeDecodeError:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                doubt[place] = True
        records = pc.if_else(pa.array(doubt), "{}", records)
    if not (braced := _braced(records)).all():
        records = pc.utf8_trim(records, characters=" \t\r\n")
        braced = _braced(records)
    return records, doubt | ~braced


def _braced(records: pa.StringArray) -> Mask:
    """Which records begin with an opening brace and end with a closing one."""
    buffers = records.buffers()
    if buffers[2] is None or buffers[2].size == 0:
        return np.zeros(len(records), dtype=np.bool_)
    edges = np.frombuffer(buffers[1], np.int32)[records.offset : records.offset + len(records) + 1]
    octets = np.frombuffer(buffers[2], np.uint8)
    begins, ends = edges[:-1], edges[1:]
    # An empty record looks at a neighbour's bytes, and is told apart by its length.
    first = octets[np.minimum(begins, len(octets) - 1)] == ord("{")
    last = octets[np.maximum(ends - 1, 0)] == ord("}")
    return np.asarray(first & last & (ends > begins), dtype=np.bool_)


def _bytes(records: pa.StringArray) -> list[bytes]:
    return [bytes(record) for record in records.view(pa.binary()).to_pylist()]
