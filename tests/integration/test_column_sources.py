"""Columns that come from paths, keys, headers and positions, and records that hold many, through broker and Spark."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.core.column_source import named_file
from hivesink.errors import InvalidOption
from hivesink.sample.source import TopicSource, sample_topic
from hivesink.sink.commit.committed import Committed
from hivesink.spark import sources
from hivesink.tables.opened import open_table
from hivesink.tables.rejects import DeadLetters, Replay
from tests.cli.site import hivesink
from tests.decode.test_explode import WRAPPED
from tests.integration.stage import ON_EPOCH, Stage, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COLUMNS = """userid INT, first_sku STRING, device STRING, trace STRING, headers MAP<STRING,STRING>,
    record_offset BIGINT, sent_at TIMESTAMP, arrived TIMESTAMP"""
SOURCES = {
    "userId": "$.user.id",
    "first_sku": "$.items[0].sku",
    "device": "kafka.key",
    "trace": "kafka.headers.trace-id",
    "headers": "kafka.headers",
    "record_offset": "kafka.offset",
    "sent_at": "kafka.timestamp",
    "arrived": "arrival-time",
    "region": '$["the region"]',
}
PROPERTIES = {
    **{f"sink.column.{name}.from": source for name, source in SOURCES.items()},
    "sink.bucket.assigner": "date-time",
    "sink.bucket.time-column": "sent_at",
    "sink.bucket.time-pattern": "dt=yyyy-MM-dd",
    "sink.on-bad-record": "dead-letter",
    "sink.on-unknown-field": "bad-record",
    "sink.sort-by": "record_offset desc",
}
PARTITIONED = "PARTITIONED BY (region STRING, dt STRING)"
AT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
TRACE: list[tuple[str, str | bytes | None]] = [("trace-id", b"t0"), ("trace-id", b"t1"), ("n", b"1")]


@pytest.mark.parametrize("shuffled", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_keys_headers_positions_and_paths(stage: Stage, topic: Topic, shuffled: str) -> None:
    shuffle = {"sink.shuffle-by-partition.enable": shuffled}
    stage.create(columns=COLUMNS, partitioned=PARTITIONED, properties={**PROPERTIES, **shuffle})
    records = [
        (0, b'{"user": {"id": 1}, "items": [{"sku": "a"}], "the region": "eu"}', b"phone", TRACE),
        (0, b'{"User": {"id": 2}, "THE REGION": "eu"}', None, []),
        (0, b'{"user": {"id": 3}}', b"\xff", TRACE),
        (0, b'{"user": {"id": 4}, "device": "phone"}', b"x", TRACE),
        (0, b"{}", b"tv", []),
    ]
    topic.put_raw(records, AT)
    events = topic.stream(stage.spark, includeHeaders="true")
    stage.drain(events=events)
    topic.put_raw([(0, b'{"user": {"id": 6}}', b"late", [])], AT)
    stage.drain(events=topic.stream(stage.spark, includeHeaders="true"))
    wanted = "userid, first_sku, device, trace, headers, record_offset, sent_at, region, dt"
    found = stage.query(f"SELECT {wanted} FROM {stage.table} ORDER BY record_offset")
    sent, null = datetime(2024, 1, 2, 3, 4, 5), "__HIVE_DEFAULT_PARTITION__"  # noqa: DTZ001  a wall clock
    assert [tuple(row) for row in found] == [
        (1, "a", "phone", "t1", {"trace-id": "t1", "n": "1"}, 0, sent, "eu", "2024-01-02"),
        (2, None, None, None, None, 1, sent, "eu", "2024-01-02"),
        (None, None, "tv", None, None, 4, sent, null, "2024-01-02"),
        (6, None, "late", None, None, 5, sent, null, "2024-01-02"),
    ]
    letters = stage.query(f"SELECT record_offset, field, reason FROM {stage.table}__rejected ORDER BY record_offset")
    assert [tuple(row) for row in letters] == [(2, "device", "not UTF-8"), (3, "device", "unknown field")]
    arrived = stage.query(f"SELECT DISTINCT arrived FROM {stage.table} ORDER BY arrived")
    assert len(arrived) == 2
    stage.spark.sql(f"ALTER TABLE {stage.table} SET TBLPROPERTIES ('sink.on-unknown-field'='ignore')")
    with open_table(stage.table, stage.uri) as opened:
        again = Replay(DeadLetters(opened))
        replayed = again.run(again.try_out()[0].parts)
    assert (replayed.rows, dict(replayed.failing)) == (1, {("device", "not UTF-8"): 1})
    stage.spark.catalog.refreshTable(stage.table)
    (row,) = stage.query(f"SELECT {wanted}, arrived FROM {stage.table} WHERE userid = 4")
    assert tuple(row)[:-1] == (4, None, "x", "t1", {"trace-id": "t1", "n": "1"}, 3, sent, null, "2024-01-02")
    assert row.arrived == arrived[0].arrived


def test_the_file_of_a_row_is_the_one_that_preview_shows(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.create(properties={"sink.column.name.from": "file.path"})
    name = "an ä%41 \u00a0#'()+,;=@&!~^`|<>$.json"
    stage.put([1], name)
    with monkeypatch.context() as patched:
        patched.setenv("HIVESINK_METASTORE", stage.uri)
        seen = hivesink(capsys, "preview", "--table", stage.table, "--from", stage.source, "--json").data["rows"]
    stage.drain()
    (row,) = stage.query(f"SELECT id, name FROM {stage.table}")
    # How many slashes follow the scheme depends on Spark's version.
    there, previewed = (re.sub("^file:/+", "/", text) for text in (row.name, seen[0]["row"]["name"]))
    assert (row.id, there) == (1, previewed)
    assert there.startswith(f"{stage.source}/an%20ä%2541%20%C2%A0%23'")


@pytest.fixture
def small_blocks(stage: Stage) -> Iterator[None]:
    """Spark reads files in blocks of some lines."""
    sizes = {"spark.sql.files.maxPartitionBytes": "300", "spark.sql.files.openCostInBytes": "10"}
    before = {name: str(stage.spark.conf.get(name)) for name in sizes}
    for name, value in sizes.items():
        stage.spark.conf.set(name, value)
    yield
    for name, value in before.items():
        stage.spark.conf.set(name, value)


BAD = {7: b"", 60: b'{"id": "x"}', 99: b'{"note": "J\xfcrgen"}'}


def put_lines(stage: Stage, name: str) -> None:
    """A file of 100 lines with each end that Hadoop knows; those of `BAD` are no rows, the others have their number."""
    lines = [BAD.get(number, b'{"id": %d}' % number) for number in range(1, 101)]
    ends = [b"\n", b"\r\n", b"\r", b"\n"]
    stage.put_text(b"".join(line + ends[at % 4] for at, line in enumerate(lines)), name)


@pytest.mark.parametrize("shuffled", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_the_line_of_a_row(stage: Stage, small_blocks: None, shuffled: str) -> None:
    assert small_blocks is None
    settings = {"sink.on-bad-record": "dead-letter", "sink.shuffle-by-partition.enable": shuffled}
    stage.create(columns="id INT", properties=settings)
    for name in ("a b.json", "c.json"):
        put_lines(stage, name)
    stage.drain(events=sources.lines(stage.spark, str(stage.source)))
    letters = stage.query(f"SELECT line, value, source, reason FROM {stage.table}__rejected ORDER BY source, line")
    assert [(row.line, bytes(row.value)) for row in letters] == [*BAD.items(), *BAD.items()]
    assert letters[-1].reason == "not UTF-8"
    with open_table(stage.table, stage.uri) as opened:
        dead = DeadLetters(opened)
        examples = [entry["example"] for entry in dead.reasons()[0]]
        assert all(re.fullmatch(r"/.*/(a b|c)\.json:(7|60|99)", example) for example in examples)


def test_lines_that_a_query_changes_are_not_counted(stage: Stage, small_blocks: None) -> None:
    assert small_blocks is None
    stage.create(columns="id INT", properties={"sink.on-bad-record": "dead-letter"})
    put_lines(stage, "a.json")
    stage.drain(events=stage.lines().where("value != ''"))
    letters = stage.query(f"SELECT line, value FROM {stage.table}__rejected")
    assert {(row.line, bytes(row.value)) for row in letters} == {(None, BAD[60]), (None, BAD[99])}


def test_lines_of_batches_that_a_function_changes_are_not_counted(stage: Stage) -> None:
    stage.create(properties={"sink.on-bad-record": "dead-letter", **ON_EPOCH})
    put_lines(stage, "a.json")
    sink = stage.sink()

    def changed(batch: DataFrame, number: int) -> None:
        # Such a checkpoint leaves no trace of the filter.
        sink(batch.where("value != ''").localCheckpoint(), number)

    query = stage.lines().writeStream.foreachBatch(changed).trigger(availableNow=True)
    assert query.option("checkpointLocation", str(stage.checkpoint)).start().awaitTermination(60) is not False
    letters = stage.query(f"SELECT DISTINCT line FROM {stage.table}__rejected")
    assert [row.line for row in letters] == [None]


def test_from_a_topic_to_rows(
    stage: Stage, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fields have names of Kafka's own columns, which the job must not take for them."""
    records = [json.dumps({"value": number / 2, "timestamp": 1704238200 + number}).encode() for number in range(6)]
    topic.put_raw(((number % 2, record) for number, record in enumerate(records)))
    topic.put_raw([(0, b"nonsense"), (1, None)])
    source = f"kafka://{topic.servers}/{topic.name}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    monkeypatch.setenv("TRIGGER", "availableNow")
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(
        TopicSource, "sample", lambda it, most, _: sample_topic(stage.spark, it.servers, it.topic, most)
    )

    made = hivesink(capsys, "init", "--from", source, "--table", stage.table, "--every", "day")
    assert made.code == 0, made.err
    assert "6 of 8 records fit, 1 skipped (no value, no rows, or a header)" in made.out
    assert re.search(rf"{topic.name} +│ 0 +│ 3 ", made.out)
    assert hivesink(capsys, "ddl", "apply", "ddl").code == 0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert (
        "starting Spark to look at the topic"
        in hivesink(capsys, "preview", "--table", stage.table, "--from", source).err
    )
    seen = hivesink(capsys, "preview", "--table", stage.table, "--from", source, "--json")
    assert (seen.code, seen.data["partitions"], seen.data["skipped"]) == (65, {"dt=2024-01-02": 6}, 1)
    (bad,) = seen.data["bad_records"]
    assert bad == {"topic": topic.name, "partition": 0, "offset": 3, "field": None, "reason": "not JSON"}

    (job,) = (tmp_path / "jobs").iterdir()
    runpy.run_path(str(job), run_name="__main__")

    rows = stage.spark.sql(f"SELECT value, CAST(timestamp AS STRING), dt FROM {stage.table} ORDER BY value").collect()
    assert [tuple(row) for row in rows] == [
        (number / 2, f"2024-01-02 23:30:0{number}", "2024-01-02") for number in range(6)
    ]
    rejected = stage.spark.sql(f"SELECT reason, record_offset FROM {stage.table}__rejected").collect()
    assert [tuple(row) for row in rejected] == [("not JSON", 3)]


def test_a_sample_has_the_first_and_the_newest_records_of_each_partition(stage: Stage, topic: Topic) -> None:
    assert sample_topic(stage.spark, topic.servers, topic.name, 11).records() == []
    with pytest.raises(InvalidOption, match="no such topic"):
        sample_topic(stage.spark, topic.servers, "never-made", 11)
    at = datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc)
    topic.put_raw([(0, b"%d" % number) for number in range(100)] + [(1, b"one")], at)
    sample = sample_topic(stage.spark, topic.servers, topic.name, 11)
    assert sample.records() == [b"0", b"1", b"98", b"99", b"one"]
    assert sample.place(4) == {"topic": topic.name, "partition": 1, "offset": 0}
    assert set(sample.batch.column("timestamp").to_pylist()) == {at}


BY_TIME = {
    "sink.bucket.assigner": "date-time",
    "sink.bucket.time-column": "at",
    "sink.bucket.time-pattern": "yyyy-MM-dd",
    "sink.on-bad-record": "dead-letter",
}


@pytest.mark.main_path
@pytest.mark.parametrize("shuffled", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_elements_are_rows_and_what_is_broken_has_its_line_and_its_place(
    stage: Stage, shuffled: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create(
        columns="id BIGINT, at TIMESTAMP, line STRING",
        properties={"sink.json.explode": "$.Records", "sink.column.line.from": "file.path", **BY_TIME},
    )
    stage.put_text(b"\n".join([*WRAPPED, b'{"Records": [{"id": 7, "at": "2024-03-06T00:00:00Z"}]}', b""]))
    done: list[Committed] = []
    options = {**ON_EPOCH, "sink.shuffle-by-partition.enable": shuffled}
    stage.drain(stage.sink(options=options, on_commit=done.append))
    assert stage.ids() == [1, 2, 5, 7]
    assert stage.ids("dt = '2024-03-06'") == [7]
    (epoch,) = done
    rows = epoch.rows
    assert (rows.read, rows.written, rows.rejected, rows.skipped, rows.records) == (7, 4, 2, 1, 5)
    letters = stage.query(f"SELECT * FROM {stage.table}__rejected ORDER BY line")
    assert [(one.line, one.element, one.field) for one in letters] == [(2, None, None), (4, 1, "id")]
    assert bytes(letters[0].value) == WRAPPED[1]
    assert bytes(letters[1].value) == b'{"Records": [{"id": "six", "at": "2024-03-05T06:07:12Z"}]}'
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    said = [hivesink(capsys, "where", stage.table, f"{letter.source}:{letter.line}").out for letter in letters]
    assert said == [
        f"a dead letter, {named_file(letters[0].source)}:2: the record: not JSON\n",
        f"a dead letter, {named_file(letters[1].source)}:4 element 1: id: wrong type: text into bigint\n",
    ]
    stage.verify()
