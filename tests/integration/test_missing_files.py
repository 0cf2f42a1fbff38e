"""Files that Spark has planned for a batch and that are gone when it is read: never an epoch without their rows."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import errors, sources
from tests.integration.stage import AVAILABLE_NOW, ON_EPOCH, Stage, event, wrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hivesink.sink.commit.committed import Committed

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

IGNORE = {"sink.on-missing-file": "ignore"}


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def plan_only(stage: Stage, events: DataFrame | None = None) -> None:
    """A run that dies after its batch is planned, and before it is decided."""

    def die(_real: Any, _manifest: Any) -> None:
        message = "killed"
        raise RuntimeError(message)

    sink = stage.sink()
    wrap(sink, "log", create=die)
    with pytest.raises(RuntimeError, match="killed"):
        stage.drain(sink, events)


def test_a_planned_file_that_vanishes_stops_the_query_until_it_is_back_or_given_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    path = stage.put(range(10, 20), "b c.json")
    plan_only(stage)
    away = path.rename(stage.folder / "away.json")
    for _ in range(2):
        with pytest.raises(errors.SourceFilesMissing) as told:
            stage.drain()
        assert "1 of the 1 files planned for batch 1" in str(told.value)
        assert f"are gone: {path.as_uri()}. " in str(told.value)
        assert "'sink.on-missing-file' = 'ignore'" in str(told.value)
        assert stage.ids() == list(range(10))
    away.rename(path)
    stage.drain()
    assert stage.ids() == list(range(20))

    gone = stage.put(range(20, 30))
    plan_only(stage)
    gone.unlink()
    done: list[Committed] = []
    with caplog.at_level(logging.WARNING, "hivesink"):
        stage.drain(stage.sink(options=IGNORE, on_commit=done.append))
    assert [one.rows.read for one in done] == [0]
    assert gone.name in caplog.text
    stage.put(range(30, 33), "last.json")
    stage.drain()
    assert stage.ids() == [*range(20), *range(30, 33)]


def test_a_file_that_vanishes_before_its_tasks_read_it_stops_the_query(stage: Stage) -> None:
    stage.create()
    path = stage.put(range(10))
    sink = stage.sink()

    def vanish(batch: DataFrame, batch_id: int) -> None:
        path.unlink()
        sink(batch, batch_id)

    writer = stage.lines().writeStream.foreachBatch(vanish).option("checkpointLocation", str(stage.checkpoint))
    with pytest.raises(Exception, match=path.name):
        writer.trigger(**AVAILABLE_NOW).start().awaitTermination()
    with pytest.raises(errors.SourceFilesMissing, match=path.name):
        stage.drain()
    assert stage.ids() == []
    stage.put(range(10), path.name)
    stage.drain()
    assert (stage.ids(), stage.staged()) == (list(range(10)), [])


def test_an_option_by_which_spark_leaves_out_rows_is_refused(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    for option in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        ignoring = sources.lines(stage.spark, str(stage.source), options={option: "true"})
        with pytest.raises(errors.Unsupported, match=option):
            stage.drain(events=ignoring)
    assert stage.ids() == []


def test_a_file_that_another_takes_the_place_of_while_its_batch_is_read_is_read_again(stage: Stage) -> None:
    stage.create()
    path = stage.put(range(10), "with blank; length=3;.json")
    stage.put(range(10, 20))
    sink = stage.sink()

    def replace_it(batch: DataFrame, batch_id: int) -> None:
        new = stage.folder / "new.json"
        new.write_text("".join(f"{json.dumps(event(number))}\n" for number in range(100, 130)))
        new.rename(path)
        sink(batch, batch_id)

    events = sources.lines(stage.spark, str(stage.source))
    writer = events.writeStream.foreachBatch(replace_it).option("checkpointLocation", str(stage.checkpoint))
    with pytest.raises(Exception, match="changed while batch 0 read them"):
        writer.trigger(**AVAILABLE_NOW).start().awaitTermination()
    assert isinstance(sink._run.failure, errors.SourceFilesChanged)
    assert stage.ids() == []
    stage.drain()
    assert stage.ids() == [*range(10, 20), *range(100, 130)]
    assert stage.staged() == []


def test_files_that_spark_cleans_away_are_not_missed(stage: Stage) -> None:
    stage.create()

    def events() -> DataFrame:
        return sources.lines(
            stage.spark, str(stage.source), options={"maxFilesPerTrigger": "1", "cleanSource": "delete"}
        )

    for number in range(3):
        stage.put(range(number * 10, number * 10 + 10), f"{number}.json")
    stage.drain(events=events())
    stage.lose("commits/2")
    done: list[Committed] = []
    stage.put(range(30, 35), "3.json")
    stage.drain(stage.sink(on_commit=done.append), events())
    assert [one.replayed for one in done] == [True, False]
    assert stage.ids() == list(range(35))
    assert not (stage.source / "0.json").exists()


def test_a_file_name_that_spark_takes_for_a_pattern_doubles_no_rows(stage: Stage) -> None:
    stage.create()

    def events() -> DataFrame:
        return sources.lines(stage.spark, str(stage.source), options={"maxFilesPerTrigger": "9"})

    paths = [stage.put(range(10), "a.json"), stage.put(range(10, 20), "b[1].json")]
    paths.append(stage.put([20], "d*.json"))
    with pytest.raises(errors.Unsupported, match=r"a file's name in the batch is a pattern to Spark; rename"):
        stage.drain(events=events())
    assert stage.ids() == []
    for number, path in enumerate(paths):
        path.rename(path.with_name(f"{number}.json"))
    stage.drain(stage.sink(options=IGNORE), events())
    assert stage.ids() == list(range(21))
    # Alone in its batch, such a file is read once.
    stage.put(range(21, 30), "{c}.json")
    stage.drain(events=events())
    assert stage.ids() == list(range(30))
