r"""The fastest decoder: records that differ in nothing but their values, all of a chunk at once.

Each quote without a backslash before it begins or ends a text, and a text is a key if, and only if, a colon follows it.
So the places of all keys are known without parsing. A record is of a shape if it has as many keys, and the same bytes
around its values, from its beginning to its end. What is left to prove is that each value is one JSON value: a text has
two quotes, its first and its last byte, and what is escaped in it is right; numbers and words are matched as a whole.

A record that isn't proved goes to the keyed decoder, which knows nothing of shapes.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from hivesink.decode.clocks import Mask, not_utf8
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.scan import STRING, NotJson, document, members, unquote
from hivesink.decode.json.spans import BACKSLASH, LONGEST, QUOTE, Places, Spans, Text, is_valid

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        fields: list[Field] = []
        end, keys = 0, 0
        for quoted, value, _ in members(raw) if raw[0] == "{" else ():
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
        chunk = _Chunk(records)
        proved: list[Piece] = []
        for known in (*self._shapes, *[None] * _SHAPES):
            if int(np.count_nonzero(chunk.left)) * _FEW <= len(records):
                break
            first = int(np.argmax(chunk.left))
            try:
                record = chunk.text.octets[chunk.offsets[first] : chunk.offsets[first + 1]].tobytes()
                names, ignore_unknown = self._columns.readers, self._columns.ignore_unknown
                shape = known or Shape.of(record, names, ignore_unknown=ignore_unknown)
            except ValueError:
                """It has none."""
            else:
                proved += self._of_shape(chunk, shape)
                if known is None:
                    self._shapes = [shape, *(other for other in self._shapes if other != shape)][:_SHAPES]
            if known is None:
                chunk.left[first] = False
        if 2 * sum(len(rows) for rows, _ in proved) < len(records):
            self._rest = _REST
        return proved

    def _of_shape(self, chunk: _Chunk, shape: Shape) -> list[Piece]:
        """The records of `shape` that were left. They are left no more."""
        rows = np.flatnonzero(chunk.left & (chunk.key_counts == shape.keys))
        first = chunk.next_key[rows] - shape.keys
        keys = [chunk.keys[first + field.key] for field in shape.fields]
        begins, ends = chunk.offsets[rows], chunk.offsets[rows + 1] - len(shape.after)
        # Where the text before each value begins; behind the last one, `after` does.
        before = [*(chunk.pairs[key] - field.lead for field, key in zip(shape.fields, keys, strict=True)), ends]
        same = (before[0] == begins) & chunk.text.has(shape.after, ends)
        for field, at in zip(shape.fields, before, strict=False):
            same &= chunk.text.has(field.before, at)
        values = [at + len(field.before) for field, at in zip(shape.fields, before, strict=False)]
        for begin, end in zip(values, before[1:], strict=True):
            same &= begin < end
        within = [following - key - 1 for key, following in pairwise([*keys, chunk.next_pair[rows]])]
        if not same.all():
            rows = rows[same]
            values, before, within = ([array[same] for array in arrays] for arrays in (values, before, within))
        chunk.left[rows] = False
        if not len(rows):
            return []
        nested = [after - key - 1 for key, after in pairwise([*(field.key for field in shape.fields), shape.keys])]
        spans = (Spans(chunk.text, *places) for places in zip(values, before[1:], within, nested, strict=True))
        fields = {field.name: span for field, span in zip(shape.fields, spans, strict=True)}
        batch, doubt = self._columns.read(fields, len(rows))
        for name in fields.keys() - self._columns.readers.keys():
            doubt |= ~is_valid(fields[name])
        return [(rows[~doubt], batch.filter(pa.array(~doubt)))] if doubt.any() else [(rows, batch)]


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
        self.pairs = quotes[0::2]
        self.keys = np.flatnonzero(self.text.octets[quotes[1::2] + 1] == _COLON)
        # The first of the pairs, and of the keys, after each record.
        self.next_pair = np.cumsum(each) // 2
        self.key_counts = _counts(self.keys, np.concatenate([[0], self.next_pair]))
        self.next_key = np.cumsum(self.key_counts)


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
