"""Columns of a table from where their JSON values are in a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hivesink.core.table import Char, Column, Decimal, Primitive, Varchar
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema, arrow_type
from hivesink.decode.clocks import Mask, bounded, counted, dates, nulls, parse_each, patterned, timestamps
from hivesink.decode.json.nested import nested_reader
from hivesink.decode.json.spans import Spans, booleans, decimals, floats, integers, raw_values, texts_of
from hivesink.decode.values import InvalidValue, binary_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
