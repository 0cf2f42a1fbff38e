"""What the records of a batch say about how Spark should read the next one: in how many tasks, and how much at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame
    from pyspark.sql.conf import RuntimeConfig

    from hivesink.sink.task.messages import TaskReport

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str((1 << 31) - 1)
"""The one value with which Spark doesn't look at the size."""
MOST = 256 << 20
"""Bytes that as many records as a batch has may come to, each as large as the largest that was seen."""
A_TASK = 10_000
"""Records that a task reads in the time that one more task would cost: some 15 ms."""
BYTES_A_TASK = 8 << 20


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
