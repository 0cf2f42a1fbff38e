"""Whole columns of text and instants to Arrow's dates and timestamps; what `values.py` does to one value.

Each function that returns a column and a mask says by that which rows are in doubt: their values mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hivesink.core.table import Char, Primitive, Varchar
from hivesink.core.time_format import FIRST_MICROS, LAST_MICROS, EpochUnit
from hivesink.decode.values import TimeRules, clock_of, date_of, instant_of, timestamp_of, wall_clock

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


REFUSED = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What readers of one value raise, msgspec too, for input that isn't what they expect."""


def mask_of(flags: pa.BooleanArray) -> Mask:
    """Where `flags` are set; null is not."""
    flags = flags.fill_null(False) if flags.null_count else flags
    return np.asarray(flags.to_numpy(zero_copy_only=False), dtype=np.bool_)


def nulls(column: pa.Array) -> Mask:
    """Where `column` is null."""
    return mask_of(column.is_null()) if column.null_count else np.zeros(len(column), np.bool_)


def each(inputs: Sequence[Any], parse: Callable[[Any], Any]) -> tuple[list[Any], Mask]:
    """What `parse` makes of each input, and which inputs it refuses; None stays None."""
    doubt = np.zeros(len(inputs), dtype=np.bool_)
    values: list[Any] = []
    for row, value in enumerate(inputs):
        try:
            values.append(None if value is None else parse(value))
        except REFUSED:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
            values.append(None)
            doubt[row] = True
    return values, doubt


def parse_each(inputs: Sequence[Any], parse: Callable[[Any], Any], kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """`each` as an Arrow column."""
    values, doubt = each(inputs, parse)
    return pa.array(values, kind), doubt


def not_utf8(texts: pa.Array) -> Mask:
    """Which of `texts`, strings that may hold any bytes, aren't UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return each(texts.view(pa.binary()).to_pylist(), bytes.decode)[1]
    return np.zeros(len(texts), dtype=np.bool_)


def bounded(texts: pa.Array, kind: Varchar | Char) -> tuple[pa.Array, Mask]:
    """Texts, a CHAR's without trailing spaces; those that are too long are in doubt."""
    if isinstance(kind, Char):
        texts = pc.utf8_rtrim(texts, characters=" ")
    return texts, mask_of(pc.greater(pc.utf8_length(texts), kind.length))


def wall_micros(instants: Micros, zone: ZoneInfo) -> tuple[Micros, Mask]:
    """What a clock in `zone` shows, as microseconds, and which rows are beyond the years 1 to 9999."""
    outside = (instants < FIRST_MICROS) | (instants > LAST_MICROS)
    if zone.key == "UTC":
        return instants, outside
    instants = np.where(outside, 0, instants)

    def shift(micros: int) -> int:
        instant = instant_of(micros)
        gap = wall_clock(instant, zone) - instant.replace(tzinfo=None)
        return gap.days * DAY + gap.seconds * 1_000_000

    blocks, block_of = np.unique(instants // BLOCK, return_inverse=True)
    firsts, early = each((blocks * BLOCK).tolist(), shift)
    lasts, late = each((blocks * BLOCK + BLOCK - 1).tolist(), shift)
    # Where the offset changes, or the block leads beyond the calendar, each instant has its own.
    unsure = early | late | (np.array(firsts) != np.array(lasts))
    shifts = np.where(unsure, 0, np.array(firsts)).astype(np.int64)[block_of]
    rows = np.flatnonzero(unsure[block_of])
    singly, beyond = each(instants[rows].tolist(), shift)
    shifts[rows], outside[rows] = [gap or 0 for gap in singly], outside[rows] | beyond
    walls = instants + shifts
    return walls, outside | (walls < FIRST_MICROS) | (walls > LAST_MICROS)


def timestamps(texts: pa.Array, rules: TimeRules) -> tuple[pa.Array, Mask]:
    """ISO 8601 or SQL text, all with an offset or all without; anything else goes value by value."""
    absent = nulls(texts)
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _LONGEST:
        # Arrow refuses more digits than it keeps.
        texts = pc.replace_substring_regex(texts, _ZEROS if rules.exact else _FINER, r"\1")
    # Arrow also reads dates and bare hours; only timestamps have a colon before the minutes.
    if pc.all(pc.equal(pc.binary_slice(texts.view(pa.binary()), _COLON, _COLON + 1), b":")).as_py():
        # Arrow refuses texts of the other kind singly: that takes forty times as long as to read them.
        first = texts[int(np.argmin(absent))].as_py() if len(texts) else None
        is_instant = first is not None and _OFFSET.search(first) is not None
        for zoned in (is_instant, not is_instant):
            with suppress(pa.ArrowInvalid):
                micros = _micros(texts.cast(pa.timestamp("us", "UTC" if zoned else None)))
                # Arrow reads the year 0, which an offset may carry into the year 1.
                doubt = micros < FIRST_MICROS + DAY * zoned
                if zoned:
                    micros, beyond = wall_micros(micros, rules.zone)
                    doubt |= beyond
                return _clocks(micros, absent), (doubt | (micros > LAST_MICROS)) & ~absent
    return parse_each(texts.to_pylist(), lambda text: timestamp_of(text, rules), pa.timestamp("us"))


def _micros(times: pa.Array) -> Micros:
    numbers: Micros = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _clocks(micros: Micros, absent: Mask) -> pa.Array:
    return pa.array(micros, pa.int64(), mask=absent).cast(pa.timestamp("us"))


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
    fits = pc.match_substring_regex(texts, f"^{pattern.regex}$")
    iso = pc.replace_substring_regex(pc.if_else(fits, texts, None), f"^{pattern.regex}$", pattern.template)
    clocks, doubt = timestamps(iso, rules)
    if kind is Primitive.DATE:
        clocks = pc.floor_temporal(clocks, unit="day").cast(arrow)
    return clocks, doubt | mask_of(pc.invert(fits))


def counted(
    counts: pa.Array, unit: EpochUnit, kind: pa.DataType, rules: TimeRules
) -> tuple[pa.Array, list[tuple[Mask, str]]]:
    """int64 counts of `unit` since 1970-01-01 UTC as the wall clock, or its date, in the zone.

    With the rows that don't fit, each with why; null is none of them.
    """
    absent = nulls(counts)
    numbers = counts.fill_null(0).to_numpy(zero_copy_only=False)
    unfit = unit.unfit(numbers)[1 if rules.is_sure else 0 :]
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
    is_date = pa.types.is_date(kind)
    days = pa.array((walls // DAY).astype(np.int32), mask=absent) if is_date else None
    clocks = _clocks(walls, absent) if days is None else days.cast(kind)
    out_of_range = f"out of range for {'date' if is_date else 'timestamp'}"
    return clocks, [(finer, "finer than microseconds"), (beyond & ~absent, out_of_range), *unfit]
