"""Records that hold many: each element of a record's list is a row, beside what the record has around the list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hivesink.config.options import SinkConfig
from hivesink.core.column_source import ELEMENT, RECORD, JsonPath
from hivesink.core.table import Array, Column, Primitive
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.clocks import REFUSED, nulls
from hivesink.decode.json.decoder import JsonDecoder, in_order
from hivesink.decode.json.scan import NotJson, document, members, unquote
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow, DecodedRows

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_QUOTE, _WHITE = b'"', b" \t\r\n"
_MOST_BYTES, _ROW_BYTES = 256 << 20, 256
"""Of what rows have from beside their lists, and what a row may take besides."""
_LIST = "\0list"
"""A column of the list itself, emptied: it makes a record without a list bad."""


class Split(NamedTuple):
    """A record's list: what comes before its first element, its elements, and what comes after its last."""

    before: bytes
    elements: Sequence[bytes]
    after: bytes


def split_exactly(record: bytes, steps: tuple[str | int, ...]) -> Split | None:
    """`record` at the list to which `steps` lead; None if it isn't JSON, or they lead to no list, or to several.

    Bytes that are not UTF-8 spoil only the element that has them.
    """
    # No byte of a character of several bytes means anything in JSON.
    text = record.decode("latin-1")
    try:
        value = document(text)
    except NotJson:
        return None
    at = len(text) - len(text.lstrip(" \t\r\n"))
    for step in steps:
        inside = enumerate(members(value) if value[0] in "{[" else ())
        matching = [(begin, raw) for n, (key, raw, begin) in inside if (_name(key) if key else n) == step]
        if len(matching) != 1:
            return None
        ((begin, value),) = matching
        at += begin
    if value[0] != "[":
        return None
    elements = [raw.encode("latin-1") for _, raw, _ in members(value)]
    return Split(record[: at + 1], elements, record[at + len(value) - 1 :])


def _name(quoted: str) -> str:
    return unquote(quoted.encode("latin-1").decode("utf-8", "surrogateescape")).lower()


def split(record: bytes, steps: tuple[str | int, ...]) -> Split | None:
    """As `split_exactly`, by msgspec where that proves the same.

    msgspec silently keeps the last of two fields of one name, so quotes are counted, as `KeyedDecoder` does.
    """
    value, begin = record.strip(_WHITE), len(record) - len(record.lstrip(_WHITE))
    try:
        for step in steps:
            fields = _FIELDS.decode(value)
            quotes = 2 * len(fields) + sum(bytes(raw).count(_QUOTE) for raw in fields.values())
            matching = [raw for name, raw in fields.items() if name.lower() == step]
            if quotes != value.count(_QUOTE) or len(matching) != 1:
                return split_exactly(record, steps)
            # A Raw is a view of the bytes that it was read from.
            begin += pa.py_buffer(matching[0]).address - pa.py_buffer(value).address
            value = bytes(matching[0])
        elements = [bytes(raw) for raw in _ITEMS.decode(value)]
    except REFUSED:
        return split_exactly(record, steps)
    return Split(record[: begin + 1], elements, record[begin + len(value) - 1 :])


class ExplodedDecoder:
    """Decodes the elements of the list at `sink.json.explode`, each a JSON object, into `columns`.

    A path that leads through the list, such as `$.Records.user.id`, leads into the element. Any other path leads to
    what the record has beside the list, which all of its rows share. Raises InvalidOption for a path to the list.
    """

    def __init__(self, columns: Sequence[Column], config: SinkConfig) -> None:
        self._steps = config["sink.json.explode"].steps
        self._schema = arrow_schema(columns)
        depth, sources = len(self._steps), config.sources
        inner, outer, below = list[Column](), list[Column](), dict[str, JsonPath]()
        for column in columns:
            source, option = sources.get(column.name), f"sink.column.{column.name}.from"
            every = source.every if isinstance(source, JsonPath) else ((*self._steps, column.name),)
            within = {steps[:depth] == self._steps for steps in every}
            if self._steps in every or len(within) > 1:
                message = f"{option} leads to the list that sink.json.explode takes apart, or into it and past it"
                raise InvalidOption((f"{message}: write paths to what is in the list, or beside it",))
            (inner if True in within else outer).append(column)
            first, *others = (steps[depth:] if True in within else steps for steps in every)
            below[option] = JsonPath(first, tuple(others))
        # Of a record that is a list itself, no path leads beside it.
        kind = Array(Primitive.STRING) if depth else Primitive.STRING
        outer.append(Column(_LIST, kind, nullable=not depth))
        below[f"sink.column.{_LIST}.from"] = JsonPath(self._steps or (_LIST,))
        inner = inner or [Column("\0", Primitive.STRING)]
        narrowed = replace(config, values={**config.values, **below})
        self._elements, self._envelopes = JsonDecoder(inner, narrowed), JsonDecoder(outer, narrowed)

    def decode(self, records: pa.Array) -> DecodedRows:
        """As `JsonDecoder`; the rows that it speaks of are those of `parts`, of so many records as memory holds."""
        splits, given, total = list[Split | None](), list[bytes | None](), 0
        for cell in records.cast(pa.large_binary()):
            record = cell.as_py()
            part = None if record is None else split(record, self._steps)
            total += len(part.elements) * (len(part.before) + len(part.after) + _ROW_BYTES) if part else 0
            if total > _MOST_BYTES and splits:
                break
            splits.append(part)
            given.append(record)
        beside, unfit = self._read_beside(given, splits)
        texts, of_record, numbers = list[bytes | None](), list[int](), list[int | None]()
        for place, (record, part) in enumerate(zip(given, splits, strict=True)):
            elements = part.elements if part and place not in unfit else ()
            # What has no element is a row of its own: bad, or skipped.
            texts += elements or [record]
            numbers += range(len(elements)) if elements else [None]
            of_record += [place] * max(1, len(elements))
        values, elements_of = pa.array(texts, pa.large_binary()), pa.array(numbers, pa.int64())
        records_of, absent = np.array(of_record, np.int64), nulls(elements_of)
        where = np.flatnonzero(~absent)
        rows = self._elements.decode(values.take(pa.array(where)))
        good = where if rows.good is None else where[rows.good.to_numpy()]
        bad = [replace(row, index=int(where[row.index])) for row in rows.bad]
        bad += [replace(row, index=int(np.searchsorted(records_of, place))) for place, row in unfit.items()]
        places = records_of[good] if beside.good is None else np.searchsorted(beside.good, records_of[good])
        both = _by_name(beside.table.take(pa.array(places))) | _by_name(rows.table)
        table = pa.Table.from_arrays([both[name] for name in self._schema.names], schema=self._schema)
        pieces = [(good, batch) for batch in table.combine_chunks().to_batches()]
        skipped = elements_of.null_count - len(unfit)
        indices = pa.array(records_of, pa.int32(), mask=absent)
        ends = (pa.array([part and part[at] for part in splits], pa.large_binary()) for at in (0, 2))
        before, after = (pa.DictionaryArray.from_arrays(indices, end) for end in ends)
        values = pa.StructArray.from_arrays([before, values, after], ["before", "text", "after"])
        parts = pa.RecordBatch.from_pydict({"value": values, RECORD: pa.array(records_of), ELEMENT: elements_of})
        return replace(in_order(pieces, bad, skipped, len(records_of), self._schema), parts=parts)

    def _read_beside(
        self, records: Sequence[bytes | None], splits: Sequence[Split | None]
    ) -> tuple[DecodedRows, dict[int, BadRow]]:
        """What is beside the lists, a row for each record, and which records are bad: also those without a list."""
        around = [part and (part.before + part.after if self._steps else b"{}") for part in splits]
        texts = [record if text is None else text for record, text in zip(records, around, strict=True)]
        rows = self._envelopes.decode(pa.array(texts, pa.large_binary()))
        no_list = (place for place, part in enumerate(splits) if part is None and records[place] is not None)
        bad = {place: BadRow(place, None, "not a JSON array") for place in no_list}
        for row in rows.bad:
            name = row.field and row.field.replace(_LIST, ".".join(map(str, self._steps)))
            if self._steps or row.reason != "not a JSON object":
                bad[row.index] = replace(row, field=name)
        # More than that only one record may need.
        for part in splits if len(splits) == 1 else ():
            if part and rows.table.nbytes * len(part.elements) >= 1 << 31:
                try:
                    rows.table.take(pa.array(np.zeros(len(part.elements), np.int64)))
                except pa.ArrowInvalid:
                    bad[0] = BadRow(0, None, "a column would take more than 2 GB")
        return rows, bad


def _by_name(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
