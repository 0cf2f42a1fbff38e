"""Whole numbers that stand for times: the bucket's time column and the watermark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.core.time_format import EpochUnit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Unfit = list[tuple[NDArray[np.bool_], str]]


def counted(counts: pa.Array | pa.ChunkedArray, unit: EpochUnit) -> tuple[pa.Array, Unfit]:
    """Whole numbers as counts of `unit` since 1970-01-01 UTC: instants or dates, and the rows that can't be, with why.

    These are null, as those without a number.
    """
    whole = counts.combine_chunks() if isinstance(counts, pa.ChunkedArray) else counts
    numbers = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    unfit = unit.unfit(numbers)
    wrong = np.logical_or.reduce([mask for mask, _ in unfit])
    numbers = np.where(wrong, 0, numbers)
    micros = numbers // 1000 if unit is EpochUnit.NANOS else numbers * unit.micros
    absent = np.asarray(whole.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    instants = pa.array(micros, pa.int64(), mask=absent | wrong).cast(pa.timestamp("us", "UTC"))
    return instants.cast(pa.date32()) if unit is EpochUnit.DAYS else instants, unfit
