"""Statements over Parquet tables, answered by DuckDB in this process: no JVM, no extension, no network."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hivesink import wiring
from hivesink.errors import FilesVanished, NotCovered, Unsupported
from hivesink.sparksql.statement import translate
from hivesink.tables.parquet import create_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duckdb import DuckDBPyConnection

    from hivesink.config.site import Site
    from hivesink.core.table import HiveType, TableName, TableSpec
    from hivesink.ports import LiveTable, Registrar
    from hivesink.sparksql.statement import Translation

_SPARK = "spark.sql.sources."
_ON_FILES = {"parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "delta"}
"""What Spark takes for a format where it stands for a database: SELECT * FROM parquet.`/folder`."""
_SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of Python values, as PySpark's `collect` has them."""

    columns: list[str]
    types: list[HiveType | None]
    rows: list[tuple[Any, ...]]


def ask(sql: str, address: Callable[[], str], site: Site, *, most: int, in_utc: bool) -> Answer:
    """The first `most` rows of a statement over tables of the metastore at `address`, asked for if it names any.

    `in_utc`: Spark would show TIMESTAMPs in UTC. Tries again once if files vanish meanwhile. Raises NotCovered for
    whatever Spark might answer otherwise; QueryFailed for what no engine answers; UnknownTable, MetastoreUnreachable,
    StoreUnavailable, FilesVanished.
    """
    try:
        return _ask(sql, address, site, most=most, in_utc=in_utc)
    except FilesVanished:
        return _ask(sql, address, site, most=most, in_utc=in_utc)


def _ask(sql: str, address: Callable[[], str], site: Site, *, most: int, in_utc: bool) -> Answer:
    with closing(_Tables(lambda: wiring.Metastore.at("thrift", address(), site).registrar)) as tables:
        return _answer(translate(sql, tables.spec, most=most, in_utc=in_utc), tables, site)


def _answer(translation: Translation, tables: _Tables, site: Site) -> Answer:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="hivesink-duckdb-") as scratch:
        connection = duckdb.connect(":memory:", config={**_SETTINGS, "temp_directory": scratch})
        files: list[str] = []
        try:
            connection.execute("SET TimeZone = 'UTC'")
            for relation in translation.relations:
                table = tables.live[relation.table.name]
                store = wiring.file_store(table.location, site)
                files += create_view(connection, relation, table, tables.registrar, store)
            return _rows(connection, translation)
        except duckdb.Error as error:
            gone = [file for file in files if not os.path.exists(file)]  # noqa: PTH110  thousands of them
            if gone:
                raise FilesVanished(gone[0], len(gone)) from error
            raise NotCovered(reason=str(error).strip().splitlines()[0]) from error
        finally:
            connection.close()


def _rows(connection: DuckDBPyConnection, translation: Translation) -> Answer:
    rows = connection.execute(translation.sql).fetchall()
    return Answer([name for name, _ in translation.columns], [kind for _, kind in translation.columns], rows)


@dataclass(slots=True)
class _Tables:
    """The tables that a statement names. Connects with the first of them."""

    connect: Callable[[], Registrar]
    live: dict[TableName, LiveTable] = field(default_factory=dict)
    _registrar: Registrar | None = None

    @property
    def registrar(self) -> Registrar:
        if self._registrar is None:
            self._registrar = self.connect()
        return self._registrar

    def close(self) -> None:
        if self._registrar is not None:
            self._registrar.close()

    def spec(self, name: TableName) -> TableSpec:
        """Raises UnknownTable, NotCovered."""
        if name.database in _ON_FILES:
            raise NotCovered(reason=f"{name}, perhaps files without a table")
        if name not in self.live:
            try:
                live = self.registrar.table(name)
            except Unsupported as error:
                raise NotCovered(reason=f"{name}, which isn't a plain Parquet table") from error
            _require_hives_own(live.spec)
            if not live.location.startswith("file:"):
                raise NotCovered(reason=f"files that aren't on this machine ({live.location})")
            self.live[name] = live
        return self.live[name].spec


def _require_hives_own(spec: TableSpec) -> None:
    """Spark keeps a schema of its own beside Hive's, where it has made the table. Raises NotCovered."""
    own = {key: text for key, text in spec.properties if key.startswith(_SPARK)}
    names = re.findall(r'"name":"([^"]*)', "".join(own.values()))
    if f"{_SPARK}provider" in own or any(name != name.lower() for name in names):
        raise NotCovered(reason=f"{spec.name}, for which Spark keeps a schema of its own")
