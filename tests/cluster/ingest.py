"""Hive's servers on the cluster, and writers of their tables without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhive import hive

from hivesink.config.site import Site
from tests.ingest import Ingest

FROM_STATISTICS = {"hive.compute.query.using.stats": "true"}
BY_SCAN = {"hive.compute.query.using.stats": "false"}


class Hive:
    """`server` is host:port of a HiveServer2 without SASL; `settings` hold for the session."""

    def __init__(self, server: str, settings: Mapping[str, str] | None = None) -> None:
        host, _, port = server.rpartition(":")
        self._connection = hive.connect(host, port=int(port), auth="NOSASL", configuration=dict(settings or {}))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query; none for a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def one(self, sql: str) -> Any:
        """The only value of the only row."""
        ((value,),) = self.ask(sql)
        return value

    def explain(self, sql: str) -> str:
        """The plan, a line an operator."""
        return "\n".join(line for (line,) in self.ask(f"EXPLAIN {sql}"))

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Addresses:
    """Where the servers are, what a client's own files say of them, and the folder for tests' tables."""

    metastore: str
    hiveserver2: str
    tables: str
    site: Site

    def ingest(self, table: str, **settings: Any) -> Ingest:
        own = {"metastore": self.metastore, "site": self.site, "tolerant": True}
        return Ingest(table, **{**own, **settings})
