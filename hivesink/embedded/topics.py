"""Topics of a Kafka broker, created and ready for use, for the demonstration and the tests."""

from __future__ import annotations

import time

from hivesink.embedded.process import POLL_SECONDS
from hivesink.errors import SourceUnreachable

WAIT = 30.0
"""Seconds that brokers may take to answer."""


def create_topic(servers: str, topic: str, partitions: int = 1) -> bool:
    """Create `topic` unless it exists, and wait until it can be used. Return whether it was created.

    Raises SourceUnreachable.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    # Errors are raised; the client need not log them as well.
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    created = True
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=WAIT)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SourceUnreachable(_name(servers, topic), error.args[0].str()) from error
        created = False
    end_offsets(servers, topic, partitions)
    return created


def end_offsets(servers: str, topic: str, partitions: int, *, within: float = WAIT) -> dict[int, int]:
    """Return each partition's end offset. Raises SourceUnreachable if a leader doesn't answer in time.

    A new partition has no leader for a moment, and then one that doesn't know it yet.
    """
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no types
    wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
    deadline = time.monotonic() + within
    while True:
        offsets: dict[int, int] = {}
        missing: dict[int, str] = {}
        for partition, answer in admin.list_offsets(wanted, request_timeout=within).items():
            try:
                offsets[partition.partition] = answer.result().offset
            except KafkaException as error:  # noqa: PERF203  each partition has a leader of its own
                missing[partition.partition] = error.args[0].str()
        if not missing:
            return offsets
        if time.monotonic() >= deadline:
            number, reason = min(missing.items())
            problem = (
                f"the leader of partition {number} didn't answer within {within:g} s: {reason}; see the broker's log"
            )
            raise SourceUnreachable(_name(servers, topic), problem)
        time.sleep(POLL_SECONDS)


def _name(servers: str, topic: str) -> str:
    return f"topic {topic} of Kafka at {servers}"
