"""Records that hold many: each element of a record's list is a row, beside what the record has around the list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hivesink.core.column_source import ELEMENT, RECORD, JsonPath
from hivesink.core.table import Array, Column, Primitive
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.clocks import REFUSED, Mask
from hivesink.decode.json.decoder import JsonDecoder
from hivesink.decode.json.exact import ExactDecoder
from hivesink.decode.json.scan import NotJson, document, members, unquote
from hivesink.decode.values import InvalidValue
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.decode.json.spans import Places

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_QUOTE = b'"'
_MOST_BYTES, _ROW_BYTES = 256 << 20, 256
"""Of what rows have from beside their lists, and what a row may take besides."""
_LIST = "\0list"
"""A column of the list itself, emptied: it makes a record without a list bad."""


class Split(NamedTuple):
    """A record's list: what comes before its first element, its elements, and what comes after its last."""

    before: bytes
    elements: Sequence[bytes | msgspec.Raw]
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
        named = (
            (_name(key) if key else number, begin, raw) for number, (key, begin, raw) in enumerate(_members(value))
        )
        matching = [(begin, raw) for name, begin, raw in named if name == step]
        if len(matching) != 1:
            return None
        ((begin, value),) = matching
        at += begin
    if value[0] != "[":
        return None
    elements = [raw.encode("latin-1") for _, _, raw in _members(value)]
    return Split(record[: at + 1], elements, record[at + len(value) - 1 :])


def _members(raw: str) -> Iterator[tuple[str | None, int, str]]:
    """The keys and values of an object or array, and where each value begins; of anything else none."""
    at = 1
    for key, value in members(raw) if raw[0] in "{[" else ():
        # Nothing else begins with a quote before a key; and no value with what may be before it.
        at = raw.index(value, raw.index(key, at) + len(key) if key else at)
        yield key, at, value
        at += len(value)


def _name(quoted: str) -> str:
    return unquote(quoted.encode("latin-1").decode("utf-8", "surrogateescape")).lower()


def split(record: bytes, steps: tuple[str | int, ...]) -> Split | None:
    """As `split_exactly`, by msgspec where that proves the same.

    msgspec silently keeps the last of two fields of one name, so quotes are counted, as `KeyedDecoder` does.
    """
    value, begin = record, 0
    try:
        for step in steps:
            fields = {name: bytes(raw) for name, raw in _FIELDS.decode(value).items()}
            quotes = 2 * len(fields) + sum(raw.count(_QUOTE) for raw in fields.values())
            names = [name for name in fields if name.lower() == step]
            if quotes != value.count(_QUOTE) or len(names) != 1:
                return split_exactly(record, steps)
            at = 0
            for name, raw in fields.items():
                key = b'"%b"' % name.encode()
                opens = value.index(_QUOTE, at)
                if not value.startswith(key, opens):
                    return split_exactly(record, steps)
                # Between the key and its value are a colon and white space, and no value begins with these.
                at = value.index(raw, opens + len(key))
                if name == names[0]:
                    break
                at += len(raw)
            value, begin = raw, begin + at
        elements = _ITEMS.decode(value)
    except REFUSED:
        return split_exactly(record, steps)
    if not steps:
        begin, value = record.index(b"["), record.strip(b" \t\r\n")
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
        self._exact = ExactDecoder(outer, narrowed)

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
        beside, place, unfit = self._read_envelopes(given, splits)
        counts = np.array([len(part.elements) if part else 0 for part in splits], np.int64)
        counts[[*unfit]] = 0
        # What has no element is a row of its own: bad, or skipped.
        alone = counts == 0
        sizes = np.maximum(counts, 1)
        firsts = np.cumsum(sizes) - sizes
        of_record = np.repeat(np.arange(len(given)), sizes)
        in_list = ~alone[of_record]
        texts = [part.elements for part, count in zip(splits, counts.tolist(), strict=True) if part and count]
        elements = pa.array([bytes(text) for some in texts for text in some], pa.large_binary())
        rows, where = self._elements.decode(elements), np.flatnonzero(in_list)
        good = where if rows.good is None else where[rows.good.to_numpy()]
        bad = [replace(row, index=int(where[row.index])) for row in rows.bad]
        bad += [replace(row, index=int(firsts[record])) for record, row in unfit.items()]
        beside = beside.take(pa.array(place[of_record[good]]))
        both = dict(zip(beside.column_names, beside.columns, strict=True))
        both |= dict(zip(rows.table.column_names, rows.table.columns, strict=True))
        table = pa.Table.from_arrays([both[name] for name in self._schema.names], schema=self._schema)
        skipped = int(alone.sum()) - len(unfit)
        numbers = pa.array(np.arange(len(of_record)) - firsts[of_record], mask=~in_list)
        values = _alone(given, splits, elements, of_record, in_list)
        parts = pa.RecordBatch.from_pydict({"value": values, RECORD: pa.array(of_record), ELEMENT: numbers})
        good_rows = None if len(good) == len(of_record) else pa.array(good, pa.int32())
        return DecodedRows(table, good_rows, tuple(sorted(bad, key=lambda row: row.index)), skipped, parts)

    def _read_envelopes(
        self, records: list[bytes | None], splits: list[Split | None]
    ) -> tuple[pa.Table, Places, dict[int, BadRow]]:
        """What is beside the lists, in which row of that each record is, and which are bad."""
        bad: dict[int, BadRow] = {}
        texts, places = list[bytes | None](), list[int]()
        for place, (record, part) in enumerate(zip(records, splits, strict=True)):
            if record is not None and part is None:
                bad[place] = self._refused(record).bad_row(place)
                continue
            texts.append((part.before + part.after if self._steps else b"{}") if part else None)
            places.append(place)
        rows = self._envelopes.decode(pa.array(texts, pa.large_binary()))
        bad |= {places[row.index]: row for row in rows.bad}
        # More than that only one record may need.
        for part in splits if len(splits) == 1 else ():
            if part and rows.table.nbytes * len(part.elements) >= 1 << 31:
                try:
                    rows.table.take(pa.array(np.zeros(len(part.elements), np.int64)))
                except pa.ArrowInvalid:
                    bad[0] = BadRow(0, None, "a column would take more than 2 GB")
        good = np.full(len(records), -1)
        kept = np.array(places, np.int64)
        kept = kept if rows.good is None else kept[rows.good.to_numpy()]
        good[kept] = np.arange(len(kept))
        return rows.table, good, bad

    def _refused(self, record: bytes) -> InvalidValue:
        """Why a record has no list, as the exact decoder says it."""
        try:
            self._exact.row(record)
        except InvalidValue as error:
            error.path = [".".join(map(str, self._steps)) if step == _LIST else step for step in error.path]
            if self._steps or error.reason != "not a JSON object":
                return error
        return InvalidValue("not a JSON array")


def _alone(
    records: list[bytes | None], splits: list[Split | None], elements: pa.Array, of_record: Places, in_list: Mask
) -> pa.StructArray:
    """The values of `DecodedRows.parts`: each element in its record, or a whole record that has none or is bad."""
    whole = pa.array([records[place] for place in of_record[~in_list].tolist()], pa.large_binary())
    order = np.empty(len(of_record), np.int64)
    order[in_list] = np.arange(len(elements))
    order[~in_list] = len(elements) + np.arange(len(whole))
    texts = pa.concat_arrays([elements, whole]).take(pa.array(order))
    indices = pa.array(of_record, pa.int32(), mask=~in_list)
    ends = ([part and part[at] for part in splits] for at in (0, 2))
    before, after = (pa.DictionaryArray.from_arrays(indices, pa.array(end, pa.large_binary())) for end in ends)
    return pa.StructArray.from_arrays([before, texts, after], ["before", "text", "after"])
