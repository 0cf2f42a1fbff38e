"""Values of messages as a table's columns, by the rules for a stream's decoded columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.core.table import INTEGERS, Decimal, Primitive, Struct
from hivesink.decode.arrowtypes import arrow_type
from hivesink.decode.avro.schema import Type
from hivesink.decode.avro.wants import SCALED, Lists, Numbers, Want, converted, scaled
from hivesink.decode.clocks import Mask, mask_of
from hivesink.decode.convert import Converted, cells, convert
from hivesink.decode.protobuf.scan import AS_JSON, Messages
from hivesink.decode.values import InvalidValue

NUMBERS = (
    Type("int", "int32"),
    Type("long", "int64"),
    Type("long", "uint32"),
    Type("long", "uint64"),
    Type("double"),
    Type("float"),
    Type("boolean", "bool"),
)
"""As Avro has them, in the order of `cpp_type`, which begins at 1."""
_MOST = 2**63 - 1
_INSTANT = pa.timestamp("us", "UTC")
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999, as google/protobuf/timestamp.proto has it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Makes columns of messages, none of which is odd; `symbols` are a schema's."""

    symbols: Mapping[str, Mapping[int, str]]

    def of_messages(self, kind: Any, messages: Messages, want: Want) -> Converted:
        """What is below the steps of `want` in each message of the type `kind`; a field that it lacks is null."""
        count, columns = len(messages), list[Converted]()
        for part in want.parts() if count else ():
            column, unfit = pa.nulls(count, arrow_type(part.type)), dict[int, InvalidValue]()
            fields = [field for field in kind.fields if field.name.lower() == part.name]
            if len(fields) > 1:
                column, unfit = part.none_fit(count, "duplicate field")
            elif fields:
                column, unfit = self._field(fields[0], messages, part._replace(steps=part.steps[1:]))
            bad = {row: error.within(part.name) for row, error in unfit.items()}
            columns.append((column, bad))
        return want.whole(columns, Type("record", "message"), count)

    def _field(self, field: Any, messages: Messages, want: Want) -> Converted:
        """Null where a field that says whether it is there isn't, unless a default is declared for it."""
        if not field.is_repeated and (not field.has_presence or field.has_default_value):
            return self._values(field, messages.of_each(field), want)
        places, values = messages.fields[field.number]
        if field.is_repeated:
            return self._lists(field, Lists(places, len(messages)), values, want)
        column, bad = self._values(field, values, want)
        if len(values) < len(messages):
            order = np.full(len(messages), -1)
            order[places] = np.arange(len(values))
            column = column.take(pa.array(order, mask=order < 0))
        return column, {int(places[row]): error for row, error in bad.items()}

    def _lists(self, field: Any, lists: Lists, values: Any, want: Want) -> Converted:
        entry = field.message_type
        if entry is None or not entry.GetOptions().map_entry:
            items = partial(self._values, field, values)
            return lists.read(Type("array"), want, items, items)
        keys, items = (partial(self._of_each, entry.fields_by_name[name], values) for name in ("key", "value"))
        return lists.read(Type("map"), want, items, keys)

    def _of_each(self, field: Any, messages: Messages, want: Want) -> Converted:
        return self._values(field, messages.of_each(field) if len(messages) else (), want)

    def _values(self, field: Any, values: Any, want: Want) -> Converted:
        """None of the values is null."""
        if not len(values):
            return want.none_fit(0, "")
        if field.message_type is not None:
            return self._special(field.message_type, values, want)
        symbols = self.symbols.get(field.full_name)
        if symbols is not None and want.type not in INTEGERS:
            return _named(symbols, values.dictionary_encode(), want)
        kind = Type("bytes" if pa.types.is_binary(values.type) else "string")
        if field.cpp_type <= len(NUMBERS):
            kind = NUMBERS[field.cpp_type - 1]
        if kind.logical == "uint64" and isinstance(want.type, Decimal) and not want.steps:
            return convert(values, want.type, want.times)
        beyond = dict[int, InvalidValue]()
        if kind.logical == "uint64":
            beyond = _unfit(values.to_numpy() > _MOST, f"out of range for {want.type}")
            values = pa.array(np.minimum(values.to_numpy(), _MOST))
        column, bad = converted(kind, lambda: values.cast(kind.arrow), len(values), want)
        return column, beyond | bad

    def _special(self, kind: Any, messages: Messages, want: Want) -> Converted:
        """Messages that stand for a value, where the column isn't their STRUCT."""
        if want.steps or isinstance(want.type, Struct):
            return self.of_messages(kind, messages, want)
        if kind.file.name == "google/protobuf/wrappers.proto":
            return self._of_each(kind.fields_by_name["value"], messages, want)
        if kind.full_name == "google.protobuf.Timestamp" and want.type is Primitive.TIMESTAMP:
            seconds, nanos = (messages.of_each(kind.fields_by_name[name]) for name in ("seconds", "nanos"))
            return _instants(seconds.to_numpy(), nanos.to_numpy().astype(np.int64), want)
        if kind.full_name == "confluent.type.Decimal" and want.is_number:
            return scaled(self.of_messages(kind, messages, want._replace(type=SCALED)), want)
        if kind.file.name in AS_JSON and want.type is Primitive.STRING:
            return _as_json(kind, messages, want)
        return self.of_messages(kind, messages, want)


def _named(symbols: Mapping[int, str], numbers: pa.DictionaryArray, want: Want) -> Converted:
    names = pa.array([symbols.get(number, "") for number in numbers.dictionary.to_pylist()], pa.string())
    texts = names.take(numbers.indices)
    column, bad = converted(Type("string", "enum"), lambda: texts, len(texts), want)
    return column, _unfit(mask_of(pc.equal(texts, "")), "unknown enum number") | bad


def _unfit(rows: Mask, reason: str) -> dict[int, InvalidValue]:
    return {row: InvalidValue(reason) for row in np.flatnonzero(rows).tolist()}


def _instants(seconds: Numbers, nanos: Numbers, want: Want) -> Converted:
    outside = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND) | (nanos < 0) | (nanos >= 10**9)
    micros = np.where(outside, 0, seconds) * 10**6 + np.where(outside, 0, nanos) // 1000
    column, bad = convert(pa.array(micros).view(_INSTANT), want.type, want.times)
    finer = (nanos % 1000 != 0) & want.times.exact
    bad |= _unfit(finer, "finer than microseconds")
    return column, bad | _unfit(outside, f"out of range for {want.type}")


def _as_json(kind: Any, messages: Messages, want: Want) -> Converted:
    from google.protobuf.json_format import MessageToJson, SerializeToJsonError
    from google.protobuf.message_factory import GetMessageClass

    parse = GetMessageClass(kind).FromString

    def text(octets: bytes) -> str:
        try:
            # Its maps have no order.
            return str(MessageToJson(parse(octets), indent=None, ensure_ascii=False, sort_keys=True))
        except (SerializeToJsonError, ValueError):
            raise InvalidValue(reason="no value that JSON has") from None

    return cells(messages.whole(), text, want.type)
