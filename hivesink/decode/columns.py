"""One column of decoded Python values to Arrow, with the rows that need the exact decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from hivesink.core.table import Char, Column, HiveType, Primitive, Varchar
from hivesink.decode.arrowtypes import arrow_type
from hivesink.decode.clocks import Mask, dates, from_millis, nulls, timestamps
from hivesink.decode.exact import Values, binary_of
from hivesink.decode.unfit import Unfit

if TYPE_CHECKING:
    from collections.abc import Callable

_INTEGERS = {
    Primitive.TINYINT: (-(1 << 7), (1 << 7) - 1),
    Primitive.SMALLINT: (-(1 << 15), (1 << 15) - 1),
    Primitive.INT: (-(1 << 31), (1 << 31) - 1),
    Primitive.BIGINT: (-(1 << 63), (1 << 63) - 1),
}
_TEXTS = {Primitive.STRING, Primitive.BINARY, Primitive.DATE, Primitive.TIMESTAMP}


def typed_as(kind: HiveType, *, epoch: bool) -> type | None:
    """The Python type that msgspec decodes a column of `kind` to without loss; None where there is none."""
    match kind:
        case Primitive.BOOLEAN:
            return bool
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float
        case Primitive.DATE | Primitive.TIMESTAMP if epoch:
            return int
        case Primitive():
            return int if kind in _INTEGERS else str
        case Varchar() | Char():
            return str
        case _:
            return None


@dataclass(slots=True)
class Converted:
    """`array` means nothing where `doubt` is set; `quotes` is how many quotes the values took in the input."""

    array: pa.Array
    doubt: Mask
    quotes: int
    absent: int


class ColumnReader:
    """Values of one column, decoded by its msgspec type (typed) or kept as their JSON text (loose)."""

    def __init__(self, column: Column, values: Values) -> None:
        self.column = column
        self.kind = column.type
        self.arrow = arrow_type(column.type)
        self.values = values
        self.typed = typed_as(column.type, epoch=values.epoch)

    def convert(self, found: list[Any], *, loose: bool, escapes: bool) -> Converted:
        """`found` holds a value, None, or UNSET for each row; `escapes`: whether the input holds a backslash."""
        if loose:
            done = self._loose(found)
        elif self.typed is str:
            done = self._texts(found, escapes=escapes)
        else:
            done = self._numbers(found)
        if not self.column.nullable and done.array.null_count:
            done.doubt |= nulls(done.array)
        return done

    def _numbers(self, found: list[Any]) -> Converted:
        kind = pa.int64() if self.typed is int and self.kind not in _INTEGERS else self.arrow
        doubt = np.zeros(len(found), dtype=np.bool_)
        absent = 0
        try:
            array = pa.array(found, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            found, absent = _present(found)
            try:
                array = pa.array(found, kind)
            except (pa.ArrowInvalid, OverflowError):
                array = self._in_range(found, kind, doubt)
        if self.kind is Primitive.FLOAT:
            doubt |= np.isinf(array.fill_null(0).to_numpy(zero_copy_only=False))
        if kind is not self.arrow and kind != self.arrow:
            array, beyond = from_millis(array, self.values.zone, self.arrow)
            doubt |= beyond
        return Converted(array, doubt, 0, absent)

    def _in_range(self, found: list[Any], kind: pa.DataType, doubt: Mask) -> pa.Array:
        limits = self.kind if isinstance(self.kind, Primitive) else Primitive.BIGINT
        low, high = _INTEGERS.get(limits, _INTEGERS[Primitive.BIGINT])
        for place, value in enumerate(found):
            doubt[place] = value is not None and not low <= value <= high
        return pa.array(found, kind, mask=doubt)

    def _texts(self, found: list[Any], *, escapes: bool) -> Converted:
        absent = 0
        try:
            texts = pa.array(found, pa.string())
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            found, absent = _present(found)
            texts = pa.array(found, pa.string())
        quotes = 2 * (len(texts) - texts.null_count)
        if escapes:
            quotes += pc.sum(pc.count_substring(texts, '"')).as_py() or 0
        array, doubt = self._from_texts(texts)
        return Converted(array, doubt, quotes, absent)

    def _from_texts(self, texts: pa.Array) -> tuple[pa.Array, Mask]:
        match self.kind:
            case Primitive.TIMESTAMP:
                return timestamps(texts, self.values.zone)
            case Primitive.DATE:
                return dates(texts)
            case Primitive.BINARY:
                return self._binaries(texts)
            case Char():
                return _bounded(pc.utf8_rtrim(texts, characters=" "), self.kind.length)
            case Varchar():
                return _bounded(texts, self.kind.length)
            case _:
                return texts, np.zeros(len(texts), dtype=np.bool_)

    def _binaries(self, texts: pa.Array) -> tuple[pa.Array, Mask]:
        return self._each(texts.to_pylist(), binary_of)

    def _each(self, found: list[Any], parse: Callable[[Any], Any]) -> tuple[pa.Array, Mask]:
        doubt = np.zeros(len(found), dtype=np.bool_)
        values: list[Any] = []
        for place, value in enumerate(found):
            try:
                values.append(None if value is None else parse(value))
            except Unfit:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
                values.append(None)
                doubt[place] = True
        return pa.array(values, self.arrow), doubt

    def _loose(self, found: list[Any]) -> Converted:
        found, absent = _present(found)
        raws = [None if value is None else bytes(value) for value in found]
        quotes = b"".join(raw for raw in raws if raw is not None).count(b'"')
        of, kind = self.values.of, self.kind
        array, doubt = self._each(raws, lambda raw: of(raw.decode(), kind))
        return Converted(array, doubt, quotes, absent)


def _present(found: list[Any]) -> tuple[list[Any], int]:
    """UNSET as None, and how many there were."""
    values = [None if value is UNSET else value for value in found]
    return values, sum(value is UNSET for value in found)


def _bounded(texts: pa.Array, length: int) -> tuple[pa.Array, Mask]:
    lengths = pc.utf8_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    return texts, lengths > length


def quotes_in(value: Any) -> int:
    r"""How many quotes `value` took in the input, where no quote was written as `\u0022`."""
    if isinstance(value, str):
        return 2 + value.count('"')
    return bytes(value).count(b'"') if isinstance(value, msgspec.Raw) else 0
