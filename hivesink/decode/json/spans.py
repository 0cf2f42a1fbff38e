"""Values by where they are in a text, a column at a time: which of them are whole JSON values, and what they are.

Each function returns a column and the rows in doubt, whose values mean nothing; null is never in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hivesink.decode.clocks import Mask, nulls, parse_each
from hivesink.decode.values import decimal_of

if TYPE_CHECKING:
    from hivesink.core.table import Decimal

REFUSED = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What msgspec raises for input that isn't what it expects."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_TEXT, _TEXTS = msgspec.json.Decoder(str), msgspec.json.Decoder(list[str])
_MINUS, _ZERO, _ONE, _NINE = b"-019"
_INTEGER = r"^-?(?:0|[1-9][0-9]{0,17})$"
# Not the integer -0, which is 0: a double can be less than that.
_NUMBER = r"^(?:0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_DECIMAL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_DIGITS = 38
"""Digits that 128 bits can hold: Arrow multiplies before it looks at the precision."""


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
        """Of values of a text that `is_json`, without white space around them."""
        return cls(text, begins, ends, (text.octets[begins] == QUOTE).astype(np.int64), None)

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def first(self) -> NDArray[np.uint8]:
        return self.text.octets[self.begins]

    @cached_property
    def absent(self) -> Mask | None:
        """Where they are `null`; None: nowhere."""
        return self._word(b"null")

    @cached_property
    def quoted(self) -> Mask:
        """Where they are a text."""
        quoted: Mask = (self.texts == 1) & (self.first == QUOTE)
        quoted &= self.text.octets[self.ends - 1] == QUOTE
        quoted &= self.ends - self.begins > 1
        return quoted

    def are(self, word: bytes) -> Mask:
        """Where they are just `word`."""
        same = self._word(word)
        return np.zeros(len(self), dtype=np.bool_) if same is None else same

    def _word(self, word: bytes) -> Mask | None:
        maybe: Mask = self.first == word[0]
        if not maybe.any():
            return None
        if not self.text.is_json:
            maybe &= self.ends - self.begins == len(word)
            maybe &= self.text.has(word, self.begins)
        return maybe

    def raw(self) -> list[bytes | None]:
        """Their bytes; None for null."""
        raws: list[bytes | None] = self.text.cut(self.begins, self.ends, self.absent).view(pa.binary()).to_pylist()
        return raws

    def inside(self) -> tuple[Places, Places]:
        """Their beginnings and ends, without the quotes of texts."""
        quoted = self.quoted if (self.texts != 0).any() else None
        return (self.begins, self.ends) if quoted is None else (self.begins + quoted, self.ends - quoted)


def texts_of(spans: Spans, *, any_value: bool) -> tuple[pa.StringArray, Mask]:
    """The contents of texts; whatever else is in doubt, or, with `any_value`, has its JSON text if it is valid."""
    other = ~spans.quoted if spans.absent is None else ~(spans.quoted | spans.absent)
    texts, doubt = spans.text.cut(*spans.inside(), spans.absent), other
    if not any_value and other.any():
        texts = pc.if_else(pa.array(other), None, texts)
    elif other.any():
        doubt = other & ~is_valid(spans)
    if len(spans.text.odd):
        odd = _are_odd(spans) & spans.quoted
        if odd.any():
            places = np.flatnonzero(odd)
            quoted = spans.text.cut(spans.begins[places], spans.ends[places])
            contents, wrong = _unquoted(quoted.view(pa.binary()).to_pylist())
            texts = pc.replace_with_mask(texts, pa.array(odd), contents)
            doubt[places] |= wrong
    return texts, doubt


def _unquoted(values: list[bytes]) -> tuple[pa.StringArray, Mask]:
    """The contents of texts, with what is escaped in them, and those that are no JSON."""
    wrong = np.zeros(len(values), dtype=np.bool_)
    try:
        # Each ends with a quote that isn't escaped, or begins another text, which no comma would follow.
        contents = _TEXTS.decode(b"[" + b",".join(values) + b"]")
    except REFUSED:
        contents = []
    if len(contents) != len(values):
        contents = [""] * len(values)
        for row, value in enumerate(values):
            try:
                contents[row] = _TEXT.decode(value)
            except REFUSED:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
                wrong[row] = True
    return pa.array(contents, pa.string()), wrong


def integers(spans: Spans, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Whole numbers, also in texts."""
    begins, ends = spans.inside()
    octets = spans.text.octets
    is_negative = octets[begins] == _MINUS
    lead = octets[begins + is_negative]
    sure = (lead >= _ONE) & (lead <= _NINE)
    if not sure.all():
        sure |= (lead == _ZERO) & (ends - begins - is_negative == 1)
    numbers = spans.text.cut(begins, ends, spans.absent)
    doubt = ~sure if spans.absent is None else ~(sure | spans.absent)
    if not doubt.any():
        try:
            # Behind a first digit that isn't 0, Arrow takes nothing but digits.
            return numbers.cast(kind), doubt
        except pa.ArrowInvalid:
            """One of them at least is no such number."""
    numbers, doubt = _matching(numbers, _INTEGER)
    wide = numbers.cast(pa.int64())
    limit = 1 << (kind.bit_width - 1)
    values = wide.fill_null(0).to_numpy(zero_copy_only=False)
    beyond = (values < -limit) | (values >= limit)
    return pa.array(np.where(beyond, 0, values), kind, mask=nulls(wide)), doubt | beyond


def floats(spans: Spans) -> tuple[pa.Array, Mask]:
    """Numbers, also in texts, as DOUBLE. Those that are too large are infinite."""
    numbers = spans.text.cut(*spans.inside(), spans.absent)
    plain = (spans.first >= _ZERO) & (spans.first <= _NINE)
    if spans.absent is not None:
        plain |= spans.absent
    if spans.text.is_json and plain.all():
        return numbers.cast(pa.float64()), ~plain
    numbers, doubt = _matching(numbers, _NUMBER)
    return numbers.cast(pa.float64()), doubt


def booleans(spans: Spans) -> tuple[pa.Array, Mask]:
    """`true` and `false`."""
    true, false = spans.are(b"true"), spans.are(b"false")
    doubt = ~(true | false)
    return pa.array(true, mask=spans.absent), doubt if spans.absent is None else doubt & ~spans.absent


def decimals(spans: Spans, kind: Decimal, arrow: pa.DataType) -> tuple[pa.Array, Mask]:
    """Numbers, also in texts, that fit exactly."""
    begins, ends = spans.inside()
    numbers, doubt = _matching(spans.text.cut(begins, ends, spans.absent), _DECIMAL)
    if (ends - begins).max(initial=0) + kind.scale <= _DIGITS:
        try:
            return numbers.cast(arrow), doubt
        except pa.ArrowInvalid:
            """One of them at least doesn't fit."""
    array, unfit = parse_each(numbers.to_pylist(), lambda text: decimal_of(text, kind), arrow)
    return array, doubt | unfit


def raw_values(spans: Spans) -> tuple[list[bytes | None], Mask]:
    """The JSON text of each, without white space around it; None for null."""
    values = spans.raw()
    return values, np.zeros(len(values), dtype=np.bool_) if spans.text.is_json else _not_json(values)


def _not_json(values: list[bytes | None]) -> Mask:
    """Where they aren't one JSON value without white space around it; these become None, too."""
    doubt = np.zeros(len(values), dtype=np.bool_)
    for row, value in enumerate(values):
        if value is None:
            continue
        try:
            whole = bytes(_RAW.decode(value)) == value
        except REFUSED:
            whole = False
        if not whole:
            values[row], doubt[row] = None, True
    return doubt


def is_valid(spans: Spans) -> Mask:
    """Which of them are known to be JSON values."""
    if spans.text.is_json:
        return np.ones(len(spans), dtype=np.bool_)
    valid = spans.are(b"true") | spans.are(b"false")
    valid |= spans.quoted & ~_are_odd(spans) if len(spans.text.odd) else spans.quoted
    if spans.absent is not None:
        valid |= spans.absent
    if not valid.all():
        rest = np.flatnonzero(~valid)
        others = spans.text.cut(spans.begins[rest], spans.ends[rest])
        _, doubt = _matching(others, _NUMBER)
        if doubt.any():
            nested = np.flatnonzero(doubt)
            doubt[nested] = _not_json(others.take(pa.array(nested)).view(pa.binary()).to_pylist())
        valid[rest] = ~doubt
    return valid


def _are_odd(spans: Spans) -> Mask:
    """Which of them hold a backslash or a control character."""
    odd: Mask = np.searchsorted(spans.text.odd, spans.begins) != np.searchsorted(spans.text.odd, spans.ends)
    return odd


def _matching(numbers: pa.StringArray, pattern: str) -> tuple[pa.StringArray, Mask]:
    """`numbers`, null where they don't match, and where that is."""
    matches = pc.match_substring_regex(numbers, pattern)
    doubt = ~np.asarray(matches.fill_null(True).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return (pc.if_else(pa.array(doubt), None, numbers) if doubt.any() else numbers), doubt


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
