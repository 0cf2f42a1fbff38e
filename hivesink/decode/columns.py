"""What the fast decoder knows of a stream: the field names in its records, and how each column becomes Arrow.

It learns the names from the records, and builds a msgspec Struct with exactly these fields. The Struct matches names
exactly and refuses all others, so each spelling that occurs gets its own field: a column may have several, an ignored
field has one too, and nothing passes unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Raw, UnsetType

from hivesink.core.table import Char, Column, Decimal, HiveType, Primitive, Varchar
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type
from hivesink.decode.clocks import Mask, bounded, dates, from_millis, nulls, parse_each, timestamps
from hivesink.decode.nested import NestedDecoder
from hivesink.decode.scan import NotJson, document, members, unquote
from hivesink.decode.spans import Spans, booleans, decimals, floats, integers, raw_values, texts_of
from hivesink.decode.values import InvalidValue, binary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hivesink.decode.exact import ValueParser
    from hivesink.decode.paths import Branch

# Beyond this a stream's field names are data rather than a schema, and its records go to the exact decoder.
EXTRA_NAMES = 100


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
        self.type = msgspec_type(column.type, epoch=parser.epoch)
        self._nested = NestedDecoder.of(column.type)

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
        elif self._nested is not None:
            array, doubt = self._decoded(spans, self._nested)
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
        elif self._number != self.arrow:
            array, beyond = from_millis(array, self.parser.zone, self.arrow)
            doubt |= beyond
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
            case Primitive.TIMESTAMP:
                return timestamps(texts, self.parser.zone)
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

    def _decoded(self, spans: Spans, nested: NestedDecoder) -> tuple[pa.Array, Mask]:
        doubt = np.zeros(len(spans), dtype=np.bool_)
        values: list[Any] = spans.raw()
        for row, raw in enumerate(values):
            if raw is not None:
                values[row], is_sure = nested.decode(raw, spans.keys)
                doubt[row] = not is_sure
        return pa.array(values, self.arrow), doubt

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
        """As `ColumnReader.convert_spans`."""
        values, doubt = raw_values(spans)
        arrays, more = self._picked(values)
        return Converted(arrays, doubt | more, 0, 0)

    @property
    def is_required(self) -> bool:
        """Whether a record without the field is bad."""
        return not all(column.nullable for column in self._columns)

    def _picked(self, raws: list[bytes | None]) -> tuple[tuple[pa.Array, ...], Mask]:
        doubt = np.zeros(len(raws), dtype=np.bool_)
        cells: list[list[Any]] = [[None] * len(raws) for _ in self.indexes]
        for row, text in enumerate(raws):
            found: dict[int, str] = {}
            try:
                if text is not None:
                    self._branch.pick(text.decode(), found)
                for place, index in enumerate(self.indexes):
                    cells[place][row] = self._value(place, found.get(index, "null"))
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


@dataclass(frozen=True, slots=True)
class Slot:
    """One Struct field, and the index of its reader; None for an ignored field."""

    name: str
    reader: int | None
    get: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """The decoder for a record, and the fields of what it returns."""

    record: type[msgspec.Struct]
    decoder: msgspec.json.Decoder[Any]
    slots: tuple[Slot, ...]


class FieldNames:
    """The field names seen so far, and the readers that get raw JSON text as their type was wrong too often."""

    def __init__(self, readers: Sequence[ColumnReader | PathsReader], *, ignore_unknown: bool) -> None:
        self._readers = readers
        self._known = {reader.name: index for index, reader in enumerate(readers)}
        self._ignore_unknown = ignore_unknown
        self._seen: dict[str, int | None] = {}
        self.raw = {index for index, reader in enumerate(readers) if reader.type is None}
        self.layout = self._build()

    def learn(self, records: Iterable[bytes]) -> bool:
        """Add the field names of `records`; return whether any is new."""
        before = len(self._seen)
        for record in records:
            for name in _names(record):
                self._add(name)
        if len(self._seen) == before:
            return False
        self.layout = self._build()
        return True

    def read_raw(self, readers: set[int]) -> bool:
        """Keep the JSON text for `readers` from now on; return whether that changes anything."""
        if readers <= self.raw:
            return False
        self.raw |= readers
        self.layout = self._build()
        return True

    def reader(self, name: str) -> int | None:
        return self._seen.get(name)

    def _add(self, name: str) -> None:
        reader = self._known.get(name.lower())
        full = len(self._seen) >= len(self._known) + EXTRA_NAMES
        if name in self._seen or full or not (self._ignore_unknown or reader is not None):
            return
        # The proof against duplicate fields counts quotes, and a Struct's names are UTF-8 without backslashes.
        if '"' not in name and "\\" not in name and name.isprintable():
            self._seen[name] = reader

    def _build(self) -> Layout:
        slots = tuple(
            Slot(name, reader, attrgetter(f"f{index}")) for index, (name, reader) in enumerate(self._seen.items())
        )
        record = msgspec.defstruct(
            "Record",
            [(f"f{index}", self._type(slot.reader), UNSET) for index, slot in enumerate(slots)],
            rename={f"f{index}": slot.name for index, slot in enumerate(slots)},
            forbid_unknown_fields=True,
            gc=False,
        )
        return Layout(record, msgspec.json.Decoder(record), slots)

    def _type(self, reader: int | None) -> Any:
        if reader is None or reader in self.raw:
            return Raw | UnsetType
        return self._readers[reader].type | None | UnsetType  # type: ignore[operator]


def _names(record: bytes) -> list[str]:
    try:
        raw = document(record.decode())
    except (UnicodeDecodeError, NotJson):
        return []
    return [unquote(quoted) for quoted, _ in members(raw)] if raw[0] == "{" else []
