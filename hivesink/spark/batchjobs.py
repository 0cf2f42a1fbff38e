"""The Spark jobs of a batch: their tasks write segments, or encode part files, and report what they did."""

from __future__ import annotations

import ctypes
import gc
import re
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hivesink import errors
from hivesink.core.column_source import ROW
from hivesink.core.manifest import Rows
from hivesink.core.table import quoted
from hivesink.sink.task import attempt
from hivesink.sink.task.attempt import ROUTE
from hivesink.sink.task.messages import TaskFailure, TaskReport
from hivesink.spark import shipping
from hivesink.spark.site import allowed_tries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.conf import RuntimeConfig

    from hivesink.core.rolling import Encoding
    from hivesink.sink.task.messages import TaskPlan, TaskTools
    from hivesink.wiring import OpenedWriter

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str((1 << 31) - 1)
"""The only value with which Spark doesn't look at the size."""
MOST = 256 << 20
"""Bytes that as many records as a batch has may come to, each as large as the largest that was seen."""
A_TASK = 10_000
"""Records that a task reads in the time that a further task would cost: some 15 ms."""
BYTES_A_TASK = 8 << 20


class BatchJobs:
    """Each call is a job. Raises TaskFailed, ExecutorsDiffer, and Spark's own errors."""

    def __init__(self, spark: SparkSession, setup: OpenedWriter) -> None:
        self._spark = spark
        self._setup = setup
        self.tasks = spark.sparkContext.defaultParallelism
        # Asked once: reading the session's settings takes a call to the JVM for each of them.
        self._tries = allowed_tries(spark)
        self._sizes = RecordSizes(self.tasks)

    def write(self, rows: DataFrame, plan: TaskPlan, records: int | None) -> list[TaskReport]:
        """Write segments of `rows`; `records` as for `RecordSizes.prepare`."""
        routed = self._routed(self._sizes.prepare(rows, records), plan)
        reports = self._reports(routed, partial(write_rows, sealed=self._order(plan)))
        self._sizes.learn(reports)
        return reports

    def encode(self, work: Sequence[Sequence[Encoding]], plan: TaskPlan) -> list[TaskReport]:
        numbers = self._spark.range(0, len(work), 1, len(work))
        return self._reports(numbers, partial(encode_rows, sealed=self._order(plan), work=shipping.sealed(work)))

    def _routed(self, rows: DataFrame, plan: TaskPlan) -> DataFrame:
        """`rows`, each partition's in a single task if the settings say so."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        if not (plan.config["sink.shuffle-by-partition.enable"] and plan.target.spec.is_partitioned):
            return rows
        counted = [StructField(ROW, LongType())] if plan.shape.block in rows.columns else []
        schema = StructType([*rows.schema.fields, *counted, StructField(ROUTE, StringType())])
        routed = rows.mapInArrow(partial(route_rows, sealed=self._order(plan)), schema)
        return routed.repartition(self.tasks, quoted(ROUTE)).drop(ROUTE)

    def _order(self, plan: TaskPlan) -> shipping.Sealed:
        return shipping.sealed((plan, self._setup.tools(), self._tries))

    def _reports(self, rows: DataFrame, task: Callable[..., Iterator[pa.RecordBatch]]) -> list[TaskReport]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            reports = rows.mapInArrow(task, "report string").collect()
        except (Py4JJavaError, PySparkException) as error:
            # Such an executor can't even load the code that reports errors: Spark's text is all there is.
            if missing := re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(error)):
                problem = f"the Python of the executors has no module {missing[1]}"
                raise errors.ExecutorsDiffer(problem, "send an environment along, such as `make dist` makes") from error
            # A task that routes rows raises what it can't report.
            if told := re.search(r"^hivesink\.errors\.(?:\w+\.)?(\w+): (.+)", str(error), re.MULTILINE):
                raise errors.TaskFailed(told[2], retryable=getattr(errors, told[1]).retryable) from error
            raise
        return [TaskReport.decode(row.report) for row in reports]


class RecordSizes:
    """Lifts Spark's limit while all records are small, and reads a small batch in few tasks.

    To check its limit, Spark (4.1 on) adds up the sizes of its buffers at each row: a sixth of all that a record costs
    on its way to Python. Spark's Kafka source has a task for each partition of a topic, however few records there are:
    each costs some 15 ms (docs/performance.md), and a file for each bucket. A run begins with the limit and with
    Spark's own tasks, so a batch that needed them can be read after all.
    """

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._largest = 0
        self._own: tuple[str | None, int] | None = None
        """The session's limit, where Spark knows one, and the records of a batch."""

    def prepare(self, rows: DataFrame, records: int | None) -> DataFrame:
        """Set the limit for the job that reads `rows`; return them, in few tasks if they are few `records`.

        `records` is None if it isn't known, or if the rows are more than the source's own, whose making may take long.
        """
        conf = rows.sparkSession.conf
        self._own = self._own or (_known(conf), int(conf.get(ROWS) or 0))
        limit, count = self._own
        if limit is not None:
            conf.set(BYTES, UNLIMITED if 0 < self._largest * count <= MOST else limit)
        if records is None or not self._largest:
            return rows
        tasks = 1 + max(records // A_TASK, records * self._largest // BYTES_A_TASK)
        return rows.coalesce(tasks) if tasks < self._parallelism else rows

    def learn(self, reports: Iterable[TaskReport]) -> None:
        """From the job's `reports`. One without records teaches nothing."""
        self._largest = max((report.largest for report in reports), default=0) or self._largest


def _known(conf: RuntimeConfig) -> str | None:
    """The limit; None where Spark, before 4.1, has none."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return conf.get(BYTES)
    except (Py4JJavaError, PySparkException):  # PySpark 3.5 doesn't know Spark's exception.
        return None


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`."""
_KEPT = 64 << 20
"""Bytes of free memory that a worker keeps."""


def write_rows(batches: Iterator[pa.RecordBatch], sealed: shipping.Sealed) -> Iterator[pa.RecordBatch]:
    """In a task: write its rows and yield its report."""
    yield _report(sealed, partial(attempt.run_task, batches))


def route_rows(batches: Iterator[pa.RecordBatch], sealed: shipping.Sealed) -> Iterator[pa.RecordBatch]:
    """In a task: its rows with their partitions. Errors are raised: a retry must send each row to the same task."""
    plan, tools, _ = shipping.unsealed(sealed)
    yield from attempt.route(batches, plan, tools.open(plan))


def encode_rows(
    batches: Iterator[pa.RecordBatch], sealed: shipping.Sealed, work: shipping.Sealed
) -> Iterator[pa.RecordBatch]:
    """In a task: encode the rows that its number in `batches` says, and yield its report."""

    def run(plan: TaskPlan, tools: TaskTools, task: int, task_attempt: int) -> TaskReport:
        mine = [piece for batch in batches for number in batch.column(0).to_pylist() for piece in all_work[number]]
        return attempt.run_encoding(mine, plan, tools, task, task_attempt)

    all_work = shipping.unsealed(work)
    yield _report(sealed, run)


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


def _report(sealed: shipping.Sealed, run: Callable[[TaskPlan, TaskTools, int, int], TaskReport]) -> pa.RecordBatch:
    """What `run` reports.

    An error of the sink's is raised only where Spark may try the task again and that may help; otherwise it is
    reported, so that the driver has it as it is, not inside Spark's stack trace.
    """
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    task, task_attempt, tries = context.partitionId(), context.taskAttemptId(), 1
    try:
        plan, tools, tries = shipping.unsealed(sealed)
        opened = tools.open(plan)
        settle()
        report = run(plan, opened, task, task_attempt)
    except errors.HiveSinkError as error:
        if error.retryable and context.attemptNumber() + 1 < tries:
            raise
        report = TaskReport(task, task_attempt, Rows(), failure=TaskFailure(str(error), error.retryable))
    return pa.RecordBatch.from_pydict({"report": [report.encode()]})
