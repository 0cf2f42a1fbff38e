"""Avro's values as a table's columns, by the rules for a stream's decoded columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hivesink.core.table import INTEGERS, Array, Decimal, HiveType, Map, Primitive, Struct, is_text
from hivesink.core.time_format import EpochUnit
from hivesink.decode.arrowtypes import arrow_type, mismatches
from hivesink.decode.avro.schema import DIGITS, Type
from hivesink.decode.clocks import nulls, timestamps
from hivesink.decode.connect import DEBEZIUM, UNITS, ZONED, counting, number_of_octets
from hivesink.decode.convert import Converted, cells, convert, first_items
from hivesink.decode.json.exact import ValueParser
from hivesink.decode.json.spans import Text
from hivesink.decode.values import InvalidValue, TimeRules

Numbers = NDArray[np.int64]
_WORD = 8
_REALS = {Primitive.FLOAT, Primitive.DOUBLE}
SCALED = Struct((("scale", Primitive.INT), ("value", Primitive.BINARY)))
"""Debezium's decimals of which each value has a scale."""


class Want(NamedTuple):
    """What is below `steps` in a value, names of fields in lower case, as a Hive type.

    Of a change event (`is_change`) texts are read as JSON's are, and decimals as numbers of any type.
    """

    steps: Sequence[str | int]
    type: HiveType
    times: TimeRules
    is_change: bool = False

    @property
    def name(self) -> str:
        return str(self.steps[0])

    def none_fit(self, count: int, reason: str) -> Converted:
        bad = {row: InvalidValue(reason) for row in range(count)}
        return pa.nulls(count, arrow_type(self.type)), bad

    def wrong(self, kind: Type, count: int) -> Converted:
        """No value of that type fits."""
        other = "an array" if kind.name == "record" else "a record"
        into = f", not {other}" if self.steps else f" into {self.type}"
        return self.none_fit(count, f"wrong type: {kind}{into}")

    def parse(self, text: str) -> Any:
        """As the JSON text of a value. Raises InvalidValue."""
        return ValueParser(self.times, ignore_unknown=True).parse(text, self.type)

    @property
    def is_number(self) -> bool:
        return not self.steps and (self.type in {*INTEGERS, *_REALS} or isinstance(self.type, Decimal))

    def unit(self, kind: Type) -> EpochUnit | None:
        """What numbers count, by the name that Debezium gives their type, and in its events also by Connect's."""
        is_named = self.is_change or kind.connect.startswith(DEBEZIUM)
        is_time = is_named and self.type in {Primitive.DATE, Primitive.TIMESTAMP}
        return UNITS.get(kind.connect) if is_time else None

    def parts(self) -> list[Want]:
        """What it wants of a record: itself, or all fields of a STRUCT; nothing of a record that doesn't fit."""
        if self.steps:
            return [self] if isinstance(self.steps[0], str) else []
        if not isinstance(self.type, Struct):
            return []
        fields = self.type.fields
        return [self._replace(steps=(name.lower(),), type=kind) for name, kind in fields]

    def whole(self, parts: Sequence[Converted], kind: Type, count: int) -> Converted:
        """The value from those of its `parts`; without these no record of that type fits."""
        if not parts:
            return self.wrong(kind, count)
        # The first field that is wrong counts.
        bad = {row: error for _, some in reversed(parts) for row, error in some.items()}
        columns = [column for column, _ in parts]
        if self.steps:
            return columns[0], bad
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type(self.type))), bad


def converted(kind: Type, values: Callable[[], pa.Array], count: int, want: Want) -> Converted:
    """By the rules for a stream's columns, timestamp-millis also as a number; and by the type's name in Connect."""
    wanted, unit = want.type, want.unit(kind)
    if kind.name == "null":
        return pa.nulls(count, arrow_type(wanted)), {}
    if unit is not None:
        want = want._replace(times=counting(want.times, unit))
    if unit is not None or (kind.logical == "timestamp-millis" and wanted is Primitive.BIGINT):
        kind = replace(kind, logical="")
    is_written = want.is_change or kind.connect == ZONED
    if kind.name == "string" and is_written and not want.steps and not is_text(wanted):
        return _of_texts(values(), want)
    if kind.logical == "decimal" and want.is_change and wanted in _REALS:
        return cells(values(), lambda number: want.parse(str(number)), wanted)
    is_uuid = kind.logical == "uuid" and kind.name == "fixed" and wanted is not Primitive.BINARY
    given = pa.string() if is_uuid else kind.arrow
    epoch = want.times.unit is not None
    # A time of day is no instant, whatever numbers are.
    is_unfit = kind.logical.startswith("time-") and wanted not in INTEGERS
    if want.steps or is_unfit or mismatches("", given, wanted, epoch=epoch):
        return want.wrong(kind, count)
    array = values()
    if is_uuid:
        # An odd record may have a shorter one.
        texts = (str(UUID(bytes=octets.ljust(16))) for octets in array.to_pylist())
        array = pa.array(texts, given)
    made, bad = convert(array.view(given), wanted, want.times)
    beyond = np.flatnonzero(nulls(array)).tolist() if array.null_count else ()
    return made, bad | {row: InvalidValue(f"out of range for {wanted}") for row in beyond}


def _of_texts(texts: pa.StringArray, want: Want) -> Converted:
    if want.type is Primitive.TIMESTAMP and want.times.pattern is None:
        with suppress(UnicodeDecodeError):
            made, doubt = timestamps(texts, want.times)
            if not doubt.any():
                return made, {}
    return cells(texts.view(pa.binary()), lambda octets: want.parse(json.dumps(octets.decode())), want.type)


def scaled(column: Converted, want: Want) -> Converted:
    """Numbers from the fields of `SCALED`."""

    def number(fields: dict[str, Any]) -> Any:
        if fields["scale"] is None:
            raise InvalidValue(reason="not a number: no scale")
        return want.parse(number_of_octets(fields["value"] or b"", fields["scale"]))

    numbers, bad = cells(column[0], number, want.type)
    return numbers, bad | column[1]


def decimals(text: Text, kind: Type, begins: Numbers, ends: Numbers) -> pa.Array:
    """Two's complements, the highest byte first; null for too many digits for any column."""
    sizes = np.clip(ends - begins, 1, _WORD)
    heads = text.words[begins].byteswap().view(np.int64) >> (8 * (_WORD - sizes))
    halves = np.stack([heads, heads >> 63], axis=1)
    beyond = np.zeros(len(begins), np.bool_)
    for row in np.flatnonzero(ends - begins > _WORD).tolist():
        octets = text.octets[begins[row] : ends[row]].tobytes()
        number = int.from_bytes(octets, "big", signed=True)
        beyond[row] = abs(number) >= 10**DIGITS
        number = 0 if beyond[row] else number
        halves[row] = np.frombuffer(number.to_bytes(16, "little", signed=True), np.int64)
    valid = np.packbits(~beyond, bitorder="little").tobytes()
    buffers = [pa.py_buffer(valid), pa.py_buffer(halves.tobytes())]
    return pa.Array.from_buffers(kind.arrow, len(begins), buffers)


@dataclass(frozen=True, slots=True)
class Lists:
    """Which of some lists each item is of, in order."""

    owners: Numbers
    count: int

    @property
    def edges(self) -> Numbers:
        return np.concatenate([[0], np.cumsum(np.bincount(self.owners, minlength=self.count))])

    def read(
        self,
        kind: Type,
        want: Want,
        items: Callable[[Want], Converted],
        keys: Callable[[Want], Converted],
    ) -> Converted:
        """What `want` wants of lists, or of maps, by what reads all their items, and all keys."""
        is_map = kind.name == "map"
        match want.type:
            case Map() as wanted if is_map and not want.steps:
                key, item = (want._replace(type=part) for part in (wanted.key, wanted.value))
                return self._maps(keys(key), items(item), wanted)
            case Array() as wanted if not is_map and not want.steps:
                values, bad = items(want._replace(type=wanted.element))
                made = pa.ListArray.from_arrays(pa.array(self.edges, pa.int32()), values)
                return made.cast(arrow_type(wanted)), first_items(bad, self.edges)
            case _ if want.steps and isinstance(want.steps[0], int) and not is_map:
                return self._item(items(want._replace(steps=want.steps[1:])), want.steps[0])
        return want.wrong(kind, self.count)

    def _maps(self, keys: Converted, items: Converted, kind: Map) -> Converted:
        """Keys and values in order as maps."""
        (names, bad_names), (values, bad) = keys, items
        offsets, owners = pa.array(self.edges, pa.int32()), self.owners
        if names.null_count:
            # Keys of a wrong type: only maps without any fit.
            names, values, owners = names[:0], values[:0], owners[:0]
            offsets = pa.array([0] * len(offsets), pa.int32())
        made = pa.MapArray.from_arrays(offsets, names, values).cast(arrow_type(kind))
        places = owners * (len(names) + 1) + names.dictionary_encode().indices.to_numpy()
        first = np.unique(places, return_index=True)[1]
        twice = np.setdiff1d(np.arange(len(places)), first).tolist()
        again = {place: InvalidValue("duplicate key") for place in twice}
        return made, first_items(again | bad | bad_names, self.edges)

    def _item(self, items: Converted, number: int) -> Converted:
        """The item of that number, from 0, of each list; null where there is none."""
        array, wrong = items
        places = self.edges[:-1] + number
        there = places < self.edges[1:]
        rows = np.flatnonzero(there & np.isin(places, [*wrong])).tolist()
        bad = {row: wrong[int(places[row])].within(str(number)) for row in rows}
        return array.take(pa.array(places, mask=~there)), bad
