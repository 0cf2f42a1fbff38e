"""Calls that can't be made exactly once, and places that can't be written: refused before anything is lost."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import HiveSink, errors, sources
from hivesink.sink.commit.committer import Committer
from tests.integration.stage import ON_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hivesink.sink.commit.runner import PlanRunner
    from tests.integration.stage import Stage

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def said(error: BaseException, *parts: str) -> None:
    """One line, with all of `parts`."""
    text = str(error)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_arguments_of_a_sink(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVESINK_WRITER", raising=False)
    stage.create()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"writer": None}, "writer is missing"),
        ({"writer": "rejects-replay"}, "rejects-replay"),
        ({"append": -5}, "append"),
        ({"append": "x"}, "append"),
        ({"append": True}, "append"),
        ({"options": {"sink.bucket.assigner": "json:JSONDecoder"}}, "it gets (spec, config)"),
    ]
    for settings, words in cases:
        with pytest.raises(errors.InvalidOption) as told:
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
        ({"checkpoint": "s3://b/x"}, errors.HiveSinkError, "s3://b/x"),
        ({"events": decoded[0]}, errors.ColumnsDontFit, "nom"),
        ({"events": decoded[1]}, errors.ColumnsDontFit, "bigint"),
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


@pytest.mark.parametrize("inside", [True, False], ids=["in the table", "below a file"])
def test_a_log_location_that_can_not_be(stage: Stage, *, inside: bool) -> None:
    stage.create()
    (stage.folder / "file").write_text("in the way")
    place = stage.location() / "logs" if inside else stage.folder / "file" / "log"
    with pytest.raises(errors.HiveSinkError) as told:
        stage.sink(options={"sink.log-location": str(place)})
    said(told.value, "own folder" if inside else str(place.parent))


def test_a_folder_that_is_not_there(stage: Stage) -> None:
    with pytest.raises(errors.InvalidOption, match="nowhere"):
        sources.lines(stage.spark, f"{stage.folder}/nowhere")


def test_a_file_where_a_partitions_folder_should_be(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    blocked = stage.location() / "dt=2024-01-02"
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("in the way")
    with pytest.raises(errors.HiveSinkError) as told:
        stage.drain()
    said(told.value, str(blocked))
    assert stage.ids() == []
    blocked.unlink()
    stage.drain()
    assert (stage.ids(), stage.staged()) == (list(range(10)), [])


@pytest.fixture
def disk(stage: Stage) -> Iterator[Path]:
    """A disk of one megabyte, with the table on it, and the log elsewhere."""
    place = stage.folder / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False).returncode:
        pytest.skip("mounting a small disk takes more rights than this user has")
    stage.create(location=place / "table", properties={"sink.log-location": str(stage.folder / "log")})
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_takes_no_more(stage: Stage, disk: Path) -> None:
    stage.put(range(10))
    stage.drain()
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        # Writes what fits, and says how much that was.
        while file.write(bytes(1 << 16)) == 1 << 16:
            pass
    stage.put(range(10, 20))
    with pytest.raises(errors.HiveSinkError) as told:
        stage.drain()
    said(told.value, str(disk), "No space left on device")
    assert told.value.retryable
    assert stage.ids() == list(range(10))
    filler.unlink()
    stage.drain()
    assert (stage.ids(), stage.staged()) == (list(range(20)), [])


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


def test_two_queries_of_one_sink_and_a_batch_that_no_query_made(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    sink = stage.sink()
    with pytest.raises(errors.Unsupported, match="foreachBatch"):
        sink(stage.spark.createDataFrame([(1, "a", "d")], "id BIGINT, name STRING, dt STRING"), 0)
    query = stage.begin(sink, trigger={"processingTime": "0 seconds"})
    try:
        with pytest.raises(errors.Unsupported, match="still runs"):
            stage.begin(sink, checkpoint=str(stage.folder / "other"))
        query.processAllAvailable()
    finally:
        query.stop()
    assert stage.ids() == [0, 1, 2]


def test_the_continuous_trigger_under_plain_foreach_batch(stage: Stage) -> None:
    stage.create()
    events = stage.spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS name", "'d' AS dt")
    writer = events.writeStream.foreachBatch(stage.sink()).option("checkpointLocation", str(stage.checkpoint))
    with pytest.raises(Exception, match=r"(?i)continuous"):
        writer.trigger(continuous="1 second").start().awaitTermination(30)
    assert stage.ids() == []


def test_whatever_on_commit_raises_ends_the_query(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))

    def on_commit(_: object) -> None:
        message = "enough"
        raise SystemExit(message)

    with pytest.raises(errors.OwnCodeFailed, match="your own function raised SystemExit: enough"):
        stage.drain(stage.sink(on_commit=on_commit))
    stage.drain()
    assert stage.ids() == list(range(10))
