"""The fast decoder: a chunk of records at once, and which of them may be wrong.

A record without doubt has the values that the exact decoder gives it; a record in doubt goes to the exact decoder.
Two things need proof, since msgspec reports neither.

*Each record is one value.* The records are joined by line feeds and decoded as one text. Each begins with `{` and ends
with `}`. No string spans a line feed, so at each boundary an opening brace follows a closing one, which JSON allows
only between values: each record is one or more whole values. As there are as many values as records, each is one.

*No field occurs twice.* msgspec silently keeps the last one. So quotes are counted: two for each field,
two for each string, and those within strings and ignored values. An overwritten field leaves two more.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from hivesink.decode.clocks import Mask, not_utf8
from hivesink.decode.json.columns import ColumnReader, Converted, PathsReader, quotes_in
from hivesink.decode.json.fieldnames import FieldNames, Slot
from hivesink.decode.json.spans import REFUSED, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.decode.json.exact import Branch, ExactDecoder

_PATH = re.compile(r"`\$\.(.+?)`$")
_SAMPLE = 16  # refused records to learn from
_OFTEN = 64  # a column is read raw where more than one record in so many is refused


class FastDecoder:
    """Learns a stream's field names and habits; what it learns changes its speed, never its results."""

    def __init__(self, exact: ExactDecoder) -> None:
        self.readers = [_reader(str(name), branch, exact) for name, branch in exact.read.below.items()]
        self._names = FieldNames(self.readers, ignore_unknown=exact.ignore_unknown)
        self._primed = False

    def decode(self, records: pa.StringArray) -> tuple[list[pa.Array], Mask]:
        """Columns of `records`, which may hold any bytes but no nulls, and the records in doubt."""
        trimmed, doubt = _whole(records)
        escapes = hidden = False
        if doubt.any():
            trimmed = pc.if_else(pa.array(doubt), "{}", trimmed)
        text = joined(trimmed, "\n")
        octets = np.frombuffer(text, np.uint8)
        if (octets == ord("\\")).any():
            escapes = True
            unseen = pc.match_substring(trimmed, "\\u0022").to_numpy(zero_copy_only=False)
            hidden = bool(unseen.any())
            doubt |= unseen
        rows, refused = self._rows(text, trimmed)
        columns, missing = self._columns(rows, escapes=escapes)
        for column in columns:
            doubt |= column.doubt
        both = zip(self.readers, columns, strict=True)
        arrays = {
            index: own for reader, column in both for index, own in zip(reader.indexes, column.arrays, strict=True)
        }
        quotes = sum(column.quotes for column in columns) - 2 * missing
        quotes += 2 * len(rows) * len(self._names.layout.slots) + self._ignored(rows)
        if refused is not None:
            doubt |= refused
        if hidden or refused is not None or quotes != np.count_nonzero(octets == ord('"')):
            doubt |= self._miscounted(rows, trimmed)
        return [arrays[index] for index in range(len(arrays))], doubt

    def _rows(self, text: pa.Buffer, records: pa.StringArray) -> tuple[list[Any], Mask | None]:
        """A Struct for each record, and which were refused; None: the chunk was decoded in one go."""
        if not self._primed:
            self._primed = True
            self._names.learn(_bytes(records.slice(0, _SAMPLE)))
        while True:
            try:
                rows = self._names.layout.decoder.decode_lines(text)
            except REFUSED:
                rows = []
            if len(rows) == len(records):
                return rows, None
            each, refused, paths = self._one_by_one(records)
            if not self._adapt(records, refused, paths):
                return each, refused

    def _one_by_one(self, records: pa.StringArray) -> tuple[list[Any], Mask, list[str]]:
        layout = self._names.layout
        decode, blank = layout.decoder.decode, layout.record()
        refused = np.zeros(len(records), dtype=np.bool_)
        rows: list[Any] = []
        paths: list[str] = []
        for index, record in enumerate(_bytes(records)):
            try:
                rows.append(decode(record))
            except REFUSED as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                rows.append(blank)
                refused[index] = True
                match = _PATH.search(str(error)) if isinstance(error, msgspec.ValidationError) else None
                paths += [match[1]] if match else []
        return rows, refused, paths

    def _adapt(self, records: pa.StringArray, refused: Mask, paths: list[str]) -> bool:
        """Learn from the refused records; return whether that changes how they are decoded."""
        sample = np.flatnonzero(refused)[:_SAMPLE]
        if self._names.learn(_bytes(records.take(pa.array(sample)))):
            return True
        counts = Counter(self._names.reader(name) for name in paths)
        return self._names.read_raw(
            {reader for reader, count in counts.items() if reader is not None and count * _OFTEN > len(records)}
        )

    def _columns(self, rows: list[Any], *, escapes: bool) -> tuple[list[Converted], int]:
        """What each reader makes, and how many fields with a slot are missing from the records."""
        spelled: dict[int, list[Slot]] = {}
        missing = 0
        for slot in self._names.layout.slots:
            if slot.reader is not None:
                spelled.setdefault(slot.reader, []).append(slot)
        columns = []
        for index, reader in enumerate(self.readers):
            slots = spelled.get(index, [])
            values, twice = _merged(slots, rows)
            converted = reader.convert(values, raw=index in self._names.raw, escapes=escapes)
            if twice is not None:
                converted.doubt |= twice
            # All but one of a column's spellings are missing, or the record is in doubt.
            missing += converted.absent + len(rows) * (len(slots) - 1)
            columns.append(converted)
        return columns, missing

    def _ignored(self, rows: list[Any]) -> int:
        """The quotes in ignored fields, less two for each missing one."""
        quotes = 0
        for slot in self._names.layout.slots:
            if slot.reader is None:
                values = [value for value in map(slot.get, rows) if value is not UNSET]
                quotes += b"".join(values).count(b'"') - 2 * (len(rows) - len(values))
        return quotes

    def _miscounted(self, rows: list[Any], records: pa.StringArray) -> Mask:
        """The records whose quotes don't match the fields decoded from them."""
        getters = [slot.get for slot in self._names.layout.slots]
        counted = pc.count_substring(records, '"').to_numpy(zero_copy_only=False)
        expected = np.zeros(len(rows), dtype=np.int64)
        for index, row in enumerate(rows):
            values = [value for value in (get(row) for get in getters) if value is not UNSET]
            expected[index] = 2 * len(values) + sum(map(quotes_in, values))
        return np.asarray(counted != expected, dtype=np.bool_)


def _reader(name: str, branch: Branch, exact: ExactDecoder) -> ColumnReader | PathsReader:
    if branch.below or len(branch.columns) > 1:
        return PathsReader(name, branch, exact.columns, exact.parsers)
    (index,) = branch.columns
    return ColumnReader(name, index, exact.columns[index], exact.parsers[index])


def _merged(slots: Sequence[Slot], rows: list[Any]) -> tuple[list[Any], Mask | None]:
    """A column's values from all its spellings, and the records that have more than one."""
    if len(slots) == 1:
        return list(map(slots[0].get, rows)), None
    twice = np.zeros(len(rows), dtype=np.bool_)
    values: list[Any] = [UNSET] * len(rows)
    for slot in slots:
        for index, value in enumerate(map(slot.get, rows)):
            if value is not UNSET:
                twice[index] |= values[index] is not UNSET
                values[index] = value
    return values, twice


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


def _bytes(records: pa.StringArray) -> list[bytes]:
    return [bytes(record) for record in records.view(pa.binary()).to_pylist()]
