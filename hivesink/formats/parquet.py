"""Parquet that Hive's own reader accepts, from 2.3 on.

INT96 timestamps, since ParquetHiveSerDe of 2.3 can't read INT64 ones (HIVE-21215 came with 4.0); decimals as
FIXED_LEN_BYTE_ARRAY; columns in DDL order under their DDL names, so that reading by position and by name agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.config.layout import Layout
from hivesink.config.options import Compression
from hivesink.errors import Unsupported

_FALSE_POSITIVES = 0.01
"""Of a Bloom filter; parquet-java's default."""


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Writes tables of `schema`, whose rows come in the layout's order."""

    schema: pa.Schema
    layout: Layout = field(default_factory=Layout)

    def __post_init__(self) -> None:
        """Raises Unsupported."""
        if self.layout.bloom_filters and "bloom_filter_options" not in signature(pq.ParquetWriter.__init__).parameters:
            way = "install a newer one, or remove sink.parquet.bloom-filter-columns"
            raise Unsupported("Bloom filters", f"pyarrow {pa.__version__} can't write them", way)  # noqa: EM101

    def open(self, stream: BinaryIO) -> ParquetRecords:
        layout = self.layout
        more: dict[str, Any] = {}
        if layout.bloom_filters:
            # Without `ndv`, pyarrow fits each filter to the values that it has (GH-50007).
            more["bloom_filter_options"] = {name: {"fpp": _FALSE_POSITIVES} for name in layout.bloom_filters}
        if layout.order:
            keys = [(key.column, key.direction) for key in layout.order]
            more["sorting_columns"] = pq.SortingColumn.from_ordering(self.schema, keys, null_placement="at_end")
        writer = pq.ParquetWriter(
            pa.PythonFile(stream, mode="w"),
            self.schema,
            compression="none" if layout.compression is Compression.NONE else layout.compression.value,
            use_dictionary=layout.dictionary if isinstance(layout.dictionary, bool) else list(layout.dictionary),
            use_deprecated_int96_timestamps=True,
            store_decimal_as_integer=False,
            store_schema=False,
            **more,
        )
        return ParquetRecords(writer)


class ParquetRecords:
    """One file's content, each write a row group."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))

    def close(self) -> None:
        self._writer.close()

    def __del__(self) -> None:
        # pyarrow's writer would finish its file when it is dropped: one that wasn't closed must stay unfinished.
        self._writer.is_open = False
