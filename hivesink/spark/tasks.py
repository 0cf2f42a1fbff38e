"""What Spark runs in the tasks of a query: functions for `mapInArrow`."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hivesink import errors
from hivesink.core.manifest import Rows
from hivesink.sink.task import attempt
from hivesink.sink.task.messages import TaskFailure, TaskReport
from hivesink.spark import shipping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.sink.task.attempt import TaskTools
    from hivesink.sink.task.messages import TaskPlan

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`."""
_KEPT = 64 << 20
"""Bytes of free memory that a worker keeps."""


def write(batches: Iterator[pa.RecordBatch], sealed: shipping.Sealed) -> Iterator[pa.RecordBatch]:
    """In a task: write its rows and yield its report."""
    yield _report(sealed, partial(attempt.run_task, batches))


def route(batches: Iterator[pa.RecordBatch], sealed: shipping.Sealed) -> Iterator[pa.RecordBatch]:
    """In a task: its rows with their partitions. Errors are raised: a retry must send each row to the same task."""
    plan, tools, _ = shipping.unsealed(sealed)
    yield from attempt.route(batches, plan, tools.open(plan))


def encode(
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
