"""Partition commits on real Spark, by the sink's own watermark and by Spark's, from files and from Kafka."""

from __future__ import annotations

import json
import logging
import re
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink import Progress
from hivesink.core.manifest import Recorded, newest, recorded
from hivesink.errors import BadRecord
from hivesink.logs import commit_log
from hivesink.sink.commit.committed import Committed
from hivesink.spark.query import progress_of_all
from tests.integration.stage import ON_EPOCH, Stage, Topic, die, event, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

HOURLY = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.check-interval": "200ms",
    "sink.bucket.assigner": "date-time",
    "sink.bucket.time-column": "at",
    "sink.partition-commit.trigger": "partition-time",
    "sink.partition-commit.policy.kind": "metastore,success-file",
}
BY_SECOND = HOURLY | {"sink.bucket.time-pattern": "yyyy-MM-dd--HHmmss", "sink.partition-commit.idle-timeout": "1s"}
COLUMNS = "id BIGINT, at TIMESTAMP"


def line(identity: int, time: str) -> str:
    return json.dumps({"id": identity, "at": f"2024-01-02 {time}"}) + "\n"


def records(stage: Stage) -> dict[str, Recorded]:
    """By the partition's value."""
    log = commit_log(str(stage.log()))
    own = [one for epoch in log.view().manifests for one in recorded(log.manifest(epoch))]
    return {key[1].partition("=")[2]: one for key, one in newest(own).items()}


def has_success(stage: Stage, value: str) -> bool:
    return (stage.location() / f"dt={value}" / "_SUCCESS").exists()


def partitions(stage: Stage) -> list[str]:
    return [row[0].partition("=")[2] for row in stage.spark.sql(f"SHOW PARTITIONS {stage.table}").collect()]


def put_seconds(stage: Stage) -> None:
    stage.put_text("".join(line(second, f"03:00:{second:02d}") for second in range(5)))


def all_committed(stage: Stage) -> bool:
    return len(records(stage)) == 5 and has_success(stage, "2024-01-02--030004")


def test_when_input_stops_every_partition_is_committed(stage: Stage) -> None:
    stage.create(columns=COLUMNS, properties=BY_SECOND | ON_EPOCH)
    with stage.running(stage.sink(), every="100 milliseconds") as query:
        put_seconds(stage)
        wait_until(lambda: all_committed(stage))
        assert query.isActive
    assert stage.ids() == [0, 1, 2, 3, 4]


def test_sparks_own_watermark_commits_too_and_a_kill_before_sparks_own_commit_takes_none_along(stage: Stage) -> None:
    stage.create(columns=COLUMNS, properties=BY_SECOND)
    events = timed(stage)
    put_seconds(stage)
    with pytest.raises(Exception, match="it dies here"):
        stage.drain(stage.sink(on_commit=die), events)
    # Of one batch alone, Spark's watermark is known only once it has ended.
    with stage.running(stage.sink(), events, every="100 milliseconds"):
        wait_until(lambda: all_committed(stage))
    assert stage.ids() == [0, 1, 2, 3, 4]


def timed(stage: Stage) -> DataFrame:
    """Decoded rows, with Spark's own watermark."""
    rows = stage.lines().selectExpr("from_json(value, 'id BIGINT, at TIMESTAMP') AS r").select("r.*")
    return rows.withWatermark("at", "1 second")


@pytest.mark.kafka
def test_the_slowest_kafka_partition_decides(stage: Stage, topic: Topic) -> None:
    stage.create(columns=COLUMNS, properties=HOURLY | {"sink.partition-commit.idle-timeout": "3s"})
    times = [(0, "03:10:00"), (0, "05:00:00"), (1, "03:20:00")]
    topic.put_raw([(number, line(row, time).encode()) for row, (number, time) in enumerate(times, 1)])
    with stage.running(stage.sink(), topic.stream(stage.spark), every="500 milliseconds") as query:
        query.processAllAvailable()
        mark = commit_log(str(stage.log())).manifest(query.run.committer.head).watermark
        assert mark is not None
        newest_times = {name.rpartition("-")[2]: str(time)[:16] for name, time in mark.newest.items()}
        assert newest_times == {"0": "2024-01-02 05:00", "1": "2024-01-02 03:20"}
        assert str(mark.at)[:16] == "2024-01-02 03:20"
        assert partitions(stage) == []

        def goes_on() -> bool:
            # From now on the second one is idle.
            topic.put_raw([(0, line(4, "05:00:00").encode())])
            return has_success(stage, "2024-01-02--03")

        wait_until(goes_on)
        assert partitions(stage) == ["2024-01-02--03"]
    assert {1, 2, 3} <= set(stage.ids())


SOON = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.inactivity-interval": "1s",
    "sink.rolling-policy.check-interval": "200ms",
}


def files(stage: Stage) -> list[str]:
    return sorted(path.parent.name for path in stage.location().rglob("*.parquet"))


def test_rows_become_readable_while_no_more_come(stage: Stage) -> None:
    stage.create()
    with stage.running(stage.sink(options=SOON), every="100 milliseconds") as query:
        for count in (1, 2):
            stage.put(range(count * 9 - 9, count * 9))
            # On a local disk Hadoop's listing fails beside a rename, so nobody reads meanwhile.
            wait_until(lambda: len(files(stage)) == 3 * count)  # noqa: B023
        assert query.isActive
    assert stage.ids() == list(range(18))
    assert list((stage.log() / "segments").glob("*.arrow")) == []


LATER = {
    "sink.on-bad-record": "drop",
    "sink.rolling-policy.rollover-interval": "1 h",
    "sink.rolling-policy.inactivity-interval": "1 h",
}


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hivesink")


def _lines(stage: Stage, caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if text.startswith(f"table={stage.table} writer=stage ")]


@pytest.mark.kafka
def test_of_a_topic_it_says_how_many_records_are_left(
    stage: Stage, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    stage.create()
    an_hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    topic.put_raw([(number % 2, json.dumps(event(number)).encode()) for number in range(10)], an_hour_ago)
    begun, told = threading.Event(), list[Progress]()

    def on_commit(_: Committed) -> None:
        begun.wait(60)
        told.append(query.progress())

    sink = stage.sink(options=ON_EPOCH, on_commit=on_commit)
    query = stage.begin(sink, topic.stream(stage.spark, maxOffsetsPerTrigger="4"))
    begun.set()
    assert query.awaitTermination()
    assert [(found.epochs, found.rows, found.behind_records) for found in told] == [(1, 4, 6), (2, 8, 2), (3, 10, 0)]
    shown = [re.findall(r" behind: (\d+) records$", line) for line in _lines(stage, caplog)]
    assert shown == [["6"], ["2"], ["0"]]
    found = query.progress()
    assert (found.rows, found.epochs, found.partitions, found.rejected) == (10, 3, 3, 0)
    assert found.waiting_rows == 0
    assert found.rows_per_second is not None
    of_all = progress_of_all()[f"{stage.table} (stage)"]
    assert (of_all.rows, of_all.epochs, of_all.behind_records) == (10, 3, 0)


def test_of_files_it_says_what_waits_for_its_roll(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.create()
    stage.put(range(3))
    query = stage.begin(stage.sink(options=LATER), trigger={"processingTime": "0 seconds"})
    query.processAllAvailable()
    stage.put_text('{"ID": "seven"}\n')
    query.processAllAvailable()
    found = query.progress()
    assert (found.rows, found.epochs, found.waiting_rows, found.behind_records) == (4, 2, 3, None)
    first, second = _lines(stage, caplog)
    assert re.search(r" written=3 .* open=3 total=3 \(\d+ rows/s\)$", first)
    assert " dropped=1 " in second
    query.stop()
    assert query.progress().waiting_rows == 0
    *_, third = _lines(stage, caplog)
    assert " epoch=3 roll " in third
    # The next run finds no new file, and ends without a batch.
    stage.drain(stage.sink(options=LATER))
    assert _lines(stage, caplog)[3:] == [f"table={stage.table} writer=stage nothing new (3 epochs so far)"]
    # One that fails at its first batch has found something.
    stage.put_text('{"ID": "eight"}\n')
    failing = stage.begin(stage.sink(options={**LATER, "sink.on-bad-record": "fail"}))
    with pytest.raises(BadRecord):
        failing.awaitTermination()
    failing.settle()
    assert len(_lines(stage, caplog)) == 4
