"""How each column becomes Arrow: from values that msgspec has decoded, or from where they are in a chunk's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from hivesink.core.table import Char, Column, Decimal, HiveType, Primitive, Varchar
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type
from hivesink.decode.clocks import Mask, bounded, counted, dates, nulls, parse_each, patterned, timestamps
from hivesink.decode.json.nested import nested_reader
from hivesink.decode.json.spans import Spans, booleans, decimals, floats, integers, raw_values, texts_of
from hivesink.decode.values import InvalidValue, binary_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.decode.json.exact import Branch, ValueParser


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
    """`arrays` mean nothing where `doubt` is set; `quotes` is how many quotes the values have in the input.

    There is one array for each column that is read.
    """

    arrays: tuple[pa.Array, ...]
    doubt: Mask
    quotes: int
    absent: int


class ColumnReader:
    """A field that is the value of one column, decoded by its msgspec type, or kept as JSON text (raw)."""

    def __init__(self, name: str, index: int, column: Column, parser: ValueParser) -> None:
        self.name = name
        self.indexes = (index,)
        self.column = column
        self.kind = column.type
        self.arrow = arrow_type(column.type)
        self.parser = parser
        self.type = msgspec_type(column.type, epoch=parser.times.unit is not None)
        self._nested = nested_reader(column.type)

    def convert(self, values: list[Any], *, raw: bool, escapes: bool) -> Converted:
        """`values` has a value, None, or UNSET for each row; `escapes`: whether the input holds a backslash."""
        if raw:
            converted = self._raw(values)
        elif self.type is str:
            converted = self._texts(values, escapes=escapes)
        else:
            converted = self._numbers(values)
        return self._required(converted)

    def convert_spans(self, spans: Spans) -> Converted:
        """As `convert`, of values that may be no JSON: these are in doubt."""
        if isinstance(self.kind, Decimal):
            array, doubt = decimals(spans, self.kind, self.arrow)
        elif self.type is str:
            texts, doubt = texts_of(spans)
            array, more = self._from_texts(texts)
            doubt |= more
        elif self.type is bool:
            array, doubt = booleans(spans)
        elif self._nested and (column := self._nested(spans)) is not None:
            array, doubt = column
        elif self.type is None:
            values, doubt = raw_values(spans)
            array, more = self._parsed(values)
            doubt |= more
        else:
            array, doubt = self._numeric(*(integers(spans, self._number) if self.type is int else floats(spans)))
        return self._required(Converted((array,), doubt, 0, 0))

    @property
    def is_required(self) -> bool:
        """Whether a record without the field is bad."""
        return not self.column.nullable

    def _required(self, converted: Converted) -> Converted:
        (array,) = converted.arrays
        if self.is_required and array.null_count:
            converted.doubt |= nulls(array)
        return converted

    def _numbers(self, values: list[Any]) -> Converted:
        kind = self._number
        doubt = np.zeros(len(values), dtype=np.bool_)
        absent = 0
        try:
            array = pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            values, absent = _present(values)
            try:
                array = pa.array(values, kind)
            except (pa.ArrowInvalid, OverflowError):
                limit = 1 << (kind.bit_width - 1)
                for row, value in enumerate(values):
                    doubt[row] = value is not None and not -limit <= value < limit
                array = pa.array(values, kind, mask=doubt)
        array, doubt = self._numeric(array, doubt)
        return Converted((array,), doubt, 0, absent)

    @property
    def _number(self) -> pa.DataType:
        """The type in which numbers for the column are read."""
        return pa.int64() if self.type is int and self.kind not in INTEGER_BITS else self.arrow

    def _numeric(self, array: pa.Array, doubt: Mask) -> tuple[pa.Array, Mask]:
        """Numbers as the column has them."""
        if self.type is float:
            array = array.cast(self.arrow, safe=False)
            doubt |= np.isinf(array.fill_null(0).to_numpy(zero_copy_only=False))
        elif self.type is int and self.kind not in INTEGER_BITS and (unit := self.parser.times.unit):
            of_unit = counted(array, unit, self.arrow, self.parser.times)
            return of_unit.clocks, doubt | of_unit.doubt
        return array, doubt

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
        return Converted((array,), doubt, quotes, absent)

    def _from_texts(self, texts: pa.Array) -> tuple[pa.Array, Mask]:
        match self.kind:
            case Primitive.TIMESTAMP | Primitive.DATE if self.parser.times.pattern is not None:
                return patterned(texts, self.kind, self.parser.times)
            case Primitive.TIMESTAMP:
                return timestamps(texts, self.parser.times)
            case Primitive.DATE:
                return dates(texts)
            case Primitive.BINARY:
                return parse_each(texts.to_pylist(), binary_of, self.arrow)
            case Varchar() | Char():
                return bounded(texts, self.kind)
            case _:
                return texts, np.zeros(len(texts), dtype=np.bool_)

    def _raw(self, values: list[Any]) -> Converted:
        raws, quotes, absent = _raws(values)
        array, doubt = self._parsed(raws)
        return Converted((array,), doubt, quotes, absent)

    def _parsed(self, raws: list[bytes | None]) -> tuple[pa.Array, Mask]:
        parse, kind = self.parser.parse, self.kind
        return parse_each(raws, lambda raw: parse(raw.decode(), kind), self.arrow)


class PathsReader:
    """A field that several columns read, or that a path leads into: its JSON text is looked through once."""

    type = None

    def __init__(self, name: str, branch: Branch, columns: Sequence[Column], parsers: Sequence[ValueParser]) -> None:
        self.name = name
        self.indexes = branch.all_columns()
        self._branch = branch
        self._columns = [columns[index] for index in self.indexes]
        self._parsers = [parsers[index] for index in self.indexes]

    def convert(self, values: list[Any], *, raw: bool, escapes: bool) -> Converted:  # noqa: ARG002 -- as the other's
        """As `ColumnReader.convert`; `values` are always raw."""
        raws, quotes, absent = _raws(values)
        arrays, doubt = self._picked(raws)
        return Converted(arrays, doubt, quotes, absent)

    def convert_spans(self, spans: Spans) -> Converted:
        values, doubt = raw_values(spans)
        arrays, more = self._picked(values)
        return Converted(arrays, doubt | more, 0, 0)

    @property
    def is_required(self) -> bool:
        return not all(column.nullable for column in self._columns)

    def _picked(self, raws: list[bytes | None]) -> tuple[tuple[pa.Array, ...], Mask]:
        doubt = np.zeros(len(raws), dtype=np.bool_)
        cells: list[list[Any]] = [[None] * len(raws) for _ in self.indexes]
        for row, text in enumerate(raws):
            texts: dict[int, str] = {}
            try:
                if text is not None:
                    self._branch.pick(text.decode(), texts)
                for place, index in enumerate(self.indexes):
                    cells[place][row] = self._value(place, texts.get(index, "null"))
            except InvalidValue:
                doubt[row] = True
        kinds = [arrow_type(column.type) for column in self._columns]
        return tuple(pa.array(own, kind) for own, kind in zip(cells, kinds, strict=True)), doubt

    def _value(self, place: int, raw: str) -> Any:
        column = self._columns[place]
        if raw == "null" and not column.nullable:
            raise InvalidValue(reason="null")
        return self._parsers[place].parse(raw, column.type)


def _raws(values: list[Any]) -> tuple[list[bytes | None], int, int]:
    """JSON texts, the quotes in them, and how many are absent."""
    values, absent = _present(values)
    raws = [None if value is None else bytes(value) for value in values]
    return raws, b"".join(raw for raw in raws if raw is not None).count(b'"'), absent


def _present(values: list[Any]) -> tuple[list[Any], int]:
    """UNSET as None, and how many there were."""
    return [None if value is UNSET else value for value in values], sum(value is UNSET for value in values)


def quotes_in(value: Any) -> int:
    r"""How many quotes `value` has in the input, provided that none is written as `\u0022`."""
    if isinstance(value, str):
        return 2 + value.count('"')
    return bytes(value).count(b'"') if isinstance(value, msgspec.Raw) else 0
