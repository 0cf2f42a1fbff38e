"""Queries through HiveServer2, Hive's own or Spark's, with Python's own values.

>>> with hivesink.hive.connect("hive.example:10000", Login("LDAP", "me", password)) as hive:
...     hive.query("SELECT dt, count(*) FROM demo.flights GROUP BY dt").rows
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType, tokenize
from sqlglot.errors import SqlglotError

from hivesink.core.table import HiveType, Primitive, quoted
from hivesink.core.typetext import known_type
from hivesink.errors import QueryFailed, SourceUnreachable
from hivesink.hive.session import BROKEN, REFUSED, Auth, Login, Result, Session, host_and_port, reason
from hivesink.hive.values import day, nested

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


__all__ = ["Auth", "Column", "Hive", "Login", "Rows", "connect"]

_NESTED = {"ARRAY_TYPE", "MAP_TYPE", "STRUCT_TYPE"}
_MARK = "hivesink_"
_PLAN_STRUCT = re.compile(rf"\(type: struct<({_MARK}(?:[^()]|\([\d,]+\))*)>\)")
"""Of all types only decimal, char and varchar have parentheses."""


@dataclass(frozen=True, slots=True)
class Column:
    """`type` is Hive's text; a bare `array`, `map` or `struct` where the server doesn't send its parts."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A result, with Python's own values.

    BOOLEAN, integers, FLOAT (also NaN and Infinity), DECIMAL, STRING, BINARY, DATE and TIMESTAMP are bool, int,
    float, Decimal, str, bytes, date and datetime; ARRAY is a list, MAP and STRUCT are dicts, NULL is None. Other
    types, nested ones of unknown parts, and dates and times outside the years 1 to 9999 are text. CHAR has its
    trailing spaces where Hive sends them.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


def connect(address: str, login: Login | None = None, *, hive: Mapping[str, str] | None = None) -> Hive:
    """A session at `address`, host:port (10000 where no port is named). Its first statement connects.

    Without `login`, that of `hive` is used, the properties of a site's hive-site.xml. Raises InvalidOption for an
    address or a login that can't be.
    """
    used = login or Login.of(hive or {})
    used.check()
    return Hive(Session(*host_and_port(address), used))


class Hive(AbstractContextManager["Hive"]):
    """A session: settings and temporary tables hold until it is closed, or its connection breaks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def query(self, sql: str, *, most: int | None = None) -> Rows:
        """Run one statement, and return its columns and rows; at most `most` of these are fetched, all without it.

        It waits for as long as the server works. For nested columns a second statement asks for their types, since
        results name them only `array`, `map` or `struct`: EXPLAIN on Hive, DESCRIBE QUERY on Spark. Raises QueryFailed
        (with the server's words), SourceUnreachable, InvalidOption; Unsupported for a value that the server sends
        ambiguously.
        """
        where = f"HiveServer2 at {self._session.host}:{self._session.port}"
        try:
            with self._session.lock:
                text = _bare(sql)
                result = self._session.run(text, most)
                types = self._types(text, result)
                spark = bool(types) and self._session.spark
        except BROKEN as error:
            auth = self._session.login.auth
            hint = f"is it running, and is {auth} its hive.server2.authentication?"
            raise SourceUnreachable(where, f"{reason(error)}; {hint}") from error
        except REFUSED as error:
            raise QueryFailed(reason=f"{reason(error)} ({where})") from error
        columns = tuple(
            Column(name, str(types[index]) if index in types else kind.removesuffix("_TYPE").lower())
            for index, (name, kind) in enumerate(result.columns)
        )
        reads = [_reader(kind, types.get(index), spark=spark) for index, (_, kind) in enumerate(result.columns)]
        cells = (zip(reads, row, strict=True) for row in result.rows)
        return Rows(columns, tuple(tuple(cell if cell is None else read(cell) for read, cell in row) for row in cells))

    def close(self) -> None:
        """End the session; a later statement begins another one."""
        self._session.close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _types(self, text: str, result: Result) -> dict[int, HiveType]:
        wanted = [index for index, (_, kind) in enumerate(result.columns) if kind in _NESTED]
        if not wanted:
            return {}
        try:
            if self._session.spark:
                rows = self._session.run(f"DESCRIBE QUERY {text}").rows
                return _parsed({index: str(rows[index][1]) for index in wanted})
            # Hive shows the types of any query only in its plan, where the names of this struct's fields mark them.
            names = [result.columns[index][0].rpartition(".")[2] for index in wanted]
            fields = ", ".join(f"'{_MARK}{index}', q.{quoted(name)}" for index, name in zip(wanted, names, strict=True))
            rows = self._session.run(f"EXPLAIN SELECT named_struct({fields}) FROM ({text}) q").rows  # noqa: S608  the user's own
            return _parsed(_from_plan("\n".join(str(row[0]) for row in rows)))
        except REFUSED:
            # The statement is no query, or two of its columns have one name.
            return {}


def _bare(sql: str) -> str:
    """The statement without semicolons and comments after it: Hive takes no semicolon, and `_types` writes on."""
    try:
        tokens = tokenize(sql, read="hive")
    except SqlglotError:
        return sql.strip().rstrip(";")
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return sql[: tokens[-1].end + 1].strip() if tokens else sql.strip()


def _from_plan(plan: str) -> dict[int, str]:
    """The fields of the first `struct<hivesink_0:array<int>,hivesink_3:…>` in a plan, by number."""
    match = _PLAN_STRUCT.search(plan)
    if match is None:
        return {}
    _, *fields = re.split(rf",?{_MARK}(\d+):", match[1])
    return {int(number): kind for number, kind in zip(fields[::2], fields[1::2], strict=True)}


def _parsed(texts: Mapping[int, str]) -> dict[int, HiveType]:
    """The types that the sink knows; others, such as with an interval or a union in it, stay text."""
    types = {index: known_type(text) for index, text in texts.items()}
    return {index: kind for index, kind in types.items() if kind is not None}


def _reader(kind: str, of: HiveType | None, *, spark: bool) -> Callable[[Any], Any]:
    if kind == "DATE_TYPE":
        return day
    if of is None or isinstance(of, Primitive):
        return lambda cell: cell
    return lambda text: nested(text, of, spark=spark)
