"""Lost checkpoints that the log rebuilds: the query goes on, and each row comes once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from hivesink import errors
from hivesink.sink.commit.committed import Committed
from tests.cli.site import Said, hivesink
from tests.integration.stage import ON_EPOCH, Stage, Topic, once_after

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.main_path]
OPTIONS = ON_EPOCH


@pytest.fixture
def recover(stage: Stage, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`hivesink recover` of the stage's table; `--checkpoint` is its own unless another one is given."""

    def run(*options: str, checkpoint: Any = None) -> Said:
        where = str(checkpoint or stage.checkpoint)
        arguments = ("recover", stage.table, "--checkpoint", where, "--metastore", stage.uri, *options)
        return hivesink(capsys, *arguments)

    return run


def verified(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert hivesink(capsys, "recover", stage.table, "--metastore", stage.uri).code == 0
    said = hivesink(capsys, "verify", stage.table, "--metastore", stage.uri)
    assert said.code == 0, said.out


@pytest.mark.parametrize(
    "options", [pytest.param(ON_EPOCH, marks=pytest.mark.long), {"sink.on-stop": "keep"}], ids=["on epoch", "keep"]
)
def test_a_checkpoint_that_is_lost_at_any_moment_is_rebuilt_and_each_row_comes_once(
    stage: Stage,
    topic: Topic,
    recover: Callable[..., Said],
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
) -> None:
    stage = replace(stage, options=options).create()
    replayed: list[bool] = []

    def go_on() -> None:
        """The checkpoint is lost and rebuilt; the job, unchanged, proves its last batch and goes on."""
        stage.forget_checkpoint()
        with pytest.raises(errors.ForeignHistory, match=f"`hivesink recover {stage.table} --checkpoint file:"):
            stage.drain(events=topic.stream(stage.spark))
        assert recover().code == 0
        replayed.clear()
        told = stage.sink(on_commit=lambda done: replayed.append(done.replayed))
        stage.drain(told, topic.stream(stage.spark, maxOffsetsPerTrigger="15"))
        assert replayed[0]
        assert not any(replayed[1:])

    # Between the manifest of the first batch and Spark's commit of it.
    topic.put(range(20))
    stage.killed(topic.stream(stage.spark), once_after)
    topic.put(range(20, 40))
    go_on()
    assert len(replayed) > 1
    # The same for a later one, with a partition that the batch before hadn't.
    topic.put(range(40, 50))
    stage.drain(events=topic.stream(stage.spark))
    topic.grow(3)
    topic.put(range(50, 80), partitions=3)
    stage.killed(topic.stream(stage.spark), once_after)
    go_on()
    # After Spark's commit, twice in a row.
    topic.put(range(80, 90), partitions=3)
    go_on()
    verified(stage, capsys)
    assert stage.ids() == list(range(90))


def test_a_refused_starts_leftover_is_put_aside_and_a_checkpoint_in_use_is_not(
    stage: Stage, topic: Topic, recover: Callable[..., Said]
) -> None:
    stage.create()
    topic.put(range(20))
    stage.drain(events=topic.stream(stage.spark))
    for checkpoint in (stage.checkpoint, stage.source.parent):
        assert recover(checkpoint=checkpoint).code == 65
    stage.forget_checkpoint()
    topic.put(range(20, 30))
    # Under plain foreachBatch Spark has planned batch 0, and kept its checksum, when the sink is asked.
    sink = stage.sink()
    with pytest.raises(StreamingQueryException):
        stage.plain(sink, topic.stream(stage.spark))
    assert isinstance(sink._run.failure, errors.ForeignHistory)
    assert (stage.checkpoint / "offsets" / ".0.crc").exists()
    said = recover("--dry-run")
    assert (said.code, (stage.checkpoint / "offsets" / ".0.crc").exists()) == (0, True)
    assert recover().code == 0
    assert len(list(stage.folder.glob("checkpoint.aside-*/offsets/0"))) == 1
    stage.plain(stage.sink(), topic.stream(stage.spark))
    assert stage.ids() == list(range(30))


def test_topics_and_folders_that_are_changed_round_are_refused(stage: Stage, topic: Topic) -> None:
    stage.create()
    other = Topic.create(topic.servers, f"{topic.name}-other")
    topic.put(range(10))
    other.put(range(10, 20))

    def both(*topics: Topic) -> DataFrame:
        first, second = (one.stream(stage.spark, failOnDataLoss="false") for one in topics)
        return first.union(second)

    stage.drain(events=both(topic, other))
    topic.put(range(20, 30))
    with pytest.raises(errors.SourceChanged, match=f"until epoch 1 .* now reads {other.name}, {topic.name} in"):
        stage.drain(events=both(other, topic))
    stage.drain(events=both(topic, other))
    assert stage.ids() == list(range(30))

    stage, second = (
        replace(stage, folder=stage.folder / name, table=f"{stage.table}_f") for name in ("first", "second")
    )
    for number, each in enumerate((stage, second)):
        each.folder.mkdir()
        each.put(range(number * 10, number * 10 + 10))
    stage.create().drain(events=stage.lines().union(second.lines()))
    with pytest.raises(errors.SourceChanged):
        stage.drain(events=second.lines().union(stage.lines()))
    assert stage.ids() == list(range(20))


def test_a_topic_that_was_created_again_is_refused_until_a_new_checkpoint_reads_it_whole(
    stage: Stage, topic: Topic, recover: Callable[..., Said]
) -> None:
    stage.create()
    topic.put(range(20))
    stage.drain(events=topic.stream(stage.spark))
    topic.remake()
    topic.put(range(100, 140))
    own = stage.spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic.servers)
    told = rf"read topic {topic.name}, and now another one of that name .* append=1\)"
    plain = own.option("subscribe", topic.name).load()
    for allowed, events in (({}, topic.stream(stage.spark)), ({"append": 1}, plain)):
        with pytest.raises(errors.SourceChanged, match=told):
            stage.drain(stage.sink(**allowed), events)
    # Neither a rebuilt checkpoint nor another writer's name hides it.
    old = stage.copy_checkpoint()
    stage.forget_checkpoint()
    assert recover().code == 0
    with pytest.raises(errors.SourceChanged):
        stage.drain(events=topic.stream(stage.spark))
    stage.restore_checkpoint(old)
    with pytest.raises(errors.SourceChanged):
        stage.drain(stage.sink(writer="other", append=0), topic.stream(stage.spark))
    assert stage.ids() == list(range(20))
    stage.forget_checkpoint()
    stage.drain(stage.sink(append=1), topic.stream(stage.spark))
    assert stage.ids() == [*range(20), *range(100, 140)]


@pytest.mark.long
def test_a_topic_that_is_created_again_after_a_kill_in_a_querys_first_batch_is_refused(
    stage: Stage, topic: Topic
) -> None:
    """Its plan begins in the middle of the old topic, and no log knows of it yet."""
    stage.create()
    topic.put(range(20))
    middle = json.dumps({topic.name: {"0": 5, "1": 5}})
    stage.killed(topic.stream(stage.spark, startingOffsets=middle))
    topic.remake()
    topic.put(range(100, 140))
    for _ in range(2):
        with pytest.raises(errors.SourceChanged):
            stage.drain(events=topic.stream(stage.spark, startingOffsets=middle))
    assert stage.ids() == []


def test_a_topic_that_is_created_again_under_a_running_query_stops_it(stage: Stage, topic: Topic) -> None:
    stage.create()
    topic.put(range(10))

    def remake(done: Committed) -> None:
        assert done.epoch == 1
        topic.remake()
        topic.put(range(100, 120))

    query = stage.begin(stage.sink(on_commit=remake), topic.stream(stage.spark), trigger="0 seconds")
    with pytest.raises(errors.SourceChanged):
        query.processAllAvailable()
    assert stage.ids() == list(range(10))
