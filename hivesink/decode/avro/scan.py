"""Avro's bytes value by value, by the rules of `Columns`, whose steps are dear for a few values."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import repeat

from hivesink.decode.avro.schema import Type

DEEPEST = 100
FREE = 100
"""Items that take no bytes, as nulls, that a record may have beyond the number of its bytes."""
MORE = 0x80
"""The bit of a number's byte that says that another follows."""
STRING = Type("string")
BITS = {"long": 64, "int": 32, "enum": 32, "union": 32}
SIZES = {"boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class Scan:
    """Passes over values before `end` of `octets`, which go on; ValueError: a value is odd."""

    octets: memoryview
    end: int
    most: int
    """Items that a list may have."""

    def past(self, kind: Type, at: int, depth: int) -> int:
        """Where the value ends that begins `at`, within `depth` others."""
        name = kind.name
        if depth > DEEPEST and not kind.is_empty:
            raise ValueError(depth)
        if name == "record":
            for part in () if kind.is_empty else kind.parts:
                at = self.past(part, at, depth + 1)
            return at
        if name in {"array", "map"}:
            return self.past_items(kind, at, depth + 1)
        if name in BITS:
            number, at = self.number(at, BITS[name])
            if name in {"enum", "union"} and not 0 <= number < len(kind.symbols or kind.parts):
                raise ValueError(number)
            return self.past(kind.parts[number], at, depth + 1) if name == "union" else at
        size = kind.size or SIZES.get(name, 0)
        if name in {"bytes", "string"}:
            size, at = self.number(at)
        is_odd = name == "boolean" and self.octets[at] > 1
        if is_odd or size < (kind.logical == "decimal") or at + size > self.end:
            raise ValueError(size)
        return at + size

    def past_items(self, kind: Type, at: int, depth: int, left: int = 0, begins: array[int] | None = None) -> int:
        """Where an array or map ends, of which a block with `left` items goes on `at`."""
        part, is_map, count = kind.parts[0], kind.name == "map", left
        while True:
            if part.is_empty and not is_map:
                if begins is not None:
                    begins.extend(repeat(at, left))
                left = 0
            for _ in range(left):
                if begins is not None:
                    begins.append(at)
                at = self.past(part, self.past(STRING, at, 0) if is_map else at, depth)
            left, at = self.number(at)
            if left < 0:
                # The block's bytes follow, for who passes over it.
                left, at = -left, self.number(at)[1]
            if not left:
                return at
            count += left
            if count > self.most:
                raise ValueError(count)

    def number(self, at: int, bits: int = 64) -> tuple[int, int]:
        """An int or a long, and where it ends."""
        joined, shift, octet = 0, 0, MORE
        while octet >= MORE and shift < BITS["long"]:
            octet = self.octets[at]
            joined |= (octet & ~MORE) << shift
            at, shift = at + 1, shift + 7
        if octet >= MORE or at > self.end or joined >> bits:
            raise ValueError(joined)
        return (joined >> 1) ^ -(joined & 1), at
