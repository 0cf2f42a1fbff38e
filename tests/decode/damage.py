"""Records with a few bytes gone, changed or added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence


def with_damage(records: Sequence[bytes], data: st.DataObject) -> tuple[int, bytes]:
    """The place of one of the records, and its bytes after one to three changes."""
    place = data.draw(st.integers(0, len(records) - 1))
    octets = bytearray(records[place])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(octets)))
        octets[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    return place, bytes(octets)
