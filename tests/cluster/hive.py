"""A HiveServer2 session of a test's own: what people at a beeline prompt see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyhive import hive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

FROM_STATISTICS = {"hive.compute.query.using.stats": "true"}
BY_SCAN = {"hive.compute.query.using.stats": "false"}


class Hive:
    """`server` is host:port of a HiveServer2 without SASL; `settings` hold for the session."""

    def __init__(self, server: str, settings: Mapping[str, str] | None = None) -> None:
        host, _, port = server.rpartition(":")
        self._connection = hive.connect(host, port=int(port), auth="NOSASL", configuration=dict(settings or {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

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
