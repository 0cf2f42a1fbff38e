r"""The fastest decoder: records that differ in nothing but their values, all of a chunk at once.

Each quote without a backslash before it begins or ends a text, and a text is a key if, and only if, a colon follows it.
So the places of all keys are known without parsing. A record is of a shape if it has as many keys, and the same bytes
around its values, from its beginning to its end. What is left to prove is that each value is one JSON value: a text has
two quotes, its first and its last byte, and what is escaped in it is right; numbers and words are matched as a whole.

A record that isn't proved goes to the keyed decoder, which knows nothing of shapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from hivesink.decode.clocks import not_utf8
from hivesink.decode.json.scan import STRING, NotJson, document, members, unquote
from hivesink.decode.json.spans import BACKSLASH, LONGEST, QUOTE, Places, Spans, Text, is_valid

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from numpy.typing import NDArray

    from hivesink.decode.clocks import Mask
    from hivesink.decode.json.columns import JsonColumns

_SHAPES = 8
"""Shapes that are remembered, and most that are learnt of one chunk."""
_FEW = 16
"""A chunk is compared with no further shape where no more than one record in so many is left."""
_REST = 16
"""Chunks that aren't tried after one in which most records had no shape."""
_COLON, _ASCII = 58, 128
_KEY = re.compile(f"{STRING}(:?)")


Piece: TypeAlias = "tuple[Places, pa.RecordBatch]"
"""Some rows of a chunk, and where they are in it."""


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
    def of(cls, record: bytes, names: Container[str], *, ignore_unknown: bool) -> Shape:
        """The shape of `record`, which is UTF-8.

        Raises ValueError if it is no object or an empty one, if two of its fields have one name, if it has a field that
        is not in `names` (in lower case) where these aren't ignored, or if there is too much white space in it.
        """
        text = record.decode()
        raw = document(text)
        pairs = members(raw) if raw[0] == "{" else []
        fields: list[Field] = []
        end, keys = 0, 0
        for quoted, value in pairs:
            name = unquote(quoted).lower()
            key = text.index(quoted, end)
            begin = text.index(value, key + len(quoted))
            if text[key + len(quoted)] != ":" or not (ignore_unknown or name in names):
                raise NotJson
            fields.append(Field(name, text[end:begin].encode(), len(text[end:key].encode()), keys))
            keys += 1 + len("".join(_KEY.findall(value)))
            end = begin + len(value)
        after = text[end:].encode()
        longest = max(len(after), *(len(field.before) for field in fields), 0)
        if not fields or longest > LONGEST or len({field.name for field in fields}) < len(fields):
            raise NotJson
        return cls(tuple(fields), after, keys)


class ShapedDecoder:
    """Remembers the shapes of a stream; what it remembers changes its speed, never its results."""

    def __init__(self, columns: JsonColumns) -> None:
        self._columns = columns
        self._shapes: list[Shape] = []
        self._rest = 0

    def decode(self, records: pa.StringArray) -> list[Piece]:
        """The records that it can prove, which may be none. `records` may hold any bytes but no nulls."""
        if self._rest:
            self._rest -= 1
            return []
        proved = list(self._proved(_Chunk(records)))
        if 2 * sum(len(rows) for rows, _ in proved) < len(records):
            self._rest = _REST
        return proved

    def _proved(self, chunk: _Chunk) -> Iterator[Piece]:
        for shape in tuple(self._shapes):
            if not chunk.few_are_left:
                yield from self._of_shape(chunk, shape)
        for _ in range(_SHAPES):
            if chunk.few_are_left:
                return
            first = int(np.argmax(chunk.left))
            record = chunk.text.octets[chunk.offsets[first] : chunk.offsets[first + 1]].tobytes()
            try:
                shape = Shape.of(record, self._columns.readers, ignore_unknown=self._columns.ignore_unknown)
            except ValueError:
                """It has none."""
            else:
                self._shapes = [shape, *(other for other in self._shapes if other != shape)][:_SHAPES]
                yield from self._of_shape(chunk, shape)
            chunk.left[first] = False

    def _of_shape(self, chunk: _Chunk, shape: Shape) -> Iterator[Piece]:
        rows, values = chunk.of_shape(shape)
        if not len(rows):
            return
        batch, doubt = self._columns.read(values, len(rows))
        for name in values.keys() - self._columns.readers.keys():
            doubt |= ~is_valid(values[name])
        if not doubt.all():
            yield (rows[~doubt], batch.filter(pa.array(~doubt))) if doubt.any() else (rows, batch)


class _Chunk:
    """Where the texts of a chunk's records are, of all that can have a shape."""

    def __init__(self, records: pa.StringArray) -> None:
        self.text, self.offsets = Text.of(records)
        # The records that have been compared with no shape of as many keys and the same text around them.
        self.left = np.ones(len(records), dtype=np.bool_)
        octets = self.text.octets[: self.text.length]
        if octets.max(initial=0) >= _ASCII:
            self.left &= ~not_utf8(records)
        quotes = np.flatnonzero(octets == QUOTE)
        if len(self.text.odd):
            quotes = quotes[~_are_escaped(quotes, octets)]
        each = _counts(quotes, self.offsets)
        self.left &= each % 2 == 0
        if not self.left.all():
            quotes, each = quotes[np.repeat(self.left, each)], np.where(self.left, each, 0)
        # Where each text begins, which of these are keys, and how many of them each record has.
        self._pairs = quotes[0::2]
        self._keys = np.flatnonzero(self.text.octets[quotes[1::2] + 1] == _COLON)
        # The first of the pairs, and of the keys, after each record.
        self._next_pair = np.cumsum(each) // 2
        self._key_counts = _counts(self._keys, np.concatenate([[0], self._next_pair]))
        self._next_key = np.cumsum(self._key_counts)

    @property
    def few_are_left(self) -> bool:
        return int(np.count_nonzero(self.left)) * _FEW <= len(self.left)

    def of_shape(self, shape: Shape) -> tuple[Places, dict[str, Spans]]:
        """The records of `shape` that were left, and the values of each field by its name. They are left no more."""
        rows = np.flatnonzero(self.left & (self._key_counts == shape.keys))
        first = self._next_key[rows] - shape.keys
        keys = [self._keys[first + field.key] for field in shape.fields]
        begins, ends = self.offsets[rows], self.offsets[rows + 1] - len(shape.after)
        # Where the text before each value begins; behind the last one, `after` does.
        before = [*(self._pairs[key] - field.lead for field, key in zip(shape.fields, keys, strict=True)), ends]
        same = (before[0] == begins) & self.text.has(shape.after, ends)
        for field, at in zip(shape.fields, before, strict=False):
            same &= self.text.has(field.before, at)
        values = [at + len(field.before) for field, at in zip(shape.fields, before, strict=False)]
        for begin, end in zip(values, before[1:], strict=True):
            same &= begin < end
        within = [following - key - 1 for key, following in pairwise([*keys, self._next_pair[rows]])]
        if not same.all():
            rows = rows[same]
            values, before, within = ([array[same] for array in arrays] for arrays in (values, before, within))
        self.left[rows] = False
        nested = [after - key - 1 for key, after in pairwise([*(field.key for field in shape.fields), shape.keys])]
        names = [field.name for field in shape.fields]
        spans = zip(values, before[1:], within, nested, strict=True)
        return rows, {name: Spans(self.text, *places) for name, places in zip(names, spans, strict=True)}


def _are_escaped(quotes: Places, octets: NDArray[np.uint8]) -> Mask:
    """Which have an odd number of backslashes before them."""
    slashes = np.flatnonzero(octets == BACKSLASH)
    escaped: Mask = np.zeros(len(quotes), dtype=np.bool_)
    behind = np.flatnonzero((octets[quotes - 1] == BACKSLASH) & (quotes > 0))
    last = np.searchsorted(slashes, quotes[behind]) - 1
    numbers = np.arange(len(slashes))
    first = np.maximum.accumulate(np.where(np.diff(slashes, prepend=-2) != 1, numbers, 0))
    escaped[behind] = (last - first[last]) % 2 == 0
    return escaped


def _counts(places: Places, offsets: Places) -> Places:
    """How many of `places` are between each offset and the next."""
    count = len(offsets) - 1
    each, more = divmod(len(places), count)
    if each and not more:
        rows = places.reshape(count, each)
        if (rows[:, 0] >= offsets[:-1]).all() and (rows[:, -1] < offsets[1:]).all():
            return np.full(count, each)
    return np.diff(np.searchsorted(places, offsets))
