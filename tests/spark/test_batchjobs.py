"""After a batch of small records, Spark's limit on a batch's bytes is lifted, and few of them are read in few tasks."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from hivesink.core.manifest import Rows
from hivesink.errors import NotWritable, StoreUnavailable
from hivesink.sink.task.messages import TaskFailure, TaskReport
from hivesink.spark import batchjobs, shipping
from hivesink.spark.batchjobs import A_TASK, BYTES, BYTES_A_TASK, MOST, ROWS, UNLIMITED, RecordSizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OWN = "1000000"


@pytest.fixture
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with a limit of the user's own, as a Spark that knows no limit never has."""
    made = spark.newSession()
    made.conf.set(BYTES, OWN)
    yield made
    made.conf.unset(BYTES)


def report(largest: int) -> TaskReport:
    return TaskReport(0, 0, Rows(), largest=largest)


def test_the_limit_follows_the_largest_record_of_the_batch_before(own_session: SparkSession) -> None:
    rows, limit = own_session.range(1), RecordSizes(2)
    fitting = MOST // int(own_session.conf.get(ROWS) or 0)
    found = []
    for reports in ([], [report(10), report(fitting)], [report(0)], [report(10), report(fitting + 1)], [report(10)]):
        limit.learn(reports)
        limit.prepare(rows, None)
        found.append(own_session.conf.get(BYTES))
    assert found == [OWN, UNLIMITED, UNLIMITED, OWN, UNLIMITED]


def test_a_spark_without_a_limit_gets_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = "spark.sql.execution.arrow.noSuchLimit"
    monkeypatch.setattr("hivesink.spark.batchjobs.BYTES", unknown)
    rows, limit = spark.range(1), RecordSizes(2)
    limit.learn([report(10)])
    limit.prepare(rows, None)
    assert spark.conf.get(unknown, "none") == "none"


def test_few_small_records_are_read_in_few_tasks(spark: SparkSession) -> None:
    rows, sizes = spark.range(0, 8, 1, 8), RecordSizes(4)

    def tasks(records: int | None) -> int:
        return sizes.prepare(rows, records).rdd.getNumPartitions()

    # Nothing is known of the first batch's records.
    assert tasks(1) == 8
    sizes.learn([report(100)])
    assert [tasks(n) for n in (0, A_TASK - 1, A_TASK, 3 * A_TASK - 1, 3 * A_TASK)] == [1, 1, 2, 3, 8]
    assert tasks(None) == 8
    sizes.learn([report(BYTES_A_TASK // 8)])
    assert [tasks(n) for n in (7, 8, 23, 24)] == [1, 2, 3, 8]


Raised = tuple[type[Exception], tuple[str, ...]]

FULL: Raised = (StoreUnavailable, ("write", "/w/t", "the disk is full"))
READ_ONLY: Raised = (NotWritable, ("/w/t", "Read-only file system"))


@dataclass
class Tools:
    """They raise an error when they are opened, and cross to the task as what it is made of."""

    error: Raised

    def open(self, _: object) -> Any:
        kind, arguments = self.error
        raise kind(*arguments)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TaskReport]:
    def run(error: Raised, attempt: int, tries: int) -> TaskReport:
        context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17, attemptNumber=lambda: attempt)
        monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
        (batch,) = batchjobs.write_rows(iter(()), shipping.sealed((None, Tools(error), tries)))
        return TaskReport.decode(batch.column(0)[0].as_py())

    return run


@pytest.mark.parametrize(
    ("error", "attempt", "tries", "outcome"),
    [
        (FULL, 0, 1, TaskFailure("could not write /w/t: the disk is full", retryable=True)),
        (FULL, 3, 4, TaskFailure("could not write /w/t: the disk is full", retryable=True)),
        (FULL, 2, 4, StoreUnavailable),
        # No other try can help here, and what isn't the sink's is Spark's matter.
        (READ_ONLY, 0, 4, TaskFailure(str(NotWritable(*READ_ONLY[1])), retryable=False)),
        ((ZeroDivisionError, ()), 3, 4, ZeroDivisionError),
    ],
)
def test_an_error_is_raised_only_where_another_try_may_help(
    task: Callable[..., TaskReport], error: Raised, attempt: int, tries: int, outcome: TaskFailure | type[Exception]
) -> None:
    if isinstance(outcome, TaskFailure):
        report = task(error, attempt, tries)
        assert (report.task, report.task_attempt, report.parts, report.failure) == (3, 17, (), outcome)
    else:
        with pytest.raises(outcome):
            task(error, attempt, tries)


def test_an_executor_with_another_version_reports_that(
    task: Callable[..., TaskReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = shipping.sealed(None)
    monkeypatch.setattr(shipping, "VERSION", "0.0.9")
    monkeypatch.setattr(shipping, "sealed", lambda _: sealed)
    failure = task(FULL, 0, 4).failure
    assert failure is not None
    assert "imports 0.0.9" in failure.message
    assert not failure.retryable
