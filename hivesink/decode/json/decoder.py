"""JSON records to rows of a Hive table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnTombstone, SinkConfig
from hivesink.core.table import Column
from hivesink.decode.clocks import REFUSED, Mask, each, mask_of, not_utf8, nulls
from hivesink.decode.json.columns import JsonColumns, Keyed
from hivesink.decode.json.exact import ExactDecoder, Refine
from hivesink.decode.json.shaped import Piece, ShapedDecoder
from hivesink.decode.json.spans import QUOTE, SPACE, Places, Spans, Text, joined
from hivesink.decode.values import InvalidValue
from hivesink.ports.rows import BadRow, DecodedRows

# A chunk fits into a core's cache, unless its fixed cost would be too much for so few rows.
_MOST_ROWS, _FEW_ROWS = 16384, 8192
_CACHE_BYTES, _MOST_BYTES = 2 << 20, 8 << 20
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SLICE = 500
"""Records whose values fit into a core's cache."""
_SAMPLE = 16
"""Records to learn from."""
_EXTRA_NAMES = 100
"""Beyond this a stream's field names are data rather than a schema, and its records go to the exact decoder."""
_ABSENT = b"null "
"""In place of a field that a record lacks. No value ends with a space."""


class JsonDecoder:
    """Decodes records, each one JSON object, into `columns`, names matched without regard to case.

    It learns from the stream, so keep one for a whole task.
    """

    def __init__(
        self, columns: Sequence[Column], config: SinkConfig, refine: Refine = lambda *given: given[-1]
    ) -> None:
        self._skips = config["sink.on-tombstone"] is OnTombstone.SKIP
        self.exact = ExactDecoder(columns, config, refine)
        """The reference, a record at a time."""
        self._columns = JsonColumns(self.exact, KeyedDecoder)
        self._shaped: ShapedDecoder | None = ShapedDecoder(self._columns)
        self._keyed: Keyed = KeyedDecoder(self._columns)
        self._mostly_bad = False
        """Whether of the last records without a shape most were bad: the keyed decoder would read such ones in vain."""

    def decode(self, records: pa.Array) -> DecodedRows:
        """`records` are binary, string or their large forms; null is a tombstone."""
        return in_chunks(records, self._pieces, self._columns.schema, skips=self._skips)

    def _pieces(self, records: pa.StringArray, rows: Places, bad: list[BadRow]) -> Iterator[Piece]:
        """The good rows of `records`, whose input rows are `rows`; the others go to `bad`."""
        left = np.ones(len(records), dtype=np.bool_)
        for places, batch in self._shaped.decode(records) if self._shaped else ():
            yield rows[places], batch
            left[places] = False
        if not left.any():
            return
        records, rows = records.filter(pa.array(left)), rows[left]
        doubt = np.ones(len(records), dtype=np.bool_)
        if not self._mostly_bad:
            batch, doubt = self._keyed.decode(records)
            if not doubt.all():
                yield rows[~doubt], batch.filter(pa.array(~doubt))
        exact: list[list[Any]] = []
        fitting: list[int] = []
        doubtful = records.view(pa.binary()).filter(pa.array(doubt)).to_pylist()
        for row, record in zip(rows[doubt].tolist(), doubtful, strict=True):
            try:
                exact.append(self.exact.row(record))
                fitting.append(row)
            except InvalidValue as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append(error.bad_row(row))
        self._mostly_bad = 2 * (len(doubtful) - len(fitting)) > len(records)
        if exact:
            yield np.array(fitting, np.int64), exact_batch(exact, self._columns.schema)


def in_chunks(
    records: pa.Array,
    read: Callable[[pa.StringArray, Places, list[BadRow]], Iterable[Piece]],
    schema: pa.Schema,
    *,
    skips: bool,
    most: int = _MOST_ROWS,
) -> DecodedRows:
    """What `read` makes of the records that aren't null, text that may hold any bytes: bad rows go to the list.

    A null is a tombstone, which is bad, or skipped and counted. Of small records `most` are read at once.
    """
    absent = nulls(records)
    tombstones = np.flatnonzero(absent).tolist()
    bad = [] if skips else [BadRow(row, None, "no value (tombstone)") for row in tombstones]
    pieces: list[Piece] = []
    size = max(1, records.nbytes / max(1, len(records)))
    step = max(1, int(min(most, max(_FEW_ROWS, _CACHE_BYTES / size), _MOST_BYTES / size)))
    for start in range(0, len(records), step):
        rows = start + np.flatnonzero(~absent[start : start + step])
        texts = records.slice(start, step).drop_null().cast(pa.binary()).view(pa.string())
        pieces += read(texts, rows, bad) if len(rows) else ()
    return in_order(pieces, bad, len(tombstones) if skips else 0, len(records), schema)


def in_order(
    pieces: Sequence[Piece], bad: Iterable[BadRow], skipped: int, count: int, schema: pa.Schema
) -> DecodedRows:
    """Pieces of `count` input rows, and those that are bad, in the order of these rows."""
    table = pa.Table.from_batches([batch for _, batch in pieces], schema)
    good = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in pieces)])
    if (good[1:] < good[:-1]).any():
        order = np.argsort(good, kind="stable")
        table, good = table.take(pa.array(order)), good[order]
    good_rows = None if len(good) == count else pa.array(good, pa.int32())
    return DecodedRows(table, good_rows, tuple(sorted(bad, key=lambda row: row.index)), skipped)


def exact_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the exact decoder as Arrow."""
    arrays = [pa.array(list(values), field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class KeyedDecoder:
    """Records of any shape, a chunk at once: msgspec finds the values of each record's fields.

    It learns the names of a stream's fields, which changes its speed, never its results. A record without doubt has the
    values that the exact decoder gives it. Two things need proof, since msgspec reports neither.

    *Each record is one value.* The records are joined by line feeds and decoded as one text. Each begins with `{` and
    ends with `}`. No string spans a line feed, so at each boundary an opening brace follows a closing one, which JSON
    allows only between values: each record is one or more whole values. As there are as many values as records, each is
    one.

    *No field is lost.* msgspec silently keeps the last of two fields of one name. So quotes are counted: two for each
    field, and those within values. A lost field leaves more in the text.
    """

    def __init__(self, columns: JsonColumns) -> None:
        self._columns = columns
        self._names: list[str] = []
        self._learn([])

    def decode(self, records: pa.StringArray) -> tuple[pa.RecordBatch, Mask]:
        """As `Keyed`."""
        doubt = not_utf8(records)
        if doubt.any():
            records = pc.if_else(pa.array(doubt), "{}", records)
        if not (braced := _braced(records)).all():
            records = pc.utf8_trim(records, characters=" \t\r\n")
            braced = _braced(records)
            records = pc.if_else(pa.array(braced), records, "{}")
            doubt |= ~braced
        parts, refused = self._values(records)
        while refused.any() and self._learn(records.filter(pa.array(refused)).view(pa.binary())[:_SAMPLE].to_pylist()):
            parts, refused = self._values(records)
        shape = len(records), len(self._names)
        text, begins, ends = Text.joined(parts, len(records) * len(self._names))
        absent = text.octets[ends - 1] == SPACE
        begins, ends, present = begins.reshape(shape), (ends - absent).reshape(shape), ~absent.reshape(shape)
        quotes = pc.count_substring(records, '"').to_numpy() - 2 * present.sum(axis=1)
        if self._names:
            edges = np.append(begins[:, 0], text.length)
            quotes -= np.diff(np.searchsorted(np.flatnonzero(text.octets == QUOTE), edges))
        doubt |= refused | (quotes != 0)
        fields: dict[str, Spans] = {}
        for field in {name.lower() for name in self._names} & self._columns.readers.keys():
            first, *others = (place for place, name in enumerate(self._names) if name.lower() == field)
            # A record that spells it otherwise than the first one did may have it twice.
            doubt |= present[:, others].any(axis=1)
            fields[field] = Spans.of(text, begins[:, first], ends[:, first])
        batch, unfit = self._columns.read(fields, len(records))
        return batch, doubt | unfit

    def _values(self, records: pa.StringArray) -> tuple[list[bytes], Mask]:
        """The values of all fields, row by row with zeros between them, and the records that msgspec refuses."""
        refused = np.zeros(len(records), dtype=np.bool_)
        parts: list[bytes] = []
        for at in range(0, len(records), _SLICE):
            part = records.slice(at, _SLICE)
            rows: list[Any] = []
            with suppress(*REFUSED):
                rows = self._decoder.decode_lines(joined(part, "\n"))
            if len(rows) != len(part):
                rows, refused[at : at + _SLICE] = each(part.view(pa.binary()).to_pylist(), self._decoder.decode)
                blank = self._decoder.decode(b"{}")
                rows = [blank if row is None else row for row in rows]
            parts.append(b"\0".join(chain.from_iterable(map(msgspec.structs.astuple, rows))))
        return parts, refused

    def _learn(self, records: list[bytes]) -> bool:
        """Add the names of the fields of `records`; return whether any is new."""
        given = dict.fromkeys(chain.from_iterable(row or () for row in each(records, _FIELDS.decode)[0]))
        # A Struct's names are UTF-8 without quotes and backslashes.
        plain = [name for name in given if name.isprintable() and not {*'"\\'} & {*name}]
        readers, ignore_unknown = self._columns.readers, self._columns.ignore_unknown
        new = [name for name in plain if name not in self._names and (ignore_unknown or name.lower() in readers)]
        before = len(self._names)
        self._names = [*self._names, *new][: len(readers) + _EXTRA_NAMES]
        renamed = {f"f{place}": name for place, name in enumerate(self._names)}
        fields = [(field, msgspec.Raw, _ABSENT) for field in renamed]
        record = msgspec.defstruct("Record", fields, rename=renamed, gc=False, forbid_unknown_fields=True)
        self._decoder = msgspec.json.Decoder(record)
        return len(self._names) > before


def _braced(records: pa.StringArray) -> Mask:
    return mask_of(pc.and_(pc.starts_with(records, "{"), pc.ends_with(records, "}")))
