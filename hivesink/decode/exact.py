"""The exact decoder: one record at a time in plain Python, the reference for what every input means.

`docs/decoding.md` lists its decisions. The fast decoder hands it every record that it has a doubt about.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

from hivesink.config.values import OnUnknownField
from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode.numbers import double, integer, scaled, single
from hivesink.decode.scan import NUMBER, NotJson, document, elements, members, unquote
from hivesink.decode.times import date_of, instant_of, timestamp_of, wall_clock
from hivesink.decode.unfit import Unfit

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

    from hivesink.decode.result import DecodeOptions

_NUMBER = re.compile(NUMBER)
_BITS = {Primitive.TINYINT: 8, Primitive.SMALLINT: 16, Primitive.INT: 32, Primitive.BIGINT: 64}
_KINDS = {'"': "text", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
_MICROS_DIGITS = 18  # of year 9999, counted from 1970


def _mismatch(raw: str, kind: HiveType) -> Unfit:
    return Unfit(reason=f"wrong type: {_KINDS.get(raw[0], 'number')} into {kind}")


def _number(raw: str, kind: HiveType) -> str:
    """The number, or the text that is exactly a number's."""
    text = unquote(raw) if raw[0] == '"' else raw
    if _NUMBER.fullmatch(text) is None:
        raise _mismatch(raw, kind)
    return text


def text_of(raw: str) -> str:
    """What a string says; of any other value, its JSON text as it stands."""
    if raw[0] != '"':
        return raw
    text = unquote(raw)
    if "\\u" in raw:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unfit(reason="lone surrogate") from None
    return text


def binary_of(text: str) -> bytes:
    """Base64 as RFC 4648 writes it, padded. Raises Unfit for any other text, even if it could be read."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unfit(reason="not base64") from None
    if base64.b64encode(value).decode() != text:
        raise Unfit(reason="not base64")
    return value


def decimal_of(number: str, kind: Decimal) -> Number:
    """A number's text at the column's scale. Raises Unfit where digits would be lost."""
    value = scaled(number, kind.scale, kind.precision, str(kind))
    return Number((int(value < 0), tuple(map(int, str(abs(value)))), -kind.scale))


def bounded(text: str, kind: Varchar | Char) -> str:
    """`text` if it is short enough, a CHAR without its trailing spaces. Raises Unfit."""
    text = text.rstrip(" ") if isinstance(kind, Char) else text
    if len(text) > kind.length:
        raise Unfit(reason=f"longer than {kind}")
    return text


@dataclass(frozen=True, slots=True)
class Values:
    """JSON text to the Python values of one column, which `pa.array` takes as they are."""

    zone: ZoneInfo
    epoch: bool
    ignore_unknown: bool

    def of(self, raw: str, kind: HiveType) -> Any:  # noqa: PLR0911 -- one for each kind of type
        """`raw` is one JSON value without white space around it. Raises Unfit."""
        if raw == "null":
            return None
        match kind:
            case Primitive():
                return self._primitive(raw, kind)
            case Decimal():
                return decimal_of(_number(raw, kind), kind)
            case Varchar() | Char():
                return bounded(text_of(raw), kind)
            case Array():
                return self._array(raw, kind)
            case Map():
                return self._map(raw, kind)
            case Struct():
                return self._struct(raw, kind)

    def _primitive(self, raw: str, kind: Primitive) -> Any:  # noqa: PLR0911 -- one for each type
        if kind in _BITS:
            return integer(_number(raw, kind), _BITS[kind], str(kind))
        match kind:
            case Primitive.STRING:
                return text_of(raw)
            case Primitive.DOUBLE:
                return double(_number(raw, kind))
            case Primitive.FLOAT:
                return single(_number(raw, kind))
            case Primitive.TIMESTAMP | Primitive.DATE:
                return self._time(raw, kind)
            case Primitive.BOOLEAN if raw in {"true", "false"}:
                return raw == "true"
            case Primitive.BINARY if raw[0] == '"':
                return binary_of(unquote(raw))
            case _:
                raise _mismatch(raw, kind)

    def _time(self, raw: str, kind: Primitive) -> date | datetime:
        text = unquote(raw) if raw[0] == '"' else raw
        if self.epoch and _NUMBER.fullmatch(text):
            return self._from_millis(text, kind)
        if raw[0] != '"':
            raise _mismatch(raw, kind)
        return date_of(text) if kind is Primitive.DATE else timestamp_of(text, self.zone)

    def _from_millis(self, number: str, kind: Primitive) -> date | datetime:
        try:
            micros = scaled(number, 3, _MICROS_DIGITS, str(kind))
        except Unfit as error:
            reason = error.reason
            raise Unfit(reason="finer than microseconds" if reason.startswith("more") else reason) from None
        try:
            clock = wall_clock(instant_of(micros), self.zone)
        except Unfit:
            raise Unfit(reason=f"out of range for {kind}") from None
        return clock.date() if kind is Primitive.DATE else clock

    def _array(self, raw: str, kind: Array) -> list[Any]:
        if raw[0] != "[":
            raise _mismatch(raw, kind)
        found = []
        for place, element in enumerate(elements(raw)):
            try:
                found.append(self.of(element, kind.element))
            except Unfit as error:  # noqa: PERF203 -- says which element it was
                raise error.within(str(place)) from None
        return found

    def _map(self, raw: str, kind: Map) -> list[tuple[Any, Any]]:
        if raw[0] != "{":
            raise _mismatch(raw, kind)
        found: dict[Any, Any] = {}
        for quoted, value in members(raw):
            try:
                key = self._map_key(quoted, kind.key, found)
                found[key] = self.of(value, kind.value)
            except Unfit as error:  # noqa: PERF203 -- says which element it was
                raise error.within(unquote(quoted).encode("utf-8", "replace").decode()) from None
        return list(found.items())

    def _map_key(self, quoted: str, kind: HiveType, known: Container[Any]) -> Any:
        text = unquote(quoted)
        is_boolean = kind is Primitive.BOOLEAN and text in {"true", "false"}
        key = text == "true" if is_boolean else self.of(quoted, kind)
        if key in known:
            raise Unfit(reason="duplicate key")
        return key

    def _struct(self, raw: str, kind: Struct) -> dict[str, Any]:
        if raw[0] != "{":
            raise _mismatch(raw, kind)
        found = fields(raw, [name for name, _ in kind.fields], ignore_unknown=self.ignore_unknown)
        row: dict[str, Any] = {}
        for name, field in kind.fields:
            try:
                row[name.lower()] = self.of(found[name.lower()], field) if name.lower() in found else None
            except Unfit as error:  # noqa: PERF203 -- says which element it was
                raise error.within(name.lower()) from None
        return row


def fields(raw: str, names: Sequence[str], *, ignore_unknown: bool) -> dict[str, str]:
    """An object's members that match `names` without regard to case, by lower-case name. Raises Unfit."""
    wanted = {name.lower() for name in names}
    found: dict[str, str] = {}
    for quoted, value in members(raw):
        name = unquote(quoted).lower()
        if name in wanted:
            if name in found:
                raise Unfit(reason="duplicate field").within(name)
            found[name] = value
        elif not ignore_unknown:
            raise Unfit(reason="unknown field").within(name.encode("utf-8", "replace").decode())
    return found


class ExactDecoder:
    """Records of a table's `columns`, one at a time."""

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        self.columns = tuple(columns)
        self.names = [column.name.lower() for column in columns]
        self.ignore_unknown = options.unknown_field is OnUnknownField.IGNORE
        self.values = [
            Values(options.timestamp_zone, options.is_epoch(name), self.ignore_unknown) for name in self.names
        ]

    def row(self, record: bytes) -> list[Any]:
        """The record's values in column order. Raises Unfit with the field's path."""
        try:
            raw = document(record.decode())
        except UnicodeDecodeError:
            raise Unfit(reason="not UTF-8") from None
        except NotJson:
            raise Unfit(reason="not JSON") from None
        if raw[0] != "{":
            raise Unfit(reason="not a JSON object")
        found = fields(raw, self.names, ignore_unknown=self.ignore_unknown)
        return [self._column(place, found.get(name)) for place, name in enumerate(self.names)]

    def _column(self, place: int, raw: str | None) -> Any:
        column = self.columns[place]
        if not column.nullable and raw in {None, "null"}:
            raise Unfit("missing" if raw is None else "null").within(self.names[place])
        try:
            return None if raw is None else self.values[place].of(raw, column.type)
        except Unfit as error:
            raise error.within(self.names[place]) from None
