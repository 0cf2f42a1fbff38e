"""JSON records to rows of a Hive table."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hivesink.config.options import OnTombstone
from hivesink.decode.clocks import REFUSED, Mask, each, mask_of, not_utf8, nulls
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.shaped import ShapedDecoder
from hivesink.decode.json.spans import Spans, joined
from hivesink.decode.values import DecodeOptions, InvalidValue
from hivesink.ports.rows import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.core.table import Column
    from hivesink.decode.json.shaped import Piece
    from hivesink.decode.json.spans import Places

# A chunk fits into a core's cache, unless its fixed cost would be too much for so few rows.
_MOST_ROWS, _FEW_ROWS = 16384, 8192
_CACHE_BYTES, _MOST_BYTES = 2 << 20, 8 << 20
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ABSENT = msgspec.Raw(b"null")
"""In place of a field that a record lacks."""


class JsonDecoder:
    """Decodes records, each one JSON object, into `columns`, names matched without regard to case.

    It learns from the stream, so keep one for a whole task.
    """

    def __init__(self, columns: Sequence[Column], options: DecodeOptions) -> None:
        """Raises ValueError without columns."""
        if not columns:
            message = "a table without columns has no rows"
            raise ValueError(message)
        self._skips = options.tombstone is OnTombstone.SKIP
        self._exact = ExactDecoder(columns, options)
        self._columns = JsonColumns(self._exact)
        self._shaped = ShapedDecoder(self._columns)
        self._mostly_bad = False
        """Whether of the last records without a shape most were bad: `keyed` would read such ones in vain."""

    def decode(self, records: pa.Array) -> DecodedRows:
        """`records` are binary, string or their large forms; null is a tombstone. Raises TypeError for other types."""
        if records.type not in {pa.binary(), pa.string(), pa.large_binary(), pa.large_string()}:
            message = f"records are bytes or text, not {records.type}"
            raise TypeError(message)
        bad: list[BadRow] = []
        absent = np.flatnonzero(nulls(records))
        if not self._skips:
            bad += [BadRow(int(row), None, "no value (tombstone)") for row in absent]
        pieces: list[Piece] = []
        size = max(1, records.nbytes / max(1, len(records)))
        step = max(1, int(min(_MOST_ROWS, max(_FEW_ROWS, _CACHE_BYTES / size), _MOST_BYTES / size)))
        for start in range(0, len(records), step):
            chunk = records.slice(start, step)
            rows = start + np.arange(len(chunk))
            if chunk.null_count:
                rows = rows[~nulls(chunk)]
                chunk = chunk.drop_null()
            if types.is_large_binary(chunk.type) or types.is_large_string(chunk.type):
                chunk = chunk.cast(pa.binary() if types.is_large_binary(chunk.type) else pa.string())
            # Text that may still hold any bytes.
            pieces += self._pieces(chunk.view(pa.string()), rows, bad) if len(rows) else ()
        table = pa.Table.from_batches([batch for _, batch in pieces], self._columns.schema)
        good = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in pieces)])
        if (good[1:] < good[:-1]).any():
            order = np.argsort(good, kind="stable")
            table, good = table.take(pa.array(order)), good[order]
        good_rows = None if len(good) == len(records) else pa.array(good, pa.int32())
        in_order = tuple(sorted(bad, key=lambda row: row.index))
        return DecodedRows(table, good_rows, in_order, len(absent) if self._skips else 0)

    def _pieces(self, records: pa.StringArray, rows: Places, bad: list[BadRow]) -> Iterator[Piece]:
        """The good rows of `records`, whose input rows are `rows`; the others go to `bad`."""
        left = np.ones(len(records), dtype=np.bool_)
        for places, batch in self._shaped.decode(records):
            yield rows[places], batch
            left[places] = False
        if not left.any():
            return
        records, rows = records.filter(pa.array(left)), rows[left]
        doubt = np.ones(len(records), dtype=np.bool_)
        if not self._mostly_bad:
            batch, doubt = keyed(self._columns, records)
            if not doubt.all():
                yield rows[~doubt], batch.filter(pa.array(~doubt))
        exact: list[list[Any]] = []
        fitting: list[int] = []
        doubtful = records.view(pa.binary()).filter(pa.array(doubt)).to_pylist()
        for row, record in zip(rows[doubt].tolist(), doubtful, strict=True):
            try:
                exact.append(self._exact.row(record))
                fitting.append(row)
            except InvalidValue as error:  # noqa: PERF203 -- one record that doesn't fit must not keep the others back
                bad.append(error.bad_row(row))
        self._mostly_bad = 2 * (len(doubtful) - len(fitting)) > len(records)
        if exact:
            yield np.array(fitting, np.int64), exact_batch(exact, self._columns.schema)


def exact_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the exact decoder as Arrow."""
    arrays = [pa.array(list(values), field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def keyed(columns: JsonColumns, records: pa.StringArray) -> tuple[pa.RecordBatch, Mask]:
    """The columns of `records` of any shape, which may hold any bytes but no nulls, and the records in doubt.

    msgspec finds the values of each record's fields. A record without doubt has the values that the exact decoder gives
    it. Two things need proof, since msgspec reports neither.

    *Each record is one value.* The records are joined by line feeds and decoded as one text. Each begins with `{` and
    ends with `}`. No string spans a line feed, so at each boundary an opening brace follows a closing one, which JSON
    allows only between values: each record is one or more whole values. As there are as many values as records, each is
    one.

    *No field is lost.* msgspec silently keeps the last of two fields of one name. So quotes are counted: two for each
    field, and those within values. A lost field leaves more in the text.
    """
    doubt = not_utf8(records)
    if doubt.any():
        records = pc.if_else(pa.array(doubt), "{}", records)
    records = pc.utf8_trim(records, characters=" \t\r\n")
    braced = pc.and_(pc.starts_with(records, "{"), pc.ends_with(records, "}"))
    doubt |= mask_of(pc.invert(braced))
    records = pc.if_else(braced, records, "{}")
    rows: list[dict[str, msgspec.Raw]] = []
    with suppress(*REFUSED):
        rows = _FIELDS.decode_lines(joined(records, "\n"))
    if len(rows) != len(records):
        singly, refused = each(records.view(pa.binary()).to_pylist(), _FIELDS.decode)
        rows, doubt = [row or {} for row in singly], doubt | refused
    within = pa.array([b"".join(row.values()) for row in rows], pa.binary())
    quotes = (pc.count_substring(text, '"').to_numpy() for text in (records, within))
    doubt |= np.subtract(*quotes) != 2 * np.fromiter(map(len, rows), np.int64, len(rows))
    spelled: dict[str, list[str]] = {}
    for name in set[str]().union(*rows):
        spelled.setdefault(name.lower(), []).append(name)
    values: dict[str, Spans] = {}
    for field, names in spelled.items():
        if field in columns.readers:
            values[field] = _field(rows, names, doubt)
        elif not columns.ignore_unknown:
            doubt |= [any(name in row for name in names) for row in rows]
    batch, unfit = columns.read(values, len(records))
    return batch, doubt | unfit


def _field(rows: list[dict[str, msgspec.Raw]], names: list[str], doubt: Mask) -> Spans:
    """The values of the field with these `names`, which differ in case; `doubt` has those that have it twice, too."""
    first, *others = names
    values = [row.get(first, _ABSENT) for row in rows]
    for name in others:
        for at, row in enumerate(rows):
            if name in row:
                doubt[at] |= values[at] is not _ABSENT
                values[at] = row[name]
    return Spans.of(values)
