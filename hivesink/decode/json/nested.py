"""Nested values in one go, where it can be proved that nothing was lost: a whole column by Arrow, or each by msgspec.

Arrow's reader of JSON lines takes an explicit schema, refuses two fields of one name and unknown ones, and knows no
maps. It takes a column or refuses it. A value can't run into the next one: `}` is followed by a line feed and `{`,
which JSON allows only between two lines, so as many lines as values are one value each.

msgspec silently keeps the last of two fields of one name, and ignores unknown ones. But in records of one shape it is
known how many keys a value has. As all fields of a struct must be there, under their own names, a value with as many
keys as its objects have entries has each of them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json
from msgspec import Meta

from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.decode.arrowtypes import INTEGER_BITS, arrow_type
from hivesink.decode.json.spans import REFUSED, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.decode.json.spans import Spans

    CountKeys = Callable[[Any], int]
    Rename = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class NestedDecoder:
    """Decodes values of one nested type, whose structs have their fields' names in one spelling."""

    decoder: msgspec.json.Decoder[Any]
    keys: CountKeys
    rename: Rename | None
    schema: pa.Schema | None
    """Arrow's, with the names as they are spelled; None: it doesn't read the type."""

    @classmethod
    def of(cls, kind: HiveType, sample: bytes | None = None) -> NestedDecoder | None:
        """For values that spell names as `sample` does, or in lower case.

        None for types that msgspec doesn't decode as the exact decoder does, and for those that aren't nested.
        """
        try:
            spelled = _spelled(kind, None if sample is None else msgspec.json.decode(sample))
        except REFUSED:
            spelled = _spelled(kind, None)
        found = _type(spelled) if isinstance(kind, Array | Map | Struct) else None
        if found is None:
            return None
        schema = None if _has_maps(kind) else pa.schema([("", arrow_type(spelled))])
        return cls(msgspec.json.Decoder(found), _keys(spelled), _renaming(spelled), schema)

    def decode_all(self, spans: Spans) -> pa.Array | None:
        """The column, its fields named as they are spelled; None where a value is refused or may be another one."""
        if self.schema is None:
            return None
        texts = spans.text.cut(spans.begins, spans.ends)
        text = b"".join([b'{"":', memoryview(joined(texts, '}\n{"":')), b"}"])
        parsing = pa.json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="error")
        try:
            # In one block, which gives one chunk.
            reading = pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
            column = pa.json.read_json(pa.BufferReader(text), reading, parsing).column(0).combine_chunks()
        except REFUSED:
            return None
        return column if len(column) == len(spans) and not any(map(_is_odd, _doubles(column))) else None

    def decode(self, raw: bytes, keys: int) -> tuple[Any, bool]:
        """The value as `pa.array` takes it, and whether it is sure; `keys` is how many there are in `raw`."""
        try:
            value = self.decoder.decode(raw)
        except REFUSED:
            return None, False
        is_sure = self.keys(value) == keys
        return (self.rename(value) if self.rename else value), is_sure


def _spelled(kind: HiveType, sample: Any) -> HiveType:
    """`kind`, the names of its structs' fields as in `sample`, or in lower case."""
    match kind:
        case Struct(fields):
            given = {name.lower(): name for name in sample} if isinstance(sample, dict) else {}
            names = [given.get(name.lower(), name.lower()) for name, _ in fields]
            deeper = [sample.get(name) if given else None for name in names]
            return Struct(
                tuple((name, _spelled(of[1], one)) for name, of, one in zip(names, fields, deeper, strict=True))
            )
        case Array(element):
            return Array(_spelled(element, next(iter(sample), None) if isinstance(sample, list) else None))
        case Map(key, value):
            return Map(key, _spelled(value, next(iter(sample.values()), None) if isinstance(sample, dict) else None))
    return kind


def _renaming(kind: HiveType) -> Rename | None:
    """A function that gives the fields of structs their names in lower case; None where they have them."""
    match kind:
        case Struct(fields):
            names = [(name.lower(), name, _renaming(field)) for name, field in fields]
            if all(lower == name and deeper is None for lower, name, deeper in names):
                return None
            return lambda value: (
                value and {lower: deeper(value[name]) if deeper else value[name] for lower, name, deeper in names}
            )
        case Array(element) if of_element := _renaming(element):
            return lambda items: items and list(map(of_element, items))
        case Map(_, of) if of_value := _renaming(of):
            return lambda entries: entries and {key: of_value(value) for key, value in entries.items()}
    return None


def _type(kind: HiveType) -> Any:  # noqa: PLR0911  one for each kind of type
    match kind:
        case Primitive.STRING:
            return str
        case Primitive.DOUBLE:
            return float
        case Primitive.BOOLEAN:
            return bool
        case Primitive() if kind in INTEGER_BITS:
            limit = 1 << (INTEGER_BITS[kind] - 1)
            return Annotated[int, Meta(ge=-limit, le=limit - 1)]
        case Array():
            return _list(_type(kind.element))
        case Map() if kind.key is Primitive.STRING:
            value = _type(kind.value)
            return None if value is None else dict[str, value | None]  # type: ignore[valid-type]
        case Struct():
            fields = {name: _type(field) for name, field in kind.fields}
            if None in fields.values():
                return None
            return TypedDict("Fields", {name: field | None for name, field in fields.items()})  # type: ignore[operator]  # mypy knows literal ones only
    return None


def _list(element: Any) -> Any:
    return None if element is None else list[element | None]


def _keys(kind: HiveType) -> CountKeys:
    """A function that counts the entries of a value's objects, at any depth."""
    match kind:
        case Array(element) if _has_keys(element):
            of_element = _keys(element)
            return lambda items: sum(map(of_element, items)) if items else 0
        case Map(_, value) if _has_keys(value):
            of_value = _keys(value)
            return lambda entries: len(entries) + sum(map(of_value, entries.values())) if entries else 0
        case Map():
            return lambda entries: len(entries) if entries else 0
        case Struct(fields):
            count = len(fields)
            deeper = [(name, _keys(field)) for name, field in fields if _has_keys(field)]
            if not deeper:
                return lambda value: 0 if value is None else count
            return lambda value: 0 if value is None else count + sum(of(value[name]) for name, of in deeper)
    return lambda _: 0


def _has_keys(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _has_keys(element)
        case Map() | Struct():
            return True
    return False


def _has_maps(kind: HiveType) -> bool:
    match kind:
        case Array(element):
            return _has_maps(element)
        case Struct(fields):
            return any(_has_maps(field) for _, field in fields)
    return isinstance(kind, Map)


def _doubles(column: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_list(column.type):
        yield from _doubles(column.values)
    elif pa.types.is_struct(column.type):
        for index in range(column.type.num_fields):
            yield from _doubles(column.field(index))
    elif pa.types.is_float64(column.type):
        yield column


def _is_odd(doubles: pa.Array) -> bool:
    """Whether one is no finite number, as Arrow takes `NaN` and what is too large, or the integer -0."""
    values = doubles.fill_null(0).to_numpy(zero_copy_only=False)
    return not np.isfinite(values).all() or bool(np.signbit(values[values == 0]).any())
