"""Avro's bytes to the columns of a Hive table, all records of a schema at once.

Each step reads the same part of every record, which begins where the record's last part ended: no
record depends on another. A record is `odd` unless each part is what the schema allows, and the
last part ends where the record does.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from hivesink.decode.arrowtypes import arrow_type
from hivesink.decode.avro.scan import BITS, DEEPEST, FREE, MORE, SIZES, STRING, Scan
from hivesink.decode.avro.schema import Type
from hivesink.decode.avro.wants import SCALED, Lists, Numbers, Want, converted, decimals, scaled
from hivesink.decode.connect import VARIABLE
from hivesink.decode.convert import Converted
from hivesink.decode.json.spans import Text
from hivesink.decode.values import InvalidValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ONE, _ONES, _TOPS = (np.uint64(word) for word in (1, 0x0101010101010101, 0x8080808080808080))
_HALVES = [
    (np.uint64(kept), np.uint64(shift))
    for kept, shift in ((0x007F007F007F007F, 1), (0x00003FFF00003FFF, 2), (0x000000000FFFFFFF, 4))
]
"""What stays where it is while groups of seven bits close up, and by how much the others move."""
_FEW = 32
"""Up to so many are passed over singly: a step over all costs as much as a hundred of these."""
_NULL = Type("null")

Read: TypeAlias = "tuple[list[Converted], Numbers]"
"""For each want the column, and where each value ends."""
Leaf: TypeAlias = "tuple[Callable[[], pa.Array], Numbers]"
"""What makes the values, and where each ends."""


class Columns:
    """Reads the records of `text` between `begins` and `ends`; what an odd record gives means nothing.

    Within, `rows` are the records in which the values are, in order.
    """

    def __init__(self, text: Text, begins: Numbers, ends: Numbers) -> None:
        self._text, self._begins, self._ends = text, begins, ends
        self.odd = np.zeros(len(begins), np.bool_)
        self._octets, self._depth = text.octets.data, 0

    def read(self, kind: Type, wants: Sequence[Want]) -> list[Converted]:
        """A column for each of `wants`; a field that the schema lacks is null."""
        made, at = self._read(kind, self._begins, np.arange(len(self._begins)), wants)
        self.odd |= at != self._ends
        return made

    def _read(self, kind: Type, at: Numbers, rows: Numbers, wants: Sequence[Want]) -> Read:
        if self.odd.any() and (wants or self.odd[rows].any()):
            # What is made now is thrown away: all is read again, without the odd ones.
            live, at = np.flatnonzero(~self.odd[rows]), at.copy()
            at[live] = self._read(kind, at[live], rows[live], ())[1]
        elif not wants and kind.is_empty:
            pass
        elif not wants and len(rows) <= _FEW:
            at = at.copy()
            for n, row in enumerate(rows.tolist()):
                try:
                    at[n] = self._scan(row).past(kind, int(at[n]), self._depth)
                except ValueError:  # noqa: PERF203 -- of each record
                    self.odd[row] = True
        elif not len(rows) or self._depth > DEEPEST:
            self.odd[rows] = True
        else:
            return self._values(kind, at, rows, wants)
        return [(pa.nulls(len(rows), arrow_type(want.type)), {}) for want in wants], at

    def _values(self, kind: Type, at: Numbers, rows: Numbers, wants: Sequence[Want]) -> Read:
        self._depth += 1
        try:
            match kind.name:
                case "record" if kind.connect == VARIABLE:
                    # As a number, too, a value has a scale of its own.
                    parts = [want._replace(type=SCALED) if want.is_number else want for want in wants]
                    made, at = self._record(kind, at, rows, parts)
                    every = zip(made, wants, parts, strict=True)
                    return [some if want is part else scaled(some, want) for some, want, part in every], at
                case "record":
                    return self._record(kind, at, rows, wants)
                case "union":
                    return self._union(kind, at, rows, wants)
                case "array" | "map":
                    return self._lists(kind, at, rows, wants)
            values, at = self._leaf(kind, at, rows)
            return [converted(kind, values, len(rows), want) for want in wants], at
        finally:
            self._depth -= 1

    def _scan(self, row: int, taken: int = 0) -> Scan:
        """Its lists may have as many items as it has bytes, and `FREE`, less those `taken`."""
        begin, end = int(self._begins[row]), int(self._ends[row])
        return Scan(self._octets, end, end - begin + FREE - taken)

    def _within(self, at: Numbers, rows: Numbers) -> Numbers:
        """`at`, or the end of its record where that comes before."""
        ends = self._ends[rows]
        beyond = at > ends
        if not beyond.any():
            return at
        self.odd[rows[beyond]] = True
        return np.minimum(at, ends)

    def _below(self, numbers: Numbers, limit: int | Numbers, rows: Numbers) -> Numbers:
        """Those from 0 to below `limit`, 0 for others."""
        odd = (numbers < 0) | (numbers >= limit)
        if odd.any():
            self.odd[rows[odd]] = True
            numbers = np.where(odd, 0, numbers)
        return numbers

    def _number(self, at: Numbers, rows: Numbers, name: str = "long") -> tuple[Numbers, Numbers]:
        """Ints or longs: seven bits a byte, the lowest first, and the sign in the lowest bit."""
        numbers, ends = self._text.octets[at].astype(np.uint64), at + 1
        more = np.flatnonzero(numbers >= MORE)
        if more.size > len(at) // 2:
            # Cheaper than to pick the others.
            numbers, ends = self._joined(at, rows, name)
        elif more.size:
            numbers[more], ends[more] = self._joined(at[more], rows[more], name)
        signs = -(numbers & _ONE).view(np.int64)
        return (numbers >> _ONE).view(np.int64) ^ signs, self._within(ends, rows)

    def _joined(self, at: Numbers, rows: Numbers, name: str) -> tuple[NDArray[np.uint64], Numbers]:
        """The bits of numbers of any length, and where these end."""
        words = self._text.words[at]
        last = ~words & _TOPS
        # Of each word the bytes up to the first without its top bit.
        own = last ^ (last - _ONE)
        joined = words & own & ~_TOPS
        for kept, by in _HALVES:
            joined = (joined & kept) | ((joined & ~kept) >> by)
        ends = at + ((own & _ONES) * _ONES >> np.uint64(56)).view(np.int64)
        for place in (56, 63):
            longer = np.flatnonzero(last == 0)
            if longer.size:
                octets = self._text.octets[ends[longer]].astype(np.uint64)
                joined[longer] |= (octets & ~_TOPS) << np.uint64(place)
                ends[longer] += 1
                last[longer] = octets < MORE
                self.odd[rows[longer[octets > 1]]] |= place > 56  # noqa: PLR2004
        self.odd[rows[joined >> np.uint64(BITS[name] - 1) > 1]] = True
        return joined, ends

    def _leaf(self, kind: Type, at: Numbers, rows: Numbers) -> Leaf:  # noqa: PLR0911 -- one a kind
        """Values without parts, made when a column needs them."""
        match kind.name:
            case "null":
                return partial(pa.nulls, len(rows)), at
            case "boolean":
                flags = self._below(self._text.octets[at].astype(np.int64), 2, rows)
                return lambda: pa.array(flags == 1), self._within(at + 1, rows)
            case "int" | "long" | "enum" as name:
                numbers, at = self._number(at, rows, name)
                if name == "enum":
                    numbers = self._below(numbers, len(kind.symbols), rows)
                    # An odd record may have one of none.
                    symbols = pa.array(kind.symbols or [""], pa.string())
                    return lambda: symbols.take(pa.array(numbers)), at
                width = f"i{BITS[name] // 8}"
                return lambda: pa.array(numbers.astype(width)).view(kind.arrow), at
            case "float" | "double" as name:
                size = SIZES[name]
                # The first bytes of a word are its lowest.
                numbers = self._text.words[at].astype(f"<u{size}").view(f"<f{size}")
                return partial(pa.array, numbers), self._within(at + size, rows)
        sizes = np.full(len(rows), kind.size)
        if kind.name != "fixed":
            sizes, at = self._number(at, rows)
            sizes = self._below(sizes, self._ends[rows] - at + 1, rows)
        ends = self._within(at + sizes, rows)
        if kind.logical == "decimal":
            self.odd[rows[sizes == 0]] = True
            return partial(decimals, self._text, kind, at, ends), ends
        return lambda: self._text.cut(at, ends).view(kind.arrow), ends

    def _record(self, kind: Type, at: Numbers, rows: Numbers, wants: Sequence[Want]) -> Read:
        below = [part for want in wants for part in want.parts()]
        made: list[Converted] = [(pa.nulls(len(rows), arrow_type(want.type)), {}) for want in below]
        for place, part in enumerate(kind.parts):
            takers = [n for n, want in enumerate(below) if place in kind.names.get(want.name, ())]
            inner = [below[n]._replace(steps=below[n].steps[1:]) for n in takers]
            columns, at = self._read(part, at, rows, inner)
            for n, (column, bad) in zip(takers, columns, strict=True):
                name, unfit = below[n].name, bad
                if len(kind.names[name]) > 1:
                    _, unfit = below[n].none_fit(len(rows), "duplicate field")
                made[n] = column, {row: error.within(name) for row, error in unfit.items()}
        fields = iter(made)
        every = [[next(fields) for _ in want.parts()] for want in wants]
        return [want.whole(its, kind, len(rows)) for want, its in zip(wants, every, strict=True)], at

    def _union(self, kind: Type, at: Numbers, rows: Numbers, wants: Sequence[Want]) -> Read:
        numbers, at = self._number(at, rows, kind.name)
        numbers = self._below(numbers, len(kind.parts), rows)
        ends, order = at.copy(), np.full(len(rows), -1)
        branches, count = list[tuple[Numbers, list[Converted]]](), 0
        for number, part in enumerate(kind.parts):
            if part.name == "null":
                continue
            places = np.flatnonzero(numbers == number)
            columns, ends[places] = self._read(part, at[places], rows[places], wants)
            branches.append((places, columns))
            order[places] = count + np.arange(len(places))
            count += len(places)
        merged, taken = list[Converted](), pa.array(order, mask=order < 0)
        for n, want in enumerate(wants):
            every = pa.concat_arrays([columns[n][0] for _, columns in branches] or [pa.nulls(0, arrow_type(want.type))])
            bad: dict[int, InvalidValue] = {}
            for places, columns in branches:
                bad |= {int(places[row]): error for row, error in columns[n][1].items()}
            merged.append((every.take(taken), bad))
        return merged, ends

    def _lists(self, kind: Type, at: Numbers, rows: Numbers, wants: Sequence[Want]) -> Read:
        owners, begins, at = self._items(kind, at, rows, wanted=bool(wants))
        lists, rows_of_items = Lists(owners, len(rows)), rows[owners]
        keys, begins = self._key(kind, begins, rows_of_items)

        def items(want: Want) -> Converted:
            return self._read(kind.parts[0], begins, rows_of_items, [want])[0][0]

        names = partial(converted, STRING, keys, len(owners))
        return [lists.read(kind, want, items, names) for want in wants], at

    def _items(self, kind: Type, at: Numbers, rows: Numbers, *, wanted: bool) -> tuple[Numbers, Numbers, Numbers]:
        """Of which list each item is, in order, and where it begins, if `wanted`; and lists' ends."""
        at, left, active = at.copy(), np.zeros(len(rows), np.int64), np.arange(len(rows))
        owners, begins = [active[:0]], [active[:0]]
        # Those without bytes are nothing to step through.
        is_free = kind.name == "array" and kind.parts[0].is_empty
        while active.size > (len(rows) if is_free else _FEW):
            empty = active[left[active] == 0]
            counts, at[empty] = self._number(at[empty], rows[empty])
            sized = empty[counts < 0]
            # The block's bytes follow, for who passes over it.
            at[sized] = self._number(at[sized], rows[sized])[1]
            most = self._ends[rows[empty]] - at[empty] + FREE
            left[empty] = self._below(abs(counts), most, rows[empty])
            active = active[(left[active] > 0) & ~self.odd[rows[active]]]
            owners.append(active)
            begins.append(at[active])
            begun = self._key(kind, at[active], rows[active])[1]
            at[active] = self._read(kind.parts[0], begun, rows[active], ())[1]
            left[active] -= 1
        taken = dict[int, int]()
        for n in active[~self.odd[rows[active]]].tolist():
            row, places = int(rows[n]), array("q") if wanted else None
            try:
                scan = self._scan(row, taken.get(row, 0))
                at[n] = scan.past_items(kind, int(at[n]), self._depth, int(left[n]), places)
            except ValueError:
                self.odd[row] = True
            taken[row] = taken.get(row, 0) + len(places or ())
            owners.append(np.full(len(places or ()), n))
            begins.append(np.array(places or (), np.int64))
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return owner[order], np.concatenate(begins)[order], at

    def _key(self, kind: Type, at: Numbers, rows: Numbers) -> Leaf:
        return self._leaf(STRING if kind.name == "map" else _NULL, at, rows)
