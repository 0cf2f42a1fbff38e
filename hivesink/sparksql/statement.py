"""A whole statement: whether it is covered, and what DuckDB is asked instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hivesink.errors import NotCovered, QueryFailed
from hivesink.errors.base import meant
from hivesink.sparksql.expressions import keeps_names
from hivesink.sparksql.select import Selects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.table import HiveType
    from hivesink.sparksql.scope import Relation
    from hivesink.sparksql.select import Lookup

_QUERIES = {"SELECT", "WITH", "("}
# fmt: off
_OTHERS = frozenset(
    [
        "ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "CLOSE", "COMMENT", "COMMIT", "CREATE",
        "DECLARE", "DELETE", "DESC", "DESCRIBE", "DFS", "DROP", "END", "EXECUTE", "EXPLAIN", "EXPORT",
        "FETCH", "FROM", "GRANT", "IMPORT", "INSERT", "LIST", "LOAD", "LOCK", "MAP", "MERGE", "MSCK", "OPEN",
        "REDUCE", "REFRESH", "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK", "SET", "SHOW", "START",
        "SYNC", "TABLE", "TRUNCATE", "UNCACHE", "UNLOCK", "UNSET", "UPDATE", "USE", "VALUES",
    ]
)
# fmt: on
"""The words that statements begin with in Spark's grammar (SqlBaseParser.g4, `statement`)."""
_COMMENTS = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*(?!\+).*?\*/", re.DOTALL)
_CHAR = re.compile(r"\b(?:char|varchar)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Translation:
    """What to ask DuckDB, the names and types of the answer's columns in Spark, and the tables that it needs."""

    sql: str
    columns: tuple[tuple[str, HiveType | None], ...]
    relations: tuple[Relation, ...]


def translate(sql: str, lookup: Lookup, *, most: int, in_utc: bool) -> Translation:
    """`sql`, one statement of Spark's, for DuckDB; of its rows the first `most`.

    `lookup` returns a table's columns. `in_utc`: Spark would show a TIMESTAMP as it was written. Raises NotCovered for
    what DuckDB isn't sure to answer as Spark does; QueryFailed for what is no statement, and for a column that isn't
    there; and what `lookup` raises.
    """
    tree = _parsed(sql)
    selects = Selects(lookup, in_utc=in_utc, names_known=keeps_names(sql))
    selected = selects.query(tree, {}, most)
    unnamed = [column.sql for column in selected.columns if column.name is None]
    if unnamed:
        raise NotCovered(reason="a column without a name: write `AS` and a name after each expression")
    columns = tuple((column.name or "", column.type) for column in selected.columns)
    return Translation(selected.sql, columns, tuple(selects.relations))


def _parsed(sql: str) -> exp.Expr:
    word = first_word(sql)
    if word not in _QUERIES:
        raise NotCovered(reason=f"{word} statements")
    if "\\" in sql:
        raise NotCovered(reason="a backslash, as which Spark's literals may hold any character")
    if "${" in sql:
        raise NotCovered(reason="${…}, which Spark replaces by a setting")
    if _CHAR.search(sql):
        # sqlglot takes them for STRING.
        raise NotCovered(reason="CHAR and VARCHAR in a statement")
    try:
        kinds = [token.token_type for token in sqlglot.tokenize(sql, read="spark")]
        trees: Sequence[exp.Expr | None] = sqlglot.parse(sql, read="spark")
    except SqlglotError as error:
        reason = str(error).partition(". Line")[0]
        raise NotCovered(reason=f"a syntax that its parser doesn't know ({reason})") from error
    if (sqlglot.TokenType.STRING,) * 2 in pairwise(kinds):
        raise NotCovered(reason="a text right after another: 'a''b' is a'b to Spark 4, and ab before")
    if len(trees) != 1 or trees[0] is None:
        raise NotCovered(reason="several statements at once")
    return trees[0]


def first_word(sql: str) -> str:
    """The word that a statement begins with, in upper case. Raises QueryFailed if no statement of Spark's does."""
    at = 0
    while found := _COMMENTS.match(sql, at):
        at = found.end()
        if found.end() == found.start():
            break
    text = re.match(r"\w+|.?", sql[at:], re.DOTALL)
    word = text[0].upper() if text else ""
    if word in _QUERIES or word in _OTHERS:
        return word
    if not word:
        raise QueryFailed(reason="the statement is empty")
    hint = meant(word, [*_QUERIES, *_OTHERS])
    raise QueryFailed(reason=f"no statement begins with {text[0] if text else word!r}{hint}")
