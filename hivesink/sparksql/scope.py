"""What the names of one SELECT mean: tables of the metastore, subqueries, columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from hivesink.core.table import Array, Char, HiveType, Map, Primitive, Struct, TableName
from hivesink.errors import NotCovered, QueryFailed
from hivesink.sparksql.typed import Typed, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.core.table import TableSpec

    Rule = Callable[[exp.Expr, "Scope"], Typed]

# Spark takes these for functions, or for columns of its own, where no column has the name.
_SPARKS_OWN = re.compile(r"current_\w+|user|session_user|localtimestamp|_metadata|grouping__id|rowid")


@dataclass(slots=True)
class Relation:
    """One mention of a table. DuckDB finds its rows in the view `view`, which needs the columns in `used` only.

    `pruning`: conditions on partition columns alone, which every row of the answer comes from; their columns are
    qualified by `alias`.
    """

    view: str
    alias: str
    table: TableSpec
    used: set[str] = field(default_factory=set)
    pruning: list[str] = field(default_factory=list)

    @property
    def types(self) -> dict[str, HiveType]:
        """By name, in the table's order, partition columns last."""
        return {column.name: column.type for column in (*self.table.columns, *self.table.partition_columns)}

    @property
    def partition_columns(self) -> set[str]:
        return {column.name for column in self.table.partition_columns}


@dataclass(frozen=True, slots=True)
class Source:
    """What stands in a FROM. `name` is its alias, or the table's own; `database` is None under an alias.

    `columns` are names, as written, and types; `relation` is None for a subquery.
    """

    name: str
    database: str | None
    columns: tuple[tuple[str, HiveType], ...]
    relation: Relation | None = None

    def called(self, qualifier: list[str]) -> bool:
        names = [self.name] if self.database is None else [self.database, self.name]
        return [part.lower() for part in qualifier] == names[-len(qualifier) :]

    def column(self, name: str) -> list[Typed]:
        """The columns of that name, case aside."""
        return [self._typed(own, kind, name) for own, kind in self.columns if own.lower() == name.lower()]

    def all(self) -> list[Typed]:
        return [self._typed(own, kind, own) for own, kind in self.columns]

    def _typed(self, own: str, kind: HiveType, written: str) -> Typed:
        if self.relation is not None:
            self.relation.used.add(own)
        return Typed(f"{quoted(self.name)}.{quoted(own.lower())}", kind, written)


@dataclass(slots=True)
class Scope:
    """The sources of one SELECT and the aliases of its columns, by lower case."""

    sources: list[Source]
    rules: Mapping[type[exp.Expr], Rule]
    """How to translate each kind of expression that is allowed here."""
    in_utc: bool
    """Spark shows a TIMESTAMP as the wall clock that was written."""
    names_known: bool
    """The names of functions are those that the statement wrote."""
    aliases: set[str] = field(default_factory=set)
    outputs: Mapping[str, Typed] = field(default_factory=dict)
    """What ORDER BY and HAVING may name beside the columns of the sources, by lower case."""

    def column(self, node: exp.Column) -> Typed:
        """The one column that `node` names. Raises QueryFailed if there is none, NotCovered."""
        *qualifier, name = [part.name for part in node.parts]
        sources = [source for source in self.sources if not qualifier or source.called(qualifier)]
        found = [column for source in sources for column in source.column(name)]
        if len(found) == 1:
            return self.readable(found[0])
        if found:
            raise NotCovered(reason=f"several columns {name}")
        if qualifier and any(source.column(qualifier[0]) for source in self.sources):
            raise NotCovered(reason=f"a field of the column {qualifier[0]}")
        if not qualifier and name.lower() in self.outputs:
            return self.outputs[name.lower()]
        written = ".".join([*qualifier, name])
        if name.lower() in self.aliases or _SPARKS_OWN.fullmatch(name.lower()):
            raise NotCovered(reason=f"{written}, which is no column of a table")
        if not self.sources:
            raise QueryFailed(reason=f"no column {written}: the statement has no FROM")
        known = "; ".join(f"{one.name} has {', '.join(own for own, _ in one.columns)}" for one in self.sources)
        raise QueryFailed(reason=f"no column {written}; {known}")

    def star(self, qualifier: list[str]) -> list[Typed]:
        """All columns of `qualifier.*`, or of every source. Raises QueryFailed, NotCovered."""
        sources = [source for source in self.sources if not qualifier or source.called(qualifier)]
        if not sources:
            raise NotCovered(reason=f"{'.'.join([*qualifier, '*'])}")
        return [self.readable(column) for source in sources for column in source.all()]

    def readable(self, column: Typed) -> Typed:
        """`column`, if its values are the same in both engines. Raises NotCovered."""
        if isinstance(column.type, (Array, Map, Struct, Char)):
            raise NotCovered(reason=f"the column {column.name} of type {column.type}")
        if column.type is Primitive.TIMESTAMP and not self.in_utc:
            msg = f"the TIMESTAMP column {column.name}: Spark shows it in this machine's zone, which isn't UTC"
            raise NotCovered(msg)
        return column

    def relations_of(self, node: exp.Expr) -> list[Relation | None]:
        """The tables whose columns an expression needs; None for those of a subquery."""
        found: list[Relation | None] = []
        for column in node.find_all(exp.Column):
            *qualifier, name = [part.name for part in column.parts]
            found += [
                source.relation
                for source in self.sources
                if (not qualifier or source.called(qualifier)) and source.column(name)
            ]
        return found


def table_name(node: exp.Table) -> TableName:
    """Raises NotCovered for what names no table of the metastore."""
    if node.args.get("catalog") or not node.name or not node.this.is_leaf():
        raise NotCovered(reason=f"`{node.sql('spark')}` in a FROM")
    return TableName((node.db or "default").lower(), node.name.lower())
