"""The shape of a record: which fields it has, in which order, with which text between their values.

Records of one producer differ in little but their values. What is the same in all of them is compared as bytes, not
parsed again (`shaped.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.decode.scan import NotJson, document, members, unquote
from hivesink.decode.spans import LONGEST

if TYPE_CHECKING:
    from collections.abc import Container


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record. `before` is the text from the end of the last value to the beginning of its own."""

    name: str
    before: bytes
    lead: int
    """How many bytes of `before` are in front of the name's first quote."""
    key: int
    """How many keys, of objects within values too, come first."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records have in common. `keys` is how many keys each of them has, those within values included."""

    fields: tuple[Field, ...]
    after: bytes
    keys: int

    @classmethod
    def of(cls, record: bytes, known: Container[str], *, ignore_unknown: bool) -> Shape | None:
        """The shape of `record`, which is UTF-8 without backslashes and control characters.

        None if it is no object or an empty one, if two of its fields have one name, if it has a field that is not in
        `known` (names in lower case) where these aren't ignored, or if there is too much white space in it.
        """
        text = record.decode()
        try:
            raw = document(text)
        except NotJson:
            return None
        if raw[0] != "{":
            return None
        fields: list[Field] = []
        names: set[str] = set()
        end, keys = 0, 0
        for quoted, value in members(raw):
            name = unquote(quoted)
            key = text.index(quoted, end)
            begin = text.index(value, key + len(quoted))
            lower = name.lower()
            spaced = text[key + len(quoted)] != ":"
            if spaced or lower in names or not (ignore_unknown or lower in known):
                return None
            names.add(lower)
            fields.append(Field(lower, text[end:begin].encode(), len(text[end:key].encode()), keys))
            keys += 1 + _keys(value)
            end = begin + len(value)
        after = text[end:].encode()
        is_short = all(len(literal) <= LONGEST for literal in (after, *(one.before for one in fields)))
        return cls(tuple(fields), after, keys) if fields and is_short else None


def _keys(value: str) -> int:
    """How many of a value's texts are followed by a colon."""
    return sum(after.startswith(":") for after in value.split('"')[2::2])
