"""Starts that Spark refuses, and what docs/operations.md says to do then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from hivesink import errors
from hivesink.core.offsets import KafkaOffset
from tests.integration.stage import ON_EPOCH, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def last(stage: Stage) -> tuple[int, dict[str, dict[str, int]]]:
    """The log's last batch: its epoch, and where it ends."""
    found = stage.sink(append=10_000).setup.last_batch()
    assert found is not None
    (end,) = found.ref.end
    assert isinstance(end, KafkaOffset)
    return found.epoch, end.topics()


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
        with pytest.raises(StreamingQueryException, match=r"(?i)state"):
            stage.drain(events=changed)
    both = distinct(topic.stream(stage.spark).union(other.stream(stage.spark)))
    with pytest.raises(StreamingQueryException, match=r"There are \[1\] sources .* there are \[2\] sources"):
        stage.drain(events=both)
    assert stage.ids() == list(range(10))

    epoch, ends = last(stage)
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignHistory, match=f"append={epoch}"):
        stage.drain(events=both)
    both = distinct(topic.stream(stage.spark, startingOffsets=json.dumps(ends)).union(other.stream(stage.spark)))
    stage.drain(stage.sink(append=epoch), both)
    assert stage.ids() == list(range(30))
