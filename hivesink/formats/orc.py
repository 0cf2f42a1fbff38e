"""ORC for Hive's readers from 2.3 on, and Spark's: columns in DDL order under their DDL names.

TIMESTAMPs are without zone, since Hive's readers know no TIMESTAMP_INSTANT. pyarrow leaves out which calendar a file
counts in, so readers take it for the Julian calendar before 1582: `Tail` says that it is not.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hivesink.config.options import OrcCompression, SinkConfig
from hivesink.formats import Records, fitted
from hivesink.ports.rows import BadRow, FileContent

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from numpy.typing import NDArray
    from typing_extensions import Self

_DICTIONARY = 0.8
"""Hive's own `orc.dictionary.key.threshold`."""
_LEAF_BYTES = 900 << 10
"""What a column weighs in an open file: the buffers of ORC's writer."""
_CELL_BYTES = 17
"""The most that a value weighs in the batch that ORC's writer is given, but for the text itself."""
_FEW_ROWS = 10_000
_LISTS = (pa.ListType, pa.MapType)
_LISTS_ROWS, _LISTS_BYTES, _LISTS_STRIPE = 1_024, 256 << 10, 4 << 20
"""The most rows, and their bytes, of a batch with lists or maps; the bytes of its stripes."""
_EARLY = "before 1970, with a fraction of a second, which ORC can't hold"
_LEFT_OUT = "between 1582-10-05 and 1582-10-14, days that readers of ORC don't have"
_FIRST, _LAST = (date(1582, 10, day).toordinal() - date(1970, 1, 1).toordinal() for day in (5, 14))
_DAY, _SECOND = 86_400_000_000, 1_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class OrcFormat:
    """Writes tables of `schema`, and the columns beyond it that rows may have after the others.

    `row_group` is a stripe's size, in bytes before encoding; columns in `bloom` aren't nested.
    """

    schema: pa.Schema
    compression: OrcCompression = OrcCompression.ZLIB
    row_group: int = 64 << 20
    stride: int = 10_000
    bloom: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema, config: SinkConfig, **_: object) -> Self:
        """By Hive's own properties. ORC's footer has no place for an order and ids."""
        return cls(
            schema,
            compression=config["orc.compress"],
            row_group=config["orc.stripe.size"],
            stride=config["orc.row.index.stride"],
            bloom=config["orc.bloom.filter.columns"] or (),
        )

    @property
    def extension(self) -> str:
        return ".orc" if self.compression is OrcCompression.NONE else f".{self.compression.value}.orc"

    @property
    def open_bytes(self) -> int:
        columns = sum(1 for kind in self.schema.types for _ in _columns(kind))
        return _LEAF_BYTES * columns + self.has_lists * _LISTS_STRIPE

    @property
    def has_lists(self) -> bool:
        return any(isinstance(kind, _LISTS) for outer in self.schema.types for kind in _columns(outer))

    def open(self, stream: BinaryIO) -> OrcRecords:
        return OrcRecords(self, stream)

    def unfit(self, rows: pa.Table) -> Iterator[BadRow]:
        """Times that no reader gives back: pyarrow writes those before 1970 off the full second so."""
        timed = (field.name for field in self.schema if any(map(pa.types.is_temporal, _columns(field.type))))
        for name in (name for name in timed if name in rows.column_names):
            values = rows.column(name).combine_chunks()
            yield from {row.index: row for row in _unfit(name, values, np.arange(rows.num_rows))}.values()

    @staticmethod
    def read(stream: BinaryIO, schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
        with _damage():
            file = orc.ORCFile(stream)
            there = [name for name in file.schema.names if name.lower() in schema.names]
            for number in range(file.nstripes):
                stripe = file.read_stripe(number, columns=there)
                yield from (fitted(stripe.slice(start, most), schema) for start in range(0, stripe.num_rows, most))

    @staticmethod
    def measure(stream: BinaryIO, /) -> FileContent:
        with _damage():
            file = orc.ORCFile(stream)
        raw_bytes = dict(file.metadata or {}).get(RAW_BYTES.encode(), file.content_length)
        return FileContent(file.nrows, int(raw_bytes))

    @staticmethod
    def dataset() -> ds.FileFormat:
        # Not at the top: tasks don't need it.
        import pyarrow.dataset as ds

        return ds.OrcFileFormat()


@contextmanager
def _damage() -> Iterator[None]:
    """What pyarrow says of a file's content is an OSError, as if it came from the store."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError or error.errno is not None:
            raise
        raise ValueError(str(error)) from error


def _columns(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and those nested in it: ORC's columns. Arrow keeps a STRUCT within a MAP, ORC its two columns."""
    yield kind
    fields = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else map(kind.field, range(kind.num_fields))
    for field in fields:
        yield from _columns(field.type)


def _unfit(path: str, values: pa.Array, rows: NDArray[np.int64]) -> Iterator[BadRow]:
    """Those of `rows` whose values in `path` can't be held; there is a row for each value."""
    kind = values.type
    if pa.types.is_temporal(kind):
        is_clock = pa.types.is_timestamp(kind)
        times = values.cast(pa.int64() if is_clock else pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        days = times // _DAY if is_clock else times
        yield from (BadRow(row, path, _LEFT_OUT) for row in rows[(days >= _FIRST) & (days <= _LAST)].tolist())
        early = is_clock & (times < 0) & (times % _SECOND != 0)
        yield from (BadRow(row, path, _EARLY) for row in rows[early].tolist())
    elif pa.types.is_struct(kind):
        for field, inner in zip(kind, values.flatten(), strict=True):
            yield from _unfit(f"{path}.{field.name}", inner, rows)
    elif pa.types.is_map(kind):
        yield from _unfit(path, values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))), rows)
    elif pa.types.is_list(kind):
        yield from _unfit(path, values.flatten(), np.repeat(rows, pc.list_value_length(values).fill_null(0)))


def _spelt_out(values: pa.Array) -> pa.Array:
    """The same values, but each level begins at 0, and the fields of a null STRUCT are null.

    pyarrow's writer shifts a nested column's nulls otherwise: it reads them from the beginning of a slice's buffers,
    and what is left below a null STRUCT as further values.
    """
    kind, values = values.type, values.take(pa.array(np.arange(len(values))))
    nulls = values.is_null()
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([*map(_spelt_out, values.flatten())], fields=list(kind), mask=nulls)
    if pa.types.is_map(kind):
        items = _spelt_out(values.items)
        return pa.MapArray.from_arrays(values.offsets, values.keys, items, type=kind, mask=nulls)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(values.offsets, _spelt_out(values.values), type=kind, mask=nulls)
    return values


class OrcRecords(Records):
    """A file's content. Each write is a stripe, or some where few bytes are many rows; lists make stripes of 4 MB."""

    def __init__(self, form: OrcFormat, stream: BinaryIO) -> None:
        self._form = form
        self._tail = Tail(stream)
        self._raw_bytes = 0

    def write(self, rows: pa.Table) -> None:
        self._raw_bytes += rows.nbytes
        self._writer = self._writer or self._begin(rows)
        for place, field in enumerate(rows.schema):
            if pa.types.is_nested(field.type):
                rows = rows.set_column(place, field, _spelt_out(rows.column(place).combine_chunks()))
        # What a segment says of its rows is no part of a file.
        self._writer.write(rows.replace_schema_metadata())

    def close(self) -> None:
        if self._writer is None:
            self.write(self._form.schema.empty_table())
        self._tail.held = io.BytesIO()
        self._writer.close()
        self._tail.finish(self._raw_bytes, packed=self._form.compression is not OrcCompression.NONE)

    def _begin(self, rows: pa.Table) -> orc.ORCWriter:
        # ORC's numbers of the columns: 0 is the row, nested ones come after theirs.
        sizes = (len([*_columns(kind)]) for kind in rows.schema.types)
        form, numbers = self._form, [*accumulate(sizes, initial=1)]
        # A batch of more than a byte is a stripe. ORC's writer makes room for a whole batch at each write.
        most, stripe = max(1, form.row_group // (_CELL_BYTES * (numbers[-1] - 1))), 1
        if form.has_lists:
            # For each row it copies the items of all rows before it in the batch: small batches, many to a stripe.
            row = max(1, rows.nbytes // max(1, rows.num_rows))
            most, stripe = max(1, min(_LISTS_ROWS, _LISTS_BYTES // row)), min(_LISTS_STRIPE, form.row_group)
        return orc.ORCWriter(
            pa.PythonFile(self._tail, mode="w"),
            batch_size=min(most, max(rows.num_rows, _FEW_ROWS)),
            stripe_size=stripe,
            compression="uncompressed" if form.compression is OrcCompression.NONE else form.compression.value,
            row_index_stride=form.stride,
            dictionary_key_size_threshold=_DICTIONARY,
            bloom_filter_columns=[numbers[rows.schema.get_field_index(name)] for name in form.bloom],
        )


RAW_BYTES = "hivesink.raw-bytes"
"""In a file's user metadata: its rows' bytes in memory. ORC's own footer has only what they weigh compressed."""


class Tail:
    """The stream that ORC's writer writes to. Where it is `held`, that keeps what comes: the file's tail."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.held: io.BytesIO | None = None

    def write(self, content: bytes) -> int:
        return (self.held or self._stream).write(content)

    def finish(self, raw_bytes: int, *, packed: bool) -> None:
        """Write the tail with more fields in the footer; in a `packed` file it consists of chunks.

        A Protobuf message may be continued by its other fields, and one chunk, not packed, may follow others.
        """
        held = self.held.getvalue() if self.held else b""
        postscript = held[-1 - held[-1] : -1]
        digits = _FOOTER_LENGTH.match(postscript)
        if digits is None:
            message = "pyarrow's ORC writer ended a file in an unknown way"
            raise ValueError(message)
        length = sum(byte % _MORE << 7 * place for place, byte in enumerate(digits[1]))
        key, number = RAW_BYTES.encode(), str(raw_bytes).encode()
        item = b"\x0a%c%b\x12%c%b" % (len(key), key, len(number), number)
        # The last field is `calendar`, and says that it is proleptic.
        more = b"\x2a%c%b\x58\x02" % (len(item), item)
        more = ((len(more) << 1 | 1).to_bytes(3, "little") if packed else b"") + more
        changed = b"\x08" + _varint(length + len(more)) + postscript[digits.end() :]
        self._stream.write(held[: -1 - len(postscript)] + more + changed + bytes([len(changed)]))


_MORE = 0x80  # set in each byte of a number but the last
_FOOTER_LENGTH = re.compile(rb"\x08([\x80-\xff]*[\x00-\x7f])", re.DOTALL)
"""The first field of the postscript."""


def _varint(number: int) -> bytes:
    """In Protobuf's coding: seven bits a byte, the lowest first."""
    more = number >> 7
    return bytes([number % _MORE | (_MORE if more else 0)]) + (_varint(more) if more else b"")
