"""Input batches of either kind, raw or decoded, to rows of a Hive table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hivesink.core.column_source import Header, JsonPath, Metadata, stream_column
from hivesink.core.table import Array, Char, Column, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.arrowtypes import arrow_schema, arrow_type, check_types
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import Converted, convert, converted
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.json.exact import ValueParser
from hivesink.decode.values import DecodeOptions, InvalidValue
from hivesink.errors import InvalidOption
from hivesink.ports.rows import DecodedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from hivesink.core.column_source import ColumnSource
    from hivesink.ports.rows import Decoder

DECODERS: Mapping[str, Callable[[Sequence[Column], DecodeOptions], Decoder]] = {"json": JsonDecoder}
"""By the values of `sink.record-format`: each makes a decoder for columns, by their table's settings."""


class RowsReader:
    """Reads `columns` from the raw column `value` (records in bytes or text), or, without it, from columns.

    `options.sources` says which are read from elsewhere. `arrival` (UTC) and `number` are the batch's.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        value: str | None,
        options: DecodeOptions,
        arrival: datetime | None = None,
        number: int | None = None,
    ) -> None:
        self._value = value
        self._schema = arrow_schema(columns)
        self._metadata = MetadataReader(columns, options, arrival, number)
        given = [column for column in columns if column not in self._metadata.columns]
        self._decoder = None if value is None else _decoder(given, options)
        self._columns = ColumnsReader(given, options)

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises ColumnsDontFit for decoded rows whose types can't fit."""
        if self._decoder is None:
            decoded = self._columns.read(batch)
        else:
            decoded = self._decoder.decode(batch.column(batch.schema.get_field_index(self._value)))
        return self._with_metadata(batch, decoded) if self._metadata.columns else decoded

    def _with_metadata(self, batch: pa.RecordBatch, decoded: DecodedRows) -> DecodedRows:
        columns, wrong = self._metadata.read(batch, decoded.good)
        arrays = {**dict(zip(decoded.table.column_names, decoded.table.columns, strict=True)), **columns}
        table = pa.Table.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        return _without(wrong, DecodedRows(table, decoded.good, decoded.bad, decoded.skipped))


def _without(wrong: Mapping[int, InvalidValue], rows: DecodedRows) -> DecodedRows:
    """`rows`, those that are `wrong` among the bad ones; `wrong` counts good rows."""
    if not wrong:
        return rows
    good = np.arange(rows.table.num_rows) if rows.good is None else rows.good.to_numpy()
    bad = [*rows.bad, *(error.bad_row(int(good[row])) for row, error in wrong.items())]
    kept = np.delete(np.arange(len(good)), list(wrong))
    in_order = tuple(sorted(bad, key=lambda row: row.index))
    return DecodedRows(rows.table.take(pa.array(kept)), pa.array(good[kept], pa.int32()), in_order, rows.skipped)


def _decoder(columns: Sequence[Column], options: DecodeOptions) -> Decoder:
    if options.format not in DECODERS:
        message = f"sink.record-format = {options.format!r}: write one of {', '.join(DECODERS)}"
        raise InvalidOption((message,))
    return DECODERS[options.format](columns, options)


class ColumnsReader:
    """Rows that come decoded: columns matched by name without regard to case, in DDL order, in the table's types.

    A value that doesn't fit makes a bad row. Timestamps with a zone are instants and become wall clocks in
    `options.timestamp_zone`; TIMESTAMP_NTZ is a wall clock already.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        self._columns = tuple(columns)
        self._options = options
        self._schema = arrow_schema(columns)
        self._checked: pa.Schema | None = None

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises ColumnsDontFit where the batch lacks a column or has it in a type that can't fit."""
        if batch.schema is not self._checked:
            check_types(batch.schema, self._columns, self._options)
            self._checked = batch.schema
        indexes = {name.lower(): index for index, name in enumerate(batch.schema.names)}
        arrays, wrong = converted(
            (column, convert(batch.column(indexes[name]), column.type, self._options.times(name)))
            for column, name in zip(self._columns, self._schema.names, strict=True)
        )
        table = pa.Table.from_arrays(list(arrays.values()), schema=self._schema)
        return _without(wrong, DecodedRows(table, None, (), 0))


class MetadataReader:
    """Reads those of `columns` whose source is metadata. `arrival` (UTC) and `number` are the batch's."""

    def __init__(
        self, columns: Sequence[Column], options: DecodeOptions, arrival: datetime | None, number: int | None
    ) -> None:
        sources = {name: source for name, source in options.sources.items() if not isinstance(source, JsonPath)}
        self.columns = {column: sources[column.name] for column in columns if column.name in sources}
        self._parsers = {
            column: ValueParser(options.times(column.name), ignore_unknown=True) for column in self.columns
        }
        self._of_batch: dict[ColumnSource, pa.Scalar] = {
            Metadata.ARRIVAL: pa.scalar(arrival, pa.timestamp("us", "UTC")),
            Metadata.BATCH: pa.scalar(number, pa.int64()),
        }

    def read(self, batch: pa.RecordBatch, good: pa.Array | None) -> tuple[dict[str, pa.Array], dict[int, InvalidValue]]:
        """As `converted`, for the `good` rows of `batch` (None: for all), which count from 0."""
        rows = batch.num_rows if good is None else len(good)
        return converted(
            (column, self._read(column, source, self._given(batch, good, source, rows)))
            for column, source in self.columns.items()
        )

    def _given(self, batch: pa.RecordBatch, good: pa.Array | None, source: ColumnSource, rows: int) -> pa.Array:
        name, _ = stream_column(source) or (None, None)
        if name is None:
            return pa.repeat(self._of_batch[source], rows)
        array = batch.column(batch.schema.get_field_index(name))
        return array if good is None else array.take(good)

    def _read(self, column: Column, source: ColumnSource, given: pa.Array) -> Converted:
        kind = column.type
        if isinstance(source, Header):
            return self._text(column, _last_header(given, source.name))
        if source is Metadata.KEY:
            return self._text(column, given)
        if source is Metadata.HEADERS:
            return convert(_headers(given, kind), kind, self._parsers[column].times)
        if types.is_timestamp(given.type) and kind is Primitive.BIGINT:
            return pc.floor_temporal(given, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()), {}
        if types.is_integer(given.type) and _is_text(kind):
            given = given.cast(pa.string())
        return convert(given, kind, self._parsers[column].times)

    def _text(self, column: Column, given: pa.Array) -> Converted:
        """Bytes or text as they are, or as the key of a JSON object would be read."""
        octets = given.cast(pa.binary())
        if column.type is Primitive.BINARY:
            return octets, {}
        if _is_text(column.type):
            return convert(octets.view(pa.string()), column.type, self._parsers[column].times)
        values, bad = [], dict[int, InvalidValue]()
        for row, value in enumerate(octets.to_pylist()):
            try:
                quoted = None if value is None else json.dumps(value.decode(), ensure_ascii=False)
                values.append(None if quoted is None else self._parsers[column].of_text(quoted, column.type))
            except (InvalidValue, UnicodeDecodeError) as error:  # noqa: PERF203 -- must not keep the others back
                values.append(None)
                bad[row] = error if isinstance(error, InvalidValue) else InvalidValue("not UTF-8")
        return pa.array(values, arrow_type(column.type)), bad


def _is_text(kind: HiveType) -> bool:
    return kind is Primitive.STRING or isinstance(kind, Varchar | Char)


def _items(given: pa.Array) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """Of all headers: the row, the name and the value."""
    names, values = pc.list_flatten(given).flatten()
    return pc.list_parent_indices(given).to_numpy(), names, values


def _last_header(given: pa.Array, name: str) -> pa.Array:
    """The value of the last header of that name in each row."""
    rows, names, values = _items(given)
    places = np.flatnonzero(pc.equal(names, name).fill_null(False).to_numpy(zero_copy_only=False))
    last = np.full(len(given), -1, dtype=np.int64)
    # The largest number of a header, that is the last one.
    np.maximum.at(last, rows[places], places)
    return values.take(pa.array(last, mask=last < 0))


def _headers(given: pa.Array, kind: HiveType) -> pa.Array:
    """Headers as `kind`'s list or map, texts as they are; a map has the last one of each name."""
    rows, names, values = _items(given)
    if isinstance(kind, Map):
        codes = names.dictionary_encode().indices.to_numpy()
        places = rows * (len(names) + 1) + codes
        _, from_the_end = np.unique(places[::-1], return_index=True)
        last = np.sort(len(places) - 1 - from_the_end)
        rows, names, values = rows[last], names.take(pa.array(last)), values.take(pa.array(last))
    if kind in _OF_TEXTS:
        values = values.view(pa.string())
    edges = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(given)))])
    offsets = pa.array(edges, pa.int32(), mask=np.append(nulls(given), False))
    if isinstance(kind, Map):
        return pa.MapArray.from_arrays(offsets, names, values)
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([names, values], ["key", "value"]))


_TEXT = Primitive.STRING
_OF_TEXTS = frozenset({Map(_TEXT, _TEXT), Array(Struct((("key", _TEXT), ("value", _TEXT))))})
