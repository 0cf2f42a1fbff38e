"""Nested values in one go: JSON to Python's objects by msgspec, where it can be proved that nothing was lost.

msgspec silently keeps the last of two fields of one name, and ignores unknown ones. But in records of one shape it is
known how many keys a value has. As all fields of a struct must be there, under their own names, a value with as many
keys as its objects have entries has each of them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from hivesink.core.table import Array, HiveType, Map, Primitive, Struct
from hivesink.decode.arrowtypes import INTEGER_BITS
from hivesink.decode.spans import REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable

    CountKeys = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class NestedDecoder:
    """Decodes values of one nested type."""

    decoder: msgspec.json.Decoder[Any]
    keys: CountKeys

    @classmethod
    def of(cls, kind: HiveType) -> NestedDecoder | None:
        """None for types that msgspec doesn't decode as the exact decoder does, and for those that aren't nested."""
        found = _type(kind) if isinstance(kind, Array | Map | Struct) else None
        return None if found is None else cls(msgspec.json.Decoder(found), _keys(kind))

    def decode(self, raw: bytes, keys: int) -> tuple[Any, bool]:
        """The value as `pa.array` takes it, and whether it is sure; `keys` is how many there are in `raw`."""
        try:
            value = self.decoder.decode(raw)
        except REFUSED:
            return None, False
        return value, self.keys(value) == keys


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
            fields = {name.lower(): _type(field) for name, field in kind.fields}
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
            deeper = [(name.lower(), _keys(field)) for name, field in fields if _has_keys(field)]
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
