"""Input batches of either kind, raw or decoded, to rows of a Hive table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import (
    ELEMENT,
    RECORD,
    ColumnSource,
    Header,
    JsonPath,
    KeyPath,
    Metadata,
    stream_column,
)
from hivesink.core.table import Array, Column, HiveType, Map, Primitive, Struct, is_text
from hivesink.decode.arrowtypes import arrow_schema, check_types
from hivesink.decode.avro.debezium import DebeziumAvroDecoder
from hivesink.decode.avro.decoder import AvroDecoder, ConfluentDecoder
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import Converted, cells, convert
from hivesink.decode.csv import CsvDecoder
from hivesink.decode.json.debezium import DebeziumDecoder
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.json.exact import ValueParser
from hivesink.decode.json.explode import ExplodedDecoder
from hivesink.decode.protobuf.decoder import ConfluentProtobufDecoder, ProtobufDecoder
from hivesink.decode.values import InvalidValue, TimeRules
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow, DecodedRows, Decoder, Schemas


def _json(columns: Sequence[Column], config: SinkConfig) -> Decoder:
    return JsonDecoder(columns, config) if config["sink.json.explode"] is None else ExplodedDecoder(columns, config)


OpenSchemas: TypeAlias = "Callable[[SinkConfig, Callable[[Sequence[str]], object]], Schemas]"
"""The schemas that settings lead to, by what parses them: it raises ValueError for what is no schema."""


DECODERS: Mapping[str, Callable[..., Decoder]] = {
    "json": _json,
    "debezium-json": DebeziumDecoder,
    "csv": CsvDecoder,
    "avro": AvroDecoder,
    "avro-confluent": ConfluentDecoder,
    "debezium-avro-confluent": DebeziumAvroDecoder,
    "protobuf": ProtobufDecoder,
    "protobuf-confluent": ConfluentProtobufDecoder,
}
"""By the values of `sink.value.format`: what takes columns, settings and, if it has a `parse`, `Schemas` for that."""


class RowsReader:
    """Reads `columns` from the raw column `value` (records in bytes or text), or, without it, from columns.

    Such columns are matched by name without regard to case, and a value that doesn't fit makes a bad row. Timestamps
    with a zone are instants and become wall clocks in the table's; TIMESTAMP_NTZ is a wall clock already. The table's
    settings say which columns are read from what a record comes with: Kafka's key, headers and position, its file,
    `arrival` (UTC). `unfit` is the file format's, which says which rows it can't hold.
    `schemas` are for formats that need them.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        value: str | None,
        config: SinkConfig,
        arrival: datetime | None = None,
        *,
        unfit: Callable[[pa.Table], Iterable[BadRow]] = lambda _: (),
        schemas: OpenSchemas | None = None,
    ) -> None:
        self._value = value
        self._config = config
        self._columns = tuple(columns)
        self._schema = arrow_schema(columns)
        self._sources = {name: source for name, source in config.sources.items() if not isinstance(source, JsonPath)}
        self._given = [column for column in columns if column.name not in self._sources]
        # A table may have nothing but what surrounds the records. Arrow has no rows without columns.
        decoded = self._given or [Column("\0", Primitive.STRING)]
        self._decoder = None if value is None else decoder_of(decoded, config, schemas)
        of_key = [column for column in columns if isinstance(self._sources.get(column.name), KeyPath)]
        self._key = _decoder_of_key(of_key, config, schemas) if of_key else None
        self._unfit = unfit
        self._checked: pa.Schema | None = None
        self._arrival = pa.scalar(arrival, pa.timestamp("us", "UTC"))

    @property
    def schema(self) -> str | None:
        """As `RowReader` has it."""
        return getattr(self._decoder, "schema", None)

    def read(self, batch: pa.RecordBatch) -> DecodedRows:
        """Raises InvalidOption where a decoded batch lacks a column or has it in a type that can't fit."""
        rows = self._read(batch)
        return _without(rows, self._unfit(rows.table))

    def _read(self, batch: pa.RecordBatch) -> DecodedRows:
        rows = DecodedRows(pa.table({}), None, (), 0)
        arrays: dict[str, pa.Array | pa.ChunkedArray] = {}
        if self._decoder is not None:
            rows = self._decoder.decode(batch.column(batch.schema.get_field_index(self._value)))
            if rows.parts is not None:
                batch = _beside(rows.parts, batch, self._value)
                rows = replace(rows, parts=batch)
            if not self._sources:
                return rows
            arrays = dict(zip(rows.table.column_names, rows.table.columns, strict=True))
        elif batch.schema is not self._checked:
            check_types(batch.schema, self._given, self._config)
            self._checked = batch.schema
        count = batch.num_rows if rows.good is None else len(rows.good)
        bad = self._read_keys(batch, rows.good, arrays)
        for column, name in zip(self._columns, self._schema.names, strict=True):
            if name in arrays:
                wrong = dict[int, InvalidValue]()
            elif source := self._sources.get(name):
                stream, _ = stream_column(source) or (None, None)
                given = pa.repeat(self._arrival, count) if stream is None else batch.column(stream)
                given = given.take(rows.good) if stream and rows.good is not None else given
                arrays[name], wrong = self._surrounding(column, source, given)
            else:
                indexes = [index for index, given in enumerate(batch.schema.names) if given.lower() == name]
                given = batch.column(indexes[0])
                arrays[name], wrong = convert(given, column.type, TimeRules.of(self._config, name))
            if not column.nullable and arrays[name].null_count:
                missing = np.flatnonzero(nulls(arrays[name])).tolist()
                wrong = {row: InvalidValue("null") for row in missing} | wrong
            # The first column that is wrong counts.
            bad = {row: error.within(name) for row, error in wrong.items()} | bad
        table = pa.Table.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        return _without(replace(rows, table=table), [error.bad_row(row) for row, error in bad.items()])

    def _read_keys(
        self, batch: pa.RecordBatch, good: pa.Array | None, arrays: dict[str, pa.Array | pa.ChunkedArray]
    ) -> dict[int, InvalidValue]:
        """Add the columns from the keys of the good rows to `arrays`, and return why bad keys are that.

        The columns are null where a key is null or bad.
        """
        if self._key is None:
            return {}
        keys = batch.column("key") if good is None else batch.column("key").take(good)
        rows = self._key.decode(keys)
        places = np.full(len(keys), -1)
        places[slice(None) if rows.good is None else rows.good.to_numpy()] = np.arange(rows.table.num_rows)
        table = rows.table.take(pa.array(places, mask=places < 0))
        arrays |= dict(zip(table.column_names, table.columns, strict=True))
        return {row.index: InvalidValue(row.reason).within(row.field or Metadata.KEY.value) for row in rows.bad}

    def _surrounding(self, column: Column, source: ColumnSource, given: pa.Array) -> Converted:
        kind, times = column.type, TimeRules.of(self._config, column.name)
        if isinstance(source, Header):
            names, values = (given.values.field(place) for place in range(2))
            named = pa.MapArray.from_arrays(given.offsets, names, values)
            given = pc.map_lookup(named, pa.scalar(source.name), "last")
        if isinstance(source, Header) or source is Metadata.KEY:
            return _text(given.cast(pa.binary()), kind, times)
        if source is Metadata.HEADERS:
            given = _headers(given, kind)
        elif types.is_timestamp(given.type) and kind is Primitive.BIGINT:
            return pc.floor_temporal(given, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()), {}
        elif types.is_integer(given.type) and is_text(kind):
            given = given.cast(pa.string())
        return convert(given, kind, times)


def decoder_of(columns: Sequence[Column], config: SinkConfig, schemas: OpenSchemas | None) -> Decoder:
    """Of the format that the settings name; `schemas` may be None where it needs none. Raises InvalidOption."""
    form = config["sink.value.format"]
    if form not in DECODERS:
        message = f"sink.value.format = {form!r}: write one of {', '.join(DECODERS)}"
        raise InvalidOption((message,))
    if form != "json" and config["sink.json.explode"] is not None:
        message = f"sink.json.explode is of JSON records: remove it, or sink.value.format = {form!r}"
        raise InvalidOption((message,))
    parse = getattr(DECODERS[form], "parse", None)
    needed = () if parse is None or schemas is None else (schemas(config, parse),)
    return DECODERS[form](columns, config, *needed)


def _decoder_of_key(columns: Sequence[Column], config: SinkConfig, schemas: OpenSchemas | None) -> Decoder:
    """Raises InvalidOption, also for a registry that isn't the records': schemas are kept by their numbers alone."""
    form, of_records = (f"sink.value.{given['sink.value.format']}" for given in (config.of_key, config))
    if f"{form}.schema-file" in config.values:
        problem = f"sink.key.format = {form.rpartition('.')[2]!r}: dead letters don't name the file of a key's schema"
        raise InvalidOption((f"{problem}; give keys a format with a registry",))
    key, record = config.of_key.values.get(f"{form}.url"), config.values.get(f"{of_records}.url")
    if None not in {key, record} and key != record:
        raise InvalidOption((f"keys and records must be of the same registry, not {key} and {record}",))
    try:
        decoder = decoder_of(columns, config.of_key, schemas)
    except InvalidOption as error:
        problems = (problem.replace("sink.value.", "sink.key.") for problem in error.problems)
        raise InvalidOption(tuple(problems)) from error
    if isinstance(decoder, CsvDecoder):
        # A key is no line of a file.
        decoder.header = None
    return decoder


def _beside(parts: pa.RecordBatch, batch: pa.RecordBatch, value: str | None) -> pa.RecordBatch:
    """`parts` of the records in the column `value`, with the other columns of the batch."""
    values, records, _ = parts.columns
    others = {
        name: column.take(records) for name, column in zip(batch.schema.names, batch, strict=True) if name != value
    }
    return pa.RecordBatch.from_pydict({**others, value: values, RECORD: records, ELEMENT: parts.column(ELEMENT)})


def _without(rows: DecodedRows, bad: Iterable[BadRow]) -> DecodedRows:
    """`rows` without those of its table that are `bad`, by their places there."""
    unfit = {row.index: row for row in bad}
    if not unfit:
        return rows
    places = np.arange(rows.table.num_rows)
    good = places if rows.good is None else rows.good.to_numpy()
    bad_rows = [*rows.bad, *(replace(row, index=int(good[place])) for place, row in unfit.items())]
    kept = np.delete(places, list(unfit))
    in_order = tuple(sorted(bad_rows, key=lambda row: row.index))
    return replace(rows, table=rows.table.take(pa.array(kept)), good=pa.array(good[kept], pa.int32()), bad=in_order)


def _text(octets: pa.BinaryArray, kind: HiveType, times: TimeRules) -> Converted:
    """Bytes or text as they are, or as the key of a JSON object would be read."""
    if kind is Primitive.BINARY:
        return octets, {}
    if is_text(kind):
        return convert(octets.view(pa.string()), kind, times)
    parser = ValueParser(times, ignore_unknown=True)
    return cells(octets, lambda text: parser.of_text(json.dumps(text.decode(), ensure_ascii=False), kind), kind)


def _headers(given: pa.Array, kind: HiveType) -> pa.Array:
    """Headers as `kind`'s list or map, texts as they are; a map has the last one of each name."""
    rows = pc.list_parent_indices(given).to_numpy()
    names, values = pc.list_flatten(given).flatten()
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
