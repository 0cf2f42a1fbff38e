"""Times that are no ISO 8601, guessed from a field's name and all of its values in a sample."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from hivesink.core.table import Primitive
from hivesink.core.time_format import EpochUnit, TextPattern
from hivesink.decode.values import InvalidValue, TimeRules, timestamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_YEARS = (946_684_800, 4_102_444_800)
"""Seconds of the years 2000 to 2099."""
_TIMELY = re.compile(
    r"time|date|stamp|epoch|millis|micros|nanos|created|modified|(?:^|_)(?:ts|at|ms|us|ns|when)(?:_|$)|[a-z]{3}at$"
)
_DAILY = re.compile(r"date|created|modified|(?:^|_)(?:at|days?)(?:_|$)")
"""Not `time`, which may be a duration of as many milliseconds."""
_DATES = (
    *("yyyy/MM/dd", "yyyy-MM-dd", "dd/MM/yyyy", "MM/dd/yyyy", "dd.MM.yyyy"),
    *("dd/MMM/yyyy", "dd MMM yyyy", "dd-MMM-yyyy"),
)
_CLOCKS = ("", " HH:mm", *("".join(form) for form in product((" ", ":", "'T'"), ["HH:mm:ss"], ("", ".SSS", "','SSS"))))
_OFFSETS = ("", " Z", "Z")


def is_timestamp(text: str) -> bool:
    """Whether a text is ISO 8601 or SQL, which needs no format."""
    with suppress(InvalidValue):
        timestamp_of(text, TimeRules())
        return True
    return False


def unit_of_numbers(name: str, numbers: Sequence[float]) -> EpochUnit | None:
    """The unit in which all lie in the years 2000 to 2099, if the field's name, in lower case, is that of a time."""
    for unit in EpochUnit:
        is_days = unit is EpochUnit.DAYS
        scale = 1 / 86_400 if is_days else 10**unit.digits
        fits = _YEARS[0] * scale <= min(numbers) and max(numbers) < _YEARS[1] * scale
        fits &= not is_days or all(isinstance(number, int) for number in numbers)
        if fits and (_DAILY if is_days else _TIMELY).search(name):
            return unit
    return None


def pattern_of_texts(texts: Sequence[str]) -> TextPattern | None:
    """The one form that fits all texts. If several do, as for 03/04/2024, none is sure."""
    forms = [form for form in _patterns() if form.iso(texts[0])]
    forms = [form for form in forms if all(is_timestamp(form.iso(text) or "") for text in texts)]
    return forms[0] if len(forms) == 1 else None


def type_of(form: EpochUnit | TextPattern) -> Primitive:
    """DATE for days, else TIMESTAMP."""
    is_day = form is EpochUnit.DAYS or (isinstance(form, TextPattern) and "hour" not in form.fields)
    return Primitive.DATE if is_day else Primitive.TIMESTAMP


@cache
def _patterns() -> tuple[TextPattern, ...]:
    forms = product(_DATES, _CLOCKS, _OFFSETS)
    return tuple(TextPattern.parse("".join(form)) for form in forms if form[1] or not form[2])
