"""Parquet that Hive's own reader accepts, from 2.3 on.

INT96 timestamps, since ParquetHiveSerDe of 2.3 can't read INT64 ones (HIVE-21215 came with 4.0); decimals as
FIXED_LEN_BYTE_ARRAY; columns in DDL order under their DDL names, so that reading by position and by name agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.config.options import Compression
from hivesink.errors import RowsUnfit


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Writes tables of `schema`, without dictionaries: these cost more CPU than the bytes that they save."""

    schema: pa.Schema
    compression: Compression = Compression.SNAPPY

    def open(self, stream: BinaryIO) -> ParquetRecords:
        writer = pq.ParquetWriter(
            pa.PythonFile(stream, mode="w"),
            self.schema,
            compression="none" if self.compression is Compression.NONE else self.compression.value,
            use_dictionary=False,
            use_deprecated_int96_timestamps=True,
            store_decimal_as_integer=False,
            store_schema=False,
        )
        return ParquetRecords(writer)

    def fit(self, rows: pa.Table) -> pa.Table:
        """Raises RowsUnfit."""
        if rows.schema.equals(self.schema):
            return rows
        columns = []
        for wanted in self.schema:
            if wanted.name not in rows.column_names:
                columns.append(pa.nulls(rows.num_rows, wanted.type))
                continue
            try:
                columns.append(rows.column(wanted.name).cast(wanted.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise RowsUnfit(wanted.name, str(rows.column(wanted.name).type), str(error)) from error
        return pa.table(columns, schema=self.schema)


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
