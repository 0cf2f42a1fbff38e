"""A number for each field of a table, nested ones too, that never changes: what Iceberg and others call a field id.

A reader by id finds a column under any name. So a table's properties keep the ids that were ever given, and a column
that is dropped leaves its id behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from hivesink.core.table import Array, Map, Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hivesink.core.table import Column, HiveType

PROPERTY = "hivesink_field_ids"
"""The first of the properties; the others are called so with `_2`, `_3` and so on."""
_LONGEST = 3_900
"""The characters of a property. Metastores on MySQL and Derby take 4,000."""


def field_ids(columns: Iterable[Column], properties: Mapping[str, str]) -> dict[str, int]:
    """The id of each field by its path, such as `tags.element`: the kept ids, then those of new fields in their order.

    Paths are spelled as Parquet spells them, without its groups `list` and `key_value`.
    """
    ids = _kept(properties)
    for column in columns:
        for path in _paths(column.name, column.type):
            ids.setdefault(path, len(ids) + 1)
    return ids


def as_properties(ids: Mapping[str, int]) -> dict[str, str]:
    """What keeps `ids`: paths in the order of their ids, percent-encoded, separated by commas."""
    texts = [""]
    for path in sorted(ids, key=lambda path: ids[path]):
        item = quote(path, safe=".")
        if texts[-1] and len(texts[-1]) + 1 + len(item) > _LONGEST:
            texts.append("")
        texts[-1] += f",{item}" if texts[-1] else item
    return {_name(number): text for number, text in enumerate(texts, 1)}


def _kept(properties: Mapping[str, str]) -> dict[str, int]:
    paths: list[str] = []
    number = 1
    while text := properties.get(_name(number)):
        paths += [unquote(item) for item in text.split(",")]
        number += 1
    return {path: place for place, path in enumerate(paths, 1)}


def _name(number: int) -> str:
    return PROPERTY if number == 1 else f"{PROPERTY}_{number}"


def _paths(path: str, kind: HiveType) -> Iterator[str]:
    yield path
    match kind:
        case Array(element):
            yield from _paths(f"{path}.element", element)
        case Map(key, value):
            yield from _paths(f"{path}.key", key)
            yield from _paths(f"{path}.value", value)
        case Struct(fields):
            for name, field in fields:
                yield from _paths(f"{path}.{name.lower()}", field)
