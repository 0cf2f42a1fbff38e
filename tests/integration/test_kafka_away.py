"""A Kafka source that can't be read: said at once, where Spark would ask on without a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from hivesink import sources
from hivesink.errors import InvalidOption, SourceUnreachable, TopicMissing, Unsupported
from hivesink.spark.running import driver_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
SOON = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}


def test_no_broker_answers(spark: SparkSession) -> None:
    with pytest.raises(SourceUnreachable, match=r"topic clicks of Kafka at 127\.0\.0\.1:1: no broker answers") as told:
        sources.kafka(spark, "127.0.0.1:1", "clicks", options=SOON)
    assert told.value.retryable
    assert "\n" not in str(told.value)


def test_a_session_without_the_connector(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """To py4j a class that no jar has is a package, as here each of `org`."""
    jvm = driver_jvm(spark)
    monkeypatch.setattr("hivesink.spark.sources.driver_jvm", lambda _: SimpleNamespace(java=jvm.java, org=jvm.nowhere))
    with pytest.raises(Unsupported, match=r"connector isn't loaded.*session\(…, kafka=True\)"):
        sources.kafka(spark, "127.0.0.1:1", "clicks", options=SOON)


@pytest.mark.parametrize(("servers", "options"), [("localhost", {}), ("h:9092", {"kafka.request.timeout.ms": "x"})])
def test_what_the_client_can_not_read_needs_a_person(
    spark: SparkSession, servers: str, options: dict[str, str]
) -> None:
    with pytest.raises(InvalidOption, match=r"topic clicks of Kafka at .*write servers as host:port") as told:
        sources.kafka(spark, servers, "clicks", options=options)
    assert "\n" not in str(told.value)


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, kafka: str) -> None:
    with pytest.raises(TopicMissing, match=rf"^topic clcks of Kafka at {kafka}: no such topic: ") as told:
        sources.kafka(spark, kafka, "clcks")
    assert not told.value.retryable
    assert "\n" not in str(told.value)
