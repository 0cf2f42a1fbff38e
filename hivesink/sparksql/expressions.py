"""The expressions that Spark and DuckDB are sure to give the same value: operators, conditions, casts, functions.

An allow-list: what isn't here is Spark's. Where only some values agree, an expression fails for the others, and the
statement goes to Spark; so does what DuckDB refuses, such as an overflow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from hivesink.core.table import INTEGERS, Decimal, HiveType, Primitive
from hivesink.errors import NotCovered
from hivesink.sparksql.typed import (
    APPROXIMATE,
    Typed,
    cast,
    common_type,
    comparable,
    day,
    duckdb_type,
    failing_unless,
    literal,
    moment,
    only,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.sparksql.scope import Rule, Scope

# sqlglot reads each of these as another function of the same meaning, so the name that Spark shows is lost.
_RENAMED = re.compile(
    r"\b(?:ucase|lcase|len|char_length|character_length|ifnull|nvl|mean|std|some|any)\s*\(", re.IGNORECASE
)
EXACT = 2**53
"""Every integer up to this one is a DOUBLE."""
_INT_TEXT = r"^-?[0-9]{1,18}$"
_DATE_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_COMPARISONS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_ORDERED = {*INTEGERS, *APPROXIMATE, Primitive.STRING, Primitive.DATE, Primitive.TIMESTAMP, Primitive.BOOLEAN}


def keeps_names(sql: str) -> bool:
    """Whether the functions of a statement have the names by which Spark shows them."""
    return _RENAMED.search(sql) is None


def expression(node: exp.Expr, scope: Scope) -> Typed:
    """Raises NotCovered, and QueryFailed for a column that isn't there."""
    rule = scope.rules.get(type(node))
    if rule is None:
        raise NotCovered(reason=f"`{shown(node)}`")
    return rule(node, scope)


def condition(node: exp.Expr, scope: Scope) -> Typed:
    """An expression of type BOOLEAN. Raises what `expression` raises."""
    found = expression(node, scope)
    # Spark refuses some NULLs here, such as CASE's, for which it has no type.
    if found.type is not Primitive.BOOLEAN:
        raise NotCovered(reason=f"`{shown(node)}` as a condition")
    return found


def is_ordered(kind: HiveType | None) -> bool:
    """Whether both engines compare values of that type alike."""
    return kind is None or kind in _ORDERED or isinstance(kind, Decimal) or Typed("", kind).is_text


def _literal(node: exp.Expr, _: Scope) -> Typed:
    text = str(node.this)
    if node.args["is_string"]:
        if "'" in text:
            raise NotCovered(reason="a quote inside of a literal")
        return Typed(literal(text), Primitive.STRING, text, text)
    if re.fullmatch(r"\d{1,18}", text):
        kind = Primitive.INT if int(text) < 2**31 else Primitive.BIGINT
        return Typed(f"CAST({text} AS {duckdb_type(kind)})", kind, str(int(text)))
    if found := re.fullmatch(r"(\d+)\.(\d+)", text):
        digits = len((found[1] + found[2]).lstrip("0"))
        number = Decimal(max(digits, len(found[2]), 1), len(found[2]))
        if number.precision <= 18:  # noqa: PLR2004  as many fit every engine's decimals
            return Typed(f"CAST({literal(text)} AS {duckdb_type(number)})", number, text)
    if re.fullmatch(r"\d+(\.\d+)?[eE][+-]?\d+", text):
        return Typed(f"CAST({literal(text)} AS DOUBLE)", Primitive.DOUBLE)
    raise NotCovered(reason=f"the number {text}")


def _negative(node: exp.Expr, scope: Scope) -> Typed:
    value = expression(node.this, scope)
    if value.type not in {*INTEGERS, Primitive.DOUBLE} and not isinstance(value.type, Decimal):
        raise NotCovered(reason=f"`{shown(node)}`")
    is_number = isinstance(node.this, exp.Literal)
    if is_number and value.name == str(2**31):
        # Spark reads the sign as part of it: an INT. For DuckDB the number alone is a BIGINT.
        raise NotCovered(reason=f"the number -{value.name}")
    return Typed(f"(-{value.sql})", value.type, f"-{value.name}" if is_number else None)


def _compared(node: exp.Expr, scope: Scope) -> Typed:
    left, right = expression(node.this, scope), expression(node.expression, scope)
    name = _infix(left, _COMPARISONS[type(node)], right)
    return Typed(f"({_compare(left, _COMPARISONS[type(node)], right)})", Primitive.BOOLEAN, name)


def _compare(left: Typed, sign: str, right: Typed) -> str:
    left, right = comparable(left, right)
    if not is_ordered(left.type) or not is_ordered(right.type):
        raise NotCovered(reason=f"a comparison of {left.type}")
    return f"{left.sql} {sign} {right.sql}"


def _unequal(node: exp.Expr, scope: Scope) -> Typed:
    left, right = expression(node.this, scope), expression(node.expression, scope)
    equal = _infix(left, "=", right)
    return Typed(f"({_compare(left, '<>', right)})", Primitive.BOOLEAN, equal and f"(NOT {equal})")


def _equal_or_null(node: exp.Expr, scope: Scope) -> Typed:
    left, right = expression(node.this, scope), expression(node.expression, scope)
    return Typed(f"({_compare(left, 'IS NOT DISTINCT FROM', right)})", Primitive.BOOLEAN, _infix(left, "<=>", right))


def _both(node: exp.Expr, scope: Scope) -> Typed:
    sign = "AND" if isinstance(node, exp.And) else "OR"
    left, right = condition(node.this, scope), condition(node.expression, scope)
    return Typed(f"({left.sql} {sign} {right.sql})", Primitive.BOOLEAN, _infix(left, sign, right))


def _not(node: exp.Expr, scope: Scope) -> Typed:
    value, inner = condition(node.this, scope), node.this
    name = value.name and f"(NOT {value.name})"
    if isinstance(inner, exp.Is):
        name = value.name and value.name.replace(" IS NULL)", " IS NOT NULL)")
    return Typed(f"(NOT {value.sql})", Primitive.BOOLEAN, name)


def _is(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "expression")
    if not isinstance(node.expression, exp.Null):
        raise NotCovered(reason=f"`{shown(node)}`")
    value = expression(node.this, scope)
    return Typed(f"({value.sql} IS NULL)", Primitive.BOOLEAN, value.name and f"({value.name} IS NULL)")


def _in(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "expressions")
    value = expression(node.this, scope)
    items = [expression(item, scope) for item in node.expressions]
    # Spark brings all of them to one type.
    if not items or not all(item.text is not None or item.type in {value.type, None} for item in items):
        common_type([value, *items])
    tests = " OR ".join(f"({_compare(value, '=', item)})" for item in items)
    names = [item.name for item in items]
    name = value.name and all(names) and f"({value.name} IN ({', '.join(map(str, names))}))"
    return Typed(f"({tests})", Primitive.BOOLEAN, name or None)


def _between(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "low", "high")
    value = expression(node.this, scope)
    low, high = (expression(node.args[end], scope) for end in ("low", "high"))
    return Typed(f"({_compare(value, '>=', low)} AND {_compare(value, '<=', high)})", Primitive.BOOLEAN)


def _like(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "expression", "negate")
    value, pattern = expression(node.this, scope), expression(node.expression, scope)
    if not value.is_text or pattern.text is None:
        raise NotCovered(reason=f"`{shown(node)}`: LIKE needs a string and a literal pattern")
    if node.args.get("negate"):
        return Typed(f"({value.sql} NOT LIKE {pattern.sql})", Primitive.BOOLEAN)
    return Typed(
        f"({value.sql} LIKE {pattern.sql})", Primitive.BOOLEAN, value.name and f"{value.name} LIKE {pattern.text}"
    )


def _arithmetic(node: exp.Expr, scope: Scope) -> Typed:
    left, right = expression(node.this, scope), expression(node.expression, scope)
    sign, kind = _ARITHMETIC[type(node)], _number_type(node, left, right)
    return Typed(f"({cast(left, kind).sql} {sign} {cast(right, kind).sql})", kind, _infix(left, sign, right))


def _divided(node: exp.Expr, scope: Scope) -> Typed:
    """Spark's `/` gives a DOUBLE, of integers too."""
    only(node, "this", "expression", "typed", "safe")
    left, right = expression(node.this, scope), expression(node.expression, scope)
    _number_type(node, left, right)
    above, below = cast(left, Primitive.DOUBLE).sql, cast(right, Primitive.DOUBLE).sql
    quotient = failing_unless(f"{below} <> 0", f"({above} / {below})", "division by zero")
    return Typed(quotient, Primitive.DOUBLE, _infix(left, "/", right))


def _remainder(node: exp.Expr, scope: Scope) -> Typed:
    left, right = expression(node.this, scope), expression(node.expression, scope)
    kind = _number_type(node, left, right)
    if kind not in INTEGERS:
        raise NotCovered(reason=f"`{shown(node)}`")
    above, below = cast(left, kind).sql, cast(right, kind).sql
    rest = failing_unless(f"{below} <> 0", f"({above} % {below})", "division by zero")
    return Typed(rest, kind, _infix(left, "%", right))


def _number_type(node: exp.Expr, left: Typed, right: Typed) -> HiveType:
    kind = common_type([left, right])
    if kind not in {*INTEGERS, Primitive.DOUBLE}:
        # Of decimals Spark derives precision and scale by rules of its own.
        raise NotCovered(reason=f"`{shown(node)}`, arithmetic of {kind}")
    return kind


def _case(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "ifs", "default")
    subject = expression(node.this, scope) if node.this else None
    whens = []
    for branch in node.args["ifs"]:
        if subject is None:
            test = condition(branch.this, scope).sql
        else:
            test = _compare(subject, "=", expression(branch.this, scope))
        whens.append((test, expression(branch.args["true"], scope)))
    default = expression(node.args["default"], scope) if node.args.get("default") else Typed("NULL", None)
    kind = common_type([value for _, value in whens] + [default])
    branches = " ".join(f"WHEN {test} THEN {cast(value, kind).sql}" for test, value in whens)
    return Typed(f"CASE {branches} ELSE {cast(default, kind).sql} END", kind)


def _if(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "true", "false")
    test = condition(node.this, scope)
    yes, no = expression(node.args["true"], scope), expression(node.args["false"], scope)
    kind = common_type([yes, no])
    return Typed(f"CASE WHEN {test.sql} THEN {cast(yes, kind).sql} ELSE {cast(no, kind).sql} END", kind)


def _coalesce(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "expressions")
    values = [expression(item, scope) for item in (node.this, *node.expressions)]
    kind = common_type(values)
    return Typed(
        f"COALESCE({', '.join(cast(value, kind).sql for value in values)})", kind, _call("coalesce", scope, *values)
    )


def _cast(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "to", "safe", "requires_string")
    wanted, value = node.args["to"], expression(node.this, scope)
    if wanted.expressions or wanted.args.get("nested"):
        raise NotCovered(reason=f"`{shown(node)}`")
    of = wanted.this.name
    if of in {"TIMESTAMPTZ", "TIMESTAMP"} and value.text is not None:
        return moment(value.text)
    if of == "DATE" and value.text is not None:
        return day(value.text)
    kind = {"TEXT": Primitive.STRING, "INT": Primitive.INT, "BIGINT": Primitive.BIGINT, "DOUBLE": Primitive.DOUBLE}.get(
        of
    )
    kind = Primitive.DATE if of == "DATE" else kind
    rewritten = _converted(value, kind)
    if kind is None or rewritten is None:
        raise NotCovered(reason=f"`{shown(node)}`, a cast of {value.type}")
    return Typed(rewritten, kind)


def _converted(value: Typed, kind: HiveType | None) -> str | None:  # noqa: PLR0911  a list of cases
    """None if the two engines don't do it alike."""
    if kind is None or value.type is None:
        return None
    target = f"CAST({value.sql} AS {duckdb_type(kind)})"
    if value.type == kind or (value.is_text and kind is Primitive.STRING):
        return target
    if value.type in INTEGERS and kind in {*INTEGERS, Primitive.DOUBLE, Primitive.STRING}:
        return target
    if value.type is Primitive.DATE and kind is Primitive.STRING:
        return target
    if value.type is Primitive.TIMESTAMP and kind is Primitive.DATE:
        return target
    if value.is_text and (kind in INTEGERS or kind is Primitive.DATE):
        # The texts that every Spark takes, and DuckDB doesn't round.
        pattern = _DATE_TEXT if kind is Primitive.DATE else _INT_TEXT
        return failing_unless(f"regexp_matches({value.sql}, {literal(pattern)})", target, "a text that Spark may cast")
    return None


def _cased(node: exp.Expr, scope: Scope) -> Typed:
    """Beyond ASCII the two know different versions of Unicode."""
    name, value = ("upper" if isinstance(node, exp.Upper) else "lower"), _text(node, scope)
    sql = failing_unless(f"strlen({value.sql}) = length({value.sql})", f"{name}({value.sql})", "letters beyond ASCII")
    return Typed(sql, Primitive.STRING, _call(name, scope, value))


def _length(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this")
    value = _text(node, scope)
    return Typed(f"CAST(length({value.sql}) AS INTEGER)", Primitive.INT, _call("length", scope, value))


def _trim(node: exp.Expr, scope: Scope) -> Typed:
    """Spaces alone, in both."""
    only(node, "this")
    value = _text(node, scope)
    return Typed(f"trim({value.sql}, ' ')", Primitive.STRING)


def _substring(node: exp.Expr, scope: Scope) -> Typed:
    only(node, "this", "start", "length")
    value, ends = _text(node, scope), [node.args.get("start"), node.args.get("length")]
    numbers = [int(end.this) for end in ends if isinstance(end, exp.Literal) and end.is_int]
    if len(numbers) != len([end for end in ends if end is not None]) or not numbers or numbers[0] < 1:
        raise NotCovered(reason=f"`{shown(node)}`: a substring from other than a literal place of 1 or more")
    return Typed(f"substring({', '.join([value.sql, *map(str, numbers)])})", Primitive.STRING)


def _joined(node: exp.Expr, scope: Scope) -> Typed:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    values = [expression(part, scope) for part in parts]
    if not values or not all(value.is_text for value in values):
        raise NotCovered(reason=f"`{shown(node)}` of other than strings")
    return Typed(f"({' || '.join(value.sql for value in values)})", Primitive.STRING)


def _text(node: exp.Expr, scope: Scope) -> Typed:
    value = expression(node.this, scope)
    if not value.is_text:
        raise NotCovered(reason=f"`{shown(node)}` of {value.type}")
    return value


def _absolute(node: exp.Expr, scope: Scope) -> Typed:
    value = expression(node.this, scope)
    if value.type not in {*INTEGERS, Primitive.DOUBLE}:
        raise NotCovered(reason=f"`{shown(node)}` of {value.type}")
    return Typed(f"abs({value.sql})", value.type, _call("abs", scope, value))


def _rounded(node: exp.Expr, scope: Scope) -> Typed:
    """Half up, by the decimal digits that both engines print."""
    only(node, "this", "decimals")
    value, places = expression(node.this, scope), node.args.get("decimals") or exp.Literal.number(0)
    if value.type is not Primitive.DOUBLE or not isinstance(places, exp.Literal) or str(places.this) not in "0123456":
        raise NotCovered(reason=f"`{shown(node)}`: rounding other than a DOUBLE to 0 to 6 places")
    digits = int(places.this)
    sql = f"CAST(CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38,{digits})) AS DOUBLE)"
    sql = failing_unless(f"abs({value.sql}) < {EXACT // 10**digits}", sql, "a number with too many digits to round")
    return Typed(sql, Primitive.DOUBLE, _call("round", scope, value, Typed("", None, str(digits))))


def _part_of_time(node: exp.Expr, scope: Scope) -> Typed:
    inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
    value, name = expression(inner, scope), type(node).__name__.lower()
    of_day = name not in {"hour", "minute", "second"}
    if value.type is not Primitive.TIMESTAMP and not (of_day and value.type is Primitive.DATE):
        raise NotCovered(reason=f"`{shown(node)}` of {value.type}")
    return Typed(f"CAST({name}({value.sql}) AS INTEGER)", Primitive.INT, _call(name, scope, value))


def _call(name: str, scope: Scope, *values: Typed) -> str | None:
    """A function's name as Spark shows it."""
    known = scope.names_known and all(value.name for value in values)
    return f"{name}({', '.join(str(value.name) for value in values)})" if known else None


def _infix(left: Typed, sign: str, right: Typed) -> str | None:
    return f"({left.name} {sign} {right.name})" if left.name and right.name else None


SCALARS: Mapping[type[exp.Expr], Rule] = {
    exp.Column: lambda node, scope: scope.column(node),  # type: ignore[arg-type]  # the key says that it is a Column
    exp.Paren: lambda node, scope: expression(node.this, scope),
    exp.Literal: _literal,
    exp.Null: lambda *_: Typed("NULL", None, "NULL"),
    exp.Boolean: lambda node, _: Typed(str(node.this).lower(), Primitive.BOOLEAN, str(node.this).lower()),
    exp.Neg: _negative,
    **dict.fromkeys(_COMPARISONS, _compared),
    exp.NEQ: _unequal,
    exp.NullSafeEQ: _equal_or_null,
    exp.And: _both,
    exp.Or: _both,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    exp.Div: _divided,
    exp.Mod: _remainder,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Upper: _cased,
    exp.Lower: _cased,
    exp.Length: _length,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.DPipe: _joined,
    exp.Concat: _joined,
    exp.Abs: _absolute,
    exp.Round: _rounded,
    **dict.fromkeys((exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour, exp.Minute, exp.Second), _part_of_time),
}
"""What both engines do alike, by the kind of expression."""
