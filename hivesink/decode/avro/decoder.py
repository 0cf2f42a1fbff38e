"""Avro records to rows of a Hive table, each by its own writer's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnTombstone, OnUnknownField, SinkConfig
from hivesink.core.column_source import JsonPath
from hivesink.core.table import Column
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.avro.columns import Columns
from hivesink.decode.avro.schema import Type, parse
from hivesink.decode.avro.wants import Numbers, Want
from hivesink.decode.clocks import Mask, nulls
from hivesink.decode.convert import Converted
from hivesink.decode.json.decoder import in_chunks
from hivesink.decode.json.shaped import Piece
from hivesink.decode.json.spans import Text
from hivesink.decode.values import InvalidValue, TimeRules
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow, DecodedRows, Schemas

_AT_ONCE = 1 << 15
"""Records, if they are small: each step over all of them costs some microseconds beside its work."""
_FRAME = 5
"""Bytes before a record: zero, and the schema's number in the registry, the highest byte first."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """Where the values of some records are in `text`, and the records' rows in the input."""

    text: Text
    begins: Numbers
    ends: Numbers
    rows: Numbers

    def take(self, places: Numbers) -> Bodies:
        return Bodies(self.text, self.begins[places], self.ends[places], self.rows[places])


class AvroDecoder:
    """Decodes records that are Avro's bytes alone, by the schema in the file of the settings."""

    _file = "sink.value.avro.schema-file"
    parse: Callable[[tuple[str, ...]], Any] = staticmethod(parse)
    """What its records are read by, from the texts of a schema. Raises ValueError."""

    def __init__(self, columns: Sequence[Column], config: SinkConfig, schemas: Schemas) -> None:
        self._columns = tuple(columns)
        self._config, self._schema = config, arrow_schema(columns)
        self._skips = config["sink.on-tombstone"] is OnTombstone.SKIP
        self._takes_all = config["sink.on-unknown-field"] is OnUnknownField.BAD_RECORD
        self._wants: list[list[Want]] = []
        """Of each column: the first that isn't null counts."""
        for name, column in zip(self._schema.names, columns, strict=True):
            source = config.sources.get(name)
            paths = source.every if isinstance(source, JsonPath) else ((name,),)
            self._wants.append([Want(path, column.type, TimeRules.of(config, name)) for path in paths])
        self._schemas = schemas
        self._prepare()

    def _prepare(self) -> None:
        """Raises InvalidOption for settings that no record can be read by."""
        try:
            self.schema, texts = self._schemas.file()
            self._kind: Any = self.parse(tuple(texts))
        except ValueError as error:
            raise InvalidOption((f"{self._file}: {error}",)) from error

    def decode(self, records: pa.Array) -> DecodedRows:
        """`records` are bytes or text of any type; null is a tombstone. Raises as `Schemas`."""
        return in_chunks(records, self._pieces, self._schema, skips=self._skips, most=_AT_ONCE)

    def _pieces(self, records: pa.StringArray, rows: Numbers, bad: list[BadRow]) -> Iterator[Piece]:
        text, places = Text.of(records)
        for kind, bodies in self._by_schema(Bodies(text, places[:-1], places[1:], rows), bad):
            yield self._piece(kind, bodies, bad)

    def kinds(self, records: pa.BinaryArray) -> tuple[list[Any], list[BadRow]]:
        """What `records`, of which none is null, are read by, the newest last, and those of no schema."""
        (text, places), bad = Text.of(records.view(pa.string())), list[BadRow]()
        bodies = Bodies(text, places[:-1], places[1:], np.arange(len(records)))
        return [kind for kind, _ in self._by_schema(bodies, bad)], bad

    def _by_schema(
        self,
        bodies: Bodies,
        bad: list[BadRow],  # noqa: ARG002 -- for those without a schema, below
    ) -> Iterator[tuple[Any, Bodies]]:
        """The records of each schema; those without one go to `bad`."""
        yield self._kind, bodies

    def _made(self, kind: Any, bodies: Bodies, wants: Sequence[Want]) -> tuple[list[Converted], Mask]:
        """A column for each of `wants`, and which of `bodies` aren't of the schema: then the columns mean nothing."""
        reader = Columns(bodies.text, bodies.begins, bodies.ends)
        return reader.read(kind, wants), reader.odd

    def _piece(self, kind: Any, bodies: Bodies, bad: list[BadRow]) -> Piece:
        """The rows of `bodies`; those that don't fit go to `bad`."""
        if self._takes_all and (unknown := self._unknown(kind)):
            bad += [BadRow(row, unknown, "unknown field") for row in bodies.rows.tolist()]
            return bodies.rows[:0], pa.RecordBatch.from_pylist([], self._schema)
        columns, odd = self._made(kind, bodies, [want for some in self._wants for want in some])
        if odd.any():
            bad += [BadRow(row, None, "not of its schema") for row in bodies.rows[odd].tolist()]
            # The others are read alike without these.
            return self._piece(kind, bodies.take(np.flatnonzero(~odd)), bad)
        made = iter(columns)
        arrays, wrong = [], dict[int, InvalidValue]()
        read = self._read([[next(made) for _ in some] for some in self._wants])
        for column, wants, (array, unfit) in zip(self._columns, self._wants, read, strict=False):
            arrays.append(array)
            names = {want.name for want in wants}
            missing: dict[int, InvalidValue] = {}
            if not column.nullable and array.null_count:
                reason = InvalidValue("null" if names & kind.names.keys() else "missing")
                rows = np.flatnonzero(nulls(array)).tolist()
                missing = dict.fromkeys(rows, reason.within(column.name))
            # The first column that is wrong counts. A value that doesn't fit may be null here.
            wrong = missing | unfit | wrong
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not wrong:
            return bodies.rows, batch
        bad += [error.bad_row(int(bodies.rows[place])) for place, error in wrong.items()]
        fits = np.ones(len(bodies.rows), np.bool_)
        fits[list(wrong)] = False
        return bodies.rows[fits], batch.filter(pa.array(fits))

    def _read(self, read: list[list[Converted]]) -> list[Converted]:
        """The columns from what is read for `_wants`."""
        return [reduce(first_of, some) for some in read]

    def _unknown(self, kind: Type) -> str | None:
        """A field of the schema's records that no column takes."""
        return unknown_field(kind, {want.name for some in self._wants for want in some})


def unknown_field(kind: Type, taken: set[str]) -> str | None:
    """A field of a record's that has none of the names `taken`."""
    places = {place for name in taken for place in kind.names.get(name, ())}
    return next((name for name, some in kind.names.items() if not places & {*some}), None)


def first_of(first: Converted, other: Converted, absent: Mask | None = None) -> Converted:
    """The values of the first, and of the other where those are `absent`, by default null."""
    (array, bad), (rest, bad_rest) = first, other
    absent = nulls(array) if absent is None else absent
    array = pc.if_else(pa.array(absent), rest, array) if absent.any() else array
    return array, {row: error for row, error in bad_rest.items() if absent[row]} | bad


class ConfluentDecoder(AvroDecoder):
    """Decodes records behind the number of their schema in a registry, as Confluent writes them."""

    def _prepare(self) -> None:
        self._schemas.registered(())

    def _by_schema(self, bodies: Bodies, bad: list[BadRow]) -> Iterator[tuple[Any, Bodies]]:
        words = bodies.text.words[bodies.begins]
        is_framed = (bodies.ends - bodies.begins >= _FRAME) & (words & np.uint64(0xFF) == 0)
        numbers = (words.byteswap() >> np.uint64(24) & np.uint64(0xFFFFFFFF)).view(np.int64)
        numbers = np.where(is_framed, numbers, -1)
        is_mixed = bool((numbers != numbers[:1]).any())
        kinds = (np.unique(numbers) if is_mixed else numbers[:1]).tolist()
        known = self._schemas.registered([number for number in kinds if number >= 0])
        for number in kinds:
            some = bodies.take(np.flatnonzero(numbers == number)) if is_mixed else bodies
            reason = "its schema is not in the registry"
            if number < 0:
                reason = "no schema number: not of Confluent's format"
            try:
                if texts := known.get(number):
                    yield self.parse(tuple(texts)), replace(some, begins=some.begins + _FRAME)
                    continue
            except ValueError as error:
                reason = str(error)
            bad += [BadRow(row, None, reason) for row in some.rows.tolist()]
