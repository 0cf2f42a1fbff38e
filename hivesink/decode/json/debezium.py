"""Debezium's change events in JSON as rows: an append of the change log, with the types that the schema names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import DecimalHandling, Image, OnUnknownField, SinkConfig
from hivesink.core.column_source import JsonPath
from hivesink.core.table import Array, Column, Decimal, HiveType, Map, Primitive, Struct
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_schema
from hivesink.decode.clocks import mask_of
from hivesink.decode.connect import CONNECT, UNITS, VARIABLE, counting, number_of_octets
from hivesink.decode.json.decoder import JsonDecoder, in_order
from hivesink.decode.json.exact import Refine, ValueParser, number_of, wrong_type
from hivesink.decode.json.scan import members, unquote
from hivesink.decode.json.shaped import Piece
from hivesink.decode.json.spans import Places
from hivesink.decode.values import InvalidValue, binary_of, integer
from hivesink.ports.rows import BadRow, DecodedRows

_DECIMAL = f"{CONNECT}Decimal"
_NUMBERS = frozenset({*INTEGER_BITS, Primitive.DOUBLE, Primitive.FLOAT})
_ENVELOPE = tuple(Column(name, Primitive.STRING) for name in ("op", "before", "after", "schema", "payload"))
NO_IMAGE = "no before and no after"
_NO_EVENT, _NO_IMAGE = BadRow(0, "op", "missing"), BadRow(0, None, NO_IMAGE)
_TOO_DEEP = BadRow(0, "schema", "nested too deep")
BEFORE = "before_"
"""How the names begin of columns of the image `before`, where both are wanted."""
_MOST_SCHEMAS = 100


def _scale(raw: str) -> int:
    return integer(number_of(raw, Primitive.INT), 32, "a scale")


def _from_octets(raw: str, kind: HiveType, scale: int | None = None) -> str:
    """A number from base64 of its unscaled value, or from an object of scale and value; `scale` None: the column's."""
    if raw[0] == "{":
        every = members(raw)
        fields = {unquote(key): value for key, value, _ in every}
        if fields.keys() != {"scale", "value"} or len(every) > len(fields) or fields["value"][0] != '"':
            raise wrong_type(raw, f" into {kind}")
        return _from_octets(fields["value"], kind, _scale(fields["scale"]))
    if raw[0] != '"':
        return number_of(raw, kind)
    if scale is None:
        if kind in {Primitive.DOUBLE, Primitive.FLOAT}:
            raise wrong_type(raw, f" of unknown scale into {kind}")
        scale = kind.scale if isinstance(kind, Decimal) else 0
    return number_of_octets(binary_of(unquote(raw)), scale)


def _no_text(raw: str, kind: HiveType) -> str:
    """A number; a text may be base64, which may look like a number."""
    if raw[0] == '"':
        raise wrong_type(raw, f" into {kind}")
    return number_of(raw, kind)


_HANDLING = {
    DecimalHandling.DOUBLE: _no_text,
    DecimalHandling.PRECISE: _from_octets,
    DecimalHandling.STRING: number_of,
}


def node_at(schema: Any, steps: Iterable[str | int]) -> Mapping[str, Any] | None:
    """The schema of what is at `steps`; None if it says nothing of that."""
    for step in steps:
        if not isinstance(schema, dict):
            return None
        if isinstance(step, int):
            schema = schema.get("items")
            continue
        some = schema.get("fields")
        fields = [field for field in some if isinstance(field, dict)] if isinstance(some, list) else []
        schema = next((field for field in fields if str(field.get("field")).lower() == step), None)
    return schema if isinstance(schema, dict) else None


def _typed(
    parser: ValueParser, kind: HiveType, node: Mapping[str, Any] | None, handling: DecimalHandling
) -> ValueParser:
    """A value's parser by what the schema says of it, or, where it says nothing, by the declared `handling`."""
    name = node and node.get("name")
    if kind in {Primitive.DATE, Primitive.TIMESTAMP}:
        unit = UNITS.get(str(name))
        return replace(parser, times=counting(parser.times, unit)) if unit else parser
    if isinstance(kind, Array | Map | Struct):
        named = json.dumps(node)
        is_known = node is not None and CONNECT not in named and VARIABLE not in named
        return replace(parser, number=number_of if is_known else _HANDLING[handling])
    if kind not in _NUMBERS and not isinstance(kind, Decimal):
        return parser
    if node is None:
        return replace(parser, number=_HANDLING[handling])
    number = _from_octets if name == VARIABLE else number_of
    if name == _DECIMAL:
        parameters, number = node.get("parameters"), _no_text
        with suppress(InvalidValue):
            scale = _scale(json.dumps(parameters.get("scale") if isinstance(parameters, dict) else None))
            number = partial(_from_octets, scale=scale)
    return replace(parser, number=number)


def _refine(schema: Any, root: tuple[str, ...], handling: DecimalHandling) -> Refine:
    return lambda column, steps, parser: _typed(parser, column.type, node_at(schema, (*root, *steps)), handling)


def images_of(config: SinkConfig) -> tuple[str, str]:
    """The image of the rows, and the one that stands in for it."""
    return ("before", "after") if config["sink.value.debezium.image"] is Image.BEFORE else ("after", "before")


class DebeziumDecoder:
    """Decodes change events, with or without their schema, into `columns`, a row for each event.

    A column is a field of the image that `sink.value.debezium.image` chooses, or what its path in the event leads to.
    An event without that image has the other one: a delete its `before`.
    """

    def __init__(self, columns: Sequence[Column], config: SinkConfig) -> None:
        self._config, self._schema = config, arrow_schema(columns)
        self._images, paths = images_of(config), dict[str, JsonPath]()
        self._parts: dict[str, list[Column]] = {"image": [], "before": [], "beside": []}
        is_both = config["sink.value.debezium.image"] is Image.BOTH
        for column in columns:
            if isinstance(config.sources.get(column.name), JsonPath):
                self._parts["beside"].append(column)
                continue
            is_before = is_both and column.name.startswith(BEFORE)
            self._parts["before" if is_before else "image"].append(column)
            name = column.name.removeprefix(BEFORE) if is_before else column.name
            paths[f"sink.column.{column.name}.from"] = JsonPath((name,))
        self._inside = replace(config, values={**config.values, **paths})
        # Of a table's settings only what it does with tombstones is about the envelope.
        plain = SinkConfig.parse({"sink.on-tombstone": config["sink.on-tombstone"].value})
        self._events, self._payloads = JsonDecoder(_ENVELOPE, plain), JsonDecoder(_ENVELOPE, plain)
        self._of = lru_cache(_MOST_SCHEMAS)(self._decoders)

    def decode(self, records: pa.Array) -> DecodedRows:
        """As `JsonDecoder`."""
        events = self._events.decode(records)
        rows = np.arange(len(records)) if events.good is None else events.good.to_numpy()
        bad = {row.index: row for row in events.bad}
        events_table = events.table
        is_wrapped = mask_of(pc.and_(events_table["op"].is_null(), events_table["payload"].is_valid()).combine_chunks())
        plain = pa.array(rows[~is_wrapped])
        pieces = self._pieces(
            rows[~is_wrapped], records.take(plain), events_table.filter(pa.array(~is_wrapped)), (None, "after"), bad
        )
        if is_wrapped.any():
            wrapped, places = events_table.filter(pa.array(is_wrapped)), rows[is_wrapped]
            payloads = wrapped["payload"].combine_chunks()
            inner = self._payloads.decode(payloads)
            bad |= {int(places[row.index]): replace(row, index=int(places[row.index])) for row in inner.bad}
            good = pa.array(np.arange(len(places))) if inner.good is None else inner.good
            schemas = wrapped["schema"].combine_chunks().take(good).dictionary_encode()
            # An image is read by its own node of the schema, the one that stands in for another too.
            is_other = mask_of(inner.table[self._images[0]].is_null().combine_chunks())
            codes = 2 * np.asarray(schemas.indices.fill_null(-1)) + is_other
            for code in np.unique(codes).tolist():
                of_code = pa.array(codes == code)
                some, schema = good.filter(of_code), None if code < 0 else schemas.dictionary[code // 2].as_py()
                table = inner.table.filter(of_code)
                key = schema, self._images[code % 2]
                pieces += self._pieces(places[some.to_numpy()], payloads.take(some), table, key, bad)
        return in_order(pieces, bad.values(), events.skipped, len(records), self._schema)

    def _pieces(
        self, rows: Places, texts: pa.Array, events: pa.Table, key: tuple[str | None, str], bad: dict[int, BadRow]
    ) -> list[Piece]:
        """The good rows among events of one schema, and of one image by it; the others go to `bad`."""
        if not len(rows):
            return []
        decoders = self._of(*key)
        if decoders is None:
            bad |= {row: replace(_TOO_DEEP, index=row) for row in rows.tolist()}
            return []
        before = events["before"].combine_chunks()
        image = pc.coalesce(*(events[name].combine_chunks() for name in self._images))
        for column, why in ((events["op"], _NO_EVENT), (image, _NO_IMAGE)):
            for row in rows[np.asarray(column.is_null())].tolist():
                bad.setdefault(row, replace(why, index=row))
        given = {"image": pc.fill_null(image, "{}"), "before": pc.fill_null(before, "{}"), "beside": texts}
        arrays: dict[str, pa.Array] = {}
        decoded = {part: decoder.decode(given[part]) for part, decoder in decoders.items()}
        for part in decoded.values():
            for row in part.bad:
                bad.setdefault(int(rows[row.index]), replace(row, index=int(rows[row.index])))
        fits = ~np.isin(rows, [*bad])
        for part in decoded.values():
            kept = fits if part.good is None else fits[part.good.to_numpy()]
            chosen = part.table.filter(pa.array(kept)).combine_chunks()
            arrays |= {name: chosen[name].combine_chunks() for name in chosen.column_names}
        table = pa.Table.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        return [(rows[fits], batch) for batch in table.combine_chunks().to_batches()]

    def _decoders(self, schema: str | None, image: str) -> Mapping[str, JsonDecoder] | None:
        """Of the `image`, of what was before, and of what is beside; None: the schema is too deep to be read."""
        with suppress(RecursionError):
            given = None
            with suppress(ValueError):
                # A number of any length is text.
                given = json.loads(schema or "null", parse_int=str)
            handling = self._config["sink.value.debezium.decimal-handling-mode"]
            # Of an image alone all fields are the table's.
            ignoring = {**self._inside.values, "sink.on-unknown-field": OnUnknownField.IGNORE}
            made: dict[str, JsonDecoder] = {}
            for part, root in (("image", (image,)), ("before", ("before",)), ("beside", ())):
                if self._parts[part] or part == "image":
                    columns = self._parts[part] or [Column("\0", Primitive.STRING)]
                    is_image = part == "image"
                    settings = self._inside if is_image else replace(self._inside, values=ignoring)
                    made[part] = JsonDecoder(columns, settings, _refine(given, root, handling))
            return made
        return None
