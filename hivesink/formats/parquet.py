"""Parquet that Hive's own reader accepts, from 2.3 on.

INT96 timestamps by default, since ParquetHiveSerDe of 2.3 can't read INT64 ones (HIVE-21215 came with 4.0); decimals as
FIXED_LEN_BYTE_ARRAY; columns in DDL order under their DDL names, so that reading by position and by name agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.config.options import ParquetCompression, ParquetTimestamp, SinkConfig
from hivesink.core.table import SortKey
from hivesink.formats import Records, fitted
from hivesink.ports.rows import BadRow, FileContent

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from typing_extensions import Self

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

        Only rows of which a sample is more than twice the last are looked at.
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


READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Writes tables of `schema`, whose rows come in `order`.

    Columns beyond it, which rows may have after the others, are written too: readers by name pass over them.
    `row_group` is in bytes before encoding. Columns in which values repeat get a dictionary.
    """

    schema: pa.Schema
    compression: ParquetCompression = ParquetCompression.SNAPPY
    row_group: int = 128 << 20
    order: tuple[SortKey, ...] = ()
    timestamp: ParquetTimestamp = ParquetTimestamp.INT96
    _by_sample: Dictionaries = field(default_factory=Dictionaries, compare=False)

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        config: SinkConfig,
        *,
        order: tuple[SortKey, ...] = (),
        ids: Mapping[str, int] = MappingProxyType({}),
    ) -> Self:
        """By the table's settings; all but the form of TIMESTAMPs are Hive's own."""
        return cls(
            pa.schema([_numbered(field, field.name, ids) for field in schema]),
            compression=config["parquet.compression"],
            row_group=config["parquet.block.size"],
            timestamp=config["sink.parquet.timestamp"],
            order=order,
        )

    @property
    def extension(self) -> str:
        codec = {"gzip": "gz", "uncompressed": ""}.get(self.compression.value, self.compression.value)
        return f".{codec}.parquet" if codec else ".parquet"

    @property
    def open_bytes(self) -> int:
        return 700 << 10

    def unfit(self, rows: pa.Table) -> Iterable[BadRow]:  # noqa: ARG002  it holds every value
        return ()

    def open(self, stream: BinaryIO) -> ParquetRecords:
        return ParquetRecords(partial(self._writer, stream))

    @staticmethod
    def read(stream: BinaryIO, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
        file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us", buffer_size=READ_BYTES)
        stored = {name.lower(): name for name in file.schema_arrow.names}
        for batch in file.iter_batches(most, columns=[stored[name] for name in schema.names if name in stored]):
            yield fitted(batch, schema)

    @staticmethod
    def measure(stream: BinaryIO, /) -> FileContent:
        footer = pq.ParquetFile(stream, buffer_size=READ_BYTES).metadata
        groups = (footer.row_group(index) for index in range(footer.num_row_groups))
        return FileContent(footer.num_rows, sum(group.total_byte_size for group in groups))

    @staticmethod
    def dataset() -> ds.FileFormat:
        # Not at the top: tasks don't need it.
        import pyarrow.dataset as ds

        return ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))

    def _writer(self, stream: BinaryIO, first: pa.Table | None) -> pq.ParquetWriter:
        """The writer of a file that begins with the rows `first`; None if it has none."""
        more: dict[str, Any] = {}
        if self.order:
            keys = [(key.column, key.direction) for key in self.order]
            more["sorting_columns"] = pq.SortingColumn.from_ordering(self.schema, keys, null_placement="at_end")
        begins = self.schema.empty_table() if first is None else first
        none, beyond = begins.schema.empty_table(), [*begins.schema][len(self.schema) :]
        # Bounds of floating numbers would hide rows: Arrow's leave NaN out, and Spark and Hive take it for the largest.
        bounded = [path for path, values in leaves(none) if not pa.types.is_floating(values.type)]
        return pq.ParquetWriter(
            pa.PythonFile(stream, mode="w"),
            pa.schema([*self.schema, *beyond]),
            compression="none" if self.compression is ParquetCompression.NONE else self.compression.value,
            use_dictionary=list(self._by_sample.of(begins)),
            write_statistics=bounded,
            use_deprecated_int96_timestamps=self.timestamp is ParquetTimestamp.INT96,
            store_decimal_as_integer=False,
            store_schema=False,
            **more,
        )


def _numbered(field: pa.Field, path: str, ids: Mapping[str, int]) -> pa.Field:
    """`field` with its id and those of the fields in it, which readers such as Iceberg's go by."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_numbered(inner, f"{path}.{inner.name}", ids) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_numbered(kind.value_field.with_name("element"), f"{path}.element", ids))
    elif pa.types.is_map(kind):
        key, value = (_numbered(inner, f"{path}.{inner.name}", ids) for inner in (kind.key_field, kind.item_field))
        kind = pa.map_(key, value)
    metadata = {"PARQUET:field_id": str(ids[path])} if path in ids else None
    return pa.field(field.name, kind, field.nullable, metadata)


class ParquetRecords(Records):
    """A file's content, each write a row group. `begin` makes its writer, given the rows that it begins with."""

    def __init__(self, begin: Callable[[pa.Table | None], pq.ParquetWriter]) -> None:
        self._begin = begin

    def write(self, rows: pa.Table) -> None:
        self._writer = self._writer or self._begin(rows)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))

    def close(self) -> None:
        self._writer = self._writer or self._begin(None)
        self._writer.close()
