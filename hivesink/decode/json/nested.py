"""Nested columns at once, where it can be proved that nothing is lost. What isn't proved is parsed value by value.

Arrow's reader of JSON lines takes an explicit schema, refuses two fields of one name and unknown ones, and knows no
maps. It takes a column or refuses it. A value can't run into the next one: `}` is followed by a line feed and `{`,
which JSON allows only between two lines, so as many lines as values are one value each.

msgspec reads maps of scalars, and silently keeps the last of two entries of one key. But in records of one shape each
value has as many keys as the others: a map of as many entries has lost none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json
from msgspec import Meta

from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type
from hivesink.decode.json.spans import REFUSED
from hivesink.decode.json.text import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.decode.clocks import Mask
    from hivesink.decode.json.spans import Spans

    ReadNested = Callable[[Spans], "tuple[pa.Array, Mask] | None"]

_SCALARS = {
    Primitive.STRING: str,
    Primitive.DOUBLE: float,
    Primitive.BOOLEAN: bool,
    **{kind: Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for kind, bits in INTEGER_BITS.items()},
}
"""The scalars that Arrow and msgspec read as the exact decoder does, as msgspec's types."""


def nested_reader(kind: HiveType) -> ReadNested | None:
    """A function that reads a column of `kind`, or returns None where it can't prove the values.

    None for types that it can't read, and for those that aren't nested.
    """
    match kind:
        case Array() | Struct() if _is_plain(kind):
            return _ArrowReader(kind)
        case Map(Primitive.STRING, Primitive() as value) if value in _SCALARS:
            return _map_reader(kind, _SCALARS[value])
    return None


def _is_plain(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _is_plain(element)
        case Struct(fields):
            return all(_is_plain(field) for _, field in fields)
    return kind in _SCALARS


def _map_reader(kind: Map, value: Any) -> ReadNested:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, value | None])
    arrow = arrow_type(kind)

    def read(spans: Spans) -> tuple[pa.Array, Mask] | None:
        if spans.keys is None:
            return None
        doubt = np.zeros(len(spans), dtype=np.bool_)
        entries: list[dict[str, Any] | None] = []
        for row, raw in enumerate(spans.raw()):
            try:
                entries.append(None if raw is None else decoder.decode(raw))
                doubt[row] = raw is not None and len(entries[row] or ()) != spans.keys
            except REFUSED:  # noqa: PERF203 -- one value that doesn't fit must not keep the others back
                entries.append(None)
                doubt[row] = True
        return pa.array(entries, arrow), doubt

    return read


class _ArrowReader:
    """Reads columns whose structs spell their fields' names alike."""

    def __init__(self, kind: HiveType) -> None:
        self._kind = kind
        self._arrow = self._spelled = arrow_type(kind)

    def __call__(self, spans: Spans) -> tuple[pa.Array, Mask] | None:
        column = self._read(spans)
        if column is None and (spelled := self._spelled_as(spans)) != self._spelled:
            self._spelled = spelled
            column = self._read(spans)
        return None if column is None else (column.view(self._arrow), np.zeros(len(spans), dtype=np.bool_))

    def _read(self, spans: Spans) -> pa.Array | None:
        """None where a value is refused or may be another one."""
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
        return column if len(column) == len(spans) and not any(map(_is_odd, _doubles(column))) else None

    def _spelled_as(self, spans: Spans) -> pa.DataType:
        """The type with the names of the first value that isn't null."""
        first = next((raw for raw in spans.raw() if raw is not None), b"null")
        try:
            return _spelled(self._kind, msgspec.json.decode(first))
        except REFUSED:
            return self._spelled


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


def _doubles(column: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_list(column.type):
        yield from _doubles(column.values)
    elif pa.types.is_struct(column.type):
        for index in range(column.type.num_fields):
            yield from _doubles(column.field(index))
    elif pa.types.is_float64(column.type):
        yield column


def _is_odd(doubles: pa.Array) -> bool:
    """Whether any is no finite number, as Arrow takes `NaN` and what is too large, or the integer -0."""
    values = doubles.fill_null(0).to_numpy(zero_copy_only=False)
    return not np.isfinite(values).all() or bool(np.signbit(values[values == 0]).any())
