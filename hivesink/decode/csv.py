"""CSV records (RFC 4180), each a row, to rows of a Hive table: a field is read as a JSON text of its content would be.

Records without line breaks and escapes are split a chunk at once. All others go to `Dialect.split`, which says what CSV
is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from sys import maxsize
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import JsonPath
from hivesink.core.table import Array, Column, Map, Primitive, Struct
from hivesink.decode.clocks import Mask, mask_of, not_utf8
from hivesink.decode.json.columns import JsonColumns
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.scan import NotJson, document
from hivesink.decode.json.spans import QUOTE, Places, Spans, Text
from hivesink.decode.values import InvalidValue
from hivesink.errors import InvalidOption
from hivesink.ports.rows import DecodedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CSV = "sink.value.csv"
_LF, _CR = b"\n\r"
_NONE = "\ud800"
"""In place of a sign that isn't declared. No text has it."""


class Dialect:
    """How a table's CSV is written."""

    def __init__(self, config: SinkConfig) -> None:
        """Raises InvalidOption where a character has two meanings."""
        names = ("field-delimiter", "quote-character", "escape-character")
        signs = [config[f"{_CSV}.{name}"] or _NONE for name in names]
        given = [sign for sign in signs if sign != _NONE]
        if len({*given}) < len(given):
            raise InvalidOption((f"{_CSV}: {', '.join(names)} must differ (a doubled quote is a quote anyway)",))
        self.delimiter, self.quote, self.escape = map(ord, signs)
        self.null: str | None = config[f"{_CSV}.null-literal"]
        delimiter, quote, escape = map(re.escape, signs)
        # A group is what ends a field. A pattern of all of it would keep a state for each sign.
        self._plain = re.compile(rf"(?s){escape}.|([{delimiter}{quote}{escape}\r\n])")
        self._quoted = re.compile(f"(?s){escape}.|{quote}{quote}|({quote})")
        self._special = re.compile(f"(?s){quote}({quote})|{escape}(.)")

    def split(self, record: str, most: int = maxsize) -> list[str | None]:
        """The texts of a record's first fields, `most` of them; None for null. Raises InvalidValue."""
        texts, at = list[str | None](), 0
        while at <= len(record) and len(texts) < most:
            is_quoted = record.startswith(chr(self.quote), at)
            begin = at + is_quoted
            signs = (self._quoted if is_quoted else self._plain).finditer(record, begin)
            end = next((sign.start() for sign in signs if sign[1]), len(record))
            at = end + is_quoted + 1
            if at > len(record) + 1 or record[at - 1 : at] not in {"", chr(self.delimiter)}:
                why = "a quote or line break out of place, or no closing quote"
                raise InvalidValue(reason=f"not CSV in field {len(texts) + 1}: {why}")
            content = record[begin:end]
            is_null = not is_quoted and content == self.null
            texts.append(None if is_null else self._special.sub(r"\1\2", content))
        return texts


class _Exact(ExactDecoder):
    """Records one at a time. A column has the field at its place in `places`, of `count` fields."""

    def __init__(self, columns: Sequence[Column], config: SinkConfig) -> None:
        """Raises InvalidOption, also for a column that can have no field."""
        self.dialect = Dialect(config)
        paths = {name: path for name, path in config.sources.items() if isinstance(path, JsonPath)}
        own = {f"sink.column.{name}.from": JsonPath((name,)) for name in paths}
        super().__init__(columns, replace(config, values={**config.values, **own}))
        self._place(paths, config[f"{_CSV}.header"])

    def _place(self, paths: Mapping[str, JsonPath], header: str | None) -> None:
        names, where = [name for name in self.names if name not in paths], "the columns without a path"
        if header is not None:
            where = f"{_CSV}.header"
            try:
                names = [(name or "").lower() for name in self.dialect.split(header)]
            except InvalidValue as error:
                raise InvalidOption((f"{where}: {error.reason}",)) from error
        self.count, self.places = len(names), list[int]()
        for name in self.names:
            ((field, *deeper), *others) = paths[name].every if name in paths else ((name,),)
            if deeper or others or names.count(str(field)) != 1:
                raise InvalidOption((f"column {name}: {where} must have its field {field!r}, and once",))
            self.places.append(names.index(str(field)))
        untaken = [name for place, name in enumerate(names) if place not in self.places]
        if untaken and not self.ignore_unknown:
            raise InvalidOption((f"{where}: no column has its field {untaken[0]!r}, an unknown field: add the column",))

    def row(self, record: bytes) -> list[Any]:
        try:
            fields = self.dialect.split(record.decode(), self.count + 1)
        except UnicodeDecodeError:
            raise InvalidValue(reason="not UTF-8") from None
        if not record or len(fields) != self.count:
            given = f"{len(fields)} fields, not" if len(fields) < self.count else "more fields than"
            raise InvalidValue(reason=f"{given} {self.count}" if record else "empty, not CSV")
        texts = [fields[place] for place in self.places]
        return [self._column(slot, {slot: self._raw(slot, text)}) for slot, text in enumerate(texts)]

    def _raw(self, slot: int, text: str | None) -> str:
        """JSON of a field's text. Raises InvalidValue."""
        kind = self.columns[slot].type
        if text is None or (kind is Primitive.BOOLEAN and text in {"true", "false"}):
            return text or "null"
        if not text or not isinstance(kind, Array | Map | Struct):
            return json.dumps(text, ensure_ascii=False)
        try:
            return document(text)
        except NotJson:
            raise InvalidValue(reason="not JSON").within(self.names[slot]) from None


class _Splitter:
    """Records of a chunk at once, each between two delimiters. A quote or line break out of place leaves doubt.

    Quotes then take the place of the delimiters around a field: it is a JSON text in which nothing is escaped.
    """

    def __init__(self, columns: JsonColumns, exact: _Exact) -> None:
        self._columns, self._exact = columns, exact
        self._sign = chr(exact.dialect.delimiter)
        # No sign is a letter.
        self._blank = self._sign.join("x" * exact.count)

    def decode(self, records: pa.StringArray) -> tuple[pa.RecordBatch, Mask]:
        """As `Keyed`."""
        doubt = not_utf8(records)
        if not doubt.any():
            text, edges = Text.of(pc.binary_join_element_wise(self._sign, records, self._sign, ""))
            marks, twice, doubt = self._marks(text.octets[: text.length], edges)
        if doubt.any():
            batch, unfit = self.decode(pc.if_else(pa.array(doubt), self._blank, records))
            return batch, doubt | unfit
        if len(twice):
            text = Text(np.delete(text.octets, twice), text.length - len(twice))
            marks -= np.searchsorted(twice, marks)
        return self._columns.read(self._fields(text, marks.reshape(len(records), -1)), len(records))

    def _marks(self, octets: NDArray[np.uint8], edges: Places) -> tuple[Places, Places, Mask]:
        """Where delimiters around fields are, and the second ones of doubled quotes; and which records are in doubt."""
        dialect = self._exact.dialect
        marks, quotes = (np.flatnonzero(octets == sign) for sign in (dialect.delimiter, dialect.quote))
        odd = np.flatnonzero((octets == _LF) | (octets == _CR) | (octets == dialect.escape))
        doubt = (np.diff(edges) == len("::")) | (np.diff(np.searchsorted(odd, edges)) > 0)
        twice = quotes[:0]
        if len(quotes):
            first = np.searchsorted(quotes, edges)
            row = np.searchsorted(edges, quotes, side="right") - 1
            opens = (np.arange(len(quotes)) - first[row]) % 2 == 0
            # Outside of each pair of quotes is a delimiter, or another pair: a doubled quote.
            beside = octets[np.where(opens, quotes - 1, quotes + 1)]
            doubt[row[(beside != dialect.delimiter) & (beside != dialect.quote)]] = True
            doubt |= np.diff(first) % 2 == 1
            twice = quotes[opens & (beside == dialect.quote)]
            row = np.searchsorted(edges, marks, side="right") - 1
            marks = marks[(np.searchsorted(quotes, marks) - first[row]) % 2 == 0]
        return marks, twice, doubt | (np.diff(np.searchsorted(marks, edges)) != self._exact.count + 1)

    def _fields(self, text: Text, marks: Places) -> dict[str, Spans]:
        """The fields of the columns, by these, in `text`, which is changed. `marks` has a row for each record."""
        exact, begins, ends = self._exact, marks[:, :-1], marks[:, 1:]
        quoted = (text.octets[begins + 1] == exact.dialect.quote) & (ends - begins > 1)
        for places in (marks, begins[quoted] + 1, ends[quoted] - 1):
            text.octets[places] = QUOTE
        text.__dict__["odd"] = np.empty(0, np.int64)
        fields, null = dict[str, Spans](), (exact.dialect.null or "").encode()
        for place, name, column in zip(exact.places, exact.names, exact.columns, strict=True):
            begin, end, is_quoted = (some[:, place] for some in (begins, ends, quoted))
            spans, is_null = Spans.of(text, begin + is_quoted, end + ~is_quoted), ~is_quoted
            is_null &= exact.dialect.null is not None
            is_null &= end - begin == len(null) + 1
            is_null[is_null] = text.has(null, begin[is_null] + 1)
            bare: Mask | None = None
            if column.type is Primitive.BOOLEAN:
                bare = spans.are(b'"true"') | spans.are(b'"false"')
            elif isinstance(column.type, Array | Map | Struct):
                bare = (spans.ends - spans.begins > len('""')) & ~is_null
            if bare is not None:
                spans = Spans.of(text, spans.begins + bare, spans.ends - bare)
            if is_null.any():
                spans.__dict__["absent"] = is_null if spans.absent is None else is_null | spans.absent
            fields[name] = spans
        return fields


class CsvDecoder(JsonDecoder):
    """Decodes records, each one row of CSV, into `columns`: in their order, or by the names in the header's text.

    A record that is just that text is skipped and counted, unless `header` is set to None.
    """

    def __init__(self, columns: Sequence[Column], config: SinkConfig) -> None:
        """Raises InvalidOption."""
        super().__init__(columns, config)
        self.exact = _Exact(columns, config)
        self._columns = JsonColumns(self.exact)
        self._keyed, self._shaped = _Splitter(self._columns, self.exact), None
        self.header: str | None = config[f"{_CSV}.header"]

    def decode(self, records: pa.Array) -> DecodedRows:
        """As `JsonDecoder`. The end of a line, at the end of a record, is no part of it."""
        if pc.any(pc.ends_with(records, "\n")).as_py():
            records = pc.replace_substring_regex(records, r"\r?\n\z", "")
        if self.header is None:
            return super().decode(records)
        is_header = mask_of(pc.equal(records, pa.scalar(self.header, pa.string()).cast(records.type)))
        rows = super().decode(pc.if_else(pa.array(is_header), pa.scalar(None, records.type), records))
        if self._skips:
            return rows
        bad = tuple(row for row in rows.bad if not is_header[row.index])
        return replace(rows, bad=bad, skipped=int(is_header.sum()))
