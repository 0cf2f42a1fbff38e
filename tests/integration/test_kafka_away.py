"""A Kafka source that can't be read: said at once, where Spark would ask on without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink import sources
from hivesink.errors import SourceUnreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
SOON = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}


def test_no_broker_answers(spark: SparkSession) -> None:
    with pytest.raises(SourceUnreachable, match=r"topics clicks of Kafka at 127\.0\.0\.1:1: ") as told:
        sources.kafka(spark, "127.0.0.1:1", "clicks", options=SOON)
    assert told.value.retryable
    assert "\n" not in str(told.value)


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, kafka: str) -> None:
    with pytest.raises(SourceUnreachable, match=rf"topics clcks of Kafka at {kafka}: .*[Tt]opic"):
        sources.kafka(spark, kafka, "clcks")
