"""After a batch of small records, Spark's limit on a batch's bytes is lifted, and few of them are read in few tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.manifest import Rows
from hivesink.sink.task.messages import TaskReport
from hivesink.spark.batchjobs import A_TASK, BYTES, BYTES_A_TASK, MOST, ROWS, UNLIMITED, RecordSizes

if TYPE_CHECKING:
    from collections.abc import Iterator

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
