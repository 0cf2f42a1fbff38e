from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from jobs.cluster.kafka import EmbeddedKafka, create_topic

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        # Far in the past: a broker that minds the age of records would refuse or delete it.
        producer.produce(topic, value, timestamp=1)
    assert producer.flush(60) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()


def test_records_go_in_and_out(kafka: str) -> None:
    assert create_topic(kafka, "in-and-out")
    produce(kafka, "in-and-out", b"1", b"2")
    assert consume(kafka, "in-and-out", 2) == [b"1", b"2"]


def test_a_topic_is_not_created_by_naming_it(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    # A look at one topic by name is what makes a broker create it, where it does so by itself.
    assert admin.list_topics("never-made", timeout=60).topics["never-made"].error is not None
    assert "never-made" not in admin.list_topics(timeout=60).topics


@pytest.mark.long
def test_its_records_are_there_after_a_restart_at_the_same_address(tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path)
    with broker:
        bootstrap = broker.bootstrap
        assert create_topic(bootstrap, "kept")
        produce(bootstrap, "kept", b"before")
    with broker:
        assert broker.bootstrap == bootstrap
        produce(bootstrap, "kept", b"after")
        assert consume(bootstrap, "kept", 2) == [b"before", b"after"]
