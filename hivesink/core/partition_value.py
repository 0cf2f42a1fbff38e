"""The text that Hive gives a partition value of each type."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, DecimalException, Inexact, InvalidOperation
from decimal import Decimal as Number
from functools import partial
from typing import Any, NoReturn

from hivesink.core.partition import DEFAULT_PARTITION
from hivesink.core.table import Char, Decimal, HiveType, Primitive, Varchar
from hivesink.errors import PartitionInvalid


def canonical(value: object, kind: HiveType) -> str | None:
    """The text that Hive gives `value` as a partition value of type `kind`; None for null and the empty string.

    `value` is a Python value or a text. Timestamps are wall clocks. Decimals lose trailing zeros
    (`HiveDecimal.toString`), floats print as Java's do. Nothing is rounded, cut or shifted to fit:
    raises PartitionInvalid.
    """
    if value is None or value == "":
        return None
    try:
        match kind:
            case Primitive.BINARY:
                _unfit("BINARY has no partition value text; use STRING")
            case Primitive():
                text = _PRIMITIVES[kind](value)
            case Decimal():
                text = _decimal(value, kind)
            case Char() | Varchar():
                text = _bounded(value, kind)
            case _:
                _unfit("Hive has no partitions by complex types")
        if text == DEFAULT_PARTITION:
            _unfit("Hive keeps this text for null")
    except _NoText as error:
        what = f"{value!r:.80} of type {kind}"
        raise PartitionInvalid(what, str(error)) from None
    return text or None


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|Infinity)|NaN", re.ASCII)
# A number with more digits is out of range anyway.
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])


class _NoText(Exception):
    """Why a value has no text, raised where value and type are not known."""


def _unfit(reason: str) -> NoReturn:
    raise _NoText(reason) from None


def _string(value: object) -> str:
    if not isinstance(value, str):
        _unfit(f"expected a text, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            _unfit("a lone surrogate can't be written in UTF-8")
    return value


def _boolean(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower()
    _unfit("expected true or false")


def _integer(value: object, bits: int) -> str:
    limit = 1 << (bits - 1)
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,40}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        _unfit("expected a whole number")
    if not -limit <= value < limit:
        _unfit(f"out of range {-limit} to {limit - 1}")
    return str(value)


def _floating(value: object, *, single: bool) -> str:
    """As Java's `toString` from Java 19 on; earlier ones write a digit too many for some numbers (JDK-4511638)."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _unfit("expected a number")
    try:
        exact: float = struct.unpack("<f", struct.pack("<f", float(value)))[0] if single else float(value)
    except OverflowError:
        _unfit("out of range")
    if not math.isfinite(exact) or exact == 0:
        return repr(exact).replace("nan", "NaN").replace("inf", "Infinity")
    shortest = repr(exact)
    if single:
        # In native order, unlike "<f", numbers rounded beyond the largest float become infinite.
        texts = (f"{exact:.{digits}e}" for digits in range(9))
        shortest = next(text for text in texts if struct.pack("f", float(text)) == struct.pack("f", exact))
    number = Number(shortest).normalize()
    if 1e-3 <= abs(exact) < 1e7:  # noqa: PLR2004  Java's own bounds
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    digits, _, power = f"{number:e}".partition("e")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(power)}"


def _date(value: object) -> str:
    if isinstance(value, str) and (match := re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", value, re.ASCII)):
        return str(_checked(date, *map(int, match.groups())))
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    _unfit("expected a date such as 2024-01-02")


_CLOCK = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?", re.ASCII)


def _timestamp(value: object) -> str:
    if isinstance(value, str) and (match := _CLOCK.fullmatch(value)):
        nanoseconds = int((match[7] or "0").ljust(9, "0"))
        at: datetime = _checked(datetime, *(int(part or 0) for part in match.groups()[:6]))
    elif isinstance(value, datetime) and value.tzinfo is None:
        # pandas' Timestamp, which pyarrow hands out for nanoseconds, is a datetime with three more digits.
        at, nanoseconds = value, value.microsecond * 1000 + int(getattr(value, "nanosecond", 0))
    else:
        _unfit("expected a wall clock without a zone, such as 2024-01-02 03:04:05.678")
    text = at.strftime(f"{at.year:04d}-%m-%d %H:%M:%S")
    return f"{text}.{nanoseconds:09d}".rstrip("0") if nanoseconds else text


def _checked(make: Callable[..., Any], *parts: int) -> Any:
    try:
        return make(*parts)
    except ValueError as error:
        _unfit(str(error))


def _decimal(value: object, kind: Decimal) -> str:
    if isinstance(value, str) and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", value, re.ASCII):
        value = Number(value)
    if isinstance(value, bool) or not isinstance(value, (int, Number)):
        _unfit("expected an exact decimal number")
    number = Number(value)
    if not number.is_finite():
        _unfit("not a finite number")
    if number == 0:
        return "0"
    try:
        exact = number.quantize(Number(1).scaleb(-kind.scale), context=_EXACT)
    except DecimalException:
        _unfit(f"needs more digits than {kind} has")
    if exact.adjusted() >= kind.precision - kind.scale:
        _unfit(f"needs more digits than {kind} has")
    text = f"{exact:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bounded(value: object, kind: Char | Varchar) -> str:
    text = _string(value).rstrip(" ") if isinstance(kind, Char) else _string(value)
    if len(text) > kind.length:
        _unfit(f"{len(text)} characters")
    return text


_PRIMITIVES: dict[Primitive, Callable[[object], str]] = {
    Primitive.BOOLEAN: _boolean,
    Primitive.TINYINT: partial(_integer, bits=8),
    Primitive.SMALLINT: partial(_integer, bits=16),
    Primitive.INT: partial(_integer, bits=32),
    Primitive.BIGINT: partial(_integer, bits=64),
    Primitive.FLOAT: partial(_floating, single=True),
    Primitive.DOUBLE: partial(_floating, single=False),
    Primitive.STRING: _string,
    Primitive.DATE: _date,
    Primitive.TIMESTAMP: _timestamp,
}
