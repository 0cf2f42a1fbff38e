"""The sink as Spark sees it: a callable for `foreachBatch`, and a handle for the query. It only translates."""

from __future__ import annotations

import gc
import logging
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hivesink import errors, shipping, wiring
from hivesink.core.checkpoint import batch_ref
from hivesink.core.epoch import BatchId, Epoch, Ways
from hivesink.core.table import TableName
from hivesink.errors import (
    CheckpointUnreadable,
    HiveSinkError,
    InvalidOption,
    ModuleMissing,
    TaskFailed,
    Unsupported,
)
from hivesink.query import HiveQuery
from hivesink.sink.plan import TaskPlan, TaskReport
from hivesink.sink.task import run_task
from hivesink.sparkinput import checkpoint_reader, input_shape, needed_input
from hivesink.sparksite import check_encryption, resolved_checkpoint, site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hivesink.sink.committer import Committer
    from hivesink.sink.declared import Committed
    from hivesink.site import Site

logger = logging.getLogger("hivesink")

_REPORT = "report string"
_TRIGGERS = {"processingTime", "availableNow", "once"}


class HiveSink:
    """Writes a stream into one Hive table, each event exactly once.

        sink = HiveSink.for_table(spark, "demo.userinfo", writer="userinfo")
        query = sink.start(events, checkpoint="…", trigger={"processingTime": "5 seconds"})

    `events.writeStream.foreachBatch(sink)` works as well: recovery then begins at the first batch, a failed
    registration raises at once, and nothing is retried while no data comes.
    """

    def __init__(self, spark: SparkSession, setup: wiring.Setup) -> None:
        shipping.ship(spark)
        self._spark = spark
        self._setup = setup
        self._committer: Committer = setup.committer(tolerant=False)
        self._checkpoint: str | None = None
        self._run: str | None = None
        self._query: HiveQuery | None = None
        self.failure: BaseException | None = None

    @classmethod
    def for_table(
        cls,
        spark: SparkSession,
        table: str,
        *,
        writer: str | None = None,
        metastore: str | None = None,
        site: Site | None = None,
        registrar: str = "thrift",
        resume: bool = False,
        append: int | None = None,
        options: Mapping[str, str] | None = None,
        on_commit: Callable[[Committed], None] | None = None,
    ) -> HiveSink:
        """The sink for `table`, with the settings in its TBLPROPERTIES; `options` go before those.

        `writer` names this ingest and its log; under `hivesink run` the job file's stem is its default.
        `metastore` is one Thrift URI or several, by default `$HIVESINK_METASTORE`, then the session's own
        `hive.metastore.uris`, then `hive-site.xml`'s. `site` stands for the site's files (`$HADOOP_CONF_DIR`,
        `$HIVE_CONF_DIR`) under the session's Hadoop configuration. `registrar` is `thrift`, or `hiveserver2` with
        `metastore` as host:port. `resume` and `append` are the ways on that an error about a lost checkpoint names.
        `on_commit` is called after every batch.

        Raises UnknownTable, Unsupported, InvalidOption, SiteInvalid, MetastoreUnreachable, NotWritable,
        EncryptionDiffers; ForeignParts and TableRemade where the log and the table don't belong together.
        """
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            msg = "Spark Connect"
            raise Unsupported(msg, "the sink lives in the driver's process", "use a classic session")
        name = writer or os.environ.get("HIVESINK_WRITER")
        if not name:
            problem = "writer is missing: name this ingest, as in HiveSink.for_table(spark, table, writer='clicks')"
            raise InvalidOption((problem,))
        site = site or site_of(spark)
        uri = metastore or os.environ.get("HIVESINK_METASTORE") or site.metastore_uris
        if not uri:
            problem = (
                "no metastore: point HIVE_CONF_DIR to the folder of hive-site.xml, set hive.metastore.uris in Spark's "
                "Hive configuration, or pass metastore="
            )
            raise InvalidOption((problem,))
        setup = wiring.Setup.open(
            table=_table_name(table),
            writer=name,
            metastore=wiring.Metastore.at(registrar, uri, site),
            ways=Ways(resume=resume, append=None if append is None else Epoch(append)),
            options=options or {},
            site=site,
            check=lambda location, log: check_encryption(spark, (location,), log),
            on_commit=on_commit,
        )
        return cls(spark, setup)

    @property
    def setup(self) -> wiring.Setup:
        """What this sink is wired from: log, store, registrar, table."""
        return self._setup

    @property
    def committer(self) -> Committer:
        """The committer of the query that was started last."""
        return self._committer

    def start(
        self,
        events: DataFrame,
        *,
        checkpoint: str,
        trigger: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> HiveQuery:
        """Recover, then start the query. `trigger` is as for `DataStreamWriter.trigger`.

        Raises what recovery raises: another run at work (EpochTaken), a damaged log, lost parts; Unsupported for
        other triggers, for a checkpoint on this machine's disk and a cluster's master, and while a query of this sink
        still runs.
        """
        if self._query is not None and self._query.isActive:
            msg = f"starting the sink of {self._setup.target.name} twice"
            raise Unsupported(msg, "its query still runs", "stop that one, or make a second sink with its own writer")
        chosen = dict(trigger or {"processingTime": "0 seconds"})
        if not set(chosen) <= _TRIGGERS:
            msg = f"trigger {chosen}"
            raise Unsupported(msg, "batches must have offsets", f"use one of {sorted(_TRIGGERS)}")
        place = resolved_checkpoint(self._spark, checkpoint)
        self._begin(tolerant=True, checkpoint=place, run=None)
        self._committer.recover()
        writer = events.writeStream.foreachBatch(self).option("checkpointLocation", place).trigger(**chosen)
        if name is not None:
            writer = writer.queryName(name)
        self._query = HiveQuery.begin(writer.start(), self)
        return self._query

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self._commit(batch, batch_id)
        except BaseException as error:
            # Spark's own exception carries this as text only; the handle raises the real one.
            self.failure = error
            raise

    def _begin(self, *, tolerant: bool, checkpoint: str, run: str | None) -> None:
        """A new query, or a new run of one: nothing that was in memory is known to hold any more."""
        self._committer = self._setup.committer(tolerant=tolerant)
        self._checkpoint = checkpoint
        self._run = run
        self.failure = None

    def _commit(self, batch: DataFrame, batch_id: int) -> None:
        checkpoint, query = self._enter()
        ref = batch_ref(query, BatchId(batch_id), checkpoint_reader(self._spark, checkpoint))
        shape = input_shape(batch.schema, self._setup.sink(tolerant=False).target.spec, ref)
        self._committer.commit(ref, shape, partial(self._write, batch))

    def _enter(self) -> tuple[str, str]:
        """The checkpoint and the id of the query whose batch this is; a run that wasn't seen yet begins."""
        context = self._spark.sparkContext
        query = context.getLocalProperty("sql.streaming.queryId")
        if not query:
            msg = "a call of the sink outside a streaming query"
            raise Unsupported(msg, "a batch must have a checkpoint", "use events.writeStream.foreachBatch(sink)")
        run = context.getLocalProperty("spark.jobGroup.id") or query
        if self._checkpoint is not None and self._run in {None, run}:
            self._run = run
        else:
            self._begin(tolerant=False, checkpoint=self._checkpoint_of(query), run=run)
        return str(self._checkpoint), query

    def _checkpoint_of(self, query: str) -> str:
        found = self._spark.streams.get(query)
        if found is None:
            msg = "the checkpoint"
            raise CheckpointUnreadable(msg, f"no query {query!r} runs in the session that the sink was made with")
        return str(found._jsq.streamingQuery().resolvedCheckpointRoot())  # noqa: SLF001  PySpark offers no other way

    def _write(self, batch: DataFrame, plan: TaskPlan) -> Iterable[TaskReport]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        rows = batch.select(*needed_input(batch.schema, plan))
        task = partial(_run_in_task, sealed=shipping.sealed((plan, self._setup.tools())))
        try:
            reports = rows.mapInArrow(task, _REPORT).collect()
        except (Py4JJavaError, PySparkException) as error:
            told = _told_by_task(error)
            if told is None:
                raise
            raise told from error
        return [TaskReport.decode(row.report) for row in reports]


def _run_in_task(batches: Iterator[pa.RecordBatch], sealed: shipping.Sealed) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    plan, tools = shipping.unsealed(sealed)
    context = TaskContext.get()
    if context is None:
        message = "not in a Spark task"
        raise RuntimeError(message)
    opened = tools.open(plan)
    if not gc.get_freeze_count():
        # PySpark's worker collects garbage after each task, which takes 50 ms with the modules that are loaded by now.
        gc.freeze()
    report = run_task(batches, plan, opened, context.partitionId(), context.taskAttemptId())
    yield pa.RecordBatch.from_pydict({"report": [report.encode()]})


def _told_by_task(error: Exception) -> HiveSinkError | None:
    """The one line that a task's own error had, out of Spark's stack traces."""
    found = re.findall(r"hivesink\.errors\.(\w+): (.+)", str(error))
    if not found:
        missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(error))
        return ModuleMissing(missing[1]) if missing else None
    kind, message = found[-1]
    known = getattr(errors, kind, HiveSinkError)
    return TaskFailed(message.strip(), retryable=known.retryable)


def _table_name(text: str) -> TableName:
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise InvalidOption((str(error),)) from None
