from __future__ import annotations

import pytest

from hivesink.core.table import PROPERTY, Column, as_properties, field_ids
from hivesink.core.typetext import parse_type


def columns(*declared: str) -> list[Column]:
    return [Column(name, parse_type(kind)) for name, _, kind in (text.partition(" ") for text in declared)]


NESTED = columns("id int", "tags array<string>", "m map<string,struct<x:int>>", "s struct<a:int,b:array<date>>")
NUMBERED = ["id", "tags", "tags.element", "m", "m.key", "m.value", "m.value.x", "s", "s.a", "s.b", "s.b.element"]


def test_fields_are_numbered_in_their_order() -> None:
    assert list(field_ids(NESTED, {}).items()) == [(path, number) for number, path in enumerate(NUMBERED, 1)]


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (["a int", "b int", "c int"], {"a": 1, "b": 2, "c": 3}),
        (["b int", "new int", "a int"], {"a": 1, "b": 2, "new": 3}),
        (["b int"], {"a": 1, "b": 2}),
    ],
    ids=["added", "reordered", "dropped: its id is never given again"],
)
def test_kept_ids_stay(then: list[str], expected: dict[str, int]) -> None:
    kept = as_properties(field_ids(columns("a int", "b int"), {}))
    assert field_ids(columns(*then), kept) == expected


def test_odd_names_and_more_than_one_property_come_back() -> None:
    wide = columns(*(f"column_{number:04} int" for number in range(900)), "ä,b int", "%2c int")
    ids = field_ids(wide, {})
    kept = as_properties(ids)
    assert len(kept) > 1
    assert all(len(text) <= 3_900 and name.startswith(PROPERTY) for name, text in kept.items())
    assert field_ids(wide, kept) == ids
