"""Values of parsed messages as a table's columns, by the rules for a stream's decoded columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.table import INTEGERS, Decimal, Primitive, Struct
from hivesink.decode.arrowtypes import arrow_type, mismatches
from hivesink.decode.avro.schema import Type
from hivesink.decode.avro.wants import Lists, Want
from hivesink.decode.convert import Converted, convert
from hivesink.decode.protobuf.scan import AS_JSON, Messages
from hivesink.decode.values import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.decode.avro.wants import Numbers

    Message = Any

_NUMBERS = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.int64(),
    "uint64": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
}
"""By names, in the order of `cpp_type`, which begins at 1."""
_MOST = 2**63 - 1
_BYTES = 12
_INSTANT = pa.timestamp("us", "UTC")
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999, as google/protobuf/timestamp.proto has it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Makes columns of messages; `symbols` are a schema's."""

    symbols: Mapping[str, Mapping[int, str]]

    def of_messages(self, kind: Any, messages: Sequence[Message] | Messages, want: Want) -> Converted:
        """What is below the steps of `want` in each message of the type `kind`; a field that it lacks is null."""
        count, columns = len(messages), list[Converted]()
        for part in want.parts():
            column, unfit = pa.nulls(count, arrow_type(part.type)), dict[int, InvalidValue]()
            fields = [field for field in kind.fields if field.name.lower() == part.name]
            if len(fields) > 1:
                column, unfit = part.none_fit(count, "duplicate field")
            elif fields:
                column, unfit = self._field(fields[0], messages, part._replace(steps=part.steps[1:]))
            bad = {row: error.within(part.name) for row, error in unfit.items()}
            columns.append((column, bad))
        return want.whole(columns, Type("record", "message"), count)

    def _field(self, field: Any, messages: Sequence[Message] | Messages, want: Want) -> Converted:
        """Null where a field that says whether it is there isn't, unless a default is declared for it."""
        if field.is_repeated:
            return self._lists(field, _of_each(messages, field), want)
        if not field.has_presence or field.has_default_value:
            return self._values(field, _of_each(messages, field), want)
        if isinstance(messages, Messages):
            places, values = messages.fields.get(field.number, (np.arange(0), []))
        else:
            places = np.flatnonzero([type(message).HasField(message, field.name) for message in messages])
            values = [getattr(messages[place], field.name) for place in places.tolist()]
        column, bad = self._values(field, values, want)
        if len(values) < len(messages):
            order = np.full(len(messages), -1)
            order[places] = np.arange(len(values))
            column = column.take(pa.array(order, mask=order < 0))
        return column, {int(places[row]): error for row, error in bad.items()}

    def _lists(self, field: Any, values: Sequence[Any], want: Want) -> Converted:
        count, entry = len(values), field.message_type
        owners = np.repeat(np.arange(count), np.fromiter(map(len, values), np.int64, count))
        is_map = entry is not None and entry.GetOptions().map_entry

        def items(item: Want) -> Converted:
            if not is_map:
                return self._values(field, list(chain.from_iterable(values)), item)
            # A key of proto2 may be any bytes: a map has no item for such.
            every = [of.GetEntryClass()().value if isinstance(key, bytes) else of[key] for of in values for key in of]
            return self._values(entry.fields_by_name["value"], every, item)

        def keys(key: Want) -> Converted:
            return self._values(entry.fields_by_name["key"], list(chain.from_iterable(values)), key)

        kind = Type("map" if is_map else "array")
        return Lists(owners, count).read(kind, want, items, keys)

    def _values(self, field: Any, values: Any, want: Want) -> Converted:
        """None of the values is null."""
        if field.message_type is not None:
            return self._special(field.message_type, values, want)
        symbols = self.symbols.get(field.full_name)
        if symbols is not None and want.type not in INTEGERS:
            numbers = pa.array(values, pa.int32()).dictionary_encode()
            names = pa.array([symbols.get(number, "") for number in numbers.dictionary.to_pylist()], pa.string())
            texts = names.take(numbers.indices)
            unknown = np.flatnonzero(pc.equal(texts, "").to_numpy(zero_copy_only=False)).tolist()
            return _converted("enum", pa.string(), texts, want, dict.fromkeys(unknown, "unknown enum number"))
        if field.cpp_type > len(_NUMBERS):
            given = pa.binary() if field.type == _BYTES else pa.string()
            return _converted("bytes" if field.type == _BYTES else "string", given, values, want)
        name, given = list(_NUMBERS.items())[field.cpp_type - 1]
        beyond: list[int] = []
        if name == "uint64" and isinstance(values, list) and max(values, default=0) > _MOST:
            if isinstance(want.type, Decimal) and not want.steps:
                return convert(pa.array(values, pa.decimal128(20, 0)), want.type, want.times)
            beyond = [row for row, value in enumerate(values) if value > _MOST]
            values = [min(value, _MOST) for value in values]
        return _converted(name, given, values, want, dict.fromkeys(beyond, f"out of range for {want.type}"))

    def _special(self, kind: Any, messages: Any, want: Want) -> Converted:
        """Messages that stand for a value, where the column isn't their STRUCT."""
        if want.steps or isinstance(want.type, Struct):
            return self.of_messages(kind, messages, want)
        if kind.file.name == "google/protobuf/wrappers.proto":
            return self._values(kind.fields_by_name["value"], _of_each(messages, kind.fields_by_name["value"]), want)
        if kind.full_name == "google.protobuf.Timestamp" and want.type is Primitive.TIMESTAMP:
            seconds, nanos = (_of_each(messages, kind.fields_by_name[name]) for name in ("seconds", "nanos"))
            return _instants(np.asarray(seconds, np.int64), np.asarray(nanos, np.int64), want)
        if kind.file.name in AS_JSON and want.type is Primitive.STRING:
            return _as_json(messages, want)
        return self.of_messages(kind, messages, want)


def _converted(
    name: str, given: pa.DataType, values: Any, want: Want, unfit: Mapping[int, str] = MappingProxyType({})
) -> Converted:
    """`values` of the type `name`; those that are `unfit` for a reason mean nothing."""
    if want.steps or mismatches("", given, want.type, epoch=want.times.unit is not None):
        return want.wrong(Type(name), len(values))
    try:
        array = values.cast(given) if isinstance(values, pa.Array) else pa.array(values, given)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # Texts of proto2 may be any bytes.
        octets = [value if isinstance(value, bytes) else value.encode() for value in values]
        array = pa.array(octets, pa.binary()).view(given)
    column, bad = convert(array, want.type, want.times)
    return column, bad | {row: InvalidValue(reason) for row, reason in unfit.items()}


def _of_each(messages: Sequence[Message] | Messages, field: Any) -> Any:
    """A value of each message; its default where it is absent."""
    if not isinstance(messages, Messages):
        return list(map(attrgetter(field.name), messages))
    if field.is_repeated or field.number not in messages.fields:
        return [[] if field.is_repeated else field.default_value] * len(messages)
    places, values = messages.fields[field.number]
    if len(values) == len(messages):
        return values
    if values.type == pa.int64() and field.default_value > _MOST:
        present = dict(zip(places.tolist(), values.to_pylist(), strict=True))
        return [present.get(place, field.default_value) for place in range(len(messages))]
    order = np.full(len(messages), len(values))
    order[places] = np.arange(len(values))
    return pa.concat_arrays([values, pa.array([field.default_value], values.type)]).take(pa.array(order))


def _instants(seconds: Numbers, nanos: Numbers, want: Want) -> Converted:
    outside = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND) | (nanos < 0) | (nanos >= 10**9)
    micros = np.where(outside, 0, seconds) * 10**6 + np.where(outside, 0, nanos) // 1000
    column, bad = convert(pa.array(micros).view(_INSTANT), want.type, want.times)
    for mask, reason in (
        ((nanos % 1000 != 0) & want.times.exact, "finer than microseconds"),
        (outside, f"out of range for {want.type}"),
    ):
        bad |= {row: InvalidValue(reason) for row in np.flatnonzero(mask).tolist()}
    return column, bad


def _as_json(messages: Sequence[Message], want: Want) -> Converted:
    from google.protobuf.json_format import MessageToJson, SerializeToJsonError

    texts, bad = [], dict[int, InvalidValue]()
    for row, message in enumerate(messages):
        try:
            texts.append(MessageToJson(message, indent=None, ensure_ascii=False))
        except (SerializeToJsonError, ValueError):  # noqa: PERF203 -- must not keep the others back
            texts.append("")
            bad[row] = InvalidValue("no value that JSON has")
    return pa.array(texts, arrow_type(want.type)), bad
