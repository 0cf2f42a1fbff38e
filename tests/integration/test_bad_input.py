"""Calls that can't be made exactly once, sources and places that can't be used, records that don't fit.

They are refused before anything is lost, named, and done once they are mended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hivesink import HiveSink, errors, sources
from hivesink.sink.commit.committed import Committed
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.runner import PlanRunner
from jobs.cluster.kafka import end_offsets
from tests.integration.stage import ON_EPOCH, Stage, Topic, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.main_path]
OPTIONS = ON_EPOCH
SOON = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
LETTERS = {"sink.on-bad-record": "dead-letter"}


def said(error: BaseException, *parts: str) -> None:
    """One line, with all of `parts`."""
    text = str(error)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_arguments_of_a_sink(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVESINK_WRITER", raising=False)
    location = stage.create().location()
    (stage.folder / "file").write_text("in the way")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"writer": None}, "writer is missing"),
        ({"writer": "rejects-replay"}, "rejects-replay"),
        *(({"append": wrong}, "append") for wrong in (-5, "x", True)),
        ({"options": {"sink.bucket.assigner": "json:JSONDecoder"}}, "it gets (spec, config)"),
        ({"options": {"sink.log-location": str(location / "logs")}}, "own folder"),
        ({"options": {"sink.log-location": str(stage.folder / "file" / "log")}}, str(stage.folder / "file")),
    ]
    for settings, words in cases:
        with pytest.raises(errors.HiveSinkError) as told:
            stage.sink(**settings)
        said(told.value, words)
    table: Any = None
    with pytest.raises(errors.InvalidOption):
        HiveSink.for_table(stage.spark, table, writer="stage", metastore=stage.uri)


def test_arguments_of_a_start(stage: Stage) -> None:
    location = stage.create().location()
    stage.put(range(3))
    of_decoded_rows = "ID BIGINT, nom STRING, dt STRING", "ID ARRAY<INT>, Name STRING, dt STRING"
    decoded = [stage.spark.readStream.schema(schema).json(str(stage.source)) for schema in of_decoded_rows]
    cases: list[tuple[dict[str, Any], type[errors.HiveSinkError], str]] = [
        ({"trigger": {"once": 1, "x": 2}}, errors.HiveSinkError, "trigger"),
        # Without micro-batches.
        ({"trigger": {"continuous": "1 second"}}, errors.Unsupported, "continuous"),
        ({"trigger": {"realTime": "5 minutes"}}, errors.Unsupported, "realTime"),
        ({"checkpoint": f"file:{location}/checkpoint"}, errors.InvalidOption, "own folder"),
        ({"checkpoint": f"{location.parent}/elsewhere/../{location.name}/c"}, errors.InvalidOption, "own folder"),
        ({"events": decoded[0]}, errors.InvalidOption, "nom"),
        ({"events": decoded[1]}, errors.InvalidOption, "bigint"),
    ]
    for settings, error, words in cases:
        with pytest.raises(error) as told:
            stage.begin(stage.sink(), **settings)
        said(told.value, words)
        assert not told.value.retryable
    assert not stage.checkpoint.exists()
    assert (stage.ids(), stage.staged()) == ([], [])
    for place in (stage.checkpoint, str(stage.checkpoint)):
        stage.drain(checkpoint=place)
    assert stage.ids() == [0, 1, 2]


def test_the_checkpoint_of_another_sinks_query_that_runs(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would end that one in silence."""
    stage.create()
    stage.put(range(3))
    often = {"processingTime": "1 second"}
    query = stage.begin(stage.sink(), trigger=often)
    named = rf"is that of the query into {stage.table} \(writer stage\)"
    with pytest.raises(errors.InvalidOption, match=named):
        stage.begin(stage.sink(writer="other"), trigger=often)
    assert query.isActive
    active: list[bool] = []
    recover = Committer.recover

    def watched(committer: Committer) -> PlanRunner:
        # The last batch of the query before must be in the log that the next run reads.
        active.append(query.isActive)
        return recover(committer)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "recover", watched)
        again = stage.begin(stage.sink(), trigger=often)
    assert active == [False]
    assert "ends: its sink is started again" in caplog.text
    again.processAllAvailable()
    plain = stage.lines().writeStream.foreachBatch(stage.sink(writer="other"))
    third = plain.option("checkpointLocation", str(stage.checkpoint)).start()
    assert not again.isActive
    stage.put(range(3, 5))  # only now: the query that Spark has ended would take them
    with pytest.raises(Exception, match=named):
        third.awaitTermination(60)
    stage.drain()
    assert stage.ids() == list(range(5))


def test_two_queries_of_one_sink_a_batch_that_no_query_made_and_a_function_that_fails(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    sink = stage.sink()
    with pytest.raises(errors.Unsupported, match="foreachBatch"):
        sink(stage.spark.createDataFrame([(1, "a", "d")], "id BIGINT, name STRING, dt STRING"), 0)
    with stage.running(sink) as query:
        query.processAllAvailable()
        with pytest.raises(errors.ForeignHistory, match="own checkpoint"):
            stage.begin(sink, checkpoint=str(stage.folder / "other"))
    assert stage.ids() == [0, 1, 2]

    def on_commit(_: object) -> None:
        message = "enough"
        raise SystemExit(message)

    stage.put(range(3, 10))
    with pytest.raises(errors.OwnCodeFailed, match="your own function raised SystemExit: enough"):
        stage.drain(stage.sink(on_commit=on_commit))
    stage.drain()
    assert stage.ids() == list(range(10))


@pytest.mark.kafka
def test_a_topic_that_can_not_be_read_is_told_at_once(spark: SparkSession, kafka: str) -> None:
    """Spark would ask on without a word."""
    cases: list[tuple[str, str, dict[str, str], type[Exception], str]] = [
        ("127.0.0.1:1", "clicks", SOON, errors.SourceUnreachable, "TimeoutException: Timed out waiting for a node"),
        ("localhost", "clicks", {}, errors.InvalidOption, "Invalid url in bootstrap.servers: localhost"),
        ("h:9092", "clicks", {"kafka.request.timeout.ms": "x"}, errors.InvalidOption, "request.timeout.ms"),
        (kafka, "clcks", {}, errors.InvalidOption, f"topic clcks of Kafka at {kafka}: no such topic: "),
    ]
    for servers, name, options, error, words in cases:
        with pytest.raises(error) as told:
            sources.kafka(spark, servers, name, options=options)
        assert words in str(told.value)
        assert getattr(told.value, "retryable", False) is (error is errors.SourceUnreachable)


@pytest.mark.kafka
def test_a_bad_record_is_named_and_stops_the_query_or_goes_to_the_dead_letters(stage: Stage, topic: Topic) -> None:
    """Behind records of an aborted transaction, which are none, it has its own offset."""
    stage.create()
    topic.put(range(0, 20, 2))
    topic.abort(range(100, 103))
    # The mark that ends their transaction is the broker's, and comes after the answer.
    wait_until(lambda: end_offsets(topic.servers, topic.name, 2)[0] == 14)
    topic.put_raw([(0, b'{"id": 1, "dt": "2024-01-02"}'), (0, b'{"id": "many", "dt": "2024-01-02"}'), (1, None)])
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain(events=topic.stream(stage.spark))
    said(refused.value, f"topic {topic.name} partition 0 offset 15, field id: ", "text into bigint")
    assert (stage.ids(), stage.staged()) == ([], [])
    done: list[Committed] = []
    for _ in range(2):
        stage.drain(stage.sink(options=LETTERS, on_commit=done.append), topic.stream(stage.spark))
    (epoch,) = done
    assert (epoch.rows.read, epoch.rows.written, epoch.rows.rejected, epoch.rows.skipped) == (13, 11, 1, 1)
    assert stage.ids() == sorted([*range(0, 20, 2), 1])
    (letter,) = stage.query(f"SELECT * FROM {stage.table}__rejected")
    assert bytes(letter.value) == b'{"id": "many", "dt": "2024-01-02"}'
    assert (letter.field, letter.topic, letter.partition_id, letter.record_offset) == ("id", topic.name, 0, 15)
    assert "text into bigint" in letter.reason
