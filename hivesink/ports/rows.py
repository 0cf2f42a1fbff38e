"""The interfaces by which a task reads, encodes and measures rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, TypeAlias

from hivesink.core.partition import PartitionKey
from hivesink.core.table import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


@dataclass(frozen=True, slots=True)
class BadRow:
    """A record that doesn't fit: its row in the input, the field (dotted where nested; None: all of it), and why.

    The reason is short and never holds the record's own text.
    """

    index: int
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """`table` holds the good rows in input order; `good` their input rows (int32), None if that is all of them.

    Every input row is in `table`, in `bad` (sorted by row), or counted in `skipped`. Where records hold many, `parts`
    are the input rows instead: the batch with a row for each element, whose value is the record with that one alone,
    as a struct of what is `before` it, its `text`, and what is `after` it; and with the columns RECORD and ELEMENT.
    They may be of the first records alone; the others, after the last RECORD, have to be given again.
    """

    table: pa.Table
    good: pa.Array | None
    bad: tuple[BadRow, ...]
    skipped: int
    parts: pa.RecordBatch | None = None


class Decoder(Protocol):
    """Raw records to rows. A decoder reads all records of a task, so it may learn from them."""

    def decode(self, records: pa.Array) -> DecodedRows:
        """`records` are bytes or text, of any Arrow type for them; null is a record without a value."""


class SchemaStore(Protocol):
    """The schemas of a table's records in the folder `location`, each stored once, for good."""

    @property
    def location(self) -> str: ...

    def get(self, name: str) -> bytes | None:
        """Raises StoreUnavailable."""

    def put(self, name: str, data: bytes) -> bytes:
        """Store `data`, durably, unless something is stored. Returns what is. Raises StoreUnavailable, NotWritable."""


class Receipts(Protocol):
    """What a consumer of a table's changes has acknowledged, each time under the next number."""

    def newest(self) -> tuple[int, bytes | None]:
        """The highest number, and what it holds; 0 and None where there is none. Raises StoreUnavailable."""

    def add(self, number: int, data: bytes) -> None:
        """Store `data`, durably, unless another is stored: then StoreUnavailable. Only the newest ones stay."""

    def path(self, number: int) -> str:
        """Where it is, for messages."""


class Schemas(Protocol):
    """Schemas of writers of records, each as texts: what it refers to, and itself last."""

    def file(self) -> tuple[str, Sequence[str]]:
        """The schema in the file that the table's settings name, and a name for its content.

        It is kept in the table's log. Raises InvalidOption, StoreUnavailable, NotWritable.
        """

    def registered(self, numbers: Sequence[int]) -> Mapping[int, Sequence[str]]:
        """Those of these numbers in the registry; the others are bad, since it has not had them for too long.

        What is returned is kept, durably, in the table's log. Raises SourceUnreachable, LoginFailed, and what storages
        raise.
        """


class RowReader(Protocol):
    """Turns input batches into table rows: data columns in DDL order, then the columns that the assigner needs.

    `schema` names what records are read by, for a format whose records don't name it.
    """

    @property
    def schema(self) -> str | None: ...

    def read(self, batch: pa.RecordBatch) -> DecodedRows: ...


class Routed(NamedTuple):
    """Rows for a partition of the target `table`, in that table's columns. Nobody else holds their buffers."""

    table: str
    partition: str
    rows: pa.Table


class RecordWriter(Protocol):
    """The content of a part file."""

    def write(self, rows: pa.Table) -> None:
        """Write `rows` as a row group. None of them is unfit. Raises ValueError for another schema."""

    def close(self) -> None:
        """Finish the content; the stream stays open."""


class FileContent(NamedTuple):
    """What a part file holds. `raw_bytes`: encoded, before compression."""

    rows: int
    raw_bytes: int


Measure: TypeAlias = "Callable[[str, BinaryIO], FileContent]"
"""Reads what a file of the format of that name holds, by its footer. Raises ValueError for another one, or damage."""


class FileFormat(Protocol):
    """A file format of finished parts, as one table's settings have it. `config/formats.py` lists the formats.

    `extension` is how the names of part files end (`.snappy.parquet`); `row_group` the bytes of rows in memory that are
    worth one `write`; `open_bytes` what an open file weighs between two of them.
    """

    @property
    def extension(self) -> str: ...

    @property
    def row_group(self) -> int: ...

    @property
    def open_bytes(self) -> int: ...

    def unfit(self, rows: pa.Table) -> Iterable[BadRow]:
        """Those of `rows`, by their places, that have a value which such a file can't hold. Columns may be missing."""

    def open(self, stream: BinaryIO) -> RecordWriter:
        """Begin a file. The stream stays open at its end."""

    @staticmethod
    def read(stream: BinaryIO, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
        """The columns of `schema`, in its types, at most `most` rows at a time; null where the file lacks a column.

        Raises ValueError if the file is of another format, is damaged, or holds values that don't fit.
        """

    @staticmethod
    def measure(stream: BinaryIO, /) -> FileContent:
        """As `Measure`."""

    @staticmethod
    def dataset() -> ds.FileFormat:
        """How Arrow scans many files: with a TIMESTAMP's wall clock as it is stored, in microseconds."""


Refit: TypeAlias = "Callable[[pa.RecordBatch, TableSpec, PartitionKey], pa.RecordBatch]"
"""Brings rows that came when their table had other columns, or another format, into its columns of today, by name.

What was added is null, columns that were dropped come last. Raises RowsUnfit, with the table and partition of the key,
where a value would have to be changed, or its format can't hold it.
"""
