"""Streams from files and topics: each record once, whatever becomes of the files, and however a job calls its sinks."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import os
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

from hivesink import HiveSink, errors, sources
from hivesink.core.epoch import BatchRef
from hivesink.sink.commit.committed import Committed
from tests.integration.stage import ON_EPOCH, Stage, Topic, die, event, once, once_after, wrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.main_path]
OPTIONS = ON_EPOCH
IGNORE = {"sink.on-missing-file": "ignore"}
EVEN, ODD = "ID % 2 = 0", "ID % 2 = 1"


def test_files_of_any_age_go_in_once_and_a_second_run_adds_nothing(stage: Stage) -> None:
    stage.create()
    for number, year in enumerate((1971, 2024, 2120)):
        modified = datetime(year, 1, 1, tzinfo=timezone.utc).timestamp()
        os.utime(stage.put(range(number * 10, number * 10 + 10)), (modified, modified))
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append))
    assert stage.ids() == list(range(30))
    assert [(each.epoch, each.rows.read, each.replayed) for each in done] == [(n, 10, False) for n in (1, 2, 3)]
    files = sorted(stage.location().rglob("*.parquet"))
    stage.drain(stage.sink(on_commit=done.append))
    assert len(done) == 3
    assert sorted(stage.location().rglob("*.parquet")) == files
    assert stage.ids("dt = '2024-01-02'") == list(range(1, 30, 3))
    # Older than all that was read.
    modified = datetime(1970, 1, 2, tzinfo=timezone.utc).timestamp()
    os.utime(stage.put([30]), (modified, modified))
    stage.drain()
    assert stage.ids() == list(range(31))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "a.csv": bytes,
    "b.csv.gz": gzip.compress,
    "c.csv.bz2": bz2.compress,
    # Spark reads it without Hadoop's native library.
    **({"d.csv.zst": partial(pa.compress, codec="zstd", asbytes=True)} if pyspark.__version__ >= "4.2" else {}),
}


def test_packed_files_of_csv_go_in_once_and_one_that_is_cut_short_stops_the_query(stage: Stage) -> None:
    header = {"sink.value.format": "csv", "sink.value.csv.header": "name,id,dt"}
    stage.create(properties=header)
    for number, (name, pack) in enumerate(PACKED.items()):
        rows = (f"n,{n},2024-01-0{1 + n % 2}\r\n" for n in range(number * 1000, number * 1000 + 1000))
        stage.put_text(pack("".join(["name,id,dt\r\n", *rows]).encode()), name)
    done: list[Committed] = []
    stage.drain(stage.sink(options=OPTIONS, on_commit=done.append))
    many = 1000 * len(PACKED)
    assert stage.ids() == list(range(many))
    assert [(each.rows.read, each.rows.skipped) for each in done] == [(1001, 1)] * len(PACKED)
    whole = gzip.compress("".join(f"n,{n},2024-01-01\n" for n in range(many, many + 1000)).encode())
    path = stage.put_text(whole[:-8], "e.csv.gz")
    with pytest.raises(Exception, match=r"Unexpected end of input stream|EOF"):
        stage.drain(stage.sink(options=OPTIONS))
    assert stage.ids() == list(range(many))
    status = path.stat()
    path.write_bytes(whole)
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    stage.drain(stage.sink(options=OPTIONS))
    assert stage.ids() == list(range(many + 1000))


@pytest.mark.kafka
def test_a_topic_that_is_empty_at_the_start_goes_in_once_and_later_runs_take_the_news_only(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    stage.drain(events=topic.stream(stage.spark))
    with stage.running(events=topic.stream(stage.spark, maxOffsetsPerTrigger="20")) as query:
        query.processAllAvailable()
        assert stage.ids() == []
        topic.put(range(50))
        query.processAllAvailable()
        assert stage.ids() == list(range(50))
        # A wait with a time-out leaves it running.
        assert query.awaitTermination(1) is False
        assert query.isActive
    assert query.awaitTermination()
    topic.put(range(50, 60))
    for _ in range(2):
        stage.drain(events=topic.stream(stage.spark))
        assert stage.ids() == list(range(60))
    assert stage.staged() == []


def test_a_sink_object_serves_several_runs_and_starts_again_after_a_failure(stage: Stage) -> None:
    stage.create()
    sink = stage.sink()
    for first in (0, 10):
        stage.put(range(first, first + 10))
        stage.plain(sink)
    assert stage.ids() == list(range(20))
    # A checkpoint of its own, so that a path kept from the last run would be the wrong one.
    another = stage.sink(append=sink._run.committer.head)
    stage.plain(another, checkpoint=str(stage.folder / "another one"))
    assert stage.ids() == sorted([*range(20), *range(20)])
    bad = stage.put_text("no JSON\n")
    with pytest.raises(Exception, match="bad record"):
        stage.drain(another, checkpoint=str(stage.folder / "another one"))
    bad.write_text(json.dumps(event(20)))
    stage.drain(another, checkpoint=str(stage.folder / "another one"))
    assert stage.ids() == sorted([*range(20), *range(21)])
    assert stage.staged() == []


def test_a_planned_file_that_vanishes_stops_the_query_until_it_is_back_or_given_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    path = stage.put(range(10, 20), "b c.json")
    stage.killed()
    away = path.rename(stage.folder / "away.json")
    for _ in range(2):
        with pytest.raises(errors.SourceFilesMissing) as told:
            stage.drain()
        assert "1 of the 1 files planned for batch 1 of query" in str(told.value)
        assert f"are gone: {path.as_uri()}. " in str(told.value)
        assert stage.ids() == list(range(10))
    away.rename(path)
    stage.drain()
    assert stage.ids() == list(range(20))

    gone = stage.put(range(20, 30))
    stage.killed()
    gone.unlink()
    done: list[Committed] = []
    with caplog.at_level(logging.WARNING, "hivesink"):
        stage.drain(stage.sink(options=IGNORE, on_commit=done.append))
    assert [each.rows.read for each in done] == [0]
    assert gone.name in caplog.text
    stage.put(range(30, 33), "last.json")
    stage.drain()
    assert stage.ids() == [*range(20), *range(30, 33)]


def test_a_file_that_vanishes_or_changes_before_its_tasks_read_it_stops_the_query(stage: Stage) -> None:
    stage.create()
    path = stage.put(range(10), "with;length=3;.json")
    sink = stage.sink()

    def vanish(batch: DataFrame, batch_id: int) -> None:
        path.unlink()
        sink(batch, batch_id)

    with pytest.raises(Exception, match=path.name):
        stage.plain(vanish)
    with pytest.raises(errors.SourceFilesMissing, match=path.name):
        stage.drain()
    assert stage.ids() == []
    stage.put(range(10), path.name)
    sink = stage.sink()

    def replace_it(batch: DataFrame, batch_id: int) -> None:
        new = stage.folder / "new.json"
        new.write_text("".join(f"{json.dumps(event(number))}\n" for number in range(100, 130)))
        new.rename(path)
        sink(batch, batch_id)

    with pytest.raises(Exception, match="changed while batch 0 read them"):
        stage.plain(replace_it)
    assert isinstance(sink._run.failure, errors.SourceFilesChanged)
    assert stage.ids() == []
    stage.drain()
    assert (stage.ids(), stage.staged()) == (list(range(100, 130)), [])


def test_an_option_by_which_spark_leaves_out_rows_is_refused_and_files_that_it_cleans_away_are_not_missed(
    stage: Stage,
) -> None:
    stage.create()

    def events(**options: str) -> DataFrame:
        return sources.lines(stage.spark, str(stage.source), options={"maxFilesPerTrigger": "1", **options})

    for number in range(3):
        stage.put(range(number * 10, number * 10 + 10), f"{number}.json")
    for option in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        with pytest.raises(errors.Unsupported, match=option):
            stage.drain(events=events(**{option: "true"}))
    assert stage.ids() == []
    stage.drain(events=events(cleanSource="delete"))
    stage.lose("commits/2")
    done: list[Committed] = []
    stage.put(range(30, 35), "3.json")
    stage.drain(stage.sink(on_commit=done.append), events(cleanSource="delete"))
    assert [each.replayed for each in done] == [True, False]
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


def run(stage: Stage, function: Callable[[DataFrame, int], Any], checkpoint: str | None = None) -> None:
    """A query of the job's own, with decoded rows."""
    stage.source.mkdir(exist_ok=True)
    rows = stage.spark.readStream.schema("ID BIGINT, Name STRING, dt STRING").option("maxFilesPerTrigger", "1")
    stage.plain(function, rows.json(str(stage.source)), checkpoint)


def refused(stage: Stage, function: Callable[[DataFrame, int], Any]) -> None:
    with pytest.raises(Exception, match="the sink was called twice in batch"):
        run(stage, function)


def halves(first: HiveSink, second: HiveSink) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        first(batch.where(EVEN), number)
        second(batch.where(ODD), number)

    return write


def last(sink: HiveSink) -> BatchRef:
    batch = sink.setup.last_batch()
    assert batch is not None
    return batch.ref


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
            die()

    for _ in range(2):
        with pytest.raises(Exception, match="it dies here"):
            run(stage, then_fail)
    run(stage, then_fail)
    assert [each.replayed for each in done] == [False, True, True]
    stage.put(range(10, 15))
    run(stage, then_fail)
    assert stage.ids() == list(range(15))


@pytest.mark.parametrize("when", [pytest.param(once, marks=pytest.mark.long), once_after], ids=["before", "after"])
def test_a_call_that_failed_may_come_again(stage: Stage, when: Callable[..., Any]) -> None:
    """With the same rows: before the decision it writes them, after it, it finishes them. With others only before."""
    stage.create()
    sink = stage.sink()
    refused: list[int] = []

    def insist(batch: DataFrame, number: int) -> None:
        wrap(sink, "log", create=when(die))
        with pytest.raises(ConnectionError):
            sink(batch.where(EVEN), number)
        if number == 0 or when is once:
            sink(batch.where(ODD if number else EVEN), number)
            return
        for _ in range(2):
            with pytest.raises(errors.CalledTwice, match=r"called twice in batch 1: .* as epoch 2,"):
                sink(batch.where(ODD), number)
            refused.append(number)
        sink(batch.where(EVEN), number)

    for first in (0, 10):
        stage.put(range(first, first + 10))
        run(stage, insist)
    assert stage.ids() == [*range(0, 10, 2), *range(11 if when is once else 10, 20, 2)]
    assert stage.staged() == []
    assert refused == ([] if when is once else [1, 1])


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
    assert [each.replayed for each in done] == [True]
