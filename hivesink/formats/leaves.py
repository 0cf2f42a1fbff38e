"""The leaf columns of rows, as Parquet has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator


def leaves(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Each leaf's path, as Parquet spells it (`tags.list.element`), and its values."""
    for name in rows.column_names:
        yield from _leaves(name, _joined(rows.column(name)))


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


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
