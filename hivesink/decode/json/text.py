"""The text of many records at once, and places in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hivesink.decode.clocks import Mask

Places = NDArray[np.int64]
_WORD = 8
LONGEST = 240
"""Bytes of the longest literal that is looked for."""
QUOTE, SPACE, BACKSLASH = b'" \\'


@dataclass(frozen=True)
class Text:
    """Bytes, and zeros behind them, enough for any literal that begins before their end."""

    octets: NDArray[np.uint8]
    length: int
    is_json: bool = False
    """Whether all that is looked at in it is known to be JSON."""

    @classmethod
    def of(cls, records: pa.StringArray) -> tuple[Text, Places]:
        """All records behind each other, and where each begins; the last place is the end. No record is null."""
        _, places, content = records.buffers()
        offsets = np.frombuffer(places, np.int32, len(records) + 1, 4 * records.offset).astype(np.int64)
        first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        octets = np.zeros(length + LONGEST + _WORD, np.uint8)
        if length:
            octets[:length] = np.frombuffer(content, np.uint8, length, first)
        return cls(octets, length), offsets - first

    @classmethod
    def joined(cls, parts: list[bytes], count: int) -> tuple[Text, Places, Places]:
        """The first `count` JSON values in `parts`, which have zeros between them, and where each begins and ends."""
        octets = np.frombuffer(b"\0".join([*parts, bytes(LONGEST + _WORD)]), np.uint8)
        ends = np.flatnonzero(octets == 0)[:count]
        begins = np.concatenate([[0], ends + 1])[:-1]
        return cls(octets, len(octets) - LONGEST - _WORD, is_json=True), begins, ends

    @cached_property
    def odd(self) -> Places:
        """Where it has a backslash, or a control character, which JSON may only have between values."""
        octets = self.octets[: self.length]
        odd = octets == BACKSLASH
        # Nearly always there is none: one pass is cheaper than a mask.
        if not self.is_json and octets.min(initial=SPACE) < SPACE:
            odd |= octets < SPACE
        return np.flatnonzero(odd)

    @cached_property
    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(self.octets)

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """The eight bytes from each place on, the first in the lowest bits."""
        return np.ndarray((self.length + LONGEST + 1,), "<u8", self.octets, strides=(1,))

    def has(self, literal: bytes, at: Places) -> Mask:
        """Where `literal`, of at most `LONGEST` bytes and no zero, is at the places `at`.

        Places before the beginning count from the end.
        """
        same = np.ones(len(at), dtype=np.bool_)
        for start in range(0, len(literal), _WORD):
            # The last word may overlap the one before it.
            start = max(0, min(start, len(literal) - _WORD))  # noqa: PLW2901
            part = literal[start : start + _WORD]
            words = self.words[at + start]
            if len(part) < _WORD:
                words = words & np.uint64((1 << 8 * len(part)) - 1)
            same &= words == np.uint64(int.from_bytes(part, "little"))
        return same

    def cut(self, begins: Places, ends: Places, absent: Mask | None = None) -> pa.StringArray:
        """The texts between the places, null where they are `absent`. No text begins before the last one's end."""
        count = len(begins)
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2], offsets[1::2], offsets[-1] = begins, ends, self.length
        both = pa.StringArray.from_buffers(2 * count, pa.py_buffer(offsets), self.buffer)
        return both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=absent))


def joined(texts: pa.StringArray, separator: str) -> pa.Buffer:
    """All of them behind each other. None is null."""
    every = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(every, separator)[0].as_buffer()


def counts(places: Places, offsets: Places) -> Places:
    """How many of `places` are between each offset and the next."""
    count = len(offsets) - 1
    each, more = divmod(len(places), count)
    if each and not more:
        rows = places.reshape(count, each)
        if (rows[:, 0] >= offsets[:-1]).all() and (rows[:, -1] < offsets[1:]).all():
            return np.full(count, each)
    return np.diff(np.searchsorted(places, offsets))
