"""Whole columns of text and instants to Arrow's dates and timestamps; what `values.py` does to one value.

Each function returns a column and the rows in doubt, whose values mean nothing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hivesink.core.table import Char, Primitive, Varchar
from hivesink.core.time_format import FIRST_MICROS, LAST_MICROS, EpochUnit
from hivesink.decode.values import InvalidValue, TimeRules, clock_of, date_of, instant_of, timestamp_of, wall_clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo


Mask = NDArray[np.bool_]
Micros = NDArray[np.int64]

FIRST_DAY = FIRST_MICROS // 86_400_000_000
DAY = 86_400_000_000
# No zone changes its offset twice within a quarter of an hour.
BLOCK = 900_000_000
_OFFSET = re.compile(r"(?:Z|[+-][0-9:]+)$")
_LONGEST = 26  # bytes of `yyyy-MM-ddTHH:mm:ss.ffffff`
_FINER = r"^(.{19}\.[0-9]{6})[0-9]+"
_ZEROS = r"^(.{19}\.[0-9]{6})0+"
_COLON = 13  # the index of the colon in `yyyy-MM-ddTHH:mm`


def nulls(column: pa.Array) -> Mask:
    """Where `column` is null."""
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def not_utf8(texts: pa.Array) -> Mask:
    """Which of `texts`, strings that may hold any bytes, aren't UTF-8."""
    doubt = np.zeros(len(texts), dtype=np.bool_)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, text in enumerate(texts.view(pa.binary()).to_pylist()):
            try:
                (text or b"").decode()
            except UnicodeDecodeError:  # noqa: PERF203 -- one text that doesn't fit must not keep the others back
                doubt[row] = True
    return doubt


def bounded(texts: pa.Array, kind: Varchar | Char) -> tuple[pa.Array, Mask]:
    """Texts, a CHAR's without trailing spaces; those that are too long are in doubt."""
    if isinstance(kind, Char):
        texts = pc.utf8_rtrim(texts, characters=" ")
    return texts, pc.utf8_length(texts).fill_null(0).to_numpy(zero_copy_only=False) > kind.length


def wall_micros(instants: Micros, zone: ZoneInfo) -> tuple[Micros, Mask]:
    """What a clock in `zone` shows, as microseconds, and which rows are beyond the years 1 to 9999."""
    outside = (instants < FIRST_MICROS) | (instants > LAST_MICROS)
    if zone.key == "UTC":
        return instants, outside
    instants = np.where(outside, 0, instants)
    blocks, block_of = np.unique(instants // BLOCK, return_inverse=True)
    offsets = [_offset(int(block) * BLOCK, zone) for block in blocks]
    shift = np.array([offset or 0 for offset in offsets], dtype=np.int64)[block_of]
    for row in np.flatnonzero(np.array([offset is None for offset in offsets])[block_of]):
        try:
            shift[row] = _shift(int(instants[row]), zone)
        except InvalidValue:  # noqa: PERF203 -- the others have a clock
            outside[row] = True
    walls = instants + shift
    return walls, outside | (walls < FIRST_MICROS) | (walls > LAST_MICROS)


def _offset(block: int, zone: ZoneInfo) -> int | None:
    """The zone's offset in the block, or None where it changes or leads beyond the calendar."""
    try:
        first, last = (_shift(micros, zone) for micros in (block, block + BLOCK - 1))
    except InvalidValue:
        return None
    return first if first == last else None


def _shift(micros: int, zone: ZoneInfo) -> int:
    instant = instant_of(micros)
    gap = wall_clock(instant, zone) - instant.replace(tzinfo=None)
    return gap.days * DAY + gap.seconds * 1_000_000


def timestamps(texts: pa.Array, rules: TimeRules) -> tuple[pa.Array, Mask]:
    """ISO 8601 or SQL text, all with an offset or all without; anything else goes value by value."""
    absent = nulls(texts)
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _LONGEST:
        # Arrow refuses more digits than it keeps.
        texts = pc.replace_substring_regex(texts, _ZEROS if rules.exact else _FINER, r"\1")
    if _has_minutes(texts):
        # Arrow refuses texts of the other kind, one by one: that takes forty times as long as to read them.
        first = texts[int(np.argmin(absent))].as_py() if len(texts) else None
        readers = (_instants, _walls) if first is not None and _OFFSET.search(first) else (_walls, _instants)
        for read in readers:
            with suppress(pa.ArrowInvalid):
                return read(texts, rules.zone, absent)
    return parse_each(texts.to_pylist(), lambda text: timestamp_of(text, rules), pa.timestamp("us"))


def _walls(texts: pa.Array, _: ZoneInfo, absent: Mask) -> tuple[pa.Array, Mask]:
    """Texts without an offset. Raises ArrowInvalid."""
    micros = _micros(texts.cast(pa.timestamp("us")))
    return _clocks(micros, absent), (micros < FIRST_MICROS) | (micros > LAST_MICROS)


def _instants(texts: pa.Array, zone: ZoneInfo, absent: Mask) -> tuple[pa.Array, Mask]:
    """Texts with one. Raises ArrowInvalid."""
    instants = _micros(texts.cast(pa.timestamp("us", "UTC")))
    walls, doubt = wall_micros(instants, zone)
    # Arrow reads the year 0, which an offset may carry into the year 1.
    return _clocks(walls, absent), (doubt | (instants < FIRST_MICROS + DAY)) & ~absent


def _micros(times: pa.Array) -> Micros:
    numbers: Micros = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _has_minutes(texts: pa.Array) -> bool:
    """Arrow also reads dates and bare hours; only timestamps have a colon before the minutes."""
    return bool(pc.all(pc.equal(pc.binary_slice(texts.view(pa.binary()), _COLON, _COLON + 1), b":")).as_py())


def _clocks(micros: Micros, absent: Mask) -> pa.Array:
    return pa.array(micros, pa.int64(), mask=absent).cast(pa.timestamp("us"))


def parse_each(inputs: list[Any], parse: Callable[[Any], Any], kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Value by value, with None as null; a value that `parse` raises InvalidValue for is in doubt."""
    doubt = np.zeros(len(inputs), dtype=np.bool_)
    values: list[Any] = []
    for row, value in enumerate(inputs):
        try:
            values.append(None if value is None else parse(value))
        except InvalidValue:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
            values.append(None)
            doubt[row] = True
    return pa.array(values, kind), doubt


def dates(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """`yyyy-MM-dd`."""
    try:
        days = texts.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return parse_each(texts.to_pylist(), date_of, pa.date32())
    return pa.array(days, pa.int32(), mask=nulls(texts)).cast(pa.date32()), days < FIRST_DAY


def patterned(texts: pa.Array, kind: Primitive, rules: TimeRules) -> tuple[pa.Array, Mask]:
    """Texts of the form that is declared, as DATE or TIMESTAMP."""
    pattern, arrow = rules.pattern, pa.date32() if kind is Primitive.DATE else pa.timestamp("us")
    if pattern is None or pattern.template is None:
        return parse_each(texts.to_pylist(), lambda text: clock_of(text, kind, rules), arrow)
    other = pc.invert(pc.match_substring_regex(texts, f"^{pattern.regex}$")).fill_null(False)
    iso = pc.replace_substring_regex(pc.if_else(other, None, texts), f"^{pattern.regex}$", pattern.template)
    clocks, doubt = timestamps(iso, rules)
    if kind is Primitive.DATE:
        clocks = pc.floor_temporal(clocks, unit="day").cast(arrow)
    return clocks, doubt | np.asarray(other.to_numpy(zero_copy_only=False), dtype=np.bool_)


def counted(
    counts: pa.Array, unit: EpochUnit, kind: pa.DataType, rules: TimeRules
) -> tuple[pa.Array, list[tuple[Mask, str]]]:
    """int64 counts of `unit` since 1970-01-01 UTC as the wall clock, or its date, in the zone.

    With the rows that don't fit, each with why; null is none of them.
    """
    absent = nulls(counts)
    numbers = counts.fill_null(0).to_numpy(zero_copy_only=False)
    unfit = unit.unfit(numbers)
    numbers = np.where(unfit[-1][0], 0, numbers)
    finer = np.zeros(len(numbers), dtype=np.bool_)
    if unit is EpochUnit.DAYS:
        walls, beyond = numbers * DAY, np.zeros(len(numbers), dtype=np.bool_)
    else:
        if unit is EpochUnit.NANOS:
            instants, rest = np.divmod(numbers, 1000)
            finer = (rest != 0) & rules.exact
        else:
            instants = numbers * unit.micros
        walls, beyond = wall_micros(instants, rules.zone)
    if pa.types.is_date(kind):
        clocks = pa.array((walls // DAY).astype(np.int32), pa.int32(), mask=absent).cast(kind)
    else:
        clocks = _clocks(walls, absent)
    name = "date" if pa.types.is_date(kind) else "timestamp"
    return clocks, [(finer, "finer than microseconds"), (beyond & ~absent, f"out of range for {name}"), *unfit]
