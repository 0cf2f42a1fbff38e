"""What people get wrong and machines run out of: one line that says what, where and what to do, and nothing lost."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import HiveSink, errors, sources
from hivesink.config.options import check
from hivesink.embedded.process import HOST, free_port
from hivesink.hiveql.apply import Nothing, apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog
from tests.integration.stage import AVAILABLE_NOW, COLUMNS, ON_EPOCH, table_ddl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

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


def test_a_missing_table(stage: Stage) -> None:
    with pytest.raises(errors.UnknownTable) as told:
        stage.sink()
    said(told.value, stage.table, stage.uri, "hivesink ddl apply")


def test_a_name_that_is_no_table(stage: Stage) -> None:
    with pytest.raises(errors.InvalidOption) as told:
        HiveSink.for_table(stage.spark, "a.b.c", writer="stage", metastore=stage.uri)
    said(told.value, "a.b.c", "database.table")


def test_a_table_that_is_no_text(stage: Stage) -> None:
    nothing: Any = None
    with pytest.raises(errors.InvalidOption) as told:
        HiveSink.for_table(stage.spark, nothing, writer="stage", metastore=stage.uri)
    said(told.value, "None", "database.table")


def test_an_unreachable_metastore(stage: Stage) -> None:
    address = f"thrift://{HOST}:{free_port()}"
    with pytest.raises(errors.MetastoreUnreachable) as told:
        stage.sink(metastore=address)
    said(told.value, address, "is it running")


def test_an_option_that_does_not_exist(stage: Stage) -> None:
    stage.create()
    with pytest.raises(errors.InvalidOption) as told:
        stage.sink(options={"sink.on-bad-recrod": "drop", "sink.bucket.time-zone": "Mars"})
    said(told.value, "did you mean sink.on-bad-record?", "Mars")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("sink.log-location", "logs", "relative"),
        ("sink.timestamp-format", "zz=epoch-millis", "'zz', which is no column"),
        ("sink.bucket.assigner", "json:JSONDecoder", "it gets (spec, config)"),
    ],
)
def test_an_option_that_does_not_fit(stage: Stage, option: str, value: str, words: str) -> None:
    stage.create()
    with pytest.raises(errors.InvalidOption) as told:
        stage.sink(options={option: value})
    said(told.value, option, words)


@pytest.mark.parametrize("checkpoint", [f"hdfs://{HOST}:1/x", "hdfs://nohost.invalid/x", "s3://b/x"])
def test_a_checkpoint_that_can_not_be(stage: Stage, checkpoint: str) -> None:
    stage.create()
    with pytest.raises(errors.HiveSinkError) as told:
        stage.begin(stage.sink(), checkpoint=checkpoint)
    said(told.value, checkpoint)
    assert told.value.retryable == checkpoint.startswith("hdfs:")


def test_options_that_are_no_mapping(stage: Stage) -> None:
    stage.create()
    with pytest.raises(errors.InvalidOption) as told:
        stage.sink(options=["sink.on-bad-record=drop"])
    said(told.value, "options is a list", "write a dict")


def decoded(stage: Stage, schema: str) -> DataFrame:
    return stage.spark.readStream.schema(schema).json(str(stage.source))


def test_a_missing_column_of_decoded_rows(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    with pytest.raises(errors.ColumnsDontFit) as told:
        stage.drain(events=decoded(stage, "ID BIGINT, nom STRING, dt STRING"))
    said(told.value, "name", stage.table, "nom")
    stage.drain(events=decoded(stage, "ID BIGINT, Name STRING, dt STRING"))
    assert stage.ids() == list(range(10))


def test_a_table_may_have_a_column_named_value(stage: Stage) -> None:
    stage.create(columns="id BIGINT, value DECIMAL(5,2)")
    stage.put_text('{"id": 1, "value": 2.50, "dt": "a"}\n')
    stage.drain()
    assert stage.ids() == [1]


def test_a_wrong_type_of_decoded_rows(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    with pytest.raises(errors.ColumnsDontFit) as told:
        stage.drain(events=decoded(stage, "ID ARRAY<INT>, Name STRING, dt STRING"))
    said(told.value, "id", "bigint")
    assert not stage.checkpoint.exists()
    stage.drain(events=decoded(stage, "ID BIGINT, Name STRING, dt STRING"))
    assert stage.ids() == list(range(10))
    assert stage.staged() == []


def test_a_column_that_only_the_ddl_has_is_added_by_the_statement_in_the_message(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    stage.drain()
    wanted = parse_ddl(table_ddl(stage.table, columns=f"{COLUMNS}, `timestamp` STRUCT<`at`:INT>"), "stage.sql", check)
    with pytest.raises(errors.DdlInvalid) as told:
        apply([wanted], catalog(stage.uri))
    said(told.value, stage.table, "timestamp")
    found = re.search(r"run hivesink query '(ALTER TABLE .*\))', which", str(told.value))
    assert found
    stage.spark.sql(found[1])
    assert apply([wanted], catalog(stage.uri)) == (Nothing(wanted.name),)
    stage.put_text('{"ID": 3, "Name": "n3", "dt": "2024-01-01", "timestamp": {"at": 5}}\n')
    stage.drain()
    rows = stage.query(f"SELECT id, `timestamp`.`at` AS at FROM {stage.table} ORDER BY id")
    assert [(row.id, row.at) for row in rows] == [(0, None), (1, None), (2, None), (3, 5)]


def test_a_time_column_that_nobody_has_or_that_is_no_time(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    by_time = {"sink.bucket.assigner": "date-time", "sink.bucket.time-pattern": "dt=yyyy-MM-dd"}
    for column, schema, parts in [
        ("seen_at", None, ["seen_at", "neither of the table nor of the stream"]),
        ("seen_at", "ID BIGINT, Name STRING, dt STRING", ["seen_at", "neither of the table nor of the stream"]),
        ("dt", "ID BIGINT, Name STRING, dt STRING", ["'dt' is of type string"]),
    ]:
        sink = stage.sink(options={**by_time, "sink.bucket.time-column": column})
        events = decoded(stage, schema) if schema else stage.lines()
        with pytest.raises(errors.InvalidOption) as told:
            sink.start(events, checkpoint=str(stage.checkpoint), trigger=AVAILABLE_NOW)
        said(told.value, *parts)
    assert not stage.checkpoint.exists()


@pytest.mark.parametrize(
    "trigger", [5, "5 bananas", {"processingTime": ""}, {"availableNow": False}, {"once": 1, "x": 2}]
)
def test_a_trigger_that_is_none(stage: Stage, trigger: Any) -> None:
    stage.create()
    with pytest.raises((errors.InvalidOption, errors.Unsupported)) as told:
        stage.sink().start(stage.lines(), checkpoint=str(stage.checkpoint), trigger=trigger)
    said(told.value, "trigger")
    # A text is an interval: the error has an example of one.
    assert ("such as '5 seconds'" in str(told.value)) == (trigger not in ({"availableNow": False}, {"once": 1, "x": 2}))


@pytest.mark.parametrize("append", [-5, "x", True])
def test_an_epoch_to_append_to_that_is_none(stage: Stage, append: object) -> None:
    with pytest.raises(errors.InvalidOption) as told:
        stage.sink(append=append)
    said(told.value, "append", repr(append))


@pytest.mark.parametrize("way", ["", "elsewhere/../"])
def test_a_checkpoint_or_a_log_in_the_tables_own_folder(stage: Stage, way: str) -> None:
    location = stage.create().location()
    folder = f"file:{location.parent}/{way}{location.name}"
    with pytest.raises(errors.InvalidOption) as told:
        stage.sink().start(stage.lines(), checkpoint=f"{folder}/checkpoint")
    said(told.value, "own folder", "outside")
    with pytest.raises(errors.InvalidOption) as told:
        stage.sink(options={"sink.log-location": f"{folder}/logs"})
    said(told.value, "own folder", "outside")


def test_a_text_is_a_trigger_by_time(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    query = stage.sink().start(stage.lines(), checkpoint=str(stage.checkpoint), trigger="1 second")
    query.processAllAvailable()
    query.stop()
    assert stage.ids() == [0, 1, 2]


@pytest.mark.parametrize("given", ["", " ", None, 5, b"/checkpoint"])
def test_a_checkpoint_that_is_no_path(stage: Stage, given: Any) -> None:
    stage.create()
    with pytest.raises(errors.InvalidOption) as told:
        stage.begin(stage.sink(), checkpoint=given)
    said(told.value, f"checkpoint is {given!r}", "name a folder")


def test_a_checkpoint_may_be_a_path(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    stage.drain(checkpoint=stage.checkpoint)
    assert stage.ids() == [0, 1, 2]
    stage.drain(checkpoint=str(stage.checkpoint))
    assert stage.ids() == [0, 1, 2]


def test_a_file_where_the_checkpoint_should_be(stage: Stage) -> None:
    stage.create()
    stage.checkpoint.write_text("in the way")
    for place in (stage.checkpoint, stage.checkpoint / "below"):
        with pytest.raises(errors.InvalidOption) as told:
            stage.begin(stage.sink(), checkpoint=place)
        said(told.value, f"checkpoint is {place}", "move it away")
    assert stage.checkpoint.read_text() == "in the way"


def test_events_that_are_no_stream(stage: Stage) -> None:
    stage.create()
    events: list[Any] = [None, stage.spark.range(3), "events"]
    for given in events:
        with pytest.raises(errors.InvalidOption) as told:
            stage.sink().start(given, checkpoint=str(stage.checkpoint))
        said(told.value, "events is no streaming DataFrame", "spark.readStream")
    assert not stage.checkpoint.exists()


@pytest.mark.parametrize(
    ("name", "problem"), [("nowhere", "doesn't exist: create it, or fix the path"), (None, "empty string")]
)
def test_a_folder_that_can_not_be_read(stage: Stage, name: str | None, problem: str) -> None:
    folder = f"{stage.folder}/{name}" if name else ""
    with pytest.raises(errors.InvalidOption) as told:
        sources.lines(stage.spark, folder)
    said(told.value, f"the folder {folder!r}", problem)


def test_a_folder_in_which_spark_reads_nothing_is_named(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    folder = stage.folder / "in"
    folder.mkdir()

    def told(place: str = str(folder), **options: str) -> str:
        caplog.clear()
        sources.lines(stage.spark, place, options=options)
        return caplog.text

    assert f"the folder {folder} holds no files yet\n" in told()
    (folder / "2024-01-03").mkdir()
    (folder / "2024-01-02").mkdir()
    (folder / "2024-01-02" / "a.json").touch()
    (folder / ".hidden").touch()
    assert f"the folder {folder} holds no files yet, but folders, such as 2024-01-02: to read" in told()
    assert f"the folder {folder}/2024-01-03 holds no files yet\n" in told(
        f"{folder}/2024-01-03", recursiveFileLookup="true"
    )
    assert told(recursiveFileLookup="true") == told(f"{folder}/2024-01-0*") == ""
    with pytest.raises(errors.InvalidOption, match=r"a\.json is a file, of which Spark makes no stream"):
        told(f"{folder}/2024-01-02/a.json")
    (folder / "dt=3").mkdir()
    assert told() == ""


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
    assert stage.ids() == list(range(10))
    assert stage.staged() == []


def test_a_log_location_that_can_not_be(stage: Stage) -> None:
    stage.create()
    blocked = stage.folder / "file"
    blocked.write_text("in the way")
    with pytest.raises(errors.HiveSinkError) as told:
        stage.sink(options={"sink.log-location": str(blocked / "log")})
    said(told.value, str(blocked))


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


def fill(disk: Path) -> Callable[[], None]:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        # Writes what fits, and says how much that was.
        while file.write(bytes(1 << 16)) == 1 << 16:
            pass
    return filler.unlink


def protect(disk: Path) -> Callable[[], None]:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    def mend() -> None:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)

    return mend


@pytest.mark.parametrize(
    ("spoil", "reason"), [(fill, "the disk is full"), (protect, "Read-only")], ids=["full", "read-only"]
)
def test_a_disk_that_takes_no_more(
    stage: Stage, disk: Path, spoil: Callable[[Path], Callable[[], None]], reason: str
) -> None:
    stage.put(range(10))
    stage.drain()
    mend = spoil(disk)
    stage.put(range(10, 20))
    with pytest.raises(errors.HiveSinkError) as told:
        stage.drain()
    said(told.value, str(disk), reason)
    assert told.value.retryable == (spoil is fill)
    assert stage.ids() == list(range(10))
    mend()
    stage.drain()
    assert stage.ids() == list(range(20))
    assert stage.staged() == []


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def emptied(_: bytes) -> bytes:
    return b""


def tampered(data: bytes) -> bytes:
    return re.sub(rb'"epoch": ?\d+', b'"epoch": 77', data)


@pytest.mark.parametrize("damage", [truncated, emptied, tampered])
def test_a_damaged_manifest_is_named_and_left_as_it_is(stage: Stage, damage: Callable[[bytes], bytes]) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    manifest = stage.log() / "manifests" / "0000000001.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(damage(whole))
    stage.put(range(10, 20))
    with pytest.raises(errors.LogDamaged) as told:
        stage.drain()
    said(told.value, str(manifest), "restore it")
    assert manifest.read_bytes() == damage(whole)
    assert stage.ids() == list(range(10))
    manifest.write_bytes(whole)
    stage.drain()
    assert stage.ids() == list(range(20))


def test_a_manifest_of_a_newer_version_is_refused_by_file_and_version(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    manifest = stage.log() / "manifests" / "0000000001.json"
    found = json.loads(manifest.read_text())
    del found["crc32"]
    known = found["format"]
    newer = json.dumps({**found, "format": known + 1, "something_new": 1})
    manifest.write_text(newer)
    with pytest.raises(errors.NewerFormat) as told:
        stage.drain()
    said(told.value, str(manifest), f"version {known + 1}", f"knows {known}")
    assert manifest.read_text() == newer


def test_an_error_of_the_jobs_own_code_comes_through_as_it_is(stage: Stage) -> None:
    stage.create()
    stage.put(range(3))
    events = stage.lines()
    broken = events.selectExpr("CAST(raise_error('the job is wrong') AS STRING) AS value", "_path")
    with pytest.raises(Exception, match="the job is wrong") as told:
        stage.drain(events=broken)
    seen: list[BaseException] = []
    cause: BaseException | None = told.value
    while cause is not None:
        assert cause not in seen, "an error is its own cause"
        seen.append(cause)
        cause = cause.__cause__
    stage.drain(events=events)
    assert stage.ids() == [0, 1, 2]
