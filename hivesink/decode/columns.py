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
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type
from hivesink.decode.clocks import Mask, dates, from_millis, nulls, parse_each, timestamps
from hivesink.decode.values import binary_of

if TYPE_CHECKING:
    from hivesink.decode.exact import ValueParser


def msgspec_type(kind: HiveType, *, epoch: bool) -> type | None:
    """The Python type that msgspec decodes a column of `kind` to without loss; None if none does."""
    match kind:
        case Primitive.BOOLEAN:
            return bool
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float
        case Primitive.DATE | Primitive.TIMESTAMP if epoch:
            return int
        case Primitive():
            return int if kind in INTEGER_BITS else str
        case Varchar() | Char():
            return str
        case _:
            return None


@dataclass(slots=True)
class Converted:
    """`array` means nothing where `doubt` is set; `quotes` is how many quotes the values have in the input."""

    array: pa.Array
    doubt: Mask
    quotes: int
    absent: int


class ColumnReader:
    """Values of one column, decoded by their msgspec type, or kept as JSON text (raw)."""

    def __init__(self, column: Column, parser: ValueParser) -> None:
        self.column = column
        self.kind = column.type
        self.arrow = arrow_type(column.type)
        self.parser = parser
        self.type = msgspec_type(column.type, epoch=parser.epoch)

    def convert(self, values: list[Any], *, raw: bool, escapes: bool) -> Converted:
        """`values` has a value, None, or UNSET for each row; `escapes`: whether the input holds a backslash."""
        if raw:
            converted = self._raw(values)
        elif self.type is str:
            converted = self._texts(values, escapes=escapes)
        else:
            converted = self._numbers(values)
        if not self.column.nullable and converted.array.null_count:
            converted.doubt |= nulls(converted.array)
        return converted

    def _numbers(self, values: list[Any]) -> Converted:
        kind = pa.int64() if self.type is int and self.kind not in INTEGER_BITS else self.arrow
        doubt = np.zeros(len(values), dtype=np.bool_)
        absent = 0
        try:
            array = pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            values, absent = _present(values)
            try:
                array = pa.array(values, kind)
            except (pa.ArrowInvalid, OverflowError):
                array = self._in_range(values, kind, doubt)
        if self.kind is Primitive.FLOAT:
            doubt |= np.isinf(array.fill_null(0).to_numpy(zero_copy_only=False))
        if kind is not self.arrow and kind != self.arrow:
            array, beyond = from_millis(array, self.parser.zone, self.arrow)
            doubt |= beyond
        return Converted(array, doubt, 0, absent)

    def _in_range(self, values: list[Any], kind: pa.DataType, doubt: Mask) -> pa.Array:
        limit = 1 << (kind.bit_width - 1)
        for row, value in enumerate(values):
            doubt[row] = value is not None and not -limit <= value < limit
        return pa.array(values, kind, mask=doubt)

    def _texts(self, values: list[Any], *, escapes: bool) -> Converted:
        absent = 0
        try:
            texts = pa.array(values, pa.string())
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            values, absent = _present(values)
            texts = pa.array(values, pa.string())
        quotes = 2 * (len(texts) - texts.null_count)
        if escapes:
            quotes += pc.sum(pc.count_substring(texts, '"')).as_py() or 0
        array, doubt = self._from_texts(texts)
        return Converted(array, doubt, quotes, absent)

    def _from_texts(self, texts: pa.Array) -> tuple[pa.Array, Mask]:
        match self.kind:
            case Primitive.TIMESTAMP:
                return timestamps(texts, self.parser.zone)
            case Primitive.DATE:
                return dates(texts)
            case Primitive.BINARY:
                return parse_each(texts.to_pylist(), binary_of, self.arrow)
            case Char():
                return _bounded(pc.utf8_rtrim(texts, characters=" "), self.kind.length)
            case Varchar():
                return _bounded(texts, self.kind.length)
            case _:
                return texts, np.zeros(len(texts), dtype=np.bool_)

    def _raw(self, values: list[Any]) -> Converted:
        values, absent = _present(values)
        raws = [None if value is None else bytes(value) for value in values]
        quotes = b"".join(raw for raw in raws if raw is not None).count(b'"')
        parse, kind = self.parser.parse, self.kind
        array, doubt = parse_each(raws, lambda raw: parse(raw.decode(), kind), self.arrow)
        return Converted(array, doubt, quotes, absent)


def _present(values: list[Any]) -> tuple[list[Any], int]:
    """UNSET as None, and how many there were."""
    return [None if value is UNSET else value for value in values], sum(value is UNSET for value in values)


def _bounded(texts: pa.Array, length: int) -> tuple[pa.Array, Mask]:
    lengths = pc.utf8_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    return texts, lengths > length


def quotes_in(value: Any) -> int:
    r"""How many quotes `value` has in the input, provided that none is written as `\u0022`."""
    if isinstance(value, str):
        return 2 + value.count('"')
    return bytes(value).count(b'"') if isinstance(value, msgspec.Raw) else 0
