"""Starts that Spark refuses, and what docs/operations.md says to do then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hivesink import errors
from hivesink.core.offsets import KafkaOffset
from tests.integration.stage import ON_EPOCH, Topic, event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
NANOSECONDS = 1_704_067_200_000_000_000


def last(stage: Stage) -> tuple[int, dict[str, dict[str, int]]]:
    """The log's last batch: its epoch, and where it ends."""
    found = stage.sink(append=10_000).setup.last_batch()
    assert found is not None
    (end,) = found.ref.end
    assert isinstance(end, KafkaOffset)
    return found.epoch, end.topics()


def put_with_time_of_nanoseconds(topic: Topic, number: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    most = ConfigEntry("message.timestamp.after.max.ms", str(2**63 - 1), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[most])
    admin = AdminClient({"bootstrap.servers": topic.servers})
    admin.incremental_alter_configs([resource])[resource].result()
    producer = Producer({"bootstrap.servers": topic.servers})
    producer.produce(topic.name, json.dumps(event(number)).encode(), partition=number % 2, timestamp=NANOSECONDS)
    assert producer.flush(30) == 0


def test_a_record_with_an_impossible_timestamp_is_named_and_passed_over_alone(stage: Stage, topic: Topic) -> None:
    stage.create(properties=ON_EPOCH)
    topic.put(range(24))
    put_with_time_of_nanoseconds(topic, 24)
    topic.put(range(25, 60))
    told = rf"the record at offset 12 of partition 0 of topic {topic.name} has Kafka's timestamp {NANOSECONDS}"
    with pytest.raises(errors.RecordUnreadable, match=told):
        stage.drain(events=topic.stream(stage.spark))
    for most in ("20", "5", "1"):
        stage.forget_checkpoint()
        sink = stage.sink(resume=True)
        with pytest.raises(errors.RecordUnreadable, match=told):
            stage.drain(sink, topic.stream(stage.spark, resume=sink, maxOffsetsPerTrigger=most))
    epoch, ends = last(stage)
    assert ends[topic.name]["0"] == 12
    ends[topic.name]["0"] = 13
    stage.forget_checkpoint()
    stage.drain(stage.sink(append=epoch), topic.stream(stage.spark, startingOffsets=json.dumps(ends)))
    assert stage.ids() == [number for number in range(60) if number != 24]


def test_a_query_with_other_sources_or_state_is_refused_and_goes_on_as_the_docs_say(stage: Stage, topic: Topic) -> None:
    stage.create(properties=ON_EPOCH)
    other = Topic.create(topic.servers, f"{topic.name}-other")
    topic.put(range(10))
    other.put(range(10, 20))

    def distinct(events: DataFrame) -> DataFrame:
        return events.select("value").dropDuplicates(["value"])

    stage.drain(events=distinct(topic.stream(stage.spark)))
    topic.put(range(20, 30))
    for changed in (topic.stream(stage.spark).select("value"), topic.stream(stage.spark).dropDuplicates(["offset"])):
        with pytest.raises(errors.QueryChanged, match=r"\(.*state.*\).* move file:\S+checkpoint away"):
            stage.drain(events=changed)
    both = distinct(topic.stream(stage.spark).union(other.stream(stage.spark)))
    with pytest.raises(errors.QueryChanged, match=r"There are \[1\] sources .* there are \[2\] sources"):
        stage.drain(events=both)
    assert stage.ids() == list(range(10))

    epoch, ends = last(stage)
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignHistory, match=r"If the query keeps state .*: a new checkpoint has none"):
        stage.drain(events=both)
    both = distinct(topic.stream(stage.spark, startingOffsets=json.dumps(ends)).union(other.stream(stage.spark)))
    stage.drain(stage.sink(append=epoch), both)
    assert stage.ids() == list(range(30))
