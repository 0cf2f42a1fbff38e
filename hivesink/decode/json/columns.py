"""Columns of a table from where their JSON values are in a text.

Nested columns are read at once where it can be proved that nothing is lost; others are parsed value by value.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnUnknownField, SinkConfig
from hivesink.core.table import Array, Char, Column, Decimal, Primitive, Struct, Varchar
from hivesink.decode import clocks
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema, arrow_type
from hivesink.decode.clocks import Mask, each, nulls, parse_each
from hivesink.decode.json.exact import Branch, ExactDecoder, number_of
from hivesink.decode.json.plain import Nested, plain_reader
from hivesink.decode.json.spans import NUMBER, Spans, Text, decimals, integers, raw_values, texts_of
from hivesink.decode.values import binary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.decode.json.exact import ValueParser

_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class Keyed(Protocol):
    """Reads a chunk of records at once."""

    def decode(self, records: pa.StringArray) -> tuple[pa.RecordBatch, Mask]:
        """The columns of `records`, which may hold any bytes but no nulls, and the records in doubt."""


class Reader(Protocol):
    """Reads the columns of `slots` from a field, which may not be missing if it `is_required`."""

    slots: tuple[int, ...]
    is_required: bool

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        """The columns, and the rows in doubt, whose values mean nothing: `spans` may be no JSON."""


MakeKeyed: TypeAlias = "Callable[[JsonColumns], Keyed]"


class ColumnReader:
    """A field that is the value of one slot. `is_required`: it may not be null."""

    def __init__(self, slot: int, column: Column, parser: ValueParser, *, is_required: bool, keyed: MakeKeyed) -> None:
        self.slots: tuple[int, ...] = (slot,)
        self.is_required = is_required
        self._kind = column.type
        self._arrow = arrow_type(column.type)
        self._parser = parser
        self._nested = list[Nested]()
        """What reads a nested column, in order of speed, or returns None. The last reads every column."""
        if not parser.nulls and parser.number is number_of and (plain := plain_reader(column.type)):
            self._nested.append(plain)
        match column.type:
            case Array() as kind:
                self._nested.append(_ListReader(kind, parser, keyed).read)
            case Struct() as kind:
                self._nested.append(_struct_reader(kind, parser, keyed))
        self._nested.append(self._parsed)

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
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


class _Objects:
    """Reads objects as records."""

    def __init__(self, columns: JsonColumns, keyed: MakeKeyed) -> None:
        self.slots = columns.slots
        self.is_required = any(reader.is_required for reader in columns.readers.values())
        self._keyed = keyed(columns)

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        absent = np.zeros(len(spans), np.bool_) if spans.absent is None else spans.absent
        batch, doubt = self._keyed.decode(spans.text.cut(spans.begins, spans.ends, absent).fill_null("{}"))
        return batch.columns, np.where(absent, self.is_required, doubt)


def _struct_reader(kind: Struct, parser: ValueParser, keyed: MakeKeyed) -> Nested:
    """Reads STRUCTs as records of their fields."""
    unknown = OnUnknownField.IGNORE if parser.ignore_unknown else OnUnknownField.BAD_RECORD
    config = SinkConfig.parse({"sink.on-unknown-field": unknown.value})
    columns, fields = [Column(name, field) for name, field in kind.fields], list(arrow_type(kind))
    objects = _Objects(JsonColumns(ExactDecoder(columns, config, lambda *_: parser), keyed), keyed)

    def read(spans: Spans) -> tuple[pa.Array, Mask]:
        arrays, doubt = objects.read(spans)
        absent = None if spans.absent is None else pa.array(spans.absent)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent), doubt

    return read


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


class _Item:
    """Reads the item of that number in each list."""

    def __init__(self, number: int, reader: Reader) -> None:
        self.slots, self.is_required = reader.slots, reader.is_required
        self._number, self._reader = number, reader

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        lists, doubt = each(spans.raw(), _ITEMS.decode)
        raws = [items[self._number] if items and self._number < len(items) else b"null" for items in lists]
        columns, unfit = self._reader.read(Spans.of(*Text.joined([b"\0".join(raws)], len(raws))))
        return columns, doubt | unfit


class PathsReader:
    """A field that several columns read, or that a path leads into."""

    def __init__(self, branch: Branch, exact: ExactDecoder, keyed: MakeKeyed) -> None:
        names: dict[str | int, Branch] = {name: below for name, below in branch.below.items() if isinstance(name, str)}
        self._readers: list[Reader] = [_reader(Branch([slot]), exact, keyed) for slot in branch.columns]
        if names:
            self._readers.append(_Objects(JsonColumns(exact, keyed, Branch([], names)), keyed))
        for step, below in branch.below.items():
            if isinstance(step, int):
                self._readers.append(_Item(step, _reader(below, exact, keyed)))
        self.slots = tuple(slot for reader in self._readers for slot in reader.slots)
        self.is_required = any(reader.is_required for reader in self._readers)

    def read(self, spans: Spans) -> tuple[list[pa.Array], Mask]:
        every = [reader.read(spans) for reader in self._readers]
        doubt: Mask = np.logical_or.reduce([unfit for _, unfit in every])
        return [column for columns, _ in every for column in columns], doubt


def _reader(branch: Branch, exact: ExactDecoder, keyed: MakeKeyed) -> Reader:
    """Reads the field of `branch`."""
    if branch.below or len(branch.columns) > 1:
        return PathsReader(branch, exact, keyed)
    (slot,) = branch.columns
    column, parser = exact.columns[exact.slots[slot]], exact.parsers[slot]
    return ColumnReader(slot, column, parser, is_required=exact.is_required(slot), keyed=keyed)


class JsonColumns:
    """All columns of a table, from the fields of records; or the slots below a `branch`, from the objects there."""

    def __init__(self, exact: ExactDecoder, keyed: MakeKeyed, branch: Branch | None = None) -> None:
        read = branch or exact.read
        self.slots = tuple(sorted(read.all_columns()))
        self._exact, self._is_table = exact, branch is None
        kinds = arrow_schema(exact.columns)
        self._kinds = {slot: kinds.types[exact.slots[slot]] for slot in self.slots}
        self.schema = kinds if self._is_table else pa.schema([(str(slot), kind) for slot, kind in self._kinds.items()])
        self.ignore_unknown = exact.ignore_unknown or not self._is_table
        self.readers = {str(name): _reader(below, exact, keyed) for name, below in read.below.items()}
        """By the field's name in lower case."""

    def read(self, fields: Mapping[str, Spans], rows: int) -> tuple[pa.RecordBatch, Mask]:
        """The columns of `rows` records that have the same `fields`, by their names, and the records in doubt."""
        doubt = np.zeros(rows, dtype=np.bool_)
        arrays: dict[int, pa.Array] = {slot: pa.nulls(rows, kind) for slot, kind in self._kinds.items()}
        for name, reader in self.readers.items():
            if name not in fields:
                doubt |= reader.is_required
                continue
            columns, unfit = reader.read(fields[name])
            doubt |= unfit
            arrays |= dict(zip(reader.slots, columns, strict=True))
        made = [*arrays.values()]
        if len(made) > len(self.schema):
            made = [pc.coalesce(*(arrays[slot] for slot in slots)) for slots in self._exact.slots_of]
            for column, array in zip(self._exact.columns, made, strict=True):
                doubt |= False if column.nullable else nulls(array)
        return pa.RecordBatch.from_arrays(made, schema=self.schema), doubt
