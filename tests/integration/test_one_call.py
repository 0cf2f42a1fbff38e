"""Functions for `foreachBatch` that call sinks themselves: one call of a writer's sinks is one batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import errors
from tests.integration.stage import AVAILABLE_NOW, ON_EPOCH, once, once_after, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from hivesink import HiveSink
    from hivesink.core.epoch import BatchRef
    from hivesink.sink.commit.committed import Committed
    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

EVEN, ODD = "ID % 2 = 0", "ID % 2 = 1"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def run(stage: Stage, function: Callable[[DataFrame, int], Any], checkpoint: str | None = None) -> None:
    """A query of the job's own, with decoded rows."""
    stage.source.mkdir(exist_ok=True)
    rows = stage.spark.readStream.schema("ID BIGINT, Name STRING, dt STRING").option("maxFilesPerTrigger", "1")
    writer = rows.json(str(stage.source)).writeStream.foreachBatch(function)
    started = writer.option("checkpointLocation", checkpoint or str(stage.checkpoint)).trigger(**AVAILABLE_NOW).start()
    started.awaitTermination()


def refused(stage: Stage, function: Callable[[DataFrame, int], Any]) -> None:
    with pytest.raises(Exception, match="the sink was called twice in batch"):
        run(stage, function)


def halves(first: HiveSink, second: HiveSink) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        first(batch.where(EVEN), number)
        second(batch.where(ODD), number)

    return write


def last(sink: HiveSink) -> BatchRef:
    found = sink.setup.last_batch()
    assert found is not None
    return found.ref


def test_two_calls_in_one_batch_are_refused_until_the_second_has_a_writer(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    sink = stage.sink()
    run(stage, lambda batch, number: sink(batch.where(EVEN), number))
    stage.put(range(10, 20))
    refused(stage, halves(sink, sink))
    # Neither the same object nor another one of the same writer, and no run later, takes it for a replay.
    refused(stage, halves(sink, stage.sink()))
    refused(stage, halves(stage.sink(), stage.sink()))
    assert stage.ids() == [*range(0, 20, 2)]
    # The way on that loses nothing of the batch at hand.
    run(stage, halves(sink, stage.sink(writer="second", append=0)))
    stage.put(range(20, 30))
    run(stage, halves(sink, stage.sink(writer="second")))
    assert stage.ids() == [*range(0, 10, 2), *range(10, 30)]


def test_a_new_run_in_the_same_process_is_a_replay(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    done: list[Committed] = []
    sink = stage.sink(on_commit=done.append)

    def then_fail(batch: DataFrame, number: int) -> None:
        # A job's own group, the same in each run, names no run.
        stage.spark.sparkContext.setJobGroup("loads", "of the job's own")
        sink(batch, number)
        if len(done) < 3:
            message = "after the sink's call"
            raise RuntimeError(message)

    for _ in range(2):
        with pytest.raises(Exception, match="after the sink's call"):
            run(stage, then_fail)
    run(stage, then_fail)
    assert [one.replayed for one in done] == [False, True, True]
    stage.put(range(10, 15))
    run(stage, then_fail)
    assert stage.ids() == list(range(15))


@pytest.mark.parametrize("when", [once, once_after], ids=["before", "after"])
def test_a_call_that_failed_may_come_again_with_the_same_rows(stage: Stage, when: Callable[..., Any]) -> None:
    """Before the decision it writes them; after it, it finishes them."""
    stage.create()
    stage.put(range(10))
    sink = stage.sink()
    wrap(sink, "log", create=when(die))
    failed: list[int] = []

    def insist(batch: DataFrame, number: int) -> None:
        try:
            sink(batch.where("true"), number)
        except ConnectionError:
            failed.append(number)
            sink(batch.where("true"), number)

    run(stage, insist)
    assert failed == [0]
    assert stage.ids() == list(range(10))
    assert stage.staged() == []


def test_after_a_call_that_failed_before_the_decision_other_rows_may_come(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    sink = stage.sink()
    wrap(sink, "log", create=once(die))

    def fall_back(batch: DataFrame, number: int) -> None:
        try:
            sink(batch, number)
        except ConnectionError:
            sink(batch.where(EVEN), number)

    run(stage, fall_back)
    assert stage.ids() == [0, 2, 4, 6, 8]


def test_after_a_call_that_failed_after_the_decision_other_rows_are_refused(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    sink = stage.sink()
    wrap(sink, "log", create=once_after(die))
    told: list[str] = []

    def fall_back(batch: DataFrame, number: int) -> None:
        try:
            sink(batch.where(EVEN), number)
        except ConnectionError:
            for _ in range(2):
                with pytest.raises(errors.CalledTwice) as found:
                    sink(batch.where(ODD), number)
                told.append(str(found.value))
            sink(batch.where(EVEN), number)

    run(stage, fall_back)
    assert len(told) == 2
    for one in told:
        assert one.startswith("the sink was called twice in batch 0: ")
        assert "holds the first call's rows as epoch 1," in one
    assert stage.ids() == [0, 2, 4, 6, 8]


def die() -> None:
    message = "it fails here"
    raise ConnectionError(message)


def test_a_query_of_the_sinks_own_lends_its_checkpoint_to_no_other(stage: Stage) -> None:
    stage.create()
    first = stage.put(range(10))
    stage.drain()
    logged = last(stage.sink()).end
    sink = stage.sink(append=1)
    # It ends without a batch.
    stage.drain(sink)
    first.unlink()
    stage.put(range(10, 20), "new.json")
    run(stage, sink, str(stage.folder / "another one"))
    assert stage.ids() == list(range(20))
    assert last(sink).end != logged
    # What is logged is what the query's own checkpoint says: its batch that comes again is proven by it.
    for name in ("0", ".0.crc"):
        (stage.folder / "another one/commits" / name).unlink()
    done: list[Committed] = []
    run(stage, stage.sink(on_commit=done.append), str(stage.folder / "another one"))
    assert [one.replayed for one in done] == [True]
