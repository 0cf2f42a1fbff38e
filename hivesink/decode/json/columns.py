"""Columns of a table from where their JSON values are in a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json
from msgspec import Meta

from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema, arrow_type
from hivesink.decode.clocks import Mask, bounded, counted, dates, nulls, parse_each, patterned, timestamps
from hivesink.decode.json.spans import (
    REFUSED,
    Spans,
    booleans,
    decimals,
    floats,
    integers,
    joined,
    raw_values,
    texts_of,
)
from hivesink.decode.values import InvalidValue, binary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hivesink.decode.json.exact import Branch, ExactDecoder, ValueParser


class ColumnReader:
    """A field that is the value of one column."""

    def __init__(self, index: int, column: Column, parser: ValueParser) -> None:
        self.indexes = (index,)
        self.is_required = not column.nullable
        self._kind = column.type
        self._arrow = arrow_type(column.type)
        self._parser = parser
        self._nested = nested_reader(column.type)

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        """The column, and the rows in doubt, whose values mean nothing: `spans` may be no JSON."""
        array, doubt = self._read(spans)
        return [array], doubt | nulls(array) if self.is_required and array.null_count else doubt

    def _read(self, spans: Spans) -> tuple[pa.Array, Mask]:  # noqa: PLR0911 -- one for each kind of type
        kind, times = self._kind, self._parser.times
        match kind:
            case Decimal():
                return decimals(spans, kind, self._arrow)
            case Primitive.BOOLEAN:
                return booleans(spans)
            case Primitive.FLOAT | Primitive.DOUBLE:
                doubles, doubt = floats(spans)
                array = doubles.cast(self._arrow, safe=False)
                return array, doubt | np.isinf(array.fill_null(0).to_numpy(zero_copy_only=False))
            case Primitive.TIMESTAMP | Primitive.DATE if times.unit is not None:
                numbers, doubt = integers(spans, pa.int64())
                clocks, unfit = counted(numbers, times.unit, self._arrow, times)
                return clocks, np.logical_or.reduce([doubt, *(mask for mask, _ in unfit)])
            case Primitive() if kind in INTEGER_BITS:
                return integers(spans, self._arrow)
            case Primitive() | Varchar() | Char():
                return self._from_texts(spans)
        column = self._nested(spans) if self._nested else None
        return self._parsed(spans) if column is None else column

    def _from_texts(self, spans: Spans) -> tuple[pa.Array, Mask]:
        kind, times = self._kind, self._parser.times
        texts, doubt = texts_of(spans, any_value=kind is Primitive.STRING or isinstance(kind, Varchar | Char))
        match kind:
            case Primitive.TIMESTAMP | Primitive.DATE if times.pattern is not None:
                array, unfit = patterned(texts, kind, times)
            case Primitive.TIMESTAMP:
                array, unfit = timestamps(texts, times)
            case Primitive.DATE:
                array, unfit = dates(texts)
            case Primitive.BINARY:
                array, unfit = parse_each(texts.to_pylist(), binary_of, self._arrow)
            case Varchar() | Char():
                array, unfit = bounded(texts, kind)
            case _:
                return texts, doubt
        return array, doubt | unfit

    def _parsed(self, spans: Spans) -> tuple[pa.Array, Mask]:
        raws, doubt = raw_values(spans)
        parse, kind = self._parser.parse, self._kind
        array, unfit = parse_each(raws, lambda raw: parse(raw.decode(), kind), self._arrow)
        return array, doubt | unfit


class PathsReader:
    """A field that several columns read, or that a path leads into: its JSON text is looked through once."""

    def __init__(self, branch: Branch, exact: ExactDecoder) -> None:
        self.indexes = branch.all_columns()
        self._branch = branch
        self._columns = [(exact.columns[index], exact.parsers[index]) for index in self.indexes]
        self.is_required = not all(column.nullable for column, _ in self._columns)

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        """As `ColumnReader.read`."""
        raws, doubt = raw_values(spans)
        cells: list[list[Any]] = [[None] * len(raws) for _ in self.indexes]
        for row, raw in enumerate(raws):
            texts: dict[int, str] = {}
            try:
                if raw is not None:
                    self._branch.pick(raw.decode(), texts)
                for place, index in enumerate(self.indexes):
                    cells[place][row] = self._value(place, texts.get(index, "null"))
            except InvalidValue:
                doubt[row] = True
        kinds = [arrow_type(column.type) for column, _ in self._columns]
        return [pa.array(values, kind) for values, kind in zip(cells, kinds, strict=True)], doubt

    def _value(self, place: int, raw: str) -> Any:
        column, parser = self._columns[place]
        if raw == "null" and not column.nullable:
            raise InvalidValue(reason="null")
        return parser.parse(raw, column.type)


class JsonColumns:
    """All columns of a table, from the fields of records."""

    def __init__(self, exact: ExactDecoder) -> None:
        self.schema = arrow_schema(exact.columns)
        self.ignore_unknown = exact.ignore_unknown
        self.readers = {str(name): _reader(branch, exact) for name, branch in exact.read.below.items()}
        """By the field's name in lower case."""

    def read(self, fields: Mapping[str, Spans], rows: int) -> tuple[pa.RecordBatch, Mask]:
        """The columns of `rows` records that have the same `fields`, by their names, and the records in doubt."""
        doubt = np.zeros(rows, dtype=np.bool_)
        arrays: dict[int, pa.Array] = {}
        for name, reader in self.readers.items():
            if name in fields:
                columns, unfit = reader.read(fields[name])
                arrays.update(zip(reader.indexes, columns, strict=True))
                doubt |= unfit
            else:
                doubt |= reader.is_required
        kinds = enumerate(self.schema.types)
        columns = [arrays[index] if index in arrays else pa.nulls(rows, kind) for index, kind in kinds]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), doubt


def _reader(branch: Branch, exact: ExactDecoder) -> ColumnReader | PathsReader:
    if branch.below or len(branch.columns) > 1:
        return PathsReader(branch, exact)
    (index,) = branch.columns
    return ColumnReader(index, exact.columns[index], exact.parsers[index])


_SCALARS = {
    Primitive.STRING: str,
    Primitive.DOUBLE: float,
    Primitive.BOOLEAN: bool,
    **{kind: Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for kind, bits in INTEGER_BITS.items()},
}
"""The scalars that Arrow and msgspec read as the exact decoder does, as msgspec's types."""

ReadNested: TypeAlias = "Callable[[Spans], tuple[pa.Array, Mask] | None]"


def nested_reader(kind: HiveType) -> ReadNested | None:
    """A function that reads a column of `kind`, or returns None where it can't prove the values.

    None for types that it can't read, and for those that aren't nested.
    """
    match kind:
        case Array() | Struct() if _is_plain(kind):
            return _ArrowReader(kind)
        case Map(Primitive.STRING, Primitive() as value) if value in _SCALARS:
            return _map_reader(kind, _SCALARS[value])
    return None


def _is_plain(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _is_plain(element)
        case Struct(fields):
            return all(_is_plain(field) for _, field in fields)
    return kind in _SCALARS


def _map_reader(kind: Map, value: Any) -> ReadNested:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, value | None])
    arrow = arrow_type(kind)

    def read(spans: Spans) -> tuple[pa.Array, Mask] | None:
        if spans.keys is None:
            return None
        doubt = np.zeros(len(spans), dtype=np.bool_)
        entries: list[dict[str, Any] | None] = []
        for row, raw in enumerate(spans.raw()):
            try:
                entries.append(None if raw is None else decoder.decode(raw))
                doubt[row] = raw is not None and len(entries[row] or ()) != spans.keys
            except REFUSED:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
                entries.append(None)
                doubt[row] = True
        return pa.array(entries, arrow), doubt

    return read


class _ArrowReader:
    """Reads columns whose structs spell their fields' names alike."""

    def __init__(self, kind: HiveType) -> None:
        self._kind = kind
        self._arrow = self._spelled = arrow_type(kind)

    def __call__(self, spans: Spans) -> tuple[pa.Array, Mask] | None:
        column = self._read(spans)
        if column is None and (spelled := self._spelled_as(spans)) != self._spelled:
            self._spelled = spelled
            column = self._read(spans)
        return None if column is None else (column.view(self._arrow), np.zeros(len(spans), dtype=np.bool_))

    def _read(self, spans: Spans) -> pa.Array | None:
        """None where a value is refused or may be another one."""
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
        return column if len(column) == len(spans) and not any(map(_is_odd, _doubles(column))) else None

    def _spelled_as(self, spans: Spans) -> pa.DataType:
        """The type with the names of the first value that isn't null."""
        first = next((raw for raw in spans.raw() if raw is not None), b"null")
        try:
            return _spelled(self._kind, msgspec.json.decode(first))
        except REFUSED:
            return self._spelled


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


def _doubles(column: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_list(column.type):
        yield from _doubles(column.values)
    elif pa.types.is_struct(column.type):
        for index in range(column.type.num_fields):
            yield from _doubles(column.field(index))
    elif pa.types.is_float64(column.type):
        yield column


def _is_odd(doubles: pa.Array) -> bool:
    """Whether any is no finite number, as Arrow takes `NaN` and what is too large, or the integer -0."""
    values = doubles.fill_null(0).to_numpy(zero_copy_only=False)
    return not np.isfinite(values).all() or bool(np.signbit(values[values == 0]).any())
