"""Parses Hive's type text, of a metastore's column or DDL: `struct<a:array<int>,b:decimal(10,2)>`.

Grammar and limits follow Hive's language manual, "Hive Data Types". `str(type)` is the inverse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from hivesink.core.table import Array, Char, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.errors import TypeTextInvalid

MAX_PRECISION = 38
MAX_CHAR = 255
MAX_VARCHAR = 65535

_NAMED = {kind.value: kind for kind in Primitive} | {"integer": Primitive.INT, "double precision": Primitive.DOUBLE}
_PARAMETERED = {"decimal", "numeric", "dec", "char", "varchar"}
_NESTED = {"array", "map", "struct"}
_WALL_CLOCK = "is not supported: use TIMESTAMP, a wall clock in the zone that sink.timestamp-zone declares"
_REFUSED = {
    "uniontype": "UNIONTYPE is not supported: use a STRUCT with one field per case",
    "timestamp with local time zone": f"TIMESTAMP WITH LOCAL TIME ZONE {_WALL_CLOCK}",
    "timestamp with time zone": f"TIMESTAMP WITH TIME ZONE {_WALL_CLOCK}",
}
_TOKEN = re.compile(
    r"\s*(?:(?P<word>double\s+precision|timestamp\s+with\s+(?:local\s+)?time\s+zone|[^\W\d][\w$]*)"
    r"|(?P<sign>[<>(),:]))",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"\s*\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)")
# The characters that Hive's own type parser takes in a name (TypeInfoUtils.isTypeChar).
_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([\w$. ]+?))\s*:")
_FIELD_NAME = re.compile(r"[\w$.](?:[\w$. ]*[\w$.])?")
_DEEPEST = 50


def parse_type(text: str) -> HiveType:
    """Parse in any case, names to lower case. Raises TypeTextInvalid with the reason."""
    reader = _Reader(text)
    kind = reader.type(0)
    if text[reader.at :].strip():
        reader.fail(f"{text[reader.at :].strip()!r} is left over")
    return kind


def known_type(text: str) -> HiveType | None:
    """None for a text that `parse_type` refuses."""
    try:
        return parse_type(text)
    except TypeTextInvalid:
        return None


def refusal(word: str) -> str | None:
    """Why `word` can't be a column's type; None if it can, or if nobody would take it for a type."""
    text = word.lower()
    if text in {*_NAMED, *_PARAMETERED, *_NESTED} or not re.fullmatch(r"[^\W\d][\w ]*", text):
        return None
    return _REFUSED.get(text, f"the sink knows no Hive type {word.upper()}")


@dataclass(slots=True)
class _Reader:
    """Reads a type from `text`, from position `at` on."""

    text: str
    at: int = 0

    def type(self, depth: int) -> HiveType:
        if depth > _DEEPEST:
            self.fail(f"nested deeper than {_DEEPEST} levels")
        match = _TOKEN.match(self.text, self.at)
        if match is None or match["word"] is None:
            self.fail(f"expected a type {self._here()}")
        self.at = match.end()
        word = " ".join(match["word"].lower().split())
        if word in _NESTED:
            return self._nested(word, depth)
        if word in _PARAMETERED:
            return self._parametered(word)
        kind = _NAMED.get(word)
        if kind is None:
            self.fail(refusal(word) or word)
        if self._next("("):
            self.fail(f"{word.upper()} takes no length")
        return kind

    def _nested(self, word: str, depth: int) -> HiveType:
        self._expect("<", word)
        kind: HiveType
        if word == "array":
            kind = Array(self.type(depth + 1))
        elif word == "map":
            key = self.type(depth + 1)
            if isinstance(key, (Array, Map, Struct)):
                self.fail(f"a MAP's key must be a primitive type, not {key}")
            self._expect(",", word)
            kind = Map(key, self.type(depth + 1))
        else:
            fields: dict[str, HiveType] = {}
            while not fields or self._next(","):
                match = _FIELD.match(self.text, self.at)
                if match is None:
                    self.fail(f"expected name:type {self._here()}")
                name = (match[1] or match[2]).lower()
                if not _FIELD_NAME.fullmatch(name):
                    self.fail(f"the field name {name!r} has characters that Hive can't read back")
                if name in fields:
                    self.fail(f"the struct has two fields {name!r} (Hive ignores case)")
                self.at = match.end()
                fields[name] = self.type(depth + 1)
            kind = Struct(tuple(fields.items()))
        self._expect(">", word)
        return kind

    def _parametered(self, word: str) -> HiveType:
        numbers: tuple[int, ...] = ()
        if match := _NUMBERS.match(self.text, self.at):
            self.at = match.end()
            # No limit of any type has more than five digits, and int() refuses thousands of them.
            numbers = tuple(int(number.strip().lstrip("0")[:9] or "0") for number in match[1].split(","))
        if word in {"char", "varchar"}:
            most = MAX_CHAR if word == "char" else MAX_VARCHAR
            if len(numbers) != 1 or not 1 <= numbers[0] <= most:
                self.fail(f"{word.upper()} needs a length from 1 to {most}, as in {word}(10)")
            return Char(numbers[0]) if word == "char" else Varchar(numbers[0])
        precision, scale = (*(numbers or (10,)), 0)[:2]
        if len(numbers) > 2 or not 1 <= precision <= MAX_PRECISION or scale > precision:  # noqa: PLR2004
            self.fail(f"DECIMAL(p,s) needs p from 1 to {MAX_PRECISION} and s from 0 to p")
        return Decimal(precision, scale)

    def _next(self, sign: str) -> bool:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match["sign"] != sign:
            return False
        self.at = match.end()
        return True

    def _expect(self, sign: str, after: str) -> None:
        if not self._next(sign):
            self.fail(f"expected {sign!r} of {after} {self._here()}")

    def _here(self) -> str:
        rest = self.text[self.at :].strip()
        return f"before {rest[:20]!r}" if rest else "at the end"

    def fail(self, reason: str) -> NoReturn:
        raise TypeTextInvalid(self.text, reason)
