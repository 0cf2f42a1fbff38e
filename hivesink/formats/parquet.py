"""Parquet that Hive's own reader accepts, from 2.3 on.

INT96 timestamps, since ParquetHiveSerDe of 2.3 can't read INT64 ones (HIVE-21215 came with 4.0); decimals as
FIXED_LEN_BYTE_ARRAY; columns in DDL order under their DDL names, so that reading by position and by name agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.config.layout import Layout
from hivesink.config.options import Compression
from hivesink.errors import Unsupported
from hivesink.formats.dictionaries import Dictionaries

if TYPE_CHECKING:
    from collections.abc import Callable

_FALSE_POSITIVES = 0.01
"""Of a Bloom filter; parquet-java's default."""


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Writes tables of `schema`, whose rows come in the layout's order.

    Columns beyond it, which rows may have after the others, are written too: readers by name pass over them.
    """

    schema: pa.Schema
    layout: Layout = field(default_factory=Layout)
    _by_sample: Dictionaries = field(default_factory=Dictionaries, compare=False)

    def __post_init__(self) -> None:
        """Raises Unsupported."""
        if self.layout.bloom_filters and "bloom_filter_options" not in signature(pq.ParquetWriter.__init__).parameters:
            way = "install a newer one, or remove sink.parquet.bloom-filter-columns"
            raise Unsupported("Bloom filters", f"pyarrow {pa.__version__} can't write them", way)  # noqa: EM101

    def open(self, stream: BinaryIO) -> ParquetRecords:
        return ParquetRecords(partial(self._writer, stream))

    def _writer(self, stream: BinaryIO, first: pa.Table | None) -> pq.ParquetWriter:
        """The writer of a file that begins with the rows `first`; None if it has none."""
        layout = self.layout
        more: dict[str, Any] = {}
        if layout.bloom_filters:
            # Without `ndv`, pyarrow fits each filter to the values that it has (GH-50007).
            more["bloom_filter_options"] = {name: {"fpp": _FALSE_POSITIVES} for name in layout.bloom_filters}
        if layout.order:
            keys = [(key.column, key.direction) for key in layout.order]
            more["sorting_columns"] = pq.SortingColumn.from_ordering(self.schema, keys, null_placement="at_end")
        dictionary = layout.dictionary
        if dictionary is None:
            dictionary = self._by_sample.of(first or self.schema.empty_table())
        beyond = [] if first is None else [*first.schema][len(self.schema) :]
        return pq.ParquetWriter(
            pa.PythonFile(stream, mode="w"),
            pa.schema([*self.schema, *beyond]),
            compression="none" if layout.compression is Compression.NONE else layout.compression.value,
            use_dictionary=list(dictionary) if isinstance(dictionary, tuple) else dictionary,
            use_deprecated_int96_timestamps=True,
            store_decimal_as_integer=False,
            store_schema=False,
            **more,
        )


class ParquetRecords:
    """One file's content, each write a row group. `begin` makes its writer, given the rows that it begins with."""

    def __init__(self, begin: Callable[[pa.Table | None], pq.ParquetWriter]) -> None:
        self._begin = begin
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        self._writer = self._writer or self._begin(rows)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))

    def close(self) -> None:
        self._writer = self._writer or self._begin(None)
        self._writer.close()

    def __del__(self) -> None:
        # pyarrow's writer would finish its file when it is dropped: one that wasn't closed must stay unfinished.
        if self._writer is not None:
            self._writer.is_open = False
