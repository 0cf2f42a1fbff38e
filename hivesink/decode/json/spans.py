"""Values by where they are in the text of many records: which of them are whole JSON values, and what they are.

Each function that returns a column and a mask says by that which rows are in doubt, whose values mean nothing; null is
never in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hivesink.core.table import Decimal
from hivesink.decode.clocks import REFUSED, Mask, each, mask_of, parse_each
from hivesink.decode.values import InvalidValue, decimal_of

Places = NDArray[np.int64]
_WORD = 8
LONGEST = 240
"""Bytes of the longest literal that is looked for."""
QUOTE, BACKSLASH, SPACE = b'"\\ '
_MINUS, _ZERO, _ONE, _NINE = b"-019"
_RAW = msgspec.json.Decoder(msgspec.Raw)
_TEXT, _TEXTS = msgspec.json.Decoder(str), msgspec.json.Decoder(list[str])
_INTEGER = r"^-?(?:0|[1-9][0-9]{0,17})$"
# Not the integer -0, which is 0: a double can be less than that.
NUMBER = r"^(?:0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_DECIMAL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_DIGITS = 38
"""Digits that 128 bits can hold: Arrow multiplies before it looks at the precision."""


@dataclass(frozen=True)
class Text:
    """Bytes, and zeros behind them, enough for any literal that begins before their end."""

    octets: NDArray[np.uint8]
    length: int

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
        return cls(octets, len(octets) - LONGEST - _WORD), np.append(0, ends + 1)[:-1], ends

    @cached_property
    def odd(self) -> Places:
        """Where it has a backslash, or a control character, which JSON may only have between values."""
        octets = self.octets[: self.length]
        odd = octets == BACKSLASH
        # Nearly always there is none: one pass is cheaper than a mask.
        if octets.min(initial=SPACE) < SPACE:
            odd |= octets < SPACE
        return np.flatnonzero(odd)

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
        both = pa.StringArray.from_buffers(2 * count, pa.py_buffer(offsets), pa.py_buffer(self.octets))
        return both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=absent))


def joined(texts: pa.StringArray, separator: str) -> pa.Buffer:
    """All of them behind each other. None is null."""
    every = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(every, separator)[0].as_buffer()


@dataclass(frozen=True)
class Spans:
    """One value of each record. None is empty.

    `texts` is how many pairs of quotes it has, `keys` how many keys each has; None: any number.
    """

    text: Text
    begins: Places
    ends: Places
    texts: Places
    keys: int | None

    @classmethod
    def of(cls, text: Text, begins: Places, ends: Places) -> Spans:
        """Of JSON values, without white space around them."""
        return cls(text, begins, ends, (text.octets[begins] == QUOTE).astype(np.int64), None)

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def first(self) -> NDArray[np.uint8]:
        return self.text.octets[self.begins]

    @cached_property
    def absent(self) -> Mask | None:
        """Where they are `null`; None: nowhere."""
        absent = self.are(b"null")
        return absent if absent.any() else None

    @cached_property
    def quoted(self) -> Mask:
        """Where they are a text."""
        quoted: Mask = (self.texts == 1) & (self.first == QUOTE)
        quoted &= self.text.octets[self.ends - 1] == QUOTE
        quoted &= self.ends - self.begins > 1
        return quoted

    @cached_property
    def odd(self) -> Mask | None:
        """Which of them hold a backslash or a control character; None: none."""
        if not len(self.text.odd):
            return None
        odd: Mask = np.searchsorted(self.text.odd, self.begins) != np.searchsorted(self.text.odd, self.ends)
        return odd

    def are(self, word: bytes) -> Mask:
        """Where they are just `word`."""
        same: Mask = self.first == word[0]
        if same.any():
            same &= self.ends - self.begins == len(word)
            same &= self.text.has(word, self.begins)
        return same

    def without(self, words: Iterable[bytes]) -> Spans:
        """The same, absent also where they are just one of `words`."""
        absent = np.logical_or.reduce([self.are(word) for word in (b"null", *words)])
        absent = absent if self.absent is None else absent | self.absent
        spans = replace(self)
        spans.__dict__["absent"] = absent if absent.any() else None
        return spans

    def raw(self) -> list[bytes | None]:
        """Their bytes; None for null."""
        raws: list[bytes | None] = self.text.cut(self.begins, self.ends, self.absent).view(pa.binary()).to_pylist()
        return raws

    def inside(self) -> tuple[Places, Places]:
        """Their beginnings and ends, without the quotes of texts."""
        if not (self.texts != 0).any():
            return self.begins, self.ends
        return self.begins + self.quoted, self.ends - self.quoted

    def numbers(self, pattern: str) -> tuple[pa.StringArray, Mask]:
        """Numbers, also in texts, that match `pattern`; null where they don't."""
        numbers = self.text.cut(*self.inside(), self.absent)
        doubt = mask_of(pc.invert(pc.match_substring_regex(numbers, pattern)))
        return (pc.if_else(pa.array(doubt), None, numbers) if doubt.any() else numbers), doubt


def texts_of(spans: Spans, *, any_value: bool) -> tuple[pa.StringArray, Mask]:
    """The contents of texts; whatever else is in doubt, or, with `any_value`, has its JSON text if it is valid."""
    doubt = ~spans.quoted if spans.absent is None else ~(spans.quoted | spans.absent)
    texts = spans.text.cut(*spans.inside(), spans.absent)
    if doubt.any():
        if any_value:
            doubt &= ~is_valid(spans)
        else:
            texts = pc.if_else(pa.array(doubt), None, texts)
    if spans.odd is not None and (odd := spans.odd & spans.quoted).any():
        places = np.flatnonzero(odd)
        quoted = spans.text.cut(spans.begins[places], spans.ends[places]).view(pa.binary()).to_pylist()
        try:
            # Each ends with a quote that isn't escaped, or begins another text, which no comma would follow.
            contents = pa.array(_TEXTS.decode(b"[" + b",".join(quoted) + b"]"))
        except REFUSED:
            contents = pa.array([])
        if len(contents) != len(quoted):
            contents, doubt[places] = parse_each(quoted, _TEXT.decode, pa.string())
        texts = pc.replace_with_mask(texts, pa.array(odd), contents)
    return texts, doubt


def integers(spans: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Whole numbers, also in texts."""
    begins, ends = spans.inside()
    octets = spans.text.octets
    is_negative = octets[begins] == _MINUS
    lead = octets[begins + is_negative]
    sure = (lead >= _ONE) & (lead <= _NINE)
    if not sure.all():
        sure |= (lead == _ZERO) & (ends - begins - is_negative == 1)
        sure |= False if spans.absent is None else spans.absent
    if sure.all():
        try:
            # Behind a first digit that isn't 0, Arrow takes nothing but digits.
            return spans.text.cut(begins, ends, spans.absent).cast(kind), ~sure
        except pa.ArrowInvalid:
            """One of them at least is no such number."""
    numbers, doubt = spans.numbers(_INTEGER)
    wide = numbers.cast(pa.int64())
    values = wide.cast(kind, safe=False)
    return values, doubt | mask_of(pc.not_equal(values.cast(pa.int64()), wide))


def decimals(spans: Spans, kind: Decimal, arrow: pa.DataType) -> tuple[pa.Array, Mask]:
    """Numbers, also in texts, that fit exactly."""
    numbers, doubt = spans.numbers(_DECIMAL)
    if (spans.ends - spans.begins).max(initial=0) + kind.scale <= _DIGITS:
        try:
            return numbers.cast(arrow), doubt
        except pa.ArrowInvalid:
            """One of them at least doesn't fit."""
    array, unfit = parse_each(numbers.to_pylist(), lambda text: decimal_of(text, kind), arrow)
    return array, doubt | unfit


def raw_values(spans: Spans) -> tuple[list[bytes | None], Mask]:
    """The JSON text of each that is one value without white space around it; None for null and for the others."""
    return each(spans.raw(), _whole)


def _whole(value: bytes) -> bytes:
    if bytes(_RAW.decode(value)) != value:
        raise InvalidValue(reason="white space")
    return value


def is_valid(spans: Spans) -> Mask:
    """Which of them are known to be JSON values."""
    valid = spans.are(b"true") | spans.are(b"false")
    valid |= spans.quoted if spans.odd is None else spans.quoted & ~spans.odd
    if spans.absent is not None:
        valid |= spans.absent
    if not valid.all():
        rest = np.flatnonzero(~valid)
        others = spans.text.cut(spans.begins[rest], spans.ends[rest])
        doubt = mask_of(pc.invert(pc.match_substring_regex(others, NUMBER)))
        nested = np.flatnonzero(doubt)
        doubt[nested] = each(others.take(pa.array(nested)).view(pa.binary()).to_pylist(), _whole)[1]
        valid[rest] = ~doubt
    return valid
