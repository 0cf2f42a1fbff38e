"""Nested columns that Arrow's or msgspec's reader of JSON takes as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json
from msgspec import Meta

from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type
from hivesink.decode.clocks import REFUSED, Mask, each, parse_each
from hivesink.decode.json.spans import Spans, joined
from hivesink.decode.values import InvalidValue

_SCALARS = {
    Primitive.STRING: str,
    Primitive.DOUBLE: float,
    Primitive.BOOLEAN: bool,
    **{kind: Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for kind, bits in INTEGER_BITS.items()},
}
"""The scalars that Arrow and msgspec read as the exact decoder does, as msgspec's types."""
Nested: TypeAlias = "Callable[[Spans], tuple[pa.Array, Mask] | None]"
"""Reads a nested column, or returns None where it can't prove the values."""


def plain_reader(kind: HiveType) -> Nested | None:
    """Of lists, structs and maps of what Arrow and msgspec read as the exact decoder does; None: of no others."""
    match kind:
        case Array() | Struct() if _is_plain(kind):
            return _ArrowReader(kind).read
        case Map(Primitive.STRING, Primitive() as value) if value in _SCALARS:
            return _map_reader(arrow_type(kind), _SCALARS[value])
    return None


def _is_plain(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _is_plain(element)
        case Struct(fields):
            return all(_is_plain(field) for _, field in fields)
    return kind in _SCALARS


def _map_reader(arrow: pa.MapType, value: Any) -> Nested:
    """By msgspec, which silently keeps the last of two entries of one key.

    But in records of one shape each value has as many keys as the others: a map of as many entries has lost none.
    """
    decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, value | None])

    def read(spans: Spans) -> tuple[pa.Array, Mask] | None:
        def entries(raw: bytes) -> dict[str, Any]:
            pairs = decoder.decode(raw)
            if len(pairs) != spans.keys:
                raise InvalidValue(reason="duplicate key")
            return pairs

        return None if spans.keys is None else parse_each(spans.raw(), entries, arrow)

    return read


class _ArrowReader:
    """Reads columns whose structs spell their fields' names alike, by Arrow's reader of JSON lines.

    It takes an explicit schema, refuses two fields of one name and unknown ones, and knows no maps. It takes a column
    or refuses it. A value can't run into the next one: `}` is followed by a line feed and `{`, which JSON allows only
    between two lines, so as many lines as values are one value each.
    """

    def __init__(self, kind: HiveType) -> None:
        self._kind = kind
        self._arrow = self._spelled = arrow_type(kind)

    def read(self, spans: Spans) -> tuple[pa.Array, Mask] | None:
        """None where a value is refused or may be another one."""
        column = self._lines(spans)
        if column is None:
            # Once more with the names of the first value that isn't null.
            first = next((raw for raw in spans.raw() if raw is not None), b"null")
            ((sample,), _) = each([first], msgspec.json.decode)
            before, self._spelled = self._spelled, _spelled(self._kind, sample)
            column = self._lines(spans) if self._spelled != before else None
        return None if column is None else (column.view(self._arrow), np.zeros(len(spans), dtype=np.bool_))

    def _lines(self, spans: Spans) -> pa.Array | None:
        texts = spans.text.cut(spans.begins, spans.ends)
        text = b"".join([b'{"":', memoryview(joined(texts, '}\n{"":')), b"}"])
        schema = pa.schema([("", self._spelled)])
        parsing = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        try:
            # In one block, which gives one chunk.
            reading = pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
            column = pa.json.read_json(pa.BufferReader(text), reading, parsing).column(0).combine_chunks()
        except REFUSED:
            return None
        return column if len(column) == len(spans) and _are_sound(column) else None


def _spelled(kind: HiveType, sample: Any) -> pa.DataType:
    """The Arrow type of `kind`, the names of its structs' fields as in `sample`, or in lower case."""
    match kind:
        case Struct(fields):
            given = {name.lower(): name for name in sample} if isinstance(sample, dict) else {}
            names = [given.get(name.lower(), name.lower()) for name, _ in fields]
            deeper = [sample[name] if name.lower() in given else None for name in names]
            types = [_spelled(field, value) for (_, field), value in zip(fields, deeper, strict=True)]
            return pa.struct(list(zip(names, types, strict=True)))
        case Array(element):
            return pa.list_(_spelled(element, next(iter(sample), None) if isinstance(sample, list) else None))
    return arrow_type(kind)


def _are_sound(column: pa.Array) -> bool:
    """Whether all doubles are finite, as Arrow takes `NaN` and what is too large, and none is the integer -0."""
    if pa.types.is_list(column.type):
        return _are_sound(column.values)
    if pa.types.is_struct(column.type):
        return all(_are_sound(column.field(index)) for index in range(column.type.num_fields))
    if not pa.types.is_float64(column.type):
        return True
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return bool(np.isfinite(values).all()) and not np.signbit(values[values == 0]).any()
