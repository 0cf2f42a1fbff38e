"""The sink on real servers, without Spark: its tasks run in this process, its source is a counter of rows.

Everything else is what a job has: `wiring.OpenedWriter` makes log, store and registrar, and the committer decides. So a
test can stand between any two steps, and an epoch costs what the sink itself costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyhive import hive

from hivesink import wiring
from hivesink.config.site import NO_SITE, Site
from hivesink.core.epoch import BatchId, BatchRef
from hivesink.core.offsets import KafkaOffset
from hivesink.core.table import TableName
from hivesink.metastore import connect
from hivesink.sink.inspect.verify import Verdict, verify
from hivesink.sink.task.attempt import run_task
from hivesink.sink.task.messages import InputShape, TaskPlan, TaskReport
from tests.integration.stage import Wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from hivesink.sink.commit.committed import Committed
    from hivesink.sink.commit.committer import Committer


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
        return Ingest(**{"uri": self.metastore, "table": table, "site": self.site, **settings})


@dataclass
class Ingest:
    """One run of `writer` on `table` of the metastore at `uri`; `again` is the next run of the same query."""

    uri: str
    table: str
    writer: str = "ingest"
    options: Mapping[str, str] = field(default_factory=dict)
    tolerant: bool = True
    batches: int = 0
    rows: int = 0
    site: Site = NO_SITE

    def __post_init__(self) -> None:
        self.setup = wiring.OpenedWriter.open(
            table=TableName.parse(self.table),
            writer=self.writer,
            metastore=connect("thrift", self.uri, self.site),
            options={"sink.rolling-policy.on-epoch": "true", **self.options},
            site=self.site,
        )
        self.committer: Committer = self.setup.committer(tolerant=self.tolerant)

    def put(self, rows: pa.RecordBatch) -> Committed:
        """Commit one batch. Raises what the committer raises; the same batch may then be put once more."""
        end = self.rows + rows.num_rows
        ref = BatchRef(f"query of {self.writer}", BatchId(self.batches), (_at(self.rows),), (_at(end),))
        done = self.committer.commit(ref, InputShape(), lambda plan: self._write(plan, rows))
        self.batches, self.rows = self.batches + 1, end
        return done

    def again(self, **changed: Any) -> Ingest:
        """The query started anew by another process."""
        return replace(self, **changed)

    def finish(self) -> None:
        """The query's end."""
        self.committer.finish()

    def verify(self) -> Verdict:
        from hivesink.formats import measure

        return verify(self.setup.context, self.writer, self.table, measure)

    def staged(self) -> list[str]:
        """Hidden part files in the table's folder: orphans, where nothing runs."""
        store, location = self.setup.context.store, self.setup.spec.target.location
        return [path for folder in store.walk(location) for path in store.staged(folder)]

    def wrap(self, port: str, **methods: Any) -> None:
        """Put `methods` before those of a port; each gets the real one first."""
        self.set(port, Wrapped(getattr(self.setup.context, port), **methods))

    def set(self, name: str, value: object) -> None:
        """Replace a port, or a clock."""
        object.__setattr__(self.setup.context, name, value)

    def _write(self, plan: TaskPlan, rows: pa.RecordBatch) -> list[TaskReport]:
        return [run_task([rows], plan, self.setup.tools().open(plan), task=0, task_attempt=self.batches)]


def _at(row: int) -> KafkaOffset:
    return KafkaOffset.of({"rows": {"0": row}})
