"""Expressions of DuckDB with the type and the name that Spark gives them, and what Spark does to types by itself.

Types follow Spark's `AnsiTypeCoercion`; what older Sparks coerce otherwise is left to Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from hivesink.core.table import INTEGERS, Array, Char, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.errors import NotCovered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp

APPROXIMATE = (Primitive.FLOAT, Primitive.DOUBLE)
_EXACT_DIGITS = 15
"""Every number of so many decimal digits is one of a DOUBLE's integers, over a power of ten that is another."""
_DUCKDB = {Primitive.INT: "INTEGER", Primitive.STRING: "VARCHAR", Primitive.BINARY: "BLOB"}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SECOND = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression. `type` is None for NULL; `name` for what Spark would name in a way that isn't known here.

    `text` is the content of a literal string.
    """

    sql: str
    type: HiveType | None
    name: str | None = None
    text: str | None = None

    @property
    def is_text(self) -> bool:
        return self.type is Primitive.STRING or isinstance(self.type, Varchar)


def quoted(name: str) -> str:
    """An identifier as DuckDB takes any."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def duckdb_type(kind: HiveType) -> str:
    """DuckDB's name of a primitive type. Raises NotCovered for others."""
    if isinstance(kind, (Array, Map, Struct)):
        raise NotCovered(reason=f"a value of type {kind}")
    if isinstance(kind, Char):
        # Spark pads it when it reads, compares and casts.
        raise NotCovered(reason=f"a value of type {kind}, which Spark pads")
    if isinstance(kind, Varchar):
        return "VARCHAR"
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCKDB.get(kind, kind.value.upper())


def cast(value: Typed, kind: HiveType) -> Typed:
    """`value` as `kind`, by a cast that both engines do alike, without a name of its own. Raises NotCovered."""
    if value.type == kind:
        return value
    if isinstance(value.type, Decimal) and kind is Primitive.DOUBLE and value.type.precision > _EXACT_DIGITS:
        # DuckDB rounds twice, Spark once.
        raise NotCovered(reason=f"a {value.type} as a double: the last digit may differ")
    return replace(value, sql=f"CAST({value.sql} AS {duckdb_type(kind)})", type=kind)


def failing_unless(condition: str, value: str, why: str) -> str:
    """`value`, or an error that sends the whole statement to Spark. A condition that is null counts as met."""
    return f"CASE WHEN NOT ({condition}) THEN error({literal(why)}) ELSE {value} END"


def comparable(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Both as the type that Spark compares them in. Raises NotCovered."""
    left, right = _as_time(left, right.type), _as_time(right, left.type)
    if left.type is None or right.type is None or left.type == right.type or (left.is_text and right.is_text):
        return left, right
    kinds = {left.type, right.type}
    if all(kind in INTEGERS or isinstance(kind, Decimal) for kind in kinds):
        return left, right
    if kinds == {Primitive.DATE, Primitive.TIMESTAMP}:
        return cast(left, Primitive.TIMESTAMP), cast(right, Primitive.TIMESTAMP)
    wider = common_type([left, right])
    return cast(left, wider), cast(right, wider)


def common_type(values: Sequence[Typed]) -> HiveType:
    """The type of several values in one column. Raises NotCovered where Spark's isn't surely known."""
    kinds = {value.type for value in values if value.type is not None}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds and all(kind in INTEGERS for kind in kinds):
        return next(kind for kind in reversed(INTEGERS) if kind in kinds)
    exact = {kind for kind in kinds if kind in INTEGERS or isinstance(kind, Decimal)}
    if Primitive.DOUBLE in kinds and kinds - exact <= {*APPROXIMATE}:
        return Primitive.DOUBLE
    if kinds and all(kind is Primitive.STRING or isinstance(kind, Varchar) for kind in kinds):
        return Primitive.STRING
    raise NotCovered(reason=f"values of the types {' and '.join(sorted(map(str, kinds))) or 'void'} together")


def _as_time(value: Typed, other: HiveType | None) -> Typed:
    """A literal string beside a time is one, if it is written whole."""
    if value.text is None or other not in {Primitive.DATE, Primitive.TIMESTAMP}:
        return value
    if other is Primitive.DATE:
        return day(value.text)
    return day(value.text) if _DAY.fullmatch(value.text) else moment(value.text)


def day(text: str) -> Typed:
    """A DATE. Raises NotCovered for a text that isn't written as yyyy-MM-dd."""
    try:
        assert_written = _DAY.fullmatch(text) and date.fromisoformat(text)
    except ValueError:
        assert_written = None
    if not assert_written:
        raise NotCovered(reason=f"{text!r} as a date: write it as yyyy-MM-dd")
    return Typed(f"DATE {literal(text)}", Primitive.DATE)


def moment(text: str) -> Typed:
    """A TIMESTAMP. Raises NotCovered for a text that isn't written as yyyy-MM-dd HH:mm:ss, with up to six decimals."""
    try:
        written = _SECOND.fullmatch(text) and datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007  a wall clock
    except ValueError:
        written = None
    if not written:
        raise NotCovered(reason=f"{text!r} as a timestamp: write it as yyyy-MM-dd HH:mm:ss")
    return Typed(f"TIMESTAMP {literal(text)}", Primitive.TIMESTAMP)


def only(node: exp.Expr, *known: str) -> None:
    """Raise NotCovered if `node` has any part that isn't in `known`."""
    for part, value in node.args.items():
        if value and part not in known:
            raise NotCovered(reason=f"{part.rstrip('_').replace('_', ' ').upper()} in `{shown(node)}`")


def shown(node: exp.Expr) -> str:
    """The beginning of `node` as Spark's SQL."""
    text = " ".join(node.sql("spark").split())
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  one line
