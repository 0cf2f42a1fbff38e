r"""The fastest decoder: records that differ in nothing but their values, all of a chunk at once.

Where a record has no backslash and no control character, each quote begins or ends a text, and a text is a key if, and
only if, a colon follows it. So the places of all keys are known without parsing. A record is of a shape if it has as
many keys, and the same bytes around its values, from its beginning to its end. What is left to prove is that each value
is one JSON value: a text has two quotes, its first and its last byte; numbers and words are matched as a whole.

A record that isn't proved goes to the fast decoder, which knows nothing of shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.decode.clocks import not_utf8
from hivesink.decode.json.scan import NotJson, document, members, unquote
from hivesink.decode.json.spans import LONGEST, Places, Spans, Text, is_valid

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from hivesink.decode.clocks import Mask
    from hivesink.decode.json.columns import ColumnReader, PathsReader

_SHAPES = 8
"""Shapes that are remembered, and most that are learnt of one chunk."""
_FEW = 16
"""A chunk is compared with no further shape where no more than one record in so many is left."""
_REST = 64
"""Most chunks that aren't tried after one in which most records had no shape."""
_QUOTE, _COLON, _BACKSLASH, _SPACE, _ASCII = 34, 58, 92, 32, 128


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record. `before` is the text from the end of the last value to the beginning of its own."""

    name: str
    before: bytes
    lead: int
    """How many bytes of `before` are in front of the name's first quote."""
    key: int
    """How many keys, of objects within values too, come first."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records have in common. `keys` is how many keys each of them has, those within values included."""

    fields: tuple[Field, ...]
    after: bytes
    keys: int

    @classmethod
    def of(cls, record: bytes, known: Container[str], *, ignore_unknown: bool) -> Shape | None:
        """The shape of `record`, which is UTF-8 without backslashes and control characters.

        None if it is no object or an empty one, if two of its fields have one name, if it has a field that is not in
        `known` (names in lower case) where these aren't ignored, or if there is too much white space in it.
        """
        text = record.decode()
        try:
            raw = document(text)
        except NotJson:
            return None
        if raw[0] != "{":
            return None
        fields: list[Field] = []
        names: set[str] = set()
        end, keys = 0, 0
        for quoted, value in members(raw):
            name = unquote(quoted)
            key = text.index(quoted, end)
            begin = text.index(value, key + len(quoted))
            lower = name.lower()
            spaced = text[key + len(quoted)] != ":"
            if spaced or lower in names or not (ignore_unknown or lower in known):
                return None
            names.add(lower)
            fields.append(Field(lower, text[end:begin].encode(), len(text[end:key].encode()), keys))
            keys += 1 + _keys(value)
            end = begin + len(value)
        after = text[end:].encode()
        is_short = all(len(literal) <= LONGEST for literal in (after, *(field.before for field in fields)))
        return cls(tuple(fields), after, keys) if fields and is_short else None


def _keys(value: str) -> int:
    """How many of a value's texts are followed by a colon."""
    return sum(after.startswith(":") for after in value.split('"')[2::2])


@dataclass(frozen=True, slots=True)
class Found:
    """Records that are proved: their rows in the chunk, and the columns of the table."""

    rows: Places
    columns: list[pa.Array]


class ShapedDecoder:
    """Remembers the shapes of a stream; what it remembers changes its speed, never its results."""

    def __init__(
        self, readers: Sequence[ColumnReader | PathsReader], schema: pa.Schema, *, ignore_unknown: bool
    ) -> None:
        self._readers = {reader.name: reader for reader in readers}
        self._schema = schema
        self._ignore_unknown = ignore_unknown
        self._required = {reader.name for reader in readers if reader.is_required}
        self._shapes: list[Shape] = []
        self._rest, self._next_rest = 0, 1

    def decode(self, records: pa.StringArray) -> list[Found]:
        """The records that it can prove, which may be none. `records` may hold any bytes but no nulls."""
        if self._rest:
            self._rest -= 1
            return []
        proved = list(self._found(_Chunk.of(records)))
        if 2 * sum(len(part.rows) for part in proved) < len(records):
            self._rest, self._next_rest = self._next_rest - 1, min(2 * self._next_rest, _REST)
        else:
            self._next_rest = 1
        return proved

    def _found(self, chunk: _Chunk) -> Iterator[Found]:
        for shape in tuple(self._shapes):
            if not chunk.few_are_left:
                yield from self._of_shape(chunk, shape)
        for _ in range(_SHAPES):
            if chunk.few_are_left:
                return
            first = int(np.argmax(chunk.left))
            if learnt := self._learn(chunk.record(first)):
                yield from self._of_shape(chunk, learnt)
            chunk.left[first] = False

    def _learn(self, record: bytes) -> Shape | None:
        """The shape of `record`; None if it has none that could be of use."""
        shape = Shape.of(record, self._readers, ignore_unknown=self._ignore_unknown)
        if shape is None or not self._required <= {field.name for field in shape.fields}:
            return None
        self._shapes = [shape, *(other for other in self._shapes if other != shape)][:_SHAPES]
        return shape

    def _of_shape(self, chunk: _Chunk, shape: Shape) -> Iterator[Found]:
        rows, values = chunk.of_shape(shape)
        if not len(rows):
            return
        doubt = np.zeros(len(rows), dtype=np.bool_)
        arrays: dict[int, pa.Array] = {}
        for field, spans in zip(shape.fields, values, strict=True):
            reader = self._readers.get(field.name)
            if reader is None:
                doubt |= ~is_valid(spans)
                continue
            converted = reader.convert_spans(spans)
            doubt |= converted.doubt
            arrays.update(zip(reader.indexes, converted.arrays, strict=True))
        kinds = enumerate(self._schema.types)
        columns = [arrays[index] if index in arrays else pa.nulls(len(rows), kind) for index, kind in kinds]
        if doubt.any():
            sure = pa.array(~doubt)
            rows, columns = rows[~doubt], [column.filter(sure) for column in columns]
        yield Found(rows, columns)


@dataclass(slots=True)
class _Chunk:
    """Where the texts of a chunk's records are, of all that can have a shape."""

    text: Text
    offsets: Places
    left: Mask
    """The records that have been compared with no shape of as many keys and the same text around them."""
    pairs: Places
    """Where each text begins."""
    keys: Places
    """Which of these are keys."""
    key_counts: Places
    """How many of `keys` each record has."""
    next_key: Places
    """The first of `keys` after each record."""
    next_pair: Places
    """The first of `pairs` after each record."""

    @classmethod
    def of(cls, records: pa.StringArray) -> _Chunk:
        text, offsets = Text.of(records)
        left = np.ones(len(records), dtype=np.bool_)
        octets = text.octets[: text.length]
        if octets.max(initial=0) >= _ASCII:
            left &= ~not_utf8(records)
        if octets.min(initial=_ASCII) < _SPACE or (octets == _BACKSLASH).any():
            odd = np.flatnonzero((octets < _SPACE) | (octets == _BACKSLASH))
            left[np.searchsorted(offsets, odd, side="right") - 1] = False
        quotes = np.flatnonzero(octets == _QUOTE)
        counts = _counts(quotes, offsets)
        left &= counts % 2 == 0
        if not left.all():
            quotes, counts = quotes[np.repeat(left, counts)], np.where(left, counts, 0)
        keys = np.flatnonzero(text.octets[quotes[1::2] + 1] == _COLON)
        next_pair = np.cumsum(counts) // 2
        key_counts = _counts(keys, np.concatenate([[0], next_pair]))
        return cls(text, offsets, left, quotes[0::2], keys, key_counts, np.cumsum(key_counts), next_pair)

    @property
    def few_are_left(self) -> bool:
        return int(np.count_nonzero(self.left)) * _FEW <= len(self.left)

    def record(self, row: int) -> bytes:
        return self.text.octets[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def of_shape(self, shape: Shape) -> tuple[Places, list[Spans]]:
        """The records of `shape` that were left, and the values of each field. They aren't left any more."""
        rows = np.flatnonzero(self.left & (self.key_counts == shape.keys))
        first = self.next_key[rows] - shape.keys
        keys = [self.keys[first + field.key] for field in shape.fields]
        begins, ends = self.offsets[rows], self.offsets[rows + 1] - len(shape.after)
        # Where the text before each value begins; behind the last one, `after` does.
        before = [*(self.pairs[key] - field.lead for field, key in zip(shape.fields, keys, strict=True)), ends]
        same = (before[0] == begins) & self.text.has(shape.after, ends)
        for field, at in zip(shape.fields, before, strict=False):
            same &= self.text.has(field.before, at)
        values = [at + len(field.before) for field, at in zip(shape.fields, before, strict=False)]
        for begin, end in zip(values, before[1:], strict=True):
            same &= begin < end
        within = [following - key - 1 for key, following in pairwise([*keys, self.next_pair[rows]])]
        if not same.all():
            rows = rows[same]
            values, before, within = ([array[same] for array in arrays] for arrays in (values, before, within))
        self.left[rows] = False
        own = [following - key - 1 for key, following in pairwise([*(field.key for field in shape.fields), shape.keys])]
        spans = zip(values, before[1:], within, own, strict=True)
        return rows, [Spans(self.text, *places) for places in spans]


def _counts(places: Places, offsets: Places) -> Places:
    """How many of `places` are between each offset and the next."""
    count = len(offsets) - 1
    each, more = divmod(len(places), count)
    if each and not more:
        rows = places.reshape(count, each)
        if (rows[:, 0] >= offsets[:-1]).all() and (rows[:, -1] < offsets[1:]).all():
            return np.full(count, each)
    return np.diff(np.searchsorted(places, offsets))
