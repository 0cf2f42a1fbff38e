"""Which columns of a Parquet file are worth a dictionary, by a sample of the rows.

Where values repeat, a dictionary makes files smaller for no more CPU time; elsewhere it costs both
(bench/LAB.md, "Dictionaries").
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hivesink.formats.leaves import leaves

_SAMPLE = 4096
"""Rows. A look at so many takes 12 ms for 60 columns."""
_SHARE = 0.5
"""The most distinct values in a sample, as a share of those that aren't null, for which a dictionary is worth it."""


@dataclass(slots=True)
class Dictionaries:
    """The columns of tables of one schema that get a dictionary, by the largest sample so far."""

    _rows: int = 0
    _columns: tuple[str, ...] = ()

    def of(self, rows: pa.Table) -> tuple[str, ...]:
        """The leaf columns, as Parquet spells their paths (`tags.list.element`), for a file that begins with `rows`.

        Only rows of which a sample is more than twice the last one are looked at.
        """
        size = min(rows.num_rows, _SAMPLE)
        if size > 2 * self._rows:
            self._columns = tuple(path for path, values in leaves(rows.slice(0, size)) if _repeat(values))
            self._rows = size
        return self._columns


def _repeat(values: pa.Array) -> bool:
    # A boolean has no dictionary in Parquet.
    if pa.types.is_boolean(values.type):
        return False
    nulls: int = values.null_count
    return 0 < len(values.unique()) - bool(nulls) <= _SHARE * (len(values) - nulls)
