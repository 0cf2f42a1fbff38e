"""The Spark jobs of a batch: their tasks write segments, or encode part files, and report what they did."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.core.table import quoted
from hivesink.sink.task.attempt import ROUTE
from hivesink.sink.task.lines import ROW
from hivesink.sink.task.messages import TaskReport
from hivesink.spark import shipping, tasks
from hivesink.spark.site import allowed_tries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hivesink.core.roll_policy import Encoding
    from hivesink.sink.task.messages import TaskPlan
    from hivesink.wiring import OpenedWriter


class BatchJobs:
    """Each call is one job. Raises TaskFailed, ModuleMissing, and Spark's own errors."""

    def __init__(self, spark: SparkSession, setup: OpenedWriter) -> None:
        self._spark = spark
        self._setup = setup
        self.tasks = spark.sparkContext.defaultParallelism
        # Asked once: reading the session's settings takes a call to the JVM for each of them.
        self._tries = allowed_tries(spark)

    def write(self, rows: DataFrame, plan: TaskPlan) -> list[TaskReport]:
        return self._reports(self._routed(rows, plan), partial(tasks.write, sealed=self._order(plan)))

    def encode(self, work: Sequence[Sequence[Encoding]], plan: TaskPlan) -> list[TaskReport]:
        numbers = self._spark.range(0, len(work), 1, len(work))
        return self._reports(numbers, partial(tasks.encode, sealed=self._order(plan), work=shipping.sealed(work)))

    def _routed(self, rows: DataFrame, plan: TaskPlan) -> DataFrame:
        """`rows`, those of each partition in one task if the settings say so."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        if not (plan.config["sink.shuffle-by-partition.enable"] and plan.target.spec.is_partitioned):
            return rows
        counted = [StructField(ROW, LongType())] if plan.shape.block in rows.columns else []
        schema = StructType([*rows.schema.fields, *counted, StructField(ROUTE, StringType())])
        routed = rows.mapInArrow(partial(tasks.route, sealed=self._order(plan)), schema)
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
                raise errors.ModuleMissing(missing[1]) from error
            # A task that routes rows raises what it can't report.
            if told := re.search(r"^hivesink\.errors\.(?:\w+\.)?(\w+): (.+)", str(error), re.MULTILINE):
                raise errors.TaskFailed(told[2], retryable=getattr(errors, told[1]).retryable) from error
            raise
        return [TaskReport.decode(row.report) for row in reports]
