"""Messages as most writers have them, all at once: each field at most once, and in the order of their numbers."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hivesink.decode.avro.columns import Columns
from hivesink.decode.avro.scan import DEEPEST, MORE
from hivesink.decode.clocks import Mask, not_utf8

if TYPE_CHECKING:
    from hivesink.decode.avro.wants import Numbers
    from hivesink.decode.json.spans import Text

_MESSAGE, _STRING, _GROUP = 11, 9, 10
_FIXED = {1: "<f8", 2: "<f4", 6: "<i8", 7: "<u4", 15: "<i4", 16: "<i8"}
"""By a field's `type`, how NumPy reads its bytes; unsigned ones of 64 bits are odd from half on."""
_UNSIGNED = {4, 6}
_VARINT = {3: "i8", 4: "i8", 5: "i4", 8: "?", 13: "u4", 14: "i4", 17: "i4", 18: "i8"}
_ZIGZAG = {17, 18}
AS_JSON = {f"google/protobuf/{name}.proto" for name in ("struct", "duration", "field_mask")}
"""Their messages may be read as a whole."""


class Messages(Columns):
    """What stands in messages of a type between `begins` and `ends`. What an odd message gives means nothing.

    An odd message may be right, too: it has a list, a map, a group, something unknown, or twice, or out of order.
    """

    def __init__(self, kind: Any, text: Text, begins: Numbers, ends: Numbers, depth: int = 0) -> None:
        super().__init__(text, begins, ends)
        self._depth, at = depth, begins.copy()
        self.fields: dict[int, tuple[Numbers, Any]] = {}
        """By number in which messages a field is, and its values: an array, or messages."""
        taken = dict[str, Mask]()
        for part in sorted(kind.fields, key=attrgetter("number")) if len(at) and depth < DEEPEST // 2 else ():
            is_whole = part.message_type is not None and part.message_type.file.name in AS_JSON
            if part.is_repeated or part.type == _GROUP or is_whole:
                continue
            size = np.dtype(_FIXED.get(part.type, "V1")).itemsize
            wire = 0 if part.type in _VARINT else {8: 1, 4: 5}.get(size, 2)
            tag = _varint(part.number << 3 | wire)
            is_there = text.has(tag, at) & (at + len(tag) <= ends)
            places = np.flatnonzero(is_there)
            values, at[places] = self._field(part, at[places] + len(tag), places)
            self.fields[part.number] = places, values
            if part.containing_oneof is not None:
                before = taken.setdefault(part.containing_oneof.name, np.zeros(len(at), np.bool_))
                self.odd[before & is_there] = True
                before |= is_there
            if part.is_required:
                self.odd[~is_there] = True
        self.odd[at != ends] = True

    def __len__(self) -> int:
        return len(self.odd)

    def _field(self, part: Any, at: Numbers, rows: Numbers) -> tuple[Any, Numbers]:
        """A field's values in the messages `rows`, which begin `at`, and where they end."""
        if part.type in _FIXED:
            kind = np.dtype(_FIXED[part.type])
            numbers = self._text.octets[at[:, None] + np.arange(kind.itemsize)].view(kind)[:, 0]
            self.odd[rows[(part.type in _UNSIGNED) & (numbers < 0)]] = True
            return pa.array(numbers), self._within(at + kind.itemsize, rows)
        begins, (numbers, at) = at, self._number(at, rows)
        if part.type not in _ZIGZAG:
            # Avro has the sign in the lowest bit.
            numbers = (numbers << 1) ^ (numbers >> 63)
        if part.type in _VARINT:
            kind = np.dtype(_VARINT[part.type])
            beyond = numbers != numbers.astype(kind) if part.type in _ZIGZAG else numbers < 0
            self.odd[rows[(part.type in {*_UNSIGNED, *_ZIGZAG}) & beyond]] = True
            return pa.array(numbers.astype(kind)), at
        self.odd[rows[at - begins > 5]] = True  # noqa: PLR2004 -- bytes of a length, in google's parser
        ends = at + self._below(numbers, self._ends[rows] - at + 1, rows)
        if part.type == _MESSAGE:
            messages = Messages(part.message_type, self._text, at, ends, self._depth + 1)
            self.odd[rows[messages.odd]] = True
            return messages, ends
        texts = self._text.cut(at, ends)
        if part.type == _STRING:
            self.odd[rows[not_utf8(texts)]] = True
        return (texts if part.type == _STRING else texts.view(pa.binary())), ends


def _varint(number: int) -> bytes:
    low, rest = number % MORE, number // MORE
    return bytes([low | MORE]) + _varint(rest) if rest else bytes([low])
