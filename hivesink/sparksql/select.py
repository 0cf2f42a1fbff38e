"""SELECTs with joins, subqueries, WITH and UNION ALL, from Spark's SQL into DuckDB's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from hivesink.errors import NotCovered
from hivesink.sparksql.aggregates import AGGREGATES, grouped, order
from hivesink.sparksql.expressions import SCALARS, condition, expression
from hivesink.sparksql.scope import Relation, Scope, Source, table_name
from hivesink.sparksql.typed import Typed, common_type, only, quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.core.table import HiveType, TableName, TableSpec

    Lookup = Callable[[TableName], TableSpec]

_EVERYWHERE = {**SCALARS, **AGGREGATES}
_SIDES = {"LEFT", "RIGHT", "FULL"}


@dataclass(frozen=True, slots=True)
class Selected:
    """A query in DuckDB's SQL, with its columns; their `sql` is what the SELECT computes them by."""

    sql: str
    columns: tuple[Typed, ...]

    def as_source(self, alias: str) -> Source:
        """Raises NotCovered for columns without a name or a type."""
        columns: list[tuple[str, HiveType]] = []
        for column in self.columns:
            if column.name is None or column.type is None:
                msg = f"a subquery's column without a name or a type: write `AS` and a name in {alias}"
                raise NotCovered(msg)
            columns.append((column.name, column.type))
        return Source(alias, None, tuple(columns))


@dataclass(slots=True)
class Selects:
    """Translates the queries of one statement, and collects the tables in them."""

    lookup: Lookup
    in_utc: bool
    names_known: bool
    relations: list[Relation] = field(default_factory=list)

    def query(self, node: exp.Expr, outer: Mapping[str, Source], most: int | None = None) -> Selected:
        """A SELECT or UNION ALL. `outer`: what WITH has named so far, by lower case; `most`: rows at most.

        Raises what `translate` raises.
        """
        while isinstance(node, exp.Subquery):
            only(node, "this")
            node = node.this
        common, named = self._named(node.args.get("with_"), outer)
        if isinstance(node, exp.Union):
            found = self._union(node, named, most)
        elif isinstance(node, exp.Select):
            found = self._select(node, named, most)
        else:
            raise NotCovered(reason=f"`{shown(node)}`")
        return replace(found, sql=f"{common}{found.sql}")

    def _named(self, clause: exp.With | None, outer: Mapping[str, Source]) -> tuple[str, Mapping[str, Source]]:
        if clause is None:
            return "", outer
        only(clause, "expressions")
        named, texts = dict(outer), []
        for one in clause.expressions:
            only(one, "this", "alias")
            only(one.args["alias"], "this")
            query = self.query(one.this, named)
            named[one.alias.lower()] = query.as_source(one.alias)
            texts.append(f"{quoted(one.alias)} AS ({query.sql})")
        return f"WITH {', '.join(texts)} ", named

    def _union(self, node: exp.Union, named: Mapping[str, Source], most: int | None) -> Selected:
        if node.args.get("distinct"):
            raise NotCovered(reason="UNION without ALL")
        only(node, "this", "expression", "order", "limit", "with_")
        left, right = self.query(node.this, named), self.query(node.expression, named)
        if len(left.columns) != len(right.columns):
            raise NotCovered(reason="a UNION of different numbers of columns")
        for one, other in zip(left.columns, right.columns, strict=True):
            if one.type != other.type:
                common_type([one, other])
                raise NotCovered(reason="a UNION of different types")
        columns = tuple(replace(column, sql=str(place)) for place, column in enumerate(left.columns, 1))
        sql = f"({left.sql}) UNION ALL ({right.sql})"
        return Selected(f"{sql}{self._order(node, columns, None)}{_limit(node, most)}", columns)

    def _select(self, node: exp.Select, named: Mapping[str, Source], most: int | None) -> Selected:
        only(node, "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct", "with_")
        sources, origin = self._from(node, named)
        scope = Scope(sources, _EVERYWHERE, self.in_utc, self.names_known)
        scope.aliases |= {item.alias.lower() for item in node.expressions if isinstance(item, exp.Alias)}
        columns = tuple(column for item in node.expressions for column in _column(item, scope))
        parts = ["SELECT ", self._distinct(node, columns), ", ".join(map(_output, columns)), origin]
        parts += [self._where(node, scope), self._group(node, scope, columns)]
        if having := node.args.get("having"):
            parts.append(f" HAVING {_after(having.this, columns, scope).sql}")
        ordered = self._order(node, columns, scope)
        return Selected("".join([*parts, ordered, _limit(node, most)]), columns)

    def _distinct(self, node: exp.Select, columns: tuple[Typed, ...]) -> str:
        if not (distinct := node.args.get("distinct")):
            return ""
        only(distinct)
        for column in columns:
            grouped(column, "DISTINCT over")
        return "DISTINCT "

    def _from(self, node: exp.Select, named: Mapping[str, Source]) -> tuple[list[Source], str]:
        if not (origin := node.args.get("from_")):
            return [], ""
        source, sql = self._source(origin.this, named)
        sources, joins = [source], node.args.get("joins") or []
        if len({join.kind == "CROSS" for join in joins}) > 1:
            raise NotCovered(reason="CROSS JOIN, or a comma in FROM, beside other joins")
        for join in joins:
            only(join, "this", "kind", "side", "on")
            if join.side not in {"", *_SIDES} or join.kind not in {"", "INNER", "OUTER", "CROSS"}:
                raise NotCovered(f"{join.side} {join.kind} JOIN".strip())
            source, right = self._source(join.this, named)
            sources.append(source)
            on, kind = join.args.get("on"), "CROSS" if join.kind == "CROSS" else join.side
            if (on is None) != (kind == "CROSS"):
                raise NotCovered(reason="a join without ON")
            sql += f" {kind} JOIN {right}"
            if on is not None:
                sql += f" ON {condition(on, Scope(sources, SCALARS, self.in_utc, self.names_known)).sql}"
        return sources, f" FROM {sql}"

    def _source(self, node: exp.Expr, named: Mapping[str, Source]) -> tuple[Source, str]:
        alias = node.args.get("alias")
        if alias is not None:
            only(alias, "this")
        if isinstance(node, exp.Subquery):
            only(node, "this", "alias")
            query, name = self.query(node.this, named), node.alias or f"_{len(self.relations)}"
            return query.as_source(name), f"({query.sql}) AS {quoted(name)}"
        if not isinstance(node, exp.Table):
            raise NotCovered(reason=f"`{shown(node)}` in a FROM")
        only(node, "this", "db", "catalog", "alias")
        if not node.db and node.name.lower() in named:
            source, name = named[node.name.lower()], node.alias or node.name
            return replace(source, name=name), f"{quoted(source.name)} AS {quoted(name)}"
        table = self.lookup(table_name(node))
        name = node.alias or node.name
        relation = Relation(f"hivesink${len(self.relations)}", name, table)
        self.relations.append(relation)
        database = None if node.alias else table.name.database
        return Source(
            name, database, tuple(relation.types.items()), relation
        ), f"{quoted(relation.view)} AS {quoted(name)}"

    def _where(self, node: exp.Select, scope: Scope) -> str:
        if not (where := node.args.get("where")):
            return ""
        inner = replace(scope, rules=SCALARS)
        tests = [where.this] if not isinstance(where.this, exp.And) else list(where.this.flatten())
        found = [(test, condition(test, inner).sql) for test in tests]
        if not any(join.side for join in node.args.get("joins") or []):
            # Beside an outer join a condition may also ask for the rows that have no partner.
            for test, sql in found:
                _prune(test, sql, scope)
        return f" WHERE {' AND '.join(sql for _, sql in found)}"

    def _group(self, node: exp.Select, scope: Scope, columns: tuple[Typed, ...]) -> str:
        if not (group := node.args.get("group")):
            return ""
        only(group, "expressions")
        keys = []
        for key in group.expressions:
            place = _place(key, columns)
            if place is None and isinstance(key, exp.Column) and not _is_input(key, scope):
                place = _output_of(key, columns)
            keys.append(grouped(columns[place] if place is not None else expression(key, scope), "GROUP BY").sql)
        return f" GROUP BY {', '.join(keys)}"

    def _order(self, node: exp.Expr, columns: tuple[Typed, ...], scope: Scope | None) -> str:
        """Spark looks for a name in the outputs first. Without `scope` there is nothing else."""
        if not (clause := node.args.get("order")):
            return ""
        only(clause, "expressions")
        keys = []
        for key in clause.expressions:
            place = _place(key.this, columns)
            if place is None:
                place = _output_of(key.this, columns)
            if place is not None:
                keys.append(order(key, str(place + 1)))
            elif scope is None:
                raise NotCovered(reason=f"ORDER BY `{shown(key.this)}` of a UNION")
            else:
                keys.append(order(key, _after(key.this, columns, scope).sql))
        return f" ORDER BY {', '.join(keys)}"


def _column(item: exp.Expr, scope: Scope) -> list[Typed]:
    if isinstance(item, exp.Star):
        only(item)
        return scope.star([])
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        only(item.this)
        return scope.star([part.name for part in item.parts[:-1]])
    if isinstance(item, exp.Alias):
        return [replace(expression(item.this, scope), name=item.alias, text=None)]
    if isinstance(item, exp.Cast) and isinstance(item.this, exp.Column):
        # Spark names it by the column.
        return [replace(expression(item, scope), name=item.this.name)]
    return [replace(expression(item, scope), text=None)]


def _output(column: Typed) -> str:
    return column.sql if column.name is None else f"{column.sql} AS {quoted(column.name.lower())}"


def _place(key: exp.Expr, columns: tuple[Typed, ...]) -> int | None:
    """The index of the column that `ORDER BY 2` or `GROUP BY 2` means."""
    if not isinstance(key, exp.Literal) or key.args["is_string"]:
        return None
    if not key.is_int or not 1 <= int(key.this) <= len(columns):
        raise NotCovered(reason=f"{key.this} as a column's place")
    return int(key.this) - 1


def _output_of(key: exp.Expr, columns: tuple[Typed, ...]) -> int | None:
    """The index of the one output of that name."""
    if not isinstance(key, exp.Column) or key.table:
        return None
    found = [place for place, column in enumerate(columns) if (column.name or "").lower() == key.name.lower()]
    if len({columns[place].sql for place in found}) > 1:
        raise NotCovered(reason=f"several columns {key.name}")
    return found[0] if found else None


def _after(node: exp.Expr, columns: tuple[Typed, ...], scope: Scope) -> Typed:
    """`node` of ORDER BY or HAVING, whose names are columns of the sources or outputs. Raises NotCovered for both."""
    outputs = {}
    for column in node.find_all(exp.Column):
        place = _output_of(column, columns)
        if place is None:
            continue
        if _is_input(column, scope) and scope.column(column).sql != columns[place].sql:
            raise NotCovered(reason=f"{column.name}, which is a column and an alias")
        outputs[column.name.lower()] = columns[place]
    return expression(node, replace(scope, outputs=outputs))


def _is_input(column: exp.Column, scope: Scope) -> bool:
    qualifier = [part.name for part in column.parts[:-1]]
    return any(source.column(column.name) for source in scope.sources if not qualifier or source.called(qualifier))


def _limit(node: exp.Expr, most: int | None) -> str:
    clause = node.args.get("limit")
    if clause is None:
        return "" if most is None else f" LIMIT {most}"
    only(clause, "expression")
    if not isinstance(clause.expression, exp.Literal) or not clause.expression.is_int:
        raise NotCovered(reason=f"`{shown(clause)}`")
    wanted = int(clause.expression.this)
    return f" LIMIT {wanted if most is None else min(most, wanted)}"


def _prune(test: exp.Expr, sql: str, scope: Scope) -> None:
    """Give a condition to the one table on whose partition columns alone it depends."""
    found = scope.relations_of(test)
    relation = found[0] if found else None
    if relation is None or any(one is not relation for one in found):
        return
    if {column.name.lower() for column in test.find_all(exp.Column)} <= relation.partition_columns:
        relation.pruning.append(sql)
