"""How many bytes of records Spark hands to a task at once."""

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


class ArrowLimit:
    """Lifts Spark's limit while all records are small.

    To check it, Spark (4.1 on) adds up the sizes of its buffers at each row: a sixth of all that a record costs on its
    way to Python (docs/performance.md). A run begins with the limit, so a batch that needed it can be read after all.
    """

    def __init__(self) -> None:
        self._largest = 0
        self._own: tuple[str | None, int] | None = None
        """The session's limit, where Spark knows one, and the records of a batch."""

    def prepare(self, rows: DataFrame) -> None:
        """Set the limit for the job that reads `rows`."""
        conf = rows.sparkSession.conf
        self._own = self._own or (_known(conf), int(conf.get(ROWS) or 0))
        limit, count = self._own
        if limit is not None:
            conf.set(BYTES, UNLIMITED if 0 < self._largest * count <= MOST else limit)

    def learn(self, reports: Iterable[TaskReport]) -> None:
        """From the job's `reports`. One without records teaches nothing."""
        self._largest = max((report.largest for report in reports), default=0) or self._largest


def _known(conf: RuntimeConfig) -> str | None:
    """The limit; None where Spark, before 4.1, has none."""
    from pyspark.errors import PySparkException

    try:
        return conf.get(BYTES)
    except PySparkException:
        return None
