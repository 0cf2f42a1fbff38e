"""Columns of a table from where their JSON values are in a text.

Nested columns are read at once where it can be proved that nothing is lost; others are parsed value by value.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from msgspec import Meta

from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode import clocks
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema, arrow_type
from hivesink.decode.clocks import REFUSED, Mask, each, nulls, parse_each
from hivesink.decode.json.exact import number_of
from hivesink.decode.json.spans import NUMBER, Spans, decimals, integers, joined, raw_values, texts_of
from hivesink.decode.values import InvalidValue, binary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.decode.json.exact import Branch, ExactDecoder, ValueParser

_SCALARS = {
    Primitive.STRING: str,
    Primitive.DOUBLE: float,
    Primitive.BOOLEAN: bool,
    **{kind: Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for kind, bits in INTEGER_BITS.items()},
}
"""The scalars that Arrow and msgspec read as the exact decoder does, as msgspec's types."""
_Nested: TypeAlias = "Callable[[Spans], tuple[pa.Array, Mask] | None]"
"""Reads a nested column, or returns None where it can't prove the values."""


class ColumnReader:
    """A field that is the value of one slot. `is_required`: it may not be null."""

    def __init__(self, slot: int, column: Column, parser: ValueParser, *, is_required: bool) -> None:
        self.slots = (slot,)
        self.is_required = is_required
        self._kind = column.type
        self._arrow = arrow_type(column.type)
        self._parser = parser
        self._nested: _Nested = lambda _: None
        match column.type:
            case _ if parser.nulls or parser.number is not number_of:
                """Only the parser knows them within a value."""
            case Array() | Struct() if _is_plain(column.type):
                self._nested = _ArrowReader(column.type).read
            case Map(Primitive.STRING, Primitive() as value) if value in _SCALARS:
                self._nested = _map_reader(self._arrow, _SCALARS[value])

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        """The column, and the rows in doubt, whose values mean nothing: `spans` may be no JSON."""
        if self._parser.nulls:
            spans = spans.without(self._parser.null_texts(self._kind))
        array, doubt = self._read(spans)
        return [array], doubt | nulls(array) if self.is_required and array.null_count else doubt

    def _read(self, spans: Spans) -> tuple[pa.Array, Mask]:  # noqa: PLR0911 -- one for each kind of type
        kind, times = self._kind, self._parser.times
        if self._parser.number is not number_of and spans.quoted.any():
            return self._parsed(spans)
        match kind:
            case Decimal():
                return decimals(spans, kind, self._arrow)
            case Primitive.BOOLEAN:
                true = spans.are(b"true")
                doubt = ~(true | spans.are(b"false"))
                return pa.array(true, mask=spans.absent), doubt if spans.absent is None else doubt & ~spans.absent
            case Primitive.FLOAT | Primitive.DOUBLE:
                numbers, doubt = spans.numbers(NUMBER)
                # Those that are too large are infinite.
                array = numbers.cast(pa.float64()).cast(self._arrow, safe=False)
                return array, doubt | np.isinf(array.fill_null(0).to_numpy(zero_copy_only=False))
            case Primitive.TIMESTAMP | Primitive.DATE if times.unit is not None:
                numbers, doubt = integers(spans, pa.int64())
                shown, wrong = clocks.counted(numbers, times.unit, self._arrow, times)
                return shown, np.logical_or.reduce([doubt, *(mask for mask, _ in wrong)])
            case Primitive() if kind in INTEGER_BITS:
                return integers(spans, self._arrow)
            case Primitive.STRING:
                return texts_of(spans, any_value=True)
            case Primitive() | Varchar() | Char():
                texts, doubt = texts_of(spans, any_value=not isinstance(kind, Primitive))
                array, unfit = self._of_texts(texts)
                return array, doubt | unfit
        column = self._nested(spans)
        return self._parsed(spans) if column is None else column

    def _parsed(self, spans: Spans) -> tuple[pa.Array, Mask]:
        raws, doubt = raw_values(spans)
        # Of a value that comes often, all but the first are looked up.
        parse = cache(lambda raw: self._parser.parse(raw.decode(), self._kind))
        array, unfit = parse_each(raws, parse, self._arrow)
        return array, doubt | unfit

    def _of_texts(self, texts: pa.StringArray) -> tuple[pa.Array, Mask]:
        kind, times = self._kind, self._parser.times
        match kind:
            case Primitive.TIMESTAMP | Primitive.DATE if times.pattern is not None:
                return clocks.patterned(texts, kind, times)
            case Primitive.TIMESTAMP:
                return clocks.timestamps(texts, times)
            case Primitive.DATE:
                return clocks.dates(texts)
            case Varchar() | Char():
                return clocks.bounded(texts, kind)
        return parse_each(texts.to_pylist(), binary_of, self._arrow)


def _is_plain(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _is_plain(element)
        case Struct(fields):
            return all(_is_plain(field) for _, field in fields)
    return kind in _SCALARS


def _map_reader(arrow: pa.MapType, value: Any) -> _Nested:
    """By msgspec, which silently keeps the last of two entries of one key.

    But in records of one shape each value has as many keys as the others: a map of as many entries has lost none.
    """
    decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, value | None])

    def read(spans: Spans) -> tuple[pa.Array, Mask] | None:
        def entries(raw: bytes) -> dict[str, Any]:
            pairs = decoder.decode(raw)
            if len(pairs) != spans.keys:
                raise InvalidValue(reason="duplicate key")
            return pairs

        return None if spans.keys is None else parse_each(spans.raw(), entries, arrow)

    return read


class _ArrowReader:
    """Reads columns whose structs spell their fields' names alike, by Arrow's reader of JSON lines.

    It takes an explicit schema, refuses two fields of one name and unknown ones, and knows no maps. It takes a column
    or refuses it. A value can't run into the next one: `}` is followed by a line feed and `{`, which JSON allows only
    between two lines, so as many lines as values are one value each.
    """

    def __init__(self, kind: HiveType) -> None:
        self._kind = kind
        self._arrow = self._spelled = arrow_type(kind)

    def read(self, spans: Spans) -> tuple[pa.Array, Mask] | None:
        """None where a value is refused or may be another one."""
        column = self._lines(spans)
        if column is None:
            # Once more with the names of the first value that isn't null.
            first = next((raw for raw in spans.raw() if raw is not None), b"null")
            ((sample,), _) = each([first], msgspec.json.decode)
            before, self._spelled = self._spelled, _spelled(self._kind, sample)
            column = self._lines(spans) if self._spelled != before else None
        return None if column is None else (column.view(self._arrow), np.zeros(len(spans), dtype=np.bool_))

    def _lines(self, spans: Spans) -> pa.Array | None:
        texts = spans.text.cut(spans.begins, spans.ends)
        text = b"".join([b'{"":', memoryview(joined(texts, '}\n{"":')), b"}"])
        schema = pa.schema([("", self._spelled)])
        parsing = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        try:
            # In one block, which gives one chunk.
            reading = pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
            column = pa.json.read_json(pa.BufferReader(text), reading, parsing).column(0).combine_chunks()
        except REFUSED:
            return None
        return column if len(column) == len(spans) and _are_sound(column) else None


def _spelled(kind: HiveType, sample: Any) -> pa.DataType:
    """The Arrow type of `kind`, the names of its structs' fields as in `sample`, or in lower case."""
    match kind:
        case Struct(fields):
            given = {name.lower(): name for name in sample} if isinstance(sample, dict) else {}
            names = [given.get(name.lower(), name.lower()) for name, _ in fields]
            deeper = [sample[name] if name.lower() in given else None for name in names]
            types = [_spelled(field, value) for (_, field), value in zip(fields, deeper, strict=True)]
            return pa.struct(list(zip(names, types, strict=True)))
        case Array(element):
            return pa.list_(_spelled(element, next(iter(sample), None) if isinstance(sample, list) else None))
    return arrow_type(kind)


def _are_sound(column: pa.Array) -> bool:
    """Whether all doubles are finite, as Arrow takes `NaN` and what is too large, and none is the integer -0."""
    if pa.types.is_list(column.type):
        return _are_sound(column.values)
    if pa.types.is_struct(column.type):
        return all(_are_sound(column.field(index)) for index in range(column.type.num_fields))
    if not pa.types.is_float64(column.type):
        return True
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return bool(np.isfinite(values).all()) and not np.signbit(values[values == 0]).any()


class PathsReader:
    """A field that several columns read, or that a path leads into: its JSON text is looked through once."""

    def __init__(self, branch: Branch, exact: ExactDecoder) -> None:
        self.slots = branch.all_columns()
        self._branch = branch
        self._exact = exact
        self._required = [exact.is_required(slot) for slot in self.slots]
        self.is_required = any(self._required)

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        """As `ColumnReader.read`."""
        raws, doubt = raw_values(spans)

        def row(raw: bytes) -> list[Any]:
            texts: dict[int, str] = {}
            self._branch.pick(raw.decode(), texts)
            return [self._exact.value(slot, texts.get(slot)) for slot in self.slots]

        rows, unfit = each([raw or b"null" for raw in raws], row)
        doubt |= unfit
        arrays = []
        for place, (slot, is_required) in enumerate(zip(self.slots, self._required, strict=True)):
            kind = arrow_type(self._exact.columns[self._exact.slots[slot]].type)
            arrays.append(pa.array([row and row[place] for row in rows], kind))
            if is_required:
                doubt |= nulls(arrays[-1])
        return arrays, doubt


class JsonColumns:
    """All columns of a table, from the fields of records."""

    def __init__(self, exact: ExactDecoder) -> None:
        self.schema = arrow_schema(exact.columns)
        self._exact = exact
        self._kinds = [self.schema.types[index] for index in exact.slots]
        self.ignore_unknown = exact.ignore_unknown
        self.readers: dict[str, ColumnReader | PathsReader] = {}
        """By the field's name in lower case."""
        for name, branch in exact.read.below.items():
            if branch.below or len(branch.columns) > 1:
                self.readers[str(name)] = PathsReader(branch, exact)
            else:
                (slot,) = branch.columns
                column, parser = exact.columns[exact.slots[slot]], exact.parsers[slot]
                self.readers[str(name)] = ColumnReader(slot, column, parser, is_required=exact.is_required(slot))

    def read(self, fields: Mapping[str, Spans], rows: int) -> tuple[pa.RecordBatch, Mask]:
        """The columns of `rows` records that have the same `fields`, by their names, and the records in doubt."""
        doubt = np.zeros(rows, dtype=np.bool_)
        arrays: list[pa.Array] = [pa.nulls(rows, kind) for kind in self._kinds]
        for name, reader in self.readers.items():
            if name not in fields:
                doubt |= reader.is_required
                continue
            columns, unfit = reader.read(fields[name])
            doubt |= unfit
            for slot, column in zip(reader.slots, columns, strict=True):
                arrays[slot] = column
        if len(arrays) > len(self.schema):
            arrays = [pc.coalesce(*(arrays[slot] for slot in slots)) for slots in self._exact.slots_of]
            for column, array in zip(self._exact.columns, arrays, strict=True):
                doubt |= False if column.nullable else nulls(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), doubt
