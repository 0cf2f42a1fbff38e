"""Protobuf's records to rows of a Hive table, each by its own writer's schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hivesink.decode.avro.decoder import AvroDecoder, Bodies, ConfluentDecoder
from hivesink.decode.protobuf.columns import Columns
from hivesink.decode.protobuf.schema import Record, described, parsed
from hivesink.errors import InvalidOption
from hivesink.ports.rows import BadRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.decode.avro.wants import Want
    from hivesink.decode.clocks import Mask
    from hivesink.decode.convert import Converted

_MORE = 0x80
_NAME = "sink.value.protobuf.message-name"


class _Messages(AvroDecoder):
    """Parses each record by itself, and then makes columns of all."""

    # Parsed messages take some hundred bytes each: more would leave the processor's cache.
    _most_rows = 2048

    def _made(self, kind: Record, bodies: Bodies, wants: Sequence[Want]) -> tuple[list[Converted], Mask]:
        content, messages = bodies.text.octets.tobytes(), []
        odd = np.zeros(len(bodies.rows), np.bool_)
        for place, (begin, end) in enumerate(zip(bodies.begins.tolist(), bodies.ends.tolist(), strict=True)):
            try:
                message = kind.parse(content[begin:end])
            except kind.error:  # noqa: PERF203 -- of each record
                odd[place] = True
            else:
                # Fields of proto2 may be required.
                odd[place] = not message.IsInitialized()
                messages.append(message)
        if odd.any():
            return [], odd
        columns = Columns(kind.symbols)
        return [columns.of_messages(kind.descriptor, messages, want) for want in wants], odd


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
            content = framed.text.octets.tobytes()
            for place, (begin, end) in enumerate(zip(begins.tolist(), framed.ends.tolist(), strict=True)):
                path, begins[place] = _path(content, begin, end)
                paths.setdefault(path, []).append(place)
            for path, places in paths.items():
                some = replace(framed, begins=begins).take(np.array(places))
                try:
                    yield schema.record(path), some
                except ValueError as error:
                    bad += [BadRow(row, None, str(error)) for row in some.rows.tolist()]


def _path(content: bytes, at: int, end: int) -> tuple[tuple[int, ...], int]:
    """The places of a message and of those around it, and where its bytes begin; none: the first message."""
    numbers = list[int]()
    while (not numbers or len(numbers) <= numbers[0]) and at < end:
        number, shift, octet = 0, 0, _MORE
        while octet >= _MORE and at < end:
            octet = content[at]
            number |= (octet & ~_MORE) << shift
            at, shift = at + 1, shift + 7
        # The sign is in the lowest bit.
        numbers.append((number >> 1) ^ -(number & 1))
    is_whole = numbers and len(numbers) == numbers[0] + 1
    return (tuple(numbers[1:]) or (0,) if is_whole else (-1,)), at
