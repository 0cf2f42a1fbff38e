"""Files that Spark has planned for a batch and that are gone when it is read: never an epoch without their rows."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import os
import re
import struct
from dataclasses import replace
from pathlib import Path
from shutil import copyfile, copytree, rmtree
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink import errors, sources
from hivesink.spark.sourcefiles import SourceFiles
from tests.integration.stage import AVAILABLE_NOW, ON_EPOCH, Stage, event, wrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hivesink.sink.commit.committed import Committed

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

SCHEMA = "ID BIGINT, Name STRING, dt STRING"
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
        assert f"are gone: {path.as_uri()}; " in str(told.value)
        assert 'HiveSink.for_table(…, options={"sink.on-missing-file": "ignore"})' in str(told.value)
        assert "'sink.on-missing-file' = 'ignore' in the table's TBLPROPERTIES" in str(told.value)
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


def test_a_file_that_vanishes_before_its_turn_stops_the_query(stage: Stage) -> None:
    stage.create()
    first, second = stage.put(range(10)), stage.put(range(10, 20))
    os.utime(first, (0, second.stat().st_mtime - 60))
    # `availableNow` lists all files once, then takes them one by one.
    with pytest.raises(errors.SourceFilesMissing, match=second.name):
        stage.drain(stage.sink(on_commit=lambda _: second.unlink()))
    assert stage.ids() == list(range(10))
    assert first.exists()


@pytest.mark.parametrize("ignoring", [False, True], ids=["spark-fails", "spark-ignores"])
def test_a_file_that_vanishes_before_its_tasks_read_it_stops_the_query(stage: Stage, ignoring: bool) -> None:
    stage.create()
    path = stage.put(range(10))
    sink = stage.sink()

    def vanish(batch: DataFrame, batch_id: int) -> None:
        path.unlink()
        sink(batch, batch_id)

    events = sources.lines(stage.spark, str(stage.source), options={"ignoreMissingFiles": str(ignoring)})
    writer = events.writeStream.foreachBatch(vanish).option("checkpointLocation", str(stage.checkpoint))
    with pytest.raises(Exception, match=path.name):
        writer.trigger(**AVAILABLE_NOW).start().awaitTermination()
    assert isinstance(sink._run.failure, errors.SourceFilesMissing)
    assert stage.ids() == []
    path.touch()
    stage.drain()
    assert stage.staged() == []


def test_what_spark_would_pass_over_in_silence_is_refused(stage: Stage) -> None:
    stage.create()
    stage.source.mkdir()
    odd = os.fsencode(stage.source) + b"/caf\xe9.json"
    Path(os.fsdecode(odd)).write_text(json.dumps(event(1)))
    with pytest.raises(errors.InvalidOption, match=r"over \S*caf\\xe9\.json in silence: a name that isn't UTF-8"):
        stage.lines()
    Path(os.fsdecode(odd)).rename(stage.source / "café.json")
    (stage.folder / "[y]").mkdir()
    with pytest.raises(errors.InvalidOption, match="for a pattern: rename it"):
        sources.lines(stage.spark, str(stage.folder / "[y]"))
    with pytest.raises(errors.InvalidOption, match="modifiedAfter in options"):
        sources.lines(stage.spark, str(stage.source), options={"modifiedAfter": "2024-01-01T00:00:00"})
    packed = gzip.compress("".join(json.dumps(event(number)) + "\n" for number in range(2, 1000)).encode())
    (stage.source / "b.json.gz").write_bytes(packed[: len(packed) // 2])
    ignoring = sources.lines(stage.spark, str(stage.source), options={"ignoreCorruptFiles": "true"})
    with pytest.raises(errors.Unsupported, match="ignoreCorruptFiles is not supported: Spark leaves out"):
        stage.drain(events=ignoring)
    assert stage.ids() == []
    (stage.source / "b.json.gz").write_bytes(packed)
    stage.drain()
    assert stage.ids() == list(range(1, 1000))


def test_a_folder_that_was_read_by_another_path_is_refused(stage: Stage) -> None:
    stage.create()
    path, other = stage.put(range(10)), stage.folder / "other"

    def drain(folder: Path) -> None:
        stage.drain(events=sources.lines(stage.spark, str(folder), options={"recursiveFileLookup": "true"}))

    def refused() -> None:
        with pytest.raises(errors.InvalidOption, match=rf"{other}/{path.name} is {path}, which it has read"):
            drain(other)

    drain(stage.source)
    other.symlink_to(stage.source)
    refused()
    other.rename(stage.folder / "link")
    copytree(stage.source, other, copy_function=copyfile)
    refused()
    rmtree(other)
    # Another day's file of that name is none that was read, nor one that has been read from there.
    other.mkdir()
    (other / path.name).write_text(json.dumps(event(10)))
    drain(other)
    path = stage.put([11])
    drain(stage.source)
    drain(other)
    path.rename(other / path.name)
    refused()
    # A time in whole seconds, as an archive has it, proves nothing, nor does an empty file.
    os.utime(other / path.name, (10**9, 10**9))
    (other / path.name).write_text("")
    drain(other)
    with pytest.raises(errors.InvalidOption, match="which it has read"):
        drain(stage.folder / "lin*")
    assert stage.ids() == list(range(12))


def test_a_link_to_a_file_that_is_read_too_stops_the_query_until_it_is_moved_away(stage: Stage) -> None:
    stage.create()
    path = stage.put(range(10))
    other, link = stage.folder / "other.json", stage.source / "link.json"
    other.write_text(json.dumps(event(10)))
    (stage.source / "other.json").symlink_to(other)
    stage.drain()
    assert stage.ids() == list(range(11))

    stage.put(range(20, 30))
    link.symlink_to(path)
    with pytest.raises(errors.Unsupported, match=rf"{link} leads to {path}.* move the link away"):
        stage.drain()
    assert stage.ids() == list(range(11))
    link.unlink()
    stage.drain(stage.sink(options=IGNORE))
    assert stage.ids() == [*range(11), *range(20, 30)]


@pytest.mark.parametrize("name", ["one.json", "with blank; length=3;.json"])
def test_a_file_that_another_takes_the_place_of_while_its_batch_is_read_is_read_again(stage: Stage, name: str) -> None:
    stage.create()
    path = stage.put(range(10), name)
    stage.put(range(10, 20))
    sink = stage.sink()

    def replace_it(batch: DataFrame, batch_id: int) -> None:
        new = stage.folder / "new.json"
        new.write_text("".join(f"{json.dumps(event(number))}\n" for number in range(100, 130)))
        new.rename(path)
        sink(batch, batch_id)

    events = sources.lines(stage.spark, str(stage.source))
    writer = events.writeStream.foreachBatch(replace_it).option("checkpointLocation", str(stage.checkpoint))
    with pytest.raises(Exception, match="changed while batch 0 read it"):
        writer.trigger(**AVAILABLE_NOW).start().awaitTermination()
    assert isinstance(sink._run.failure, errors.SourceFilesChanged)
    assert stage.ids() == []
    stage.drain()
    assert stage.ids() == [*range(10, 20), *range(100, 130)]
    assert stage.staged() == []


def test_a_file_that_is_deleted_once_its_batch_was_read_is_no_change(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create()
    path, changed = stage.put(range(10)), SourceFiles.changed

    def delete(files: SourceFiles) -> list[str]:
        path.unlink()
        return changed(files)

    monkeypatch.setattr(SourceFiles, "changed", delete)
    stage.drain()
    assert stage.ids() == list(range(10))
    assert not path.exists()


def test_a_packed_file_that_is_cut_short_stops_the_query_until_it_is_whole(stage: Stage) -> None:
    stage.create()
    whole = gzip.compress(b"".join(json.dumps(event(number)).encode() + b"\n" for number in range(10)))
    path = stage.put_bytes(whole[:-20], "a b.json.gz")
    with pytest.raises(errors.SourceFileDamaged) as told:
        stage.drain()
    named = "a file of the batch" if stage.spark.version.startswith("3.") else path.as_uri()
    assert str(told.value).startswith(named)
    assert " can't be read (Unexpected end of input stream), and nothing of its" in str(told.value)
    assert stage.ids() == []
    path.write_bytes(whole)
    stage.drain()
    assert stage.ids() == list(range(10))


def test_a_parquet_file_that_is_cut_short_or_has_another_type_stops_the_query_until_it_is_mended(stage: Stage) -> None:
    stage.create()
    events = stage.spark.readStream.schema(SCHEMA).parquet(str(stage.folder))
    rows = {"ID": list(range(10)), "Name": ["n"] * 10, "dt": ["2024-01-01"] * 10}
    path = stage.folder / "a b.parquet"
    pq.write_table(pa.table(rows), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(errors.SourceFileDamaged, match=r"Parquet file.*write the whole file again"):
        stage.drain(events=events)
    pq.write_table(pa.table({**rows, "ID": ["a"] * 10}), path)
    other = f"^{re.escape(path.as_uri())} can't be read \\(its column ID is BINARY; the schema has bigint\\)"
    with pytest.raises(errors.SourceFileDamaged, match=other):
        stage.drain(events=events)
    assert stage.ids() == []
    path.write_bytes(whole)
    stage.drain(events=events)
    assert stage.ids() == list(range(10))


def test_a_file_that_another_program_has_packed_is_named_before_hadoop_takes_it_for_its_own(stage: Stage) -> None:
    stage.create()
    lines = b"".join(json.dumps(event(number)).encode() + b"\n" for number in range(10))
    packed = pa.compress(lines, codec="lz4", asbytes=True)
    for name, content in (("frame.lz4", packed), ("raw.snappy", pa.compress(lines, codec="snappy", asbytes=True))):
        path = stage.put_bytes(content, name)
        with pytest.raises(errors.SourceFileDamaged, match=rf"{path.as_uri()} can't be read \(not as Hadoop packs"):
            stage.drain()
        path.unlink()
        stage.drain(stage.sink(options=IGNORE))
    assert stage.ids() == []
    # Hadoop's own: the length of a block, then each piece of it with its length before it.
    raw = pa.compress(lines, codec="snappy", asbytes=True)
    stage.put_bytes(struct.pack(">II", len(lines), len(raw)) + raw, "hadoop.snappy")
    stage.put_bytes(b"", "empty.lz4")
    stage.put_bytes(bytes(4), "block.lz4")
    stage.drain()
    assert stage.ids() == list(range(10))


def test_a_bzip2_file_that_is_none_or_not_whole_is_named(stage: Stage) -> None:
    """Of each of these Hadoop reads fewer lines than there are, or none, without a word."""
    stage.create()
    rows = iter(range(1000))

    def lines(count: int) -> bytes:
        return b"".join(json.dumps(event(next(rows))).encode() + b"\n" for _ in range(count))

    whole = bz2.compress(lines(10))
    two = bz2.compress(lines(3)) + bz2.compress(lines(3))
    stage.put_bytes(whole + two + bz2.compress(b""), "whole.bz2")
    stage.put_bytes(b"", "empty.bz2")
    stage.put_bytes(bz2.compress(b""), "nothing.bz2")
    stage.drain()
    for why, content in (
        ("not a bzip2 file", lines(5)),
        ("not a bzip2 file", whole[:3]),
        ("not a bzip2 file", bytes(len(whole))),
        ("not a bzip2 file", whole[:9] + b"?" + whole[10:]),
        ("cut short", two[:-10]),
        ("cut short", two[:-1]),
        ("cut short, or other bytes after its end", whole + lines(5)),
    ):
        path = stage.put_bytes(content, "damaged.bz2")
        with pytest.raises(errors.SourceFileDamaged, match=rf"{path.as_uri()} can't be read \({why}"):
            stage.drain()
    path.write_bytes(bz2.compress(lines(4)))
    stage.drain()
    assert stage.ids() == [*range(16), *range(26, 30)]


def test_two_names_for_a_file_that_a_pattern_finds_are_refused_also_in_later_batches(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))

    def events() -> DataFrame:
        options = {"pathGlobFilter": "*.json"}
        return sources.lines(stage.spark, f"{stage.folder}/{{s*,other}}", options=options)

    stage.drain(events=events())
    # A file by a name that the source doesn't take has but one for it.
    (stage.source / "plain.txt").write_text(json.dumps(event(11)))
    (stage.source / "taken.json").symlink_to("plain.txt")
    stage.drain(events=events())
    (stage.folder / "second").symlink_to("source")
    with pytest.raises(errors.Unsupported, match="Spark reads the file under both names"):
        stage.drain(events=events())
    (stage.folder / "second").unlink()
    (stage.folder / "elsewhere").mkdir()
    (stage.folder / "second").symlink_to("elsewhere")
    (stage.folder / "elsewhere" / "b.json").write_text(json.dumps(event(10)))
    stage.drain(stage.sink(options=IGNORE), events())
    assert stage.ids() == list(range(12))


def test_every_file_source_of_a_query_counts_and_nothing_else(stage: Stage) -> None:
    """Two folders, one of them twice in the plan, and a table of files that is no stream."""
    stage.create()
    stage.spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "2")
    also, static = (replace(stage, folder=stage.folder / name) for name in ("also", "static"))
    for one in (also, static):
        one.folder.mkdir()
    static.put(range(100))

    def events() -> DataFrame:
        def read(folder: Path) -> DataFrame:
            folder.mkdir(exist_ok=True)
            return stage.spark.readStream.schema(SCHEMA).json(str(folder))

        one, two = read(stage.source), read(also.source)
        names = stage.spark.read.schema(SCHEMA).json(str(static.source)).select("ID")
        halves = one.where("ID % 2 = 0").union(one.where("ID % 2 = 1"))
        return halves.union(two).union(read(stage.source).where("false")).join(names, "ID")

    try:
        for number in range(3):
            stage.put(range(number * 10, number * 10 + 5), f"{number}.json")
            also.put(range(number * 10 + 5, number * 10 + 10), f"{number}.json")
            stage.drain(events=events())
        assert stage.ids() == list(range(30))
        stage.put(range(30, 35), "3.json")
        lost = also.put(range(35, 40), "lost.json")
        plan_only(stage, events())
        lost.unlink()
        with pytest.raises(errors.SourceFilesMissing) as told:
            stage.drain(events=events())
        assert f"are gone: {lost.as_uri()}; " in str(told.value)
    finally:
        stage.spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    assert stage.ids() == list(range(30))


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
    told = r"to Spark \(file:.*/b\[1\]\.json, file:.*/d\*\.json\) is .* twice; rename all 3 files of that batch.*"
    told += "; they are file:.*, file:.*, file:"
    with pytest.raises(errors.Unsupported, match=told):
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


def test_a_file_that_spark_cannot_open_for_its_colon_stops_the_job_until_it_is_renamed(stage: Stage) -> None:
    stage.create()
    stage.put(range(10), "a.json")
    odd = stage.put(range(10, 20), "events-2024-01-01T03:00:00.json")
    told = r"a colon in a file's name on a local disk \(file:.*/events-2024-01-01T03:00:00\.json\) is not .*; rename it"
    with pytest.raises(errors.Unsupported, match=told):
        stage.drain()
    assert stage.ids() == list(range(10))
    odd.rename(odd.with_name("later.json"))
    stage.drain(stage.sink(options=IGNORE))
    assert stage.ids() == list(range(20))
