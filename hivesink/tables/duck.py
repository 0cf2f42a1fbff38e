"""A quick look at tables: a SELECT of Spark's, translated by sqlglot, over the tables' files, in DuckDB."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import ErrorLevel, TokenType, exp
from sqlglot.errors import SqlglotError

from hivesink import wiring
from hivesink.core.table import TableName
from hivesink.core.typetext import known_type
from hivesink.errors import InvalidOption, NotCovered, Unsupported
from hivesink.logs import file_store
from hivesink.tables.dataset import live_files, partition_values, table_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hivesink.config.site import Site
    from hivesink.core.table import HiveType, TableSpec
    from hivesink.ports import LiveTable, Metastore

    Answer = tuple[Sequence[str], Sequence[HiveType | None], Sequence[Sequence[Any]]]

_SETTINGS: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_SPARKS_OWN = "spark.sql.sources.provider"
"""The property of a table whose columns Spark keeps in other properties."""


def ask(sql: str, address: Callable[[], str], site: Site, most: int) -> Answer:
    """The columns' names and types, and the first `most` rows. `address` gives the metastore's, if a table is named.

    Raises NotCovered for what sqlglot or DuckDB refuses, and for tables that DuckDB would read otherwise than Spark;
    UnknownTable, MetastoreUnreachable, StoreUnavailable.
    """
    with ExitStack() as resources:
        try:
            tree = _parsed(sql)
            scratch = resources.enter_context(tempfile.TemporaryDirectory(prefix="hivesink-duckdb-"))
            connection = resources.enter_context(
                closing(duckdb.connect(config={**_SETTINGS, "temp_directory": scratch}))
            )
            connection.execute("SET TimeZone = 'UTC'")
            if tables := _tables(tree):
                registrar = wiring.MetastoreAddress.at("thrift", address(), site).registrar
                resources.enter_context(closing(registrar))
                for number, table in enumerate(tables):
                    _register(connection, f"hivesink_{number}", table, registrar, site)
            limited = tree if tree.args.get("limit") else tree.limit(most)
            answer = connection.execute(limited.sql("duckdb", identify=True, unsupported_level=ErrorLevel.RAISE))
            names, kinds = (
                [column[0] for column in answer.description],
                [str(column[1]) for column in answer.description],
            )
            # By these a FLOAT in the answer gets its own digits.
            hive = [exp.DataType.build(kind, dialect="duckdb", udt=True).sql("hive") for kind in kinds]
            return names, [known_type(kind) for kind in hive], answer.fetchmany(most)
        except (SqlglotError, duckdb.Error, pa.ArrowException, FileNotFoundError, InvalidOption, Unsupported) as error:
            raise NotCovered(str(error).strip().partition("\n")[0]) from error


def _parsed(sql: str) -> exp.Query:
    """A single SELECT, its columns named and its times without zone. Raises NotCovered, SqlglotError."""
    tokens = [token.token_type for token in sqlglot.tokenize(sql, read="spark")]
    # What isn't a query makes the parser log a warning.
    if not tokens or tokens[0] not in {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}:
        raise NotCovered(reason="it isn't a SELECT")
    if "\\" in sql or (TokenType.STRING, TokenType.STRING) in pairwise(tokens):
        raise NotCovered(reason="a text with a backslash or a doubled quote, which Spark's versions read differently")
    trees = sqlglot.parse(sql, read="spark")
    tree = trees[0]
    if len(trees) != 1 or not isinstance(tree, exp.Query):
        raise NotCovered(reason="it isn't a single SELECT")
    for kind in tree.find_all(exp.DataType):
        if kind.this == exp.DType.TIMESTAMPTZ:
            kind.set("this", exp.DType.TIMESTAMP)
    for projection in tree.expressions if isinstance(tree, exp.Select) else ():
        # DuckDB would name count(*) count_star().
        if not projection.output_name and not isinstance(projection, exp.Explode):
            text = projection.sql("spark", normalize_functions="lower")
            projection.replace(exp.alias_(projection.copy(), text, quoted=True))
    return tree


def _tables(tree: exp.Query) -> list[exp.Table]:
    """Where the statement names tables of the metastore. Raises NotCovered for functions and files in a FROM."""
    local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables = [table for table in tree.find_all(exp.Table) if table.db or table.name.lower() not in local]
    for table in tables:
        if table.catalog or not isinstance(table.this, exp.Identifier) or "/" in table.name:
            raise NotCovered(reason=f"{table.sql('spark')} is no table of the metastore")
    return tables


def _register(
    connection: duckdb.DuckDBPyConnection, view: str, table: exp.Table, registrar: Metastore, site: Site
) -> None:
    """Give DuckDB the rows of `table` as `view`, and let the statement name that."""
    live = registrar.table(TableName((table.db or "default").lower(), table.name.lower()))
    if _SPARKS_OWN in live.spec.options:
        raise NotCovered(reason=f"Spark keeps another schema of {live.spec.name}")
    store = file_store(live.location, site)
    partitions = registrar.lookup(live, _needed_partitions(connection, table, live, registrar))
    files = live_files(live, partitions, store)
    connection.register(view, table_dataset(live.spec, _used(table.root(), live.spec), files, store))
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
    table.replace(exp.Table(**{**table.args, "this": exp.to_identifier(view), "db": None, "alias": alias}))


def _used(tree: exp.Expr, spec: TableSpec) -> set[str]:
    """The columns that a statement may need: those whose name is anywhere in it, or all if it has a `*`."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return {column.name for column in (*spec.columns, *spec.partition_columns)}
    if any(join.method == "NATURAL" for join in tree.find_all(exp.Join)):
        raise NotCovered(reason="a NATURAL JOIN")
    return {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}


def _needed_partitions(
    connection: duckdb.DuckDBPyConnection, table: exp.Table, live: LiveTable, registrar: Metastore
) -> Sequence[str]:
    """The partitions that can have rows for the statement, by the WHERE around `table`."""
    names = registrar.names(live)
    conditions = _conditions(table, {column.name for column in live.spec.partition_columns})
    if not conditions:
        return names
    connection.register("hivesink_partitions", partition_values(live.spec, names))
    query = exp.select("place").from_(exp.alias_(exp.to_table("hivesink_partitions"), table.alias_or_name, table=True))
    places = connection.execute(query.where(*conditions).sql("duckdb", identify=True)).fetchall()
    return [names[place] for (place,) in places]


def _conditions(table: exp.Table, columns: Collection[str]) -> list[exp.Expr]:
    """Those of the WHERE around `table` that are on `columns` of it alone, and that each of its rows must meet."""
    select = table.parent_select
    if not isinstance(select, exp.Select) or table.parent is None or table.parent.parent is not select:
        return []
    where = select.args.get("where")
    if where is None or table.args.get("pivots"):
        return []
    joins = select.args.get("joins") or []
    # An outer join makes rows of nulls, which meet conditions by themselves.
    if any(join.side for join in joins):
        return []
    alias, is_alone = table.alias_or_name.lower(), not joins and not select.args.get("laterals")

    def is_own(column: exp.Column) -> bool:
        owner = column.table.lower()
        return column.name.lower() in columns and (owner == alias or (is_alone and not owner))

    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    named = [(part, list(part.find_all(exp.Column))) for part in parts if not part.find(exp.Query)]
    return [part.copy() for part, inner in named if inner and all(map(is_own, inner))]
