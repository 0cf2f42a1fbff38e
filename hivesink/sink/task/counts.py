"""Whole numbers that stand for times: the bucket's time column and the watermark's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.core.time_format import EpochUnit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Counted:
    """Instants, or dates, null where the number is null or can't be one of its unit; and where it can't, why."""

    times: pa.Array
    near: Mask
    far: Mask


def counted(counts: pa.Array | pa.ChunkedArray, unit: EpochUnit) -> Counted:
    """Whole numbers as counts of `unit` since 1970-01-01 UTC."""
    whole = counts.combine_chunks() if isinstance(counts, pa.ChunkedArray) else counts
    numbers = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    near = (numbers != 0) & (numbers > -unit.near) & (numbers < unit.near)
    far = (numbers < max(unit.lowest, _LEAST)) | (numbers > min(unit.highest, _MOST))
    numbers = np.where(far, 0, numbers)
    micros = numbers // 1000 if unit is EpochUnit.NANOS else numbers * unit.micros
    absent = np.asarray(whole.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    instants = pa.array(micros, pa.int64(), mask=absent | near | far).cast(pa.timestamp("us", "UTC"))
    return Counted(instants.cast(pa.date32()) if unit is EpochUnit.DAYS else instants, near, far)
