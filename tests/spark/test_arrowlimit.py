"""Spark's limit on the bytes of a batch is lifted only after a batch whose records were all small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.manifest import Rows
from hivesink.sink.task.messages import TaskReport
from hivesink.spark.arrowlimit import BYTES, MOST, ROWS, UNLIMITED, ArrowLimit

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
    rows, limit = own_session.range(1), ArrowLimit()
    fitting = MOST // int(own_session.conf.get(ROWS) or 0)
    found = []
    for reports in ([], [report(10), report(fitting)], [report(0)], [report(10), report(fitting + 1)], [report(10)]):
        limit.learn(reports)
        limit.prepare(rows)
        found.append(own_session.conf.get(BYTES))
    assert found == [OWN, UNLIMITED, UNLIMITED, OWN, UNLIMITED]


def test_a_spark_without_a_limit_gets_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = "spark.sql.execution.arrow.noSuchLimit"
    monkeypatch.setattr("hivesink.spark.arrowlimit.BYTES", unknown)
    rows, limit = spark.range(1), ArrowLimit()
    limit.learn([report(10)])
    limit.prepare(rows)
    assert spark.conf.get(unknown, "none") == "none"
