"""Protobuf's records to rows of a Hive table, each by its own writer's schema."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hivesink.decode.avro.decoder import AvroDecoder, Bodies, ConfluentDecoder
from hivesink.decode.avro.scan import DEEPEST, Scan
from hivesink.decode.protobuf.columns import Columns
from hivesink.decode.protobuf.scan import Messages
from hivesink.decode.protobuf.schema import Record, described, parsed
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.decode.avro.wants import Want
    from hivesink.decode.clocks import Mask
    from hivesink.decode.convert import Converted

_NAME = "sink.value.protobuf.message-name"


class _Messages(AvroDecoder):
    """Reads most records at once, and the others by google's parser."""

    def _made(self, kind: Record, bodies: Bodies, wants: Sequence[Want]) -> tuple[list[Converted], Mask]:
        scan = Messages(kind.descriptor, bodies.text, bodies.begins, bodies.ends)
        columns, odd, rest = Columns(kind.symbols), scan.odd.copy(), np.flatnonzero(scan.odd)
        content, messages = bodies.text.octets.tobytes() if len(rest) else b"", []
        spans = (numbers[rest].tolist() for numbers in (bodies.begins, bodies.ends))
        for place, begin, end in zip(rest.tolist(), *spans, strict=True):
            try:
                message = kind.parse(content[begin:end])
            except kind.error:
                continue
            # Fields of proto2 may be required, and have any name.
            odd[place] = not type(message).IsInitialized(message)
            messages.append(message)
        if odd.any():
            return [], odd
        every = [columns.of_messages(kind.descriptor, messages, want) for want in wants] if messages else []
        if messages and len(messages) == len(odd):
            return every, odd
        made = [columns.of_messages(kind.descriptor, scan, want) for want in wants]
        order = np.arange(len(odd))
        order[rest] = len(odd) + np.arange(len(rest))
        for place, (array, bad) in enumerate(every):
            column = pa.concat_arrays([made[place][0], array]).take(pa.array(order))
            wrong = {row: error for row, error in made[place][1].items() if not scan.odd[row]}
            made[place] = column, wrong | {int(rest[row]): error for row, error in bad.items()}
        return made, odd


class ProtobufDecoder(_Messages):
    """Decodes records that are a message's bytes alone, by the descriptors in the file of the settings."""

    _file = "sink.value.protobuf.schema-file"
    _parse = staticmethod(described)

    def _prepare(self) -> None:
        super()._prepare()
        name = self._config[_NAME]
        if name is None:
            raise InvalidOption((f"{_NAME} is missing: write the full name of the records' message",))
        try:
            self._kind = self._kind.record(name)
        except ValueError as error:
            raise InvalidOption((f"{_NAME} = {name!r}: {error}",)) from error


class ConfluentProtobufDecoder(_Messages, ConfluentDecoder):
    """Decodes messages behind the number of their file in a registry, and their place in it."""

    _parse = staticmethod(parsed)

    def _by_schema(self, bodies: Bodies, bad: list[BadRow]) -> Iterator[tuple[Any, Bodies]]:
        for schema, framed in super()._by_schema(bodies, bad):
            begins, paths = framed.begins.copy(), dict[tuple[int, ...], list[int]]()
            is_first = (framed.text.octets[begins] == 0) & (begins < framed.ends)
            paths[0,] = np.flatnonzero(is_first).tolist()
            begins += is_first
            octets = framed.text.octets.data
            for place in np.flatnonzero(~is_first).tolist():
                path, begins[place] = message_path(octets, int(begins[place]), int(framed.ends[place]))
                paths.setdefault(path, []).append(place)
            for path, places in paths.items():
                some = replace(framed, begins=begins).take(np.array(places, np.int64))
                try:
                    yield schema.record(path), some
                except ValueError as error:
                    bad += [BadRow(row, None, str(error)) for row in some.rows.tolist()]


def message_path(octets: memoryview, at: int, end: int) -> tuple[tuple[int, ...], int]:
    """The places of a message and of those around it, and where its bytes begin; none: the first message.

    Bytes follow the `end`. A place of -1 is no message's.
    """
    # These numbers are written as Avro writes its own.
    scan, places = Scan(octets, end, 0), list[int]()
    with suppress(ValueError):
        count, at = scan.number(at)
        while len(places) < count <= DEEPEST:
            place, at = scan.number(at)
            places.append(place)
        return (tuple(places) or (0,)) if 0 <= count <= DEEPEST else (-1,), at
    return (-1,), at
