"""What a real query says of its progress: a line for each epoch, and `query.progress()`, while it runs and after."""

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
from tests.integration.stage import ON_EPOCH, event

if TYPE_CHECKING:
    from hivesink.sink.commit.committed import Committed
    from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

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
