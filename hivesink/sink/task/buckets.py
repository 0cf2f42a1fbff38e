"""The rows of a batch by partition, from the values that an assigner gives them.

It works on distinct values only, since a batch has millions of rows and few partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hivesink.config.options import OnNull
from hivesink.core.partition import DEFAULT_PARTITION, partition_path, unregistrable
from hivesink.core.partition_value import canonical
from hivesink.core.table import Column
from hivesink.core.time_format import EpochUnit
from hivesink.errors import PartitionInvalid
from hivesink.ports.rows import BadRow

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Buckets:
    """The rows of a batch by partition: `codes[i]` is row i's index into `paths`, -1 for an unfit row."""

    paths: tuple[str, ...]
    codes: Codes
    unfit: tuple[BadRow, ...]


def buckets(
    columns: Sequence[Column], values: Sequence[pa.Array], rows: int, on_null: OnNull, bad: Iterable[BadRow] = ()
) -> Buckets:
    """Partition paths with Hive's escaping and canonical values. A path that the metastore can't hold is unfit.

    `values` has an array for each column, with a value for each of `rows`. `bad` ones are unfit for their own reasons.
    """
    codes: Codes = np.zeros(rows, dtype=np.int64)
    combined: list[tuple[str | None, ...]] = [()]
    unfit: dict[int, BadRow] = {row.index: row for row in bad}
    for column, array in zip(columns, values, strict=True):
        indices, distinct = _encode(array)
        texts, problems = _texts(column, distinct, on_null)
        for code, reason in problems.items():
            for row in np.flatnonzero(indices == code).tolist():
                unfit.setdefault(row, BadRow(row, column.name, reason))
        if len(combined) == 1:
            codes, combined = indices, [(*combined[0], text) for text in texts]
            continue
        # Only the combinations that occur are kept: the codes of all possible ones could overflow.
        size = max(1, len(texts))
        keys, inverse = np.unique(codes * size + indices, return_inverse=True)
        pairs = (divmod(int(key), size) for key in keys)
        codes, combined = inverse.reshape(-1).astype(np.int64), [(*combined[a], texts[b]) for a, b in pairs]
    # Null and the empty string are two values but the same partition.
    paths: dict[str, int] = {}
    names = [column.name for column in columns]
    merged = [paths.setdefault(partition_path(names, combination), len(paths)) for combination in combined]
    codes = np.asarray(merged, dtype=np.int64)[codes]
    for path, code in paths.items():
        if (trouble := unregistrable(path)) is not None:
            for row in np.flatnonzero(codes == code).tolist():
                unfit.setdefault(row, BadRow(row, None, trouble))
    if unfit:
        codes[list(unfit)] = -1
    return Buckets(tuple(paths), codes, tuple(unfit.values()))


def _encode(array: pa.Array) -> tuple[Codes, list[Any]]:
    """Codes, and the distinct values that they index, the last of them None if there is a null."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    encoded = whole if isinstance(whole, pa.DictionaryArray) else whole.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if encoded.null_count:
        distinct.append(None)
    filled = pc.fill_null(encoded.indices.cast(pa.int64()), len(distinct) - 1)
    return filled.to_numpy(zero_copy_only=False), distinct


def _texts(column: Column, distinct: list[Any], on_null: OnNull) -> tuple[list[str | None], dict[int, str]]:
    texts: list[str | None] = []
    problems: dict[int, str] = {}
    for code, value in enumerate(distinct):
        try:
            text = canonical(value, column.type)
            partition_path([column.name], [text])
        except PartitionInvalid as error:
            problems[code] = error.reason
            text = None
        else:
            if not text and on_null is OnNull.BAD_RECORD:
                problems[code] = "the partition value is null or empty"
        texts.append(text or DEFAULT_PARTITION)
    return texts, problems


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
