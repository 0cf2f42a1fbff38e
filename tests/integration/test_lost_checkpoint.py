"""Checkpoints and logs that are lost, old or another's: refused with the ways on, never doubled, never skipped."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from hivesink import errors, sources
from hivesink.sink.commit.committed import Committed
from tests.integration.stage import ON_EPOCH, Stage, Topic, wait_until, wrap

pytestmark = [pytest.mark.spark, pytest.mark.main_path]
OPTIONS = ON_EPOCH


@pytest.fixture
def stage(stage: Stage, request: pytest.FixtureRequest) -> Stage:
    """Epochs 1 and 2 from two files of ten rows, unless the test is about a topic."""
    stage.create()
    if "topic" not in request.fixturenames:
        for first in (0, 10):
            stage.put(range(first, first + 10))
        stage.drain()
        assert stage.ids() == list(range(20))
    return stage


def test_a_new_checkpoint_over_files_is_refused_and_append_allows_it_once(stage: Stage) -> None:
    stage.forget_checkpoint()
    for _ in range(2):
        with pytest.raises(errors.ForeignHistory, match=r"append=2\) \(your decision") as refused:
            stage.drain()
        assert "\n" not in str(refused.value)
        assert not stage.checkpoint.exists()
    for path in stage.source.iterdir():
        path.unlink()
    # With its new checkpoint the job goes on as it is, `append` and all.
    for first in (20, 30):
        stage.put(range(first, first + 10), f"new{first}.json")
        stage.drain(stage.sink(append=2))
    assert stage.ids() == list(range(40))
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignHistory, match="append=4"):
        stage.drain(stage.sink(append=2))
    assert stage.ids() == list(range(40))


@pytest.mark.parametrize(
    "older", [pytest.param(False, marks=pytest.mark.long), True], ids=["lost", "a checkpoint of one batch before"]
)
def test_a_lost_offsets_file_whose_batch_comes_again_with_other_files_is_refused(stage: Stage, *, older: bool) -> None:
    for name in ("offsets/1", "commits/1", *["sources/0/1"] * older):
        stage.lose(name)
    stage.put(range(20, 30))
    events = partial(sources.lines, stage.spark, str(stage.source)) if older else stage.lines
    for _ in range(2):  # Spark plans the batch, then has it planned.
        with pytest.raises(errors.CheckpointDiffers) as refused:
            stage.drain(events=events())
        read = str(refused.value).partition("once the files that were read are moved away for good: ")[2]
        assert stage.ids() == list(range(20))
    # Which of the two it is hangs on times that may be equal.
    (file,) = [path for path in stage.source.glob("000[01].json") if read.startswith(str(path))]
    file.unlink()
    stage.drain(stage.sink(append=2), events())
    assert stage.ids() == list(range(30))


@pytest.mark.kafka
def test_over_kafka_a_lost_offsets_file_is_a_replay_or_refused(stage: Stage, topic: Topic) -> None:
    for first in (0, 20):
        topic.put(range(first, first + 10))
        stage.drain(events=topic.stream(stage.spark))
    for name in ("offsets/1", "commits/1"):
        stage.lose(name)
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append), topic.stream(stage.spark))
    assert done[0].replayed
    for name in ("offsets/1", "commits/1"):
        stage.lose(name)
    topic.put(range(30, 40))
    with pytest.raises(errors.CheckpointDiffers, match="--checkpoint file:"):
        stage.drain(events=topic.stream(stage.spark))
    assert stage.ids() == [*range(10), *range(20, 30)]


def test_a_run_beside_another_at_one_checkpoint_stops_and_leaves_what_waits_to_it(stage: Stage) -> None:
    stage = replace(stage, options={})
    stage.put([20])
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    query.processAllAvailable()
    # The other run has planned the next batch.
    shutil.copy(stage.checkpoint / "offsets" / "2", stage.checkpoint / "offsets" / "3")
    stage.put([21])
    with pytest.raises(StreamingQueryException, match=r"CONCURRENT|Concurrent|Multiple streaming"):
        query.processAllAvailable()
    query.settle()
    assert stage.ids() == list(range(20))


def _waits_for(gate: Path, reached: Path) -> Callable[[Any], Any]:
    """In the tasks, before the sink: say that the batch runs, and hold it up until `gate` is there."""

    def wait(batches: Any) -> Any:
        import time

        reached.touch()
        while not gate.exists():
            time.sleep(0.02)
        yield from batches

    return wait


def test_a_stop_while_tasks_run_leaves_the_batch_to_the_next_run(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.put(range(20, 30))
    gate, reached = stage.folder / "gate", stage.folder / "reached"
    events = stage.lines()
    held = events.mapInArrow(_waits_for(gate, reached), events.schema)
    query = stage.begin(stage.sink(), held, trigger={"processingTime": "0 seconds"})
    wait_until(reached.exists)
    query.stop()
    assert not query.isActive
    told = f"the query into {stage.table} was stopped in the middle of a batch; the next start finishes it"
    assert told in caplog.messages
    assert stage.ids() == list(range(20))
    gate.touch()
    for _ in range(2):
        stage.drain(events=held)
    assert (stage.ids(), stage.staged()) == (list(range(30)), [])


def test_a_stop_after_the_decision_leaves_a_batch_that_spark_runs_again_as_a_replay(stage: Stage) -> None:
    stage.put(range(20, 30))
    decided, asked = threading.Event(), threading.Event()

    def create(real: Any, manifest: Any) -> None:
        real(manifest)
        decided.set()
        assert asked.wait(60)

    sink = stage.sink()
    wrap(sink, "log", create=create)
    query = stage.begin(sink, trigger={"processingTime": "0 seconds"})
    assert decided.wait(60)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    # Spark marks the query as ended, then waits for the batch.
    wait_until(lambda: not query.isActive)
    asked.set()
    stopping.join()
    stage.put(range(30, 40))
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append))
    assert (stage.ids(), stage.staged()) == (list(range(40)), [])
