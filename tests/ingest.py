"""A writer without Spark: its tasks run in this process, its source is a counter of batches.

Everything else is what a job has: `wiring.OpenedWriter` makes log, store and registrar, and the committer decides. So a
test can stand between any two steps, and an epoch costs what the sink itself costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from hivesink import wiring
from hivesink.config.site import NO_SITE, Site
from hivesink.core.epoch import BatchId, BatchRef, Epoch
from hivesink.core.offsets import KafkaOffset
from hivesink.core.table import TableName
from hivesink.formats import measure
from hivesink.metastore import connect
from hivesink.ports import Metastore
from hivesink.sink.commit.committed import Committed
from hivesink.sink.commit.committer import Committer
from hivesink.sink.inspect.verify import Verdict, verify
from hivesink.sink.task.attempt import run_task
from hivesink.sink.task.messages import InputShape, TaskPlan, TaskReport

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

COLUMNS = InputShape()


class Wrapped:
    """Passes everything on to `inner`, but for the methods that are given."""

    def __init__(self, inner: Any, **methods: Any) -> None:
        self._inner = inner
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        method = self._methods.get(name)
        if method is None:
            return found
        return lambda *args, **kwargs: method(found, *args, **kwargs)


@dataclass
class Ingest:
    """One run of `writer` on `table` of the metastore at that address, or of `registrar`; `again` is its next run."""

    table: str
    metastore: str
    writer: str = "ingest"
    batches: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    append: Epoch | None = None
    tolerant: bool = False
    site: Site = NO_SITE
    query: str = "q"
    registrar: Metastore | None = None
    usual: ClassVar[Mapping[str, str]] = {"sink.rolling-policy.on-epoch": "true"}

    def __post_init__(self) -> None:
        self.setup = wiring.OpenedWriter.open(
            table=TableName.parse(self.table),
            writer=self.writer,
            metastore=self.registrar or connect("thrift", self.metastore, self.site),
            append=self.append,
            options={**self.usual, **self.options},
            site=self.site,
        )
        self.committer: Committer = self.setup.committer(tolerant=self.tolerant)

    def put(
        self,
        rows: pa.RecordBatch,
        shape: InputShape = COLUMNS,
        start: KafkaOffset | None = None,
        end: KafkaOffset | None = None,
    ) -> Committed:
        """Commit one batch, of ten offsets of topic `t` unless others are given.

        Raises what the committer raises; the same batch may then be put once more.
        """
        first = self.batches * 10
        ref = BatchRef(self.query, BatchId(self.batches), (start or kafka(first),), (end or kafka(first + 10),))
        done = self.committer.commit(ref, shape, lambda plan: self._write(plan, rows))
        self.batches += 1
        return done

    def _write(self, plan: TaskPlan, rows: pa.RecordBatch) -> list[TaskReport]:
        return [run_task([rows], plan, self.setup.tools().open(plan), 0, 0)]

    def again(self, **changed: Any) -> Self:
        """The query started anew by another process."""
        return replace(self, **changed)

    def finish(self) -> None:
        """The query's end."""
        self.committer.finish()

    def verify(self) -> Verdict:
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

    def close(self) -> None:
        self.setup.context.registrar.close()


def kafka(offset: int) -> KafkaOffset:
    return KafkaOffset.of({"t": {"0": offset}})
