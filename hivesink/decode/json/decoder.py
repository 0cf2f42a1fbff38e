"""JSON records to rows of a Hive table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnTombstone
from hivesink.decode.clocks import Mask, not_utf8
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.scan import NotJson, document, members, unquote
from hivesink.decode.json.shaped import ShapedDecoder
from hivesink.decode.json.spans import QUOTE, REFUSED, SPACE, Spans, Text, counts, joined
from hivesink.decode.values import DecodeOptions, InvalidValue
from hivesink.ports import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hivesink.core.table import Column
    from hivesink.decode.json.shaped import Piece

# A chunk fits into a core's cache, unless its fixed cost would be too much for so few rows.
_MOST_ROWS, _FEW_ROWS = 16384, 8192
_CACHE_BYTES, _MOST_BYTES = 2 << 20, 8 << 20
Rows: TypeAlias = "NDArray[np.int64]"


class JsonDecoder:
    """Decodes records, each one JSON object, into `columns`, names matched without regard to case.

    It learns from the stream, so keep one for a whole task.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        """Raises ValueError without columns."""
        if not columns:
            message = "a table without columns has no rows"
            raise ValueError(message)
        self._options = options
        self._exact = ExactDecoder(columns, options)
        reader = JsonColumns(self._exact)
        self.schema = reader.schema
        self._shaped, self._keyed = ShapedDecoder(reader), KeyedDecoder(reader)
        self._mostly_bad = False
        """Whether of the last records without a shape most were bad: the keyed decoder would read such ones in vain."""

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRows:
        """`values` are binary, string or their large forms; null is a tombstone. Raises TypeError for other types."""
        pieces: list[Piece] = []
        bad: list[BadRow] = []
        skipped = 0
        for start, chunk in _chunks(values):
            present, records = _without_nulls(chunk)
            absent = len(chunk) - len(records)
            if absent and self._options.tombstone is OnTombstone.SKIP:
                skipped += absent
            elif absent:
                tombstones = np.setdiff1d(np.arange(len(chunk)), present)
                bad += [BadRow(start + int(row), None, "no value (tombstone)") for row in tombstones]
            if len(records):
                pieces += self._pieces(records, start + present, bad)
        table = pa.Table.from_batches([batch for _, batch in pieces], self.schema)
        good = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in pieces)])
        if (good[1:] < good[:-1]).any():
            order = np.argsort(good, kind="stable")
            table, good = table.take(pa.array(order)), good[order]
        good_rows = None if len(good) == len(values) else pa.array(good, pa.int32())
        return DecodedRows(table, good_rows, tuple(sorted(bad, key=lambda row: row.index)), skipped)

    def _pieces(self, records: pa.StringArray, rows: Rows, bad: list[BadRow]) -> Iterator[Piece]:
        """The good rows of `records`, whose input rows are `rows`; the others go to `bad`."""
        left = np.ones(len(records), dtype=np.bool_)
        for places, batch in self._shaped.decode(records):
            yield rows[places], batch
            left[places] = False
        unshaped = np.flatnonzero(left)
        if len(unshaped) and not self._mostly_bad:
            some = records if len(unshaped) == len(records) else records.take(pa.array(unshaped))
            batch, doubt = self._keyed.decode(some)
            if not doubt.all():
                yield rows[unshaped[~doubt]], batch.filter(pa.array(~doubt)) if doubt.any() else batch
            left[unshaped] = doubt
        doubtful = np.flatnonzero(left)
        exact: list[list[Any]] = []
        fitting: list[int] = []
        again = records.view(pa.binary()).take(pa.array(doubtful)).to_pylist()
        for row, record in zip(rows[doubtful].tolist(), again, strict=True):
            try:
                exact.append(self._exact.row(record))
                fitting.append(row)
            except InvalidValue as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append(error.bad_row(row))
        if len(unshaped):
            self._mostly_bad = 2 * (len(doubtful) - len(fitting)) > len(unshaped)
        if exact:
            yield np.array(fitting, np.int64), exact_batch(exact, self.schema)


def exact_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the exact decoder as Arrow."""
    arrays = [pa.array(list(values), field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(values: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """Slices that are small in rows and bytes, each with the index of its first row."""
    start = 0
    for whole in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        if whole.type not in {pa.binary(), pa.string(), pa.large_binary(), pa.large_string()}:
            message = f"records are bytes or text, not {whole.type}"
            raise TypeError(message)
        size = max(1, whole.nbytes / max(1, len(whole)))
        rows = max(1, int(min(_MOST_ROWS, max(_FEW_ROWS, _CACHE_BYTES / size), _MOST_BYTES / size)))
        for at in range(0, len(whole), rows):
            yield start + at, whole.slice(at, rows)
        start += len(whole)


def _without_nulls(chunk: pa.Array) -> tuple[Any, pa.StringArray]:
    """The indexes of the records that have a value, and these as text that may still hold any bytes."""
    present: Any = np.arange(len(chunk))
    if chunk.null_count:
        present = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
        chunk = chunk.drop_null()
    if pa.types.is_large_binary(chunk.type) or pa.types.is_large_string(chunk.type):
        chunk = chunk.cast(pa.binary() if pa.types.is_large_binary(chunk.type) else pa.string())
    return present, chunk.view(pa.string())


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
