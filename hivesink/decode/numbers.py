"""A JSON number's text as the exact number that a column can hold; nothing is rounded on the way."""

from __future__ import annotations

import struct

from hivesink.decode.unfit import Unfit

# More exponent digits than any column's range has: the sign of the exponent alone decides,
# and Python refuses to read very long ones.
_EXPONENT_DIGITS = 18


def scaled(number: str, places: int, digits: int, kind: str) -> int:
    """`number` times 10**`places`, exactly.

    Raises Unfit if that is not a whole number, or has more than `digits` digits.
    """
    if not places and len(number) < digits and number.removeprefix("-").isdecimal():
        return int(number)
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    unscaled = (whole + fraction).lstrip("0")
    significant = unscaled.rstrip("0")
    if not significant:
        return 0
    power = _exponent(exponent) - len(fraction) + len(unscaled) - len(significant) + places
    if power < 0:
        raise Unfit(reason="more decimal places than " + kind if places else "not a whole number")
    if len(significant) + power > digits:
        raise Unfit(reason=f"out of range for {kind}")
    value = int(significant + "0" * power)
    return -value if number[0] == "-" else value


def _exponent(text: str) -> int:
    magnitude = text.lstrip("+-").lstrip("0")
    value = int(magnitude or 0) if len(magnitude) <= _EXPONENT_DIGITS else 10**_EXPONENT_DIGITS
    return -value if text.startswith("-") else value


def integer(number: str, bits: int, kind: str) -> int:
    """Raises Unfit outside of a signed integer of `bits` bits, and for fractions."""
    value = scaled(number, 0, 19, kind)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Unfit(reason=f"out of range for {kind}")
    return value


def double(number: str) -> float:
    """The nearest DOUBLE. Raises Unfit where that is infinite; the integer `-0` is 0, as integers go."""
    value = 0.0 if number == "-0" else float(number)
    if value in {float("inf"), float("-inf")}:
        raise Unfit(reason="out of range for double")
    return value


def single(number: str) -> float:
    """The nearest DOUBLE that the column then rounds to FLOAT. Raises Unfit where that is infinite."""
    try:
        value = double(number)
        struct.pack("<f", value)
    except (OverflowError, Unfit):
        raise Unfit(reason="out of range for float") from None
    return value
