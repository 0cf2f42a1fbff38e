"""Streams that come to no harm: every source, every form of rows, read back by Hive's reader."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.stage import AVAILABLE_NOW, ON_EPOCH, event

if TYPE_CHECKING:
    from hivesink.sink.commit.committed import Committed
    from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def test_files_go_in_once_and_a_second_run_adds_nothing(stage: Stage) -> None:
    stage.create()
    for number in range(3):
        stage.put(range(number * 10, number * 10 + 10))
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append))
    assert stage.ids() == list(range(30))
    assert [(one.epoch, one.rows.read, one.replayed) for one in done] == [
        (1, 10, False),
        (2, 10, False),
        (3, 10, False),
    ]
    files = sorted(stage.location().rglob("*.parquet"))
    stage.drain(stage.sink(on_commit=done.append))
    assert len(done) == 3
    assert sorted(stage.location().rglob("*.parquet")) == files
    assert stage.ids("dt = '2024-01-02'") == list(range(1, 30, 3))


def test_files_of_any_age_are_read(stage: Stage) -> None:
    stage.create()
    for number, year in enumerate((2120, 1971, 2024)):
        modified = datetime(year, 1, 1, tzinfo=timezone.utc).timestamp()
        os.utime(stage.put([number]), (modified, modified))
        stage.drain()
    assert stage.ids() == [0, 1, 2]


@pytest.mark.kafka
def test_kafka_goes_in_once_and_a_second_run_takes_the_news_only(stage: Stage, topic: Topic) -> None:
    stage.create()
    topic.put(range(50))
    stage.drain(events=topic.stream(stage.spark, maxOffsetsPerTrigger="20"))
    stage.drain(events=topic.stream(stage.spark))
    assert stage.ids() == list(range(50))
    topic.put(range(50, 60))
    stage.drain(events=topic.stream(stage.spark))
    assert stage.ids() == list(range(60))
    assert stage.staged() == []


def test_plain_foreach_batch_with_one_sink_object_over_two_runs_and_two_checkpoints(stage: Stage) -> None:
    stage.create()
    sink = stage.sink()

    def run(checkpoint: str, sink: Any) -> None:
        writer = stage.lines().writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        writer.trigger(**AVAILABLE_NOW).start().awaitTermination()

    stage.put(range(10))
    run(str(stage.checkpoint), sink)
    stage.put(range(10, 20))
    run(str(stage.checkpoint), sink)
    assert stage.ids() == list(range(20))
    # A checkpoint of its own, so that a path kept from the last run would be the wrong one.
    run(str(stage.folder / "another one"), stage.sink(append=sink._run.committer.head))
    assert stage.ids() == sorted([*range(20), *range(20)])


def test_a_sink_object_starts_again_after_a_stop_and_after_a_failure(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    sink = stage.drain()
    bad = stage.put_text("no JSON\n")
    with pytest.raises(Exception, match="bad record"):
        stage.drain(sink)
    bad.write_text(json.dumps(event(10)))
    stage.drain(sink)
    assert stage.ids() == list(range(11))
    assert stage.staged() == []


def test_an_unpartitioned_table(stage: Stage) -> None:
    stage.create(columns="id BIGINT, dt STRING", partitioned="")
    for number in range(2):
        stage.put(range(number * 5, number * 5 + 5))
    stage.drain()
    stage.drain()
    assert stage.ids() == list(range(10))


@pytest.mark.kafka
def test_a_topic_that_is_empty_at_the_start(stage: Stage, topic: Topic) -> None:
    stage.create()
    stage.drain(events=topic.stream(stage.spark))
    assert stage.ids() == []
    query = stage.begin(stage.sink(), topic.stream(stage.spark), trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        assert stage.ids() == []
        topic.put(range(7))
        query.processAllAvailable()
        assert stage.ids() == list(range(7))
    finally:
        query.stop()
    stage.drain(events=topic.stream(stage.spark))
    assert stage.ids() == list(range(7))


def test_a_wait_with_a_time_out_leaves_the_query_running(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        assert query.awaitTermination(1) is False
        assert query.isActive
        stage.put(range(3, 6))
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.awaitTermination()
    assert stage.ids() == list(range(6))
