"""Columns of a table from where their JSON values are in a text.

Nested columns are read at once where it can be proved that nothing is lost; others are parsed value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnUnknownField, SinkConfig
from hivesink.core.table import Array, Char, Column, Decimal, Primitive, Struct, Varchar
from hivesink.decode import clocks
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema, arrow_type
from hivesink.decode.clocks import Mask, each, nulls, parse_each
from hivesink.decode.json.exact import Branch, ExactDecoder, ValueParser, number_of
from hivesink.decode.json.plain import Nested, plain_reader
from hivesink.decode.json.spans import NUMBER, Spans, Text, decimals, integers, raw_values, texts_of
from hivesink.decode.values import binary_of

_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class Keyed(Protocol):
    """Reads a chunk of records at once."""

    def decode(self, records: pa.StringArray) -> tuple[pa.RecordBatch, Mask]:
        """The columns of `records`, which may hold any bytes but no nulls, and the records in doubt."""


MakeKeyed: TypeAlias = "Callable[[JsonColumns], Keyed]"


class ColumnReader:
    """A field that is the value of one slot. `is_required`: it may not be null."""

    def __init__(
        self, slot: int, column: Column, parser: ValueParser, *, is_required: bool, keyed: MakeKeyed | None
    ) -> None:
        self.slots = (slot,)
        self.is_required = is_required
        self._kind = column.type
        self._arrow = arrow_type(column.type)
        self._parser = parser
        self._nested = list[Nested]()
        """What reads a nested column, in order of speed, or returns None. The last reads every column."""
        if not parser.nulls and parser.number is number_of and (plain := plain_reader(column.type)):
            self._nested.append(plain)
        match column.type:
            case Array() as kind if keyed:
                self._nested.append(_ListReader(kind, parser, keyed).read)
            case Struct() as kind if keyed:
                self._nested.append(_StructReader(kind, parser, keyed).read)
        self._nested.append(self._parsed)

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
        return next(filter(None, (read(spans) for read in self._nested)))

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


class _StructReader:
    """Reads STRUCTs as records of their fields."""

    def __init__(self, kind: Struct, parser: ValueParser, keyed: MakeKeyed) -> None:
        unknown = OnUnknownField.IGNORE if parser.ignore_unknown else OnUnknownField.BAD_RECORD
        config = SinkConfig.parse({"sink.on-unknown-field": unknown.value})
        columns = [Column(name, field) for name, field in kind.fields]
        self._fields = list(arrow_type(kind))
        self._keyed = keyed(JsonColumns(ExactDecoder(columns, config, lambda *_: parser), keyed))

    def read(self, spans: Spans) -> tuple[pa.Array, Mask]:
        absent = np.zeros(len(spans), np.bool_) if spans.absent is None else spans.absent
        batch, doubt = self._keyed.decode(spans.text.cut(spans.begins, spans.ends, absent).fill_null("{}"))
        return pa.StructArray.from_arrays(batch.columns, fields=self._fields, mask=pa.array(absent)), doubt & ~absent


class _ListReader:
    """Reads the items of all ARRAYs as a column."""

    def __init__(self, kind: Array, parser: ValueParser, keyed: MakeKeyed) -> None:
        self._items = ColumnReader(0, Column("", kind.element), parser, is_required=False, keyed=keyed)

    def read(self, spans: Spans) -> tuple[pa.Array, Mask]:
        lists, doubt = each(spans.raw(), _ITEMS.decode)
        raws = [*chain.from_iterable(items or () for items in lists)]
        (array,), unfit = self._items.read(Spans.of(*Text.joined([b"\0".join(raws)], len(raws))))
        edges = np.cumsum([0, *(len(items or ()) for items in lists)])
        doubt[np.searchsorted(edges, np.flatnonzero(unfit), side="right") - 1] = True
        absent = np.array([*(items is None for items in lists), False])
        return pa.ListArray.from_arrays(pa.array(edges, pa.int32(), mask=absent), array), doubt


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

    def __init__(self, exact: ExactDecoder, keyed: MakeKeyed | None = None) -> None:
        """`keyed` reads STRUCTs; without it they are parsed one by one, unless Arrow can read them."""
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
                is_required = exact.is_required(slot)
                self.readers[str(name)] = ColumnReader(slot, column, parser, is_required=is_required, keyed=keyed)

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
