"""The Spark jobs of a batch: what their tasks get, do, and report.

Tasks get code as zips that the driver sends through Spark: this package without its commands goes to
executors, modules of the user's own classes go to all tasks. `python -m hivesink.spark.batchjobs FILE`, which
`make dist` runs, writes the package's zip for `--py-files`.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.resources
import io
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hivesink import errors
from hivesink.config.cache import write_atomically
from hivesink.config.options import SinkConfig
from hivesink.config.plugins import modules_for_tasks
from hivesink.core.column_source import ROW
from hivesink.core.manifest import Opened, Rows
from hivesink.core.table import quoted
from hivesink.sink.task import attempt
from hivesink.sink.task.messages import TaskFailure, TaskPlan, TaskReport
from hivesink.spark.running import runs_here
from hivesink.spark.tokens import Tokens
from hivesink.version import VERSION
from hivesink.wiring import OpenedWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str((1 << 31) - 1)
"""The only value with which Spark doesn't look at the size."""
MOST = 256 << 20
"""Bytes that as many records as a batch has may come to, each as large as the largest that was seen."""
A_TASK = 10_000
"""Records that a task reads in the time that a further task would cost: some 15 ms."""
BYTES_A_TASK = 8 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`."""
_KEPT = 64 << 20
"""Bytes of free memory that a worker keeps."""
_LEFT_OUT = ("__pycache__", "airflow.py", "cli", "tables")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""A zip's oldest possible time, so that the same code makes the same zip at any time."""


class BatchJobs:
    """The jobs of a query's run: each call starts a job. Raises Spark's own errors.

    To check its limit on a batch's bytes, Spark (4.1 on) adds up the sizes of its buffers at each row: a sixth of all
    that a record costs on its way to Python. It is lifted while all records are small. Spark's Kafka source has a task
    for each partition of a topic: each costs some 15 ms (docs/performance.md), and a file for each bucket, so a small
    batch is read in few tasks. A run begins with the limit and with Spark's own tasks, in case a batch needs them.
    """

    def __init__(self, spark: SparkSession, setup: OpenedWriter) -> None:
        self._spark = spark
        self._setup = setup
        self.tasks = spark.sparkContext.defaultParallelism
        # Asked once: reading the session's settings takes a call to the JVM for each of them.
        tries = spark.sparkContext.getConf().get("spark.task.maxFailures") or 4
        # In its own process Spark ignores the setting.
        self._tries = 1 if runs_here(spark.sparkContext.master) else int(tries)
        self._tokens = Tokens(spark, setup.site)
        self._largest = 0
        self._own: tuple[str | None, int] | None = None
        """The session's limit, where Spark has any, and the records of a batch."""

    def write(self, rows: DataFrame, plan: TaskPlan, records: int | None) -> list[TaskReport]:
        """Write segments of `rows`, each partition's in a single task if the settings say so; `records` as below."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        order, rows = self._order(plan), self.sized(rows, records)
        if plan.config["sink.shuffle-by-partition.enable"] and plan.target.spec.is_partitioned:
            counted = [StructField(ROW, LongType())] if plan.shape.block in rows.columns else []
            schema = StructType([*rows.schema.fields, *counted, StructField(attempt.ROUTE, StringType())])
            routed = rows.mapInArrow(partial(route_rows, order=order), schema)
            rows = routed.repartition(self.tasks, quoted(attempt.ROUTE)).drop(attempt.ROUTE)
        reports = self._reports(rows, partial(perform, order=order))
        self.learn(reports)
        return reports

    def sized(self, rows: DataFrame, records: int | None) -> DataFrame:
        """Set the limit for the job that reads `rows`; return them, in few tasks if they are few `records`.

        `records` is None if it isn't known, or if the rows are more than the source's own, whose making may take long.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        conf = rows.sparkSession.conf
        if self._own is None:
            limit = None
            with suppress(Py4JJavaError, PySparkException):  # Spark has no such limit before 4.1; 3.5 has Py4J's error.
                limit = conf.get(BYTES)
            self._own = limit, int(conf.get(ROWS) or 0)
        limit, count = self._own
        if limit is not None:
            conf.set(BYTES, UNLIMITED if 0 < self._largest * count <= MOST else limit)
        if records is None or not self._largest:
            return rows
        tasks = 1 + max(records // A_TASK, records * self._largest // BYTES_A_TASK)
        return rows.coalesce(tasks) if tasks < self.tasks else rows

    def learn(self, reports: Iterable[TaskReport]) -> None:
        """How large records are. A report without records teaches nothing."""
        self._largest = max((report.largest for report in reports), default=0) or self._largest

    def encode(self, work: Sequence[Sequence[Opened]], plan: TaskPlan) -> list[TaskReport]:
        numbers = self._spark.range(0, len(work), 1, len(work))
        return self._reports(numbers, partial(perform, order=self._order(plan), work=pickle.dumps(work)))

    def _order(self, plan: TaskPlan) -> bytes:
        tools = self._setup.tools()
        tokens = self._tokens.fresh({tools.log, *(table.location for table in plan.tables)})
        return pickle.dumps((plan, replace(tools, tokens=tokens), self._tries))

    def _reports(self, rows: DataFrame, task: Callable[..., Iterator[pa.RecordBatch]]) -> list[TaskReport]:
        return [TaskReport.decode(row.report) for row in rows.mapInArrow(task, "report string").collect()]


def perform(batches: Iterator[pa.RecordBatch], order: bytes, work: bytes | None = None) -> Iterator[pa.RecordBatch]:
    """In a task: write its rows, or encode those of `work` that its number in `batches` says. Yields its report."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    task, task_attempt, tries = context.partitionId(), context.taskAttemptId(), 1
    try:
        plan, tools, tries = pickle.loads(order)  # noqa: S301  the driver's own bytes, by Spark's own channel
        opened = tools.open(plan)
        settle()
        if work is None:
            report = attempt.run_task(batches, plan, opened, task, task_attempt)
        else:
            shares = pickle.loads(work)  # noqa: S301  as above
            mine = [piece for batch in batches for number in batch.column(0).to_pylist() for piece in shares[number]]
            report = attempt.run_encoding(mine, plan, opened, task, task_attempt)
    except errors.HiveSinkError as error:
        # Reported, the driver has it as it is, not inside Spark's stack trace.
        if error.retryable and context.attemptNumber() + 1 < tries:
            raise
        report = TaskReport(task, task_attempt, Rows(), failure=TaskFailure(str(error), error.retryable))
    yield pa.RecordBatch.from_pydict({"report": [report.encode()]})


def route_rows(batches: Iterator[pa.RecordBatch], order: bytes) -> Iterator[pa.RecordBatch]:
    """In a task: its rows with their partitions. Errors are raised: a retry must send each row to the same task."""
    plan, tools, _ = pickle.loads(order)  # noqa: S301  as above
    yield from attempt.route(batches, plan, tools.open(plan))


@cache
def settle() -> None:
    """Prepare this process for many batches, once its modules are loaded (docs/performance.md)."""
    # Where pandas is installed, Arrow's first array imports it.
    pa.array(())
    # PySpark's worker collects garbage after each task, which takes 50 ms with the modules loaded by now.
    gc.freeze()
    # Else each chunk gives its arrays back to the kernel and gets them again page by page: a quarter of its decoding.
    with suppress(AttributeError, OSError):  # Only glibc has it.
        allocator = ctypes.CDLL(None)
        for option, size in ((_TRIM_THRESHOLD, _KEPT), (_MMAP_THRESHOLD, _KEPT // 4)):
            allocator.mallopt(option, size)


def ship(spark: SparkSession, config: SinkConfig) -> None:
    """Send the modules of the user's own classes to all tasks, and this package to a cluster's executors."""
    # Local tasks need the modules too: they run in processes that know nothing of the job file's folder.
    if entries := modules_for_tasks(config):
        _send(spark, "own", _zip(entries.items()))
    if not runs_here(spark.sparkContext.master):
        # A worker looks here first, then into what is installed there, or came by `--py-files`.
        _send(spark, f"hivesink-{VERSION}", zipped())


def _send(spark: SparkSession, prefix: str, content: bytes) -> None:
    """Send a zip to import from to all tasks."""
    context = spark.sparkContext
    name = f"{prefix}-{sha256(content).hexdigest()[:12]}.zip"
    if any(added.rpartition("/")[2] == name for added in context.listFiles):
        return
    # Spark removes it with the context. A cache may be read-only.
    path = Path(context._temp_dir, name)  # noqa: SLF001  PySpark's own temporary files are in it
    write_atomically(path, content)
    before = list(sys.path)
    context.addPyFile(str(path))
    # Spark puts it on the driver's path too; the driver keeps the modules that made the zip.
    sys.path[:] = before


def zipped() -> bytes:
    """The package as a zip to import from."""
    return _zip(_files(importlib.resources.files("hivesink"), "hivesink"))


def _zip(entries: Iterable[tuple[str, bytes]]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(entries):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    # Not by path: the package may itself be in a zip.
    for entry in folder.iterdir():
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir():
            yield from _files(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()


if __name__ == "__main__":
    write_atomically(Path(os.fsdecode(sys.argv[1])), zipped())
