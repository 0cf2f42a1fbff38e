"""The rows of one Parquet file, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.formats.statistics import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows(stream: BinaryIO, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
    """The columns of `schema`, in its types, at most `most` rows at a time; null where the file lacks one.

    Raises ValueError if the file isn't Parquet, is damaged, or holds values that don't fit.
    """
    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us", buffer_size=READ_BYTES)
    there = {name.lower(): name for name in file.schema_arrow.names}
    for batch in file.iter_batches(most, columns=[there[name] for name in schema.names if name in there]):
        arrays = [
            batch.column(there[one.name]).cast(one.type) if one.name in there else pa.nulls(batch.num_rows, one.type)
            for one in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
