"""Protobuf's records to rows of a Hive table, each by its own writer's schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hivesink.decode.avro.decoder import AvroDecoder, Bodies, ConfluentDecoder
from hivesink.decode.avro.scan import DEEPEST, Scan
from hivesink.decode.avro.wants import Want
from hivesink.decode.clocks import Mask, parse_each
from hivesink.decode.convert import Converted
from hivesink.decode.json.spans import Text
from hivesink.decode.protobuf.columns import Columns
from hivesink.decode.protobuf.scan import Messages, Room
from hivesink.decode.protobuf.schema import Record, described, parsed
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow

_NAME = "sink.value.protobuf.message-name"


class _Messages(AvroDecoder):
    """Reads most records at once, and the others as google's parser writes them again."""

    def _made(self, kind: Record, bodies: Bodies, wants: Sequence[Want]) -> tuple[list[Converted], Mask]:
        scan = Messages(kind.descriptor, bodies.text, bodies.begins, bodies.ends, room=Room())
        scan.check()
        odd = scan.odd
        if odd.any():
            records, mask = scan.whole(), pa.array(odd)
            odd = odd.copy()
            written, odd[odd] = parse_each(records.filter(mask).to_pylist(), kind.rewritten, pa.binary())
            if odd.any():
                return [], odd
            text, edges = Text.of(pc.replace_with_mask(records, mask, written).view(pa.string()))
            scan = Messages(kind.descriptor, text, edges[:-1], edges[1:])
        columns = Columns(kind.symbols)
        return [columns.of_messages(kind.descriptor, scan, want) for want in wants], odd


class ProtobufDecoder(_Messages):
    """Decodes records that are a message's bytes alone, by the descriptors in the file of the settings."""

    _file = "sink.value.protobuf.schema-file"
    parse = staticmethod(described)

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

    parse = staticmethod(parsed)

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
