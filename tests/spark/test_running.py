"""What a stream's plan and trigger say of its input, on the real Spark."""

from __future__ import annotations

import os
import signal
import traceback
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Timer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hivesink.core.offsets import FilesOffset, KafkaOffset
from hivesink.errors import SourceUnreachable
from hivesink.sink.commit.source_clock import InputTraits
from hivesink.spark.query import HiveQuery, newest
from hivesink.spark.running import Questions, is_marked, traits_of, trigger_interval, watermarks
from hivesink.spark.sources import ids_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Plan = Callable[[DataFrame, DataFrame], DataFrame]

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")


def source(events: DataFrame) -> InputTraits:
    plan = events._jdf.queryExecution().analyzed()
    return traits_of(plan, planned=False, ends_early=False)


PLANS: dict[str, tuple[bool, Plan]] = {
    "rows": (False, lambda one, _: one),
    "filter": (False, lambda one, _: one.where("value > 1")),
    "duplicates": (False, lambda one, _: one.dropDuplicates(["value", "timestamp"])),
    "union": (False, lambda one, other: one.union(other)),
    "a table": (False, lambda one, _: one.join(one.sparkSession.range(3), F.col("value") == F.col("id"))),
    "an aggregated table": (
        False,
        lambda one, _: one.join(one.sparkSession.range(3).groupBy("id").count(), F.col("value") == F.col("id")),
    ),
    "distinct": (True, lambda one, _: one.sparkSession.sql("SELECT DISTINCT * FROM {one}", one=one)),
    "except": (
        True,
        lambda one, _: one.sparkSession.sql("SELECT value FROM {one} EXCEPT SELECT id FROM range(3)", one=one),
    ),
    "windows": (True, lambda one, _: one.groupBy(F.window("timestamp", "1 minute")).count()),
    "two streams": (True, lambda one, other: one.alias("a").join(other.alias("b"), F.expr("a.value = b.value"))),
    "own state": (
        True,
        lambda one, _: one.groupBy("value").applyInPandasWithState(
            lambda *_: iter(()), "value BIGINT", "n BIGINT", "append", "NoTimeout"
        ),
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_operators_that_hold_rows_back(spark: SparkSession, name: str) -> None:
    holds_back, plan = PLANS[name]
    assert source(plan(rates(spark), rates(spark))) == InputTraits(holds_back=holds_back)


def kafka(spark: SparkSession, **options: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t")
    return reader.options(**options).load()


@pytest.mark.parametrize("option", ["maxFilesPerTrigger", "MAXBYTESPERTRIGGER", None])
def test_limits_of_files(spark: SparkSession, tmp_path: Path, option: str | None) -> None:
    events = spark.readStream.options(**{option: "7"} if option else {}).text(str(tmp_path))
    assert source(events) == InputTraits(is_piecewise=option is not None)


def test_limits_of_kafka(spark: SparkSession) -> None:
    assert source(kafka(spark)) == InputTraits()
    assert source(kafka(spark, maxOffsetsPerTrigger="7")) == InputTraits()
    assert source(kafka(spark, MINOFFSETSPERTRIGGER="7")) == InputTraits(defers=True)


@pytest.mark.parametrize(
    ("trigger", "interval"),
    [
        ({"processingTime": "90 seconds"}, timedelta(seconds=90)),
        ({"processingTime": "0 seconds"}, timedelta(0)),
        ({"availableNow": True}, None),
        ({"once": True}, None),
    ],
)
def test_how_often_spark_asks(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, Any], interval: timedelta | None
) -> None:
    seen = []
    writer = rates(spark).writeStream.foreachBatch(lambda *_: None).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(**trigger).start()
    try:
        execution = query._jsq.streamingQuery()
        seen.append(trigger_interval(execution))
        plan = execution.analyzedPlan()
        assert traits_of(plan, planned=True, ends_early=interval is None) == InputTraits(True, interval is None)
    finally:
        query.stop()
    assert seen == [interval]


WAITS, WORKS = "Waiting for next trigger", "Processing new data"


def test_two_looks_at_a_waiting_query_show_that_it_has_asked() -> None:
    questions = Questions(timedelta(0))
    assert [questions.look(text, tick, tick) for tick, text in enumerate([WAITS, WAITS, WORKS, WAITS, WAITS])] == [
        None,
        0,
        None,
        None,
        3,
    ]


def test_it_asks_once_in_each_interval() -> None:
    questions = Questions(timedelta(seconds=60))
    assert [questions.look(WAITS, tick, tick) for tick in (0, 50, 100, 150)] == [None, -10, 40, 90]
    assert Questions(None).look(WAITS, 0, 0) is None
    once = Questions(None)
    assert [once.look(WAITS, tick, tick) for tick in (0, 10)] == [None, None]


def test_after_a_clock_was_set_back_it_waits_for_longer() -> None:
    questions = Questions(timedelta(seconds=10))
    looks = [(0, 1000), (20, 1020), (40, 1000), (60, 1020), (90, 1050), (110, 1070)]
    assert [questions.look(WAITS, tick, wall) for tick, wall in looks] == [None, 0, None, None, 60, 90]
    # What asks all the time waits for no clock.
    always = Questions(timedelta(0))
    assert [always.look(WAITS, tick, wall) for tick, wall in looks] == [None, 0, 20, 40, 60, 90]


def test_a_watermark_counts_if_each_source_has_one(spark: SparkSession) -> None:
    def marked(events: DataFrame) -> bool:
        return is_marked(events._jdf.queryExecution().analyzed())

    bare = spark.readStream.format("rate").load()
    assert marked(rates(spark))
    assert marked(rates(spark).union(rates(spark)).join(spark.range(3), F.col("value") == F.col("id")))
    assert not marked(bare)
    assert not marked(rates(spark).union(bare))
    with_clause = "WITH w AS (SELECT * FROM {one}) SELECT timestamp, value FROM w UNION ALL SELECT * FROM w"
    assert marked(spark.sql(with_clause, one=rates(spark)))
    assert not marked(spark.sql(with_clause, one=bare))
    joined = bare.alias("a").join(bare.alias("b"), F.expr("a.value = b.value")).selectExpr("a.timestamp AS at")
    assert not marked(joined.withWatermark("at", "1 minute"))
    windows = rates(spark).groupBy(F.window("timestamp", "1 minute")).count().selectExpr("window.end AS at")
    assert marked(windows.withWatermark("at", "1 minute"))
    assert watermarks(rates(spark).union(rates(spark))._jdf.queryExecution().analyzed()) == 2


class Away(SimpleNamespace):
    """An exception in the JVM."""

    _target_id = "o1"

    def getCause(self) -> str:  # noqa: N802  Java's name
        return str(self.said)


def _described(**answers: str | None) -> Any:
    """A `StreamExecution` whose one source's client knows these ids; of a topic without one it says why."""

    def get(name: str) -> Any:
        if (one := answers[name]) is None or " " in one:
            message = "An error occurred"
            raise Py4JJavaError(message, Away(said=one or "UnknownTopicOrPartitionException"))
        return SimpleNamespace(topicId=lambda: SimpleNamespace(toString=lambda: one))

    def future(name: str) -> Any:
        return SimpleNamespace(get=partial(get, name))

    found = SimpleNamespace(topicNameValues=lambda: SimpleNamespace(get=future))
    reader = SimpleNamespace(admin=lambda: SimpleNamespace(describeTopics=lambda _: found))
    return SimpleNamespace(kafkaOffsetReader=lambda: reader)


def _execution(*sources: Any) -> Any:
    return SimpleNamespace(sources=lambda: SimpleNamespace(apply=sources.__getitem__))


def test_the_ids_that_topics_have_now() -> None:
    end = KafkaOffset.of({"t": {"0": 5}, "u": {"0": 5}})
    knows, old = _described(t="one", u=None), _described(t="AAAAAAAAAAAAAAAAAAAAAA", u="two")
    ends = (end, FilesOffset.of(1, ()), end)
    assert ids_now(_execution(knows, None, old), ends) == ({"t": "one"}, {}, {"u": "two"})
    # Neither Spark's older source nor its deprecated reader has a client that can be asked.
    deprecated = SimpleNamespace(kafkaOffsetReader=SimpleNamespace)
    assert ids_now(_execution(SimpleNamespace(), deprecated), (end, end)) == ({}, {})
    away = _execution(_described(t="one", u="Timed out: no node"))
    with pytest.raises(SourceUnreachable, match=r"^the id of topic t, u of Kafka: Timed out: no node$") as told:
        ids_now(away, (end,))
    assert told.value.retryable
    # A stop is no trouble with Kafka.
    with pytest.raises(Py4JJavaError):
        ids_now(_execution(_described(t="java.lang.InterruptedException: null", u="two")), (end,))


def test_ctrl_c_ends_a_wait_by_nothing_but_itself(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As PySpark handles it: it calls the JVM, which fails within another call of the same thread."""
    query = rates(spark).writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()

    @contextmanager
    def awaited() -> Iterator[None]:
        Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        yield

    config = {"sink.on-stop": None, "sink.rolling-policy.check-interval": timedelta(days=1)}
    spec, log = SimpleNamespace(config=config), SimpleNamespace(location="/log")
    run: Any = SimpleNamespace(setup=SimpleNamespace(spec=spec, context=SimpleNamespace(log=log)), awaited=awaited)
    handle = HiveQuery(query, run)
    try:
        with pytest.raises(KeyboardInterrupt) as ended:
            handle.awaitTermination()
    finally:
        handle._end_timer()
        newest.pop("/log")
        query.stop()
    assert ended.value.__suppress_context__
    assert "py4j" not in "".join(traceback.format_exception(ended.value))
    assert not caplog.records
