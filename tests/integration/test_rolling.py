"""Rows that wait across epochs: few files, and no row that waits for ever; and what a query says of its progress."""

from __future__ import annotations

import json
import logging
import re
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink import Progress
from hivesink.errors import BadRecord
from hivesink.spark.query import progress_of_all
from tests.integration.stage import ON_EPOCH, event, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.sink.commit.committed import Committed
    from hivesink.spark.query import HiveQuery
    from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

WAIT = {"sink.rolling-policy.on-epoch": "false"}
SOON = {
    **WAIT,
    "sink.rolling-policy.inactivity-interval": "1s",
    "sink.rolling-policy.check-interval": "200ms",
}


def files(stage: Stage) -> list[str]:
    return sorted(path.parent.name for path in stage.location().rglob("*.parquet"))


def waiting(stage: Stage) -> list[str]:
    return [path.name for path in (stage.log() / "segments").glob("*.arrow")]


def waits(stage: Stage, numbers: range, settings: Mapping[str, str]) -> HiveQuery:
    """A query in a new table, whose rows wait."""
    stage.create()
    stage.put(numbers)
    query = stage.begin(stage.sink(options=settings), trigger="100 milliseconds")
    query.processAllAvailable()
    return query


def test_the_rows_of_many_epochs_become_one_file_a_partition(stage: Stage) -> None:
    stage.create()
    for number in range(4):
        stage.put(range(number * 9, number * 9 + 9))
    done: list[Committed] = []
    stage.drain(stage.sink(options=WAIT, on_commit=done.append))
    assert stage.ids() == list(range(36))
    assert files(stage) == ["dt=2024-01-01", "dt=2024-01-02", "dt=2024-01-03"]
    assert [one.files for one in done] == [0, 0, 0, 0]
    assert waiting(stage) == []
    stage.drain(stage.sink(options=WAIT))
    assert stage.ids() == list(range(36))


def test_rows_become_readable_while_no_more_come(stage: Stage) -> None:
    stage.create()
    with stage.running(stage.sink(options=SOON), every="100 milliseconds") as query:
        for count in (1, 2):
            stage.put(range(count * 9 - 9, count * 9))
            # On a local disk Hadoop's listing fails beside a rename, so nobody reads meanwhile.
            wait_until(lambda: len(files(stage)) == 3 * count)  # noqa: B023
        assert query.isActive
    assert stage.ids() == list(range(18))
    assert waiting(stage) == []


def test_a_column_that_is_added_while_rows_wait_is_null_in_them(stage: Stage) -> None:
    # As a kill leaves it: Spark's own handle ends the query without the sink's end.
    query = waits(stage, range(3), WAIT)
    query.handle.stop()
    query._ended.set()
    query._timer.join()
    stage.spark.sql(f"ALTER TABLE {stage.table} ADD COLUMNS (more INT)")
    stage.put(range(3, 6))
    stage.drain(stage.sink(options=WAIT))
    rows = stage.query(f"SELECT id, more FROM {stage.table} ORDER BY id")
    assert [tuple(row) for row in rows] == [(number, None) for number in range(6)]


def test_a_stopped_query_may_keep_what_waits(stage: Stage) -> None:
    keeps = {**WAIT, "sink.on-stop": "keep"}
    waits(stage, range(9), keeps).stop()
    assert stage.ids() == []
    stage.drain(stage.sink(options=keeps))
    assert stage.ids() == list(range(9))


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
    assert (found.waiting_rows, found.readable_in) == (0, None)
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
    assert found.readable_in is not None
    first, second = _lines(stage, caplog)
    assert re.search(r" written=3 .* open=3 \(readable within \d+ s\) total=3 \(\d+ rows/s\)$", first)
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
