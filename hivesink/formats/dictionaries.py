"""The leaf columns of rows, as Parquet has them, and which of them are worth a dictionary.

Where values repeat, a dictionary makes files smaller for no more CPU time; elsewhere it costs both
(bench/LAB.md, "Dictionaries").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def leaves(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Each leaf's path, as Parquet spells it (`tags.list.element`), and its values."""
    for name in rows.column_names:
        column = rows.column(name)
        yield from _leaves(name, column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(values.type):
        for part, inner in zip(values.type, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{part.name}", inner)
    elif pa.types.is_map(values.type):
        # Of a slice, these are still those of the whole.
        first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        yield from _leaves(f"{path}.key_value.key", values.keys[first:end])
        yield from _leaves(f"{path}.key_value.value", values.items[first:end])
    elif pa.types.is_list(values.type):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values
