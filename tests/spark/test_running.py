"""What a stream's plan and trigger say of its input, on the real Spark."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
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
from hivesink.spark.running import Questions, is_marked, traits_of, trigger_interval
from hivesink.spark.sources import ids_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Plan = Callable[[DataFrame, DataFrame], DataFrame]

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")


def analyzed(events: DataFrame) -> Any:
    return events._jdf.queryExecution().analyzed()


def kafka(spark: SparkSession, **options: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t")
    return reader.options(**options).load()


def numbers(one: DataFrame) -> DataFrame:
    return one.sparkSession.range(3)


EQUAL, HERE = "value = id", str(Path(__file__).parent)
HELD = InputTraits(holds_back=True)
PLANS: dict[str, tuple[InputTraits, Plan]] = {
    "rows": (InputTraits(), lambda one, _: one),
    "filter": (InputTraits(), lambda one, _: one.where("value > 1")),
    "duplicates": (InputTraits(), lambda one, _: one.dropDuplicates(["value", "timestamp"])),
    "union": (InputTraits(), lambda one, other: one.union(other)),
    "a table": (InputTraits(), lambda one, _: one.join(numbers(one), F.expr(EQUAL))),
    "an aggregated table": (InputTraits(), lambda one, _: one.join(numbers(one).groupBy("id").count(), F.expr(EQUAL))),
    "distinct": (HELD, lambda one, _: one.sparkSession.sql("SELECT DISTINCT * FROM {one}", one=one)),
    "except": (HELD, lambda one, _: one.sparkSession.sql("SELECT value FROM {one} EXCEPT SELECT 1", one=one)),
    "windows": (HELD, lambda one, _: one.groupBy(F.window("timestamp", "1 minute")).count()),
    "two streams": (HELD, lambda one, other: one.alias("a").join(other.alias("b"), F.expr("a.value = b.value"))),
    "own state": (
        HELD,
        lambda one, _: one.groupBy("value").applyInPandasWithState(
            lambda *_: iter(()), "value BIGINT", "n BIGINT", "append", "NoTimeout"
        ),
    ),
    "files": (InputTraits(), lambda one, _: one.sparkSession.readStream.text(HERE)),
    "kafka": (InputTraits(), lambda one, _: kafka(one.sparkSession, maxOffsetsPerTrigger="7")),
    "deferred": (InputTraits(defers=True), lambda one, _: kafka(one.sparkSession, MINOFFSETSPERTRIGGER="7")),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_a_plan_says_of_its_input(spark: SparkSession, name: str) -> None:
    traits, plan = PLANS[name]
    assert traits_of(analyzed(plan(rates(spark), rates(spark))), planned=False, ends_early=False) == traits


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
    writer = rates(spark).writeStream.foreachBatch(lambda *_: None).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(**trigger).start()
    try:
        execution = query._jsq.streamingQuery()
        assert trigger_interval(execution) == interval
        traits = traits_of(execution.analyzedPlan(), planned=True, ends_early=interval is None)
        assert traits == InputTraits(True, interval is None)
    finally:
        query.stop()


WAITS, WORKS = "Waiting for next trigger", "Processing new data"
SET_BACK = [(0, 1000), (20, 1020), (40, 1000), (60, 1020), (90, 1050), (110, 1070)]


@pytest.mark.parametrize(
    ("interval", "looks", "asked"),
    [
        (0, [(WAITS, 0, 0), (WAITS, 1, 1), (WORKS, 2, 2), (WAITS, 3, 3), (WAITS, 4, 4)], [None, 0, None, None, 3]),
        (60, [(WAITS, tick, tick) for tick in (0, 50, 100, 150)], [None, -10, 40, 90]),
        (None, [(WAITS, 0, 0), (WAITS, 10, 10)], [None, None]),
        # After its clock was set back, Spark waits for longer, unless it asks all the time.
        (10, [(WAITS, *look) for look in SET_BACK], [None, 0, None, None, 60, 90]),
        (0, [(WAITS, *look) for look in SET_BACK], [None, 0, 20, 40, 60, 90]),
    ],
)
def test_looks_at_a_query_show_when_it_has_asked(
    interval: int | None, looks: list[tuple[str, float, float]], asked: list[float | None]
) -> None:
    questions = Questions(None if interval is None else timedelta(seconds=interval))
    assert [questions.look(*look) for look in looks] == asked


def test_a_watermark_counts_if_each_source_has_one(spark: SparkSession) -> None:
    bare, own = spark.readStream.format("rate").load(), rates(spark)
    with_clause = "WITH w AS (SELECT * FROM {one}) SELECT timestamp, value FROM w UNION ALL SELECT * FROM w"
    joined = bare.alias("a").join(bare.alias("b"), F.expr("a.value = b.value")).selectExpr("a.timestamp AS at")
    windows = own.groupBy(F.window("timestamp", "1 minute")).count().selectExpr("window.end AS at")
    cases = [
        (own, True),
        (own.union(rates(spark)).join(spark.range(3), F.expr(EQUAL)), True),
        (bare, False),
        (own.union(bare), False),
        (spark.sql(with_clause, one=own), True),
        (spark.sql(with_clause, one=bare), False),
        (joined.withWatermark("at", "1 minute"), False),
        (windows.withWatermark("at", "1 minute"), True),
    ]
    assert [is_marked(analyzed(events)) for events, _ in cases] == [marked for _, marked in cases]


class Away(SimpleNamespace):
    """An exception in the JVM."""

    _target_id = "o1"

    @property
    def _gateway_client(self) -> Any:
        return SimpleNamespace(send_command=lambda _: f"ys{self.said}")

    def getCause(self) -> Any:  # noqa: N802  Java's name
        return self

    def getClass(self) -> Any:  # noqa: N802  Java's name
        return SimpleNamespace(getSimpleName=lambda: "RetriableException", getSuperclass=lambda: None)


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
    with pytest.raises(
        SourceUnreachable, match=r"^the id of topic t, u of Kafka: .*Timed out: no node; do its"
    ) as told:
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

    config = {"sink.on-stop": None, "sink.rolling-policy.check-interval": timedelta(days=1)}
    spec, log = SimpleNamespace(config=config), SimpleNamespace(location="/log")
    setup = SimpleNamespace(spec=spec, context=SimpleNamespace(log=log))
    figures = SimpleNamespace(hear=lambda: None)
    run: Any = SimpleNamespace(setup=setup, committer=SimpleNamespace(figures=figures), group=None)
    handle = HiveQuery(query, run)
    try:
        Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt) as ended:
            handle.awaitTermination()
    finally:
        handle._ended.set()
        newest.pop("/log")
        query.stop()
    assert ended.value.__suppress_context__
    assert "py4j" not in "".join(traceback.format_exception(ended.value))
    assert not caplog.records
