"""Ways to run a stream that the sink can't make exactly once: refused before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hivesink import HiveSink, errors

if TYPE_CHECKING:
    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


class RemoteSession:
    """What `SparkSession.builder.remote(…)` hands out, as far as its name goes: its packages aren't installed."""


RemoteSession.__module__ = "pyspark.sql.connect.session"


def test_spark_connect() -> None:
    session: Any = RemoteSession()
    with pytest.raises(errors.Unsupported, match="Spark Connect is not supported") as told:
        HiveSink.for_table(session, "stage.any", writer="stage")
    assert "classic session" in str(told.value)


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "5 minutes"}])
def test_triggers_without_micro_batches(stage: Stage, trigger: dict[str, str]) -> None:
    stage.create()
    stage.put(range(3))
    with pytest.raises(errors.Unsupported) as told:
        stage.begin(stage.sink(), trigger=trigger)
    assert next(iter(trigger)) in str(told.value)
    assert "processingTime" in str(told.value)
    assert stage.ids() == []


def test_the_checkpoint_of_another_sinks_query_that_runs(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Spark would end that one in silence."""
    stage.create()
    stage.put(range(3))
    often = {"processingTime": "1 second"}
    query = stage.begin(stage.sink(), trigger=often)
    named = rf"is that of the query into {stage.table} \(writer stage\)"
    with pytest.raises(errors.InvalidOption, match=named):
        stage.begin(stage.sink(writer="other"), trigger=often)
    assert query.isActive
    again = stage.begin(stage.sink(), trigger=often)
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


def test_the_continuous_trigger_under_plain_foreach_batch(stage: Stage) -> None:
    stage.create()
    events = stage.spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS name", "'d' AS dt")
    writer = events.writeStream.foreachBatch(stage.sink()).option("checkpointLocation", str(stage.checkpoint))
    with pytest.raises(Exception, match=r"(?i)continuous"):
        writer.trigger(continuous="1 second").start().awaitTermination(30)
    assert stage.ids() == []


def test_asynchronous_progress_tracking(stage: Stage) -> None:
    stage.create()
    events = stage.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "5").load()
    rows = events.selectExpr("value AS id", "'a' AS name", "'d' AS dt")
    writer = rows.writeStream.foreachBatch(stage.sink()).option("checkpointLocation", str(stage.checkpoint))
    # Spark's own refusal: what is written after the batch can't prove a replay.
    with pytest.raises(Exception, match="does not support async progress tracking"):
        writer.option("asyncProgressTrackingEnabled", "true").start().awaitTermination(60)
    assert stage.ids() == []


def test_a_batch_that_no_query_made(stage: Stage) -> None:
    stage.create()
    sink = stage.sink()
    rows = stage.spark.createDataFrame([(1, "a", "d")], "id BIGINT, name STRING, dt STRING")
    with pytest.raises(errors.Unsupported, match="foreachBatch"):
        sink(rows, 0)
    assert stage.ids() == []


def test_two_queries_of_one_sink(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    sink = stage.sink()
    query = stage.begin(sink, trigger={"processingTime": "0 seconds"})
    try:
        with pytest.raises(errors.Unsupported, match="still runs"):
            stage.begin(sink, checkpoint=str(stage.folder / "other"))
        query.processAllAvailable()
    finally:
        query.stop()
    assert stage.ids() == [0, 1, 2]


def test_a_sink_without_a_writers_name(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVESINK_WRITER", raising=False)
    stage.create()
    with pytest.raises(errors.InvalidOption, match="writer is missing"):
        stage.sink(writer=None)
    with pytest.raises(errors.InvalidOption, match="'rejects-replay' is the writer of `hivesink rejects replay`"):
        stage.sink(writer="rejects-replay")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_whatever_on_commit_raises_ends_the_query(stage: Stage, kind: type[BaseException]) -> None:
    stage.create()
    stage.put(range(10))

    def on_commit(_: object) -> None:
        message = "enough"
        raise kind(message)

    with pytest.raises(errors.OwnCodeFailed, match=f"your own function raised {kind.__name__}: enough"):
        stage.drain(stage.sink(on_commit=on_commit))
    stage.drain()
    assert stage.ids() == list(range(10))
