"""Aggregates and window functions that Spark and DuckDB are sure to give the same value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from hivesink.core.table import INTEGERS, Decimal, HiveType, Primitive
from hivesink.core.typetext import MAX_PRECISION
from hivesink.errors import NotCovered
from hivesink.sparksql.expressions import EXACT, expression, is_ordered
from hivesink.sparksql.typed import APPROXIMATE, Typed, duckdb_type, failing_unless, only, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.sparksql.scope import Rule, Scope

_BY_ORDER = "the last digits of a sum of DOUBLEs depend on the order of its rows"
_ROOM = 10
"""Digits that Spark gives a sum of decimals more than they have; fewer might overflow."""
_RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}
_NEIGHBOURS: dict[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate's or window function's call, before the cast to the type that Spark gives it.

    `bounded`: further aggregates over the same rows. Where one of them isn't a BIGINT, Spark might overflow.
    """

    sql: str
    type: HiveType
    name: str | None = None
    bounded: tuple[str, ...] = ()

    def value(self, over: str = "") -> str:
        """With an OVER, or nothing."""
        found = f"CAST({self.sql}{over} AS {duckdb_type(self.type)})"
        if not self.bounded:
            return found
        fits = " AND ".join(f"{sql}{over} BETWEEN {-(2**63)} AND {2**63 - 1}" for sql in self.bounded)
        return failing_unless(fits, found, "a sum that no BIGINT holds in some order of its rows")


def grouped(value: Typed, what: str) -> Typed:
    """`value`, if both engines take the same of its values for equal. Raises NotCovered.

    Of a group of 0.0 and -0.0 each engine shows another one.
    """
    if value.type in APPROXIMATE or not is_ordered(value.type):
        raise NotCovered(reason=f"{what} {value.name or 'a value'} of type {value.type}")
    return value


def order(ordered: exp.Ordered, sql: str) -> str:
    """`sql` in that order; sqlglot has Spark's places of nulls."""
    only(ordered, "this", "desc", "nulls_first")
    nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
    return f"{sql} {'DESC' if ordered.args.get('desc') else 'ASC'} NULLS {nulls}"


def _argument(node: exp.Expr, scope: Scope) -> tuple[Typed, str]:
    """What is aggregated, and `DISTINCT ` or nothing."""
    only(node, "this", "big_int")
    if not isinstance(node.this, exp.Distinct):
        return expression(node.this, scope), ""
    only(node.this, "expressions")
    if len(node.this.expressions) != 1:
        raise NotCovered(reason=f"`{shown(node)}`: DISTINCT over several columns")
    return grouped(expression(node.this.expressions[0], scope), "DISTINCT over"), "DISTINCT "


def _name(function: str, distinct: str, value: Typed, scope: Scope) -> str | None:
    return f"{function}({distinct}{value.name})" if value.name and scope.names_known else None


def _count(node: exp.Expr, scope: Scope) -> Call:
    if isinstance(node.this, exp.Star):
        only(node, "this", "big_int")
        return Call("count(*)", Primitive.BIGINT, "count(1)")
    value, distinct = _argument(node, scope)
    return Call(f"count({distinct}{value.sql})", Primitive.BIGINT, _name("count", distinct, value, scope))


def _sum(node: exp.Expr, scope: Scope) -> Call:
    value, distinct = _argument(node, scope)
    if value.type in APPROXIMATE:
        raise NotCovered(reason=f"`{shown(node)}`: {_BY_ORDER}")
    call, name = f"sum({distinct}{value.sql})", _name("sum", distinct, value, scope)
    if value.type is Primitive.BIGINT:
        # Spark adds in an order of its own. Any sum on the way is between that of the negative values and that of
        # the positive ones; DuckDB adds in 128 bits.
        bounded = tuple(f"sum({distinct}{end}({value.sql}, 0))" for end in ("least", "greatest"))
        return Call(call, Primitive.BIGINT, name, bounded)
    if value.type in INTEGERS:
        return Call(call, Primitive.BIGINT, name)
    if isinstance(value.type, Decimal) and value.type.precision + _ROOM <= MAX_PRECISION:
        return Call(call, Decimal(value.type.precision + _ROOM, value.type.scale), name)
    raise NotCovered(reason=f"`{shown(node)}` of {value.type}")


def _extreme(node: exp.Expr, scope: Scope) -> Call:
    function = "min" if isinstance(node, exp.Min) else "max"
    value, distinct = _argument(node, scope)
    if value.type is None or not is_ordered(value.type):
        raise NotCovered(reason=f"`{shown(node)}` of {value.type}")
    return Call(f"{function}({value.sql})", value.type, _name(function, distinct, value, scope))


def _aggregate(node: exp.Expr, scope: Scope) -> Typed:
    call = _CALLS[type(node)](node, scope)
    return Typed(call.value(), call.type, call.name)


def _average(node: exp.Expr, scope: Scope) -> Typed:
    """Spark adds DOUBLEs, which is exact as long as no sum of them leaves the integers that a DOUBLE has."""
    value, distinct = _argument(node, scope)
    if value.type not in INTEGERS:
        why = _BY_ORDER if value.type in APPROXIMATE else f"an average of {value.type}"
        raise NotCovered(reason=f"`{shown(node)}`: {why}")
    size = f"sum({distinct}abs(CAST({value.sql} AS HUGEINT)))"
    mean = f"(CAST(sum({distinct}{value.sql}) AS DOUBLE) / count({distinct}{value.sql}))"
    mean = failing_unless(f"{size} <= {EXACT}", mean, "a sum that no DOUBLE holds")
    return Typed(mean, Primitive.DOUBLE, _name("avg", distinct, value, scope))


def _window(node: exp.Expr, scope: Scope) -> Typed:
    """Only with the default frame, which is the same in both."""
    only(node, "this", "partition_by", "order", "over")
    function, keys = node.this, node.args["order"].expressions if node.args.get("order") else []
    if type(function) in _CALLS and not isinstance(function.this, exp.Distinct):
        call = _CALLS[type(function)](function, scope)
    elif type(function) in _RANKS:
        only(function)
        call = Call(f"{_RANKS[type(function)]}()", Primitive.INT)
    elif type(function) in _NEIGHBOURS:
        call = _neighbour(function, scope)
    else:
        raise NotCovered(reason=f"the window function `{shown(function)}`")
    over = " ".join(filter(None, [_partition(node.args.get("partition_by") or [], scope), _order(keys, scope)]))
    return Typed(call.value(f" OVER ({over})"), call.type)


def _neighbour(function: exp.Expr, scope: Scope) -> Call:
    only(function, "this", "offset")
    offset, value = function.args.get("offset") or exp.Literal.number(1), expression(function.this, scope)
    if not isinstance(offset, exp.Literal) or not offset.is_int or value.type is None:
        raise NotCovered(reason=f"`{shown(function)}`")
    return Call(f"{_NEIGHBOURS[type(function)]}({value.sql}, {offset.this})", value.type)


def _partition(keys: Sequence[exp.Expr], scope: Scope) -> str:
    values = [grouped(expression(key, scope), "PARTITION BY").sql for key in keys]
    return f"PARTITION BY {', '.join(values)}" if values else ""


def _order(keys: Sequence[exp.Ordered], scope: Scope) -> str:
    values = [order(key, expression(key.this, scope).sql) for key in keys]
    return f"ORDER BY {', '.join(values)}" if values else ""


_CALLS: Mapping[type[exp.Expr], Callable[[exp.Expr, Scope], Call]] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Min: _extreme,
    exp.Max: _extreme,
}
AGGREGATES: Mapping[type[exp.Expr], Rule] = {
    **dict.fromkeys(_CALLS, _aggregate),
    exp.Avg: _average,
    exp.Window: _window,
}
"""The rules that only some parts of a SELECT may use, beside `expressions.SCALARS`."""
