"""A metastore that is away in the middle: epochs go on, parts wait, and an end with something open is no good end.

In tests/cluster/test_dying_servers.py the server itself dies.
"""

from __future__ import annotations

import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from hivesink import errors
from hivesink.spark import sources
from hivesink.spark.running import driver_jvm
from tests.cluster.wire import Wire
from tests.integration.stage import ON_EPOCH, Stage, Topic, wait_until, wrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OPTIONS = ON_EPOCH
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def wire(stage: Stage) -> Iterator[Wire]:
    """Between the sink and its metastore; Spark has a way of its own."""
    with closing(Wire(stage.uri)) as wire:
        yield wire


@pytest.fixture
def apart(stage: Stage, wire: Wire) -> Stage:
    return replace(stage, uri=wire.uri).create()


def group_offsets(spark: SparkSession, servers: str, group: str) -> dict[tuple[str, int], int]:
    """By Kafka's own AdminClient: librdkafka's crashes where the broker still loads the group (2.16.1)."""
    with sources._admin(spark, sources.client_of(spark, servers), ()) as asked:
        offsets = driver_jvm(spark).java.util.HashMap(
            asked.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
        )
        return {(place.topic(), place.partition()): committed.offset() for place, committed in offsets.items()}


@pytest.mark.kafka
def test_the_group_and_the_metrics_show_what_can_be_queried(
    apart: Stage, stage: Stage, wire: Wire, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic.name
    options = {"sink.rolling-policy.check-interval": "200ms", "sink.kafka.commit-group": "hivesink.${table}.${writer}"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.NotWritable, match=f"127.0.0.1:{port} for metrics"):
            apart.begin(apart.sink(options=options), topic.stream(stage.spark), metrics=f":{port}")

    def scraped(metric: str) -> set[float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        own = (line for line in lines if line.startswith(f"{metric}{{") and f'table="{stage.table}"' in line)
        return {float(line.rpartition(" ")[2]) for line in own}

    def group() -> set[int]:
        return set(group_offsets(stage.spark, topic.servers, f"hivesink.{stage.table}.stage").values())

    topic.put(range(10))
    often = {"trigger": "0 seconds", "metrics": f":{port}"}
    query = apart.begin(apart.sink(options=options), topic.stream(stage.spark), **often)
    try:
        query.processAllAvailable()
        wait_until(lambda: group() == {5})
        wire.cut()
        topic.put(range(10, 30))
        query.processAllAvailable()
        offsets = query.progress().offsets
        assert offsets is not None
        assert [offsets.read, offsets.visible] == [{(name, 0): 15, (name, 1): 15}, {(name, 0): 5, (name, 1): 5}]
        told = {kind: scraped(f"hivesink_{kind}_offset") for kind in ("read", "visible", "complete", "end")}
        assert told == {"read": {15}, "visible": {5}, "complete": {5}, "end": {15}}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            exported = set(re.findall(r"(?m)^(\w+)\{", answer.read().decode()))
        for page in ("alerts.yml", "dashboard.json"):
            assert set(re.findall(r"hivesink_\w+", (DOCS / page).read_text())) <= exported
        assert scraped("hivesink_unsettled_epochs") == {1}
        assert scraped("hivesink_rows_total") == {30, 0}
        assert scraped("hivesink_up") == {1}
        time.sleep(1)
        assert group() == {5}
        wire.mend()
        wait_until(lambda: group() == {15})
        assert scraped("hivesink_visible_offset") == {15}
        assert scraped("hivesink_group_commit_failures_total") == {0}
    finally:
        query.stop()
    assert scraped("hivesink_up") == {0}
    # A group that has a consumer is no reason to fail.
    asked = Consumer({"bootstrap.servers": topic.servers, "group.id": f"hivesink.{stage.table}.stage"})
    with closing(asked):
        asked.subscribe([name])
        wait_until(lambda: bool(asked.poll(0.2) or asked.assignment()))
        topic.put(range(30, 32))
        apart.drain(apart.sink(options=options), topic.stream(stage.spark))
        assert "offsets of group hivesink." in caplog.text
    apart.drain(apart.sink(options=options), topic.stream(stage.spark))
    assert (group(), stage.ids()) == ({16}, [*range(32)])


def fail(_real: Any, part: Any) -> None:
    raise errors.StoreUnavailable(action="rename", path=part.staged, reason="the disk is gone")


def test_a_publish_that_fails_in_the_last_epoch_is_raised_and_finished_by_the_next_run(stage: Stage) -> None:
    stage.create()
    for first, is_plain in ((0, False), (10, True)):
        stage.put(range(first, first + 10))
        sink = stage.sink()
        wrap(sink, "store", publish=fail)
        if is_plain:
            with pytest.raises(Exception, match=r"hivesink\.errors\.StoreUnavailable: could not rename"):
                stage.plain(sink)
        else:
            with pytest.raises(errors.StoreUnavailable):
                stage.drain(sink)
        assert stage.ids() == list(range(first))
        stage.drain()
        assert (stage.ids(), stage.staged()) == (list(range(first + 10)), [])
