"""The one text that Hive gives a partition value of each type."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime
from decimal import Decimal as Number
from decimal import DecimalException, Inexact, localcontext
from typing import TYPE_CHECKING, Any, NoReturn

from hivesink.core.partition import DEFAULT_PARTITION
from hivesink.core.table import Char, Decimal, HiveType, Primitive, Varchar
from hivesink.errors import PartitionInvalid

if TYPE_CHECKING:
    from collections.abc import Callable


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


def _integer(bits: int) -> Callable[[object], str]:
    limit = 1 << (bits - 1)

    def write(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,40}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            _unfit("expected a whole number")
        if not -limit <= value < limit:
            _unfit(f"out of range {-limit} to {limit - 1}")
        return str(value)

    return write


def _floating(single: bool) -> Callable[[object], str]:
    def write(value: object) -> str:
        if isinstance(value, str):
            if not re.fullmatch(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|Infinity)|NaN", value, re.ASCII):
                _unfit("expected a number")
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            _unfit("expected a number")
        try:
            exact = struct.unpack("<f", struct.pack("<f", value))[0] if single else float(value)
        except OverflowError:
            _unfit("out of range")
        return _java(exact, _shortest(exact, single))

    return write


def _shortest(value: float, single: bool) -> str:
    """The fewest digits that read back as `value`, in exponent notation."""
    if single:
        # In native order, unlike "<f", numbers rounded beyond the largest float become infinite.
        for digits in range(8):
            text = f"{value:.{digits}e}"
            if not math.isfinite(value) or struct.pack("f", float(text)) == struct.pack("f", value):
                return text
        return f"{value:.8e}"
    return f"{Number(repr(value)):e}" if math.isfinite(value) else repr(value)


def _java(value: float, shortest: str) -> str:
    """Java's `Double.toString`: plain from 0.001 to below 10,000,000, otherwise `1.0E10`.

    As of Java 19; earlier versions write a digit too many for some numbers (JDK-4511638).
    """
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value) or value == 0:
        return sign + ("0.0" if value == 0 else "Infinity")
    _, figures, exponent = Number(shortest).normalize().as_tuple()
    digits, power = "".join(map(str, figures)), len(figures) + int(exponent) - 1
    if -3 <= power < 7:  # noqa: PLR2004  Java's own bounds
        plain = f"{Number(shortest).copy_abs():f}"
        whole, _, fraction = plain.partition(".")
        return f"{sign}{whole}.{fraction.rstrip('0') or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


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


def _binary(_value: object) -> str:
    _unfit("BINARY has no partition value text; use STRING")


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
    with localcontext() as context:
        # Exact for every number that can fit; one with more digits traps, and is out of range anyway.
        context.prec = 80
        context.traps[Inexact] = True
        try:
            trimmed = number.normalize()
            fits = trimmed.quantize(Number(1).scaleb(-kind.scale)) == trimmed
        except DecimalException:
            fits = False
    exponent = trimmed.as_tuple().exponent if fits else 0
    if not fits or trimmed.adjusted() >= kind.precision - kind.scale or not isinstance(exponent, int):
        _unfit(f"needs more digits than {kind} has")
    return f"{trimmed:f}"


def _bounded(value: object, kind: Char | Varchar) -> str:
    text = _string(value).rstrip(" ") if isinstance(kind, Char) else _string(value)
    if len(text) > kind.length:
        _unfit(f"{len(text)} characters")
    return text


_PRIMITIVES: dict[Primitive, Callable[[object], str]] = {
    Primitive.BOOLEAN: _boolean,
    Primitive.TINYINT: _integer(8),
    Primitive.SMALLINT: _integer(16),
    Primitive.INT: _integer(32),
    Primitive.BIGINT: _integer(64),
    Primitive.FLOAT: _floating(single=True),
    Primitive.DOUBLE: _floating(single=False),
    Primitive.STRING: _string,
    Primitive.BINARY: _binary,
    Primitive.DATE: _date,
    Primitive.TIMESTAMP: _timestamp,
}
