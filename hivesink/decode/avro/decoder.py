"""Avro records to rows of a Hive table, each by its own writer's schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.config.options import OnTombstone, SinkConfig
from hivesink.core.column_source import JsonPath
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.avro.columns import Columns
from hivesink.decode.avro.schema import Type, parse
from hivesink.decode.avro.wants import Numbers, Want
from hivesink.decode.clocks import nulls
from hivesink.decode.json.spans import Text
from hivesink.decode.values import InvalidValue, TimeRules
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow, DecodedRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.core.table import Column
    from hivesink.decode.convert import Converted
    from hivesink.ports.rows import Schemas

_MOST_ROWS, _MOST_BYTES = 16384, 8 << 20
_FRAME = 5
"""Bytes before a record: zero, and the schema's number in the registry, the highest byte first."""

Piece = tuple[Numbers, pa.RecordBatch]
"""Rows, and which of the input they are."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """Where the values of some records are in `text`, and which rows of the input the records are."""

    text: Text
    begins: Numbers
    ends: Numbers
    rows: Numbers

    def take(self, places: Numbers) -> Bodies:
        return Bodies(self.text, self.begins[places], self.ends[places], self.rows[places])


@lru_cache(maxsize=1000)
def _parsed(texts: tuple[str, ...]) -> Type:
    return parse(texts)


class AvroDecoder:
    """Decodes records that are nothing but Avro's bytes, by the schema in the file that the table's settings name."""

    def __init__(self, columns: Sequence[Column], config: SinkConfig, schemas: Schemas) -> None:
        self._columns = tuple(columns)
        self._schema = arrow_schema(columns)
        self._skips = config["sink.on-tombstone"] is OnTombstone.SKIP
        self._wants: list[Want] = []
        self._paths: list[int] = []
        """How many of `_wants` each column has: the first that isn't null counts."""
        for name, column in zip(self._schema.names, columns, strict=True):
            source, times = config.sources.get(name), TimeRules.of(config, name)
            paths = source.every if isinstance(source, JsonPath) else ((name,),)
            self._wants += [Want(path, column.type, times) for path in paths]
            self._paths.append(len(paths))
        self._schemas = schemas

    def decode(self, records: pa.Array) -> DecodedRows:
        """`records` are of any type for bytes or text; null is a tombstone. Raises what `Schemas` raises."""
        bad: list[BadRow] = []
        absent = nulls(records)
        if not self._skips:
            bad += [BadRow(row, None, "no value (tombstone)") for row in np.flatnonzero(absent).tolist()]
        size = max(1, records.nbytes // max(1, len(records)))
        step = max(1, min(_MOST_ROWS, _MOST_BYTES // size))
        pieces: list[Piece] = []
        for start in range(0, len(records), step):
            chunk = records.slice(start, step)
            rows = start + np.flatnonzero(~absent[start : start + step])
            text, places = Text.of(chunk.drop_null().cast(pa.binary()).view(pa.string()))
            for kind, bodies in self._by_schema(Bodies(text, places[:-1], places[1:], rows), bad):
                pieces.append(self._piece(kind, bodies, bad))
        table = pa.Table.from_batches([batch for _, batch in pieces], self._schema)
        good = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in pieces)])
        if (good[1:] < good[:-1]).any():
            order = np.argsort(good, kind="stable")
            table, good = table.take(pa.array(order)), good[order]
        good_rows = None if len(good) == len(records) else pa.array(good, pa.int32())
        in_order = tuple(sorted(bad, key=lambda row: row.index))
        return DecodedRows(table, good_rows, in_order, int(absent.sum()) if self._skips else 0)

    def _by_schema(self, bodies: Bodies, bad: list[BadRow]) -> Iterator[tuple[Type, Bodies]]:  # noqa: ARG002 -- as below
        """The records of each schema; those without one go to `bad`."""
        try:
            yield _parsed(tuple(self._schemas.file())), bodies
        except ValueError as error:
            raise InvalidOption((f"sink.value.avro.schema-file: {error}",)) from error

    def _piece(self, kind: Type, bodies: Bodies, bad: list[BadRow]) -> Piece:
        """The rows of `bodies`; those that don't fit go to `bad`."""
        reader = Columns(bodies.text, bodies.begins, bodies.ends)
        made = reader.read(kind, self._wants)
        if reader.odd.any():
            bad += [BadRow(row, None, "not of its schema") for row in bodies.rows[reader.odd].tolist()]
            # The others are read alike without these.
            return self._piece(kind, bodies.take(np.flatnonzero(~reader.odd)), bad)
        rest, wants = iter(made), iter(self._wants)
        arrays, wrong = [], dict[int, InvalidValue]()
        for column, count in zip(self._columns, self._paths, strict=True):
            array, unfit = reduce(_first_of, [next(rest) for _ in range(count)])
            arrays.append(array)
            names = {want.name for want in islice(wants, count)}
            missing: dict[int, InvalidValue] = {}
            if not column.nullable and array.null_count:
                reason = InvalidValue("null" if names & kind.names.keys() else "missing")
                missing = dict.fromkeys(np.flatnonzero(nulls(array)).tolist(), reason.within(column.name))
            # The first column that is wrong counts. A value that doesn't fit may be null here.
            wrong = missing | unfit | wrong
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not wrong:
            return bodies.rows, batch
        bad += [error.bad_row(int(bodies.rows[place])) for place, error in wrong.items()]
        fits = np.ones(len(bodies.rows), np.bool_)
        fits[list(wrong)] = False
        return bodies.rows[fits], batch.filter(pa.array(fits))


def _first_of(first: Converted, other: Converted) -> Converted:
    """The values of the first, and of the other where those are null."""
    (array, bad), (rest, bad_rest) = first, other
    absent = nulls(array)
    array = pc.coalesce(array, rest) if absent.any() else array
    return array, {row: error for row, error in bad_rest.items() if absent[row]} | bad


class ConfluentDecoder(AvroDecoder):
    """Decodes records that begin with the number of their schema in a registry, as Confluent's serializers write."""

    def _by_schema(self, bodies: Bodies, bad: list[BadRow]) -> Iterator[tuple[Type, Bodies]]:
        head = bodies.text.octets[bodies.begins[:, None] + np.arange(_FRAME)]
        is_framed = (bodies.ends - bodies.begins >= _FRAME) & (head[:, 0] == 0)
        numbers = np.where(is_framed, head[:, 1:].copy().view(">u4")[:, 0].astype(np.int64), -1)
        known = self._schemas.registered([number for number in np.unique(numbers).tolist() if number >= 0])
        for number in np.unique(numbers).tolist():
            some = bodies.take(np.flatnonzero(numbers == number))
            reason = (
                "no schema number: not of Confluent's format" if number < 0 else "its schema is not in the registry"
            )
            try:
                if texts := known.get(number):
                    yield (
                        _parsed(tuple(texts)),
                        Bodies(some.text, some.begins + _FRAME, some.ends, some.rows),
                    )
                    continue
            except ValueError as error:
                reason = str(error)
            bad += [BadRow(row, None, reason) for row in some.rows.tolist()]
