"""A topic that was just created: the broker has no leader for it yet, and then one that doesn't know it."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import OffsetSpec
from confluent_kafka.cimpl import TopicPartition

from hivesink.embedded.server import HOST, free_port
from hivesink.errors import SourceUnreachable
from jobs.cluster.kafka import admin_client, create_topic, end_offsets

pytestmark = pytest.mark.kafka


def asked_once(servers: str, topic: str, partitions: int) -> list[int]:
    """End offsets, from a client that takes the first answer."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no types
    wanted = {TopicPartition(topic, number): latest for number in range(partitions)}
    with admin_client(servers) as admin:
        return [answer.result().offset for answer in admin.list_offsets(wanted).values()]


def test_each_new_topic_can_be_used_at_once(kafka: str) -> None:
    for number in range(5):
        assert create_topic(kafka, f"at-once-{number}", 8)
        assert asked_once(kafka, f"at-once-{number}", 8) == [0] * 8


def test_a_partition_without_a_leader_is_named_in_one_line(kafka: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert create_topic(kafka, "too-few", 2)
    with pytest.raises(SourceUnreachable) as told:
        end_offsets(kafka, "too-few", 3, within=5)
    assert str(told.value).startswith(
        f"topic too-few of Kafka at {kafka}: the leader of partition 2 didn't answer within 5 s: "
    )
    assert "\n" not in str(told.value)
    assert capfd.readouterr().err == ""


def test_a_broker_that_is_away_is_named_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    servers = f"{HOST}:{free_port()}"
    with pytest.raises(SourceUnreachable, match=f"^topic t of Kafka at {servers}: the leader of partition 0") as told:
        end_offsets(servers, "t", 1, within=0.5)
    assert told.value.retryable
    assert capfd.readouterr().err == ""
