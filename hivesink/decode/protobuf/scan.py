"""Messages as most writers have them, all at once: fields in the order of their numbers, each written as declared."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hivesink.decode.avro.columns import Columns
from hivesink.decode.avro.scan import DEEPEST, MORE, Scan
from hivesink.decode.avro.wants import Numbers
from hivesink.decode.clocks import not_utf8
from hivesink.decode.json.spans import Text

_STRING, _GROUP, _ZIGZAG = 9, 10, {17, 18}
_FIXED = {1: "<f8", 2: "<f4", 6: "<u8", 7: "<u4", 15: "<i4", 16: "<i8"}
_VARINTS = {3: "i8", 4: "u8", 5: "i4", 8: "?", 13: "u4", 17: "i4", 18: "i8"}
"""By a field's `type`, what its numbers are in NumPy. An enum is an int32."""
_VARINT, _EIGHT, _SIZED, _OPEN, _CLOSE, _FOUR = range(6)
"""The lowest bits of a tag: how the value behind it is written. A group is between two tags."""
_FEW = 32
"""Lists of so few messages are passed over singly: a step over all costs as much as a hundred items."""
_SLICE = 1 << 16
"""Packed numbers that are read together."""
AS_JSON = {f"google/protobuf/{name}.proto" for name in ("struct", "duration", "field_mask")}
"""Their messages may be read as a whole."""


class _Part(NamedTuple):
    """A field, and how each value is written. The `size` lowest bytes of a word, by `mask`, have the tag before it.

    A packed list has one tag; behind a group is another of that size.
    """

    field: Any
    wire: int
    numbers: np.dtype[Any]
    size: int
    mask: np.uint64
    tag: np.uint64

    @classmethod
    def of(cls, field: Any) -> _Part:
        from google.protobuf.internal import encoder

        numbers = np.dtype({**_FIXED, **_VARINTS}.get(field.type, "V"))
        wire = {8: _EIGHT, 4: _FOUR}.get(numbers.itemsize, _OPEN if field.type == _GROUP else _SIZED)
        wire = _VARINT if field.type in _VARINTS else wire
        tag = encoder.TagBytes(field.number, _SIZED if field.is_packed else wire)
        words = (np.uint64(int.from_bytes(word, "little")) for word in (b"\xff" * len(tag), tag))
        return cls(field, wire, numbers, len(tag), *words)


@lru_cache(maxsize=1000)
def _parts(kind: Any) -> Sequence[_Part]:
    return [_Part.of(field) for field in sorted(kind.fields, key=attrgetter("number"))]


@dataclass(slots=True)
class Room:
    """How many fields of messages are still looked through to prove records; google's parser takes the others."""

    left: int = 300


class Messages(Columns):
    """The fields of messages of a type that begin and end at these places. What an odd message gives means nothing.

    An odd message may be right, too: a field is unknown, twice, out of order, a group, not packed as declared, or there
    is no `room` to look into it. None is odd that google's parser wrote (no `room`): what is in it is read on demand.
    """

    def __init__(
        self, kind: Any, text: Text, begins: Numbers, ends: Numbers, *, room: Room | None = None, depth: int = 0
    ) -> None:
        super().__init__(text, begins, ends)
        self._kind, self._room, self._depth = kind, room, depth
        self._at, self._heads = begins.copy(), np.where(begins < ends, text.words[begins], 0)
        """Where the fields end that are read, and what follows."""

    @cached_property
    def fields(self) -> dict[int, tuple[Numbers, Any]]:
        """By number the messages that have a field, as often as they do, and its values: an array, or messages."""
        is_read = len(self) > 0 and (self._room is None or self._depth <= DEEPEST // 2)
        fields = {part.field.number: self._read_part(part) for part in _parts(self._kind) if is_read}
        self.odd |= (self._at != self._ends) | (not is_read)
        return fields

    def __len__(self) -> int:
        return len(self.odd)

    def of_each(self, field: Any) -> Any:
        """The value of each message, its default where it is absent."""
        places, values = self.fields[field.number]
        if len(values) == len(self):
            return values
        order = np.full(len(self), len(values))
        order[places] = np.arange(len(values))
        return pa.concat_arrays([values, pa.array([field.default_value], values.type)]).take(pa.array(order))

    def whole(self) -> pa.BinaryArray:
        """The messages' bytes."""
        return self._text.cut(self._begins, self._ends).view(pa.binary())

    def check(self) -> None:
        """Make those odd that lack a field, or have two where one must be."""
        if not self.fields:
            return
        kind = self._kind

        def times(field: Any) -> Numbers:
            return np.bincount(self.fields[field.number][0], minlength=len(self))

        for oneof in kind.oneofs:
            self.odd |= sum(map(times, oneof.fields)) > 1
        for field in kind.fields:
            (rows, values), entry = self.fields[field.number], field.message_type
            # An entry of a map always has a value.
            if field.is_required or (entry is not None and kind.GetOptions().map_entry):
                self.odd |= times(field) == 0
            if len(values) and entry is not None and entry.GetOptions().map_entry:
                keys = values.of_each(entry.fields_by_name["key"]).dictionary_encode()
                places = rows * len(keys) + keys.indices.to_numpy()
                if len(pa.array(places).unique()) < len(places):
                    self.odd[np.delete(rows, np.unique(places, return_index=True)[1])] = True

    def _read_part(self, part: _Part) -> tuple[Numbers, Any]:
        rows, begins, ends = self._find(part)
        if kind := part.field.message_type:
            made = Messages(kind, self._text, begins, ends, room=self._room, depth=self._depth + 1)
            if self._room and len(rows):
                self._room.left -= 1
                if self._room.left >= 0:
                    made.check()
                self.odd[rows[made.odd | (self._room.left < 0)]] = True
            return rows, made
        if part.field.is_packed:
            rows, begins = self._unpacked(part, rows, begins, ends)
        if part.numbers.itemsize:
            return rows, pa.array(begins.astype(part.numbers, copy=False))
        texts = self._text.cut(begins, ends)
        if part.field.type != _STRING:
            return rows, texts.view(pa.binary())
        if self._room:
            self.odd[rows[not_utf8(texts)]] = True
        return rows, texts

    def _find(self, part: _Part) -> tuple[Numbers, Numbers, Numbers]:
        """Which messages have the field, in their order, and each time what `_past` says, without a closing tag."""
        rows, found = np.flatnonzero(self._heads & part.mask == part.tag), list[tuple[Numbers, Numbers, Numbers]]()
        while len(rows):
            at, is_done = self._at[rows] + part.size, not part.field.is_repeated
            if found and len(rows) <= _FEW:
                every = [self._singly(part, row) for row in rows.tolist()]
                rows = np.repeat(rows, [len(begins) for begins in every])
                at, is_done = np.concatenate(every), True
            begins, ends = self._past(part, at, rows)
            self._at[rows] = ends
            self._heads[rows] = np.where(ends < self._ends[rows], self._text.words[ends], 0)
            found.append((rows, begins, ends - part.size * (part.wire == _OPEN)))
            rows = rows[:0] if is_done else rows[self._heads[rows] & part.mask == part.tag]
        if len(found) <= 1:
            return found[0] if found else (rows, rows, rows)
        rows, begins, ends = (np.concatenate(some) for some in zip(*found, strict=True))
        order = np.argsort(rows, kind="stable")
        return rows[order], begins[order], ends[order]

    def _singly(self, part: _Part, row: int) -> Numbers:
        """Where the values begin that follow each other in a message, from where it is read to."""
        at, end, begins = int(self._at[row]), int(self._ends[row]), array("q")
        wire = _SIZED if part.field.is_packed else part.wire
        with suppress(ValueError, RecursionError):
            while at < end and self._text.words[at] & part.mask == part.tag:
                begins.append(at + part.size)
                at = _after(Scan(self._octets, end, 0), wire, begins[-1])
        return np.array(begins, np.int64)

    def _past(self, part: _Part, at: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """The numbers at these places, or where texts and messages begin, and where each ends."""
        if part.numbers.itemsize and not part.field.is_packed:
            return self._numbers(part, at, rows)
        if part.wire == _OPEN:
            ends = self._ends[rows]
            # To prove a group takes a look at each value in it.
            self.odd[rows] |= self._room is not None
            for n, begin in enumerate(at.tolist() if self._room is None else ()):
                ends[n] = _after(Scan(self._octets, int(ends[n]), 0), _OPEN, begin)
            return at, ends
        sizes, begins = self._raw(at, rows)
        self.odd[rows[begins - at > 5]] = True  # noqa: PLR2004 -- bytes of a length, in google's parser
        return begins, begins + self._below(sizes, self._ends[rows] - begins + 1, rows)

    def _raw(self, at: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        numbers, ends = self._number(at, rows)
        # Avro has the sign in the lowest bit.
        return (numbers << 1) ^ (numbers >> 63), ends

    def _unpacked(self, part: _Part, rows: Numbers, begins: Numbers, ends: Numbers) -> tuple[Numbers, Any]:
        """The message of each number in packed lists, and the number."""
        sizes, size = ends - begins, part.numbers.itemsize
        if part.wire != _VARINT:
            self.odd[rows[sizes % size > 0]] = True
            lists = np.repeat(np.arange(len(rows)), sizes // size)
            inside = np.arange(len(lists)) - np.searchsorted(lists, lists)
            return rows[lists], self._numbers(part, begins[lists] + size * inside, rows[lists])[0]
        self.odd[rows[(sizes > 0) & (self._text.octets[ends - 1] >= MORE)]] = True
        places = np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        # Each number begins behind a byte without its top bit, or with its list.
        is_first = np.append(True, self._text.octets[places[:-1]] < MORE)[: len(places)]
        is_first |= np.diff(places, prepend=-1) > 1
        rows, places = np.repeat(rows, sizes)[is_first], places[is_first]
        slices = [slice(at, at + _SLICE) for at in range(0, len(rows), _SLICE)]
        numbers = (self._numbers(part, places[some], rows[some])[0] for some in slices)
        return rows, np.concatenate([np.empty(0, part.numbers), *numbers])

    def _numbers(self, part: _Part, at: Numbers, rows: Numbers) -> tuple[Any, Numbers]:
        """The numbers at these places, and where each ends."""
        if part.wire != _VARINT:
            size = part.numbers.itemsize
            numbers = self._text.octets[at[:, None] + np.arange(size)].view(part.numbers)[:, 0]
            return numbers, self._within(at + size, rows)
        if part.field.type not in _ZIGZAG:
            numbers, ends = self._raw(at, rows)
            return numbers.astype(part.numbers), ends
        numbers, ends = self._number(at, rows)
        self.odd[rows[numbers != numbers.astype(part.numbers)]] = True
        return numbers.astype(part.numbers), ends


def _after(scan: Scan, wire: int, at: int) -> int:
    """Where the value ends that is written so and begins `at`: a group behind its closing tag. Raises ValueError."""
    if wire in {_EIGHT, _FOUR}:
        number, begin = (8 if wire == _EIGHT else 4), at
    else:
        number, begin = scan.number(at)
        # Avro has the sign in the lowest bit.
        number = (number << 1) ^ (number >> 63)
    if wire == _OPEN:
        while number & 7 != _CLOSE:
            number, begin = scan.number(_after(scan, number & 7, begin))
            number = (number << 1) ^ (number >> 63)
    after = begin + (number if wire in {_EIGHT, _FOUR, _SIZED} else 0)
    if not at <= after <= scan.end:
        raise ValueError(at)
    return after
