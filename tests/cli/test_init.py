"""`hivesink init`: what it writes is accepted, runs, and holds the sample's rows."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.cli.preview import _table_of
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.sample.proposal import job_text
from hivesink.sample.source import FilesSource, TopicSource
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore

EVENTS = [
    {"id": 1, "Time": "2024-01-01T23:30:00.123456789Z", "by": {"a": 1, "k😷": 2.50, "": None}, "bad.name": 1},
    {"ID": 2, "Time": "2024-01-02T01:00:00Z", "mixed": 1, "by": {}, "größe": 3, "seen_at": 1704150000},
    {"id": 3, "Time": "2024-01-03T01:00:00Z", "mixed": "a", "order": [1, 2.5], "n": None},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with events in two files and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    lines = [json.dumps(event) for event in EVENTS]
    (tmp_path / "events" / "a.json").write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines[:2], "nonsense"]).encode())
    (tmp_path / "events" / "b.json.gz").write_bytes(gzip.compress(f"{lines[2]}\n\n".encode()))
    return tmp_path


@pytest.mark.spark
@pytest.mark.usefixtures("uri")
def test_from_a_folder_to_rows(
    metastore: EmbeddedMetastore,
    spark: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRIGGER", "availableNow")
    monkeypatch.setenv("CHECKPOINT", str(folder / "checkpoint"))
    assert metastore.uri
    said = hivesink(capsys, "init", "--from", "events", "--table", "init_way.events", "--every", "day")
    assert said.code == 0, said.err
    for line in (
        "mixed string: mixed: whole numbers (1), texts (1)",
        "seen_at timestamp: epoch-seconds",
        "dt string: day of time in UTC, yyyy-MM-dd",
        "3 of 5 records fit",
        "events/a.json │ 3 ",
    ):
        assert line in said.out
    assert hivesink(capsys, "ddl", "apply", "ddl").code == 0
    seen = hivesink(capsys, "preview", "--table", "init_way.events", "--from", "events", "--json")
    assert seen.code == 65

    runpy.run_path(str(folder / "jobs" / "events.py"), run_name="__main__")

    columns = "id, order, by, mixed, `größe`, bad_name, CAST(seen_at AS STRING), dt"
    rows = spark.sql(f"SELECT {columns} FROM init_way.events ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [
        (1, None, {"a": 1.0, "k😷": 2.5, "": None}, None, None, 1, None, "2024-01-01"),
        (2, None, {}, "1", 3, None, "2024-01-01 23:00:00", "2024-01-02"),
        (3, [1.0, 2.5], None, "a", None, None, None, "2024-01-03"),
    ]
    assert seen.data["partitions"] == {f"dt={row.dt}": 1 for row in rows}
    bad = spark.sql("SELECT reason FROM init_way.events__rejected ORDER BY reason").collect()
    assert [row.reason for row in bad] == sorted(row["reason"] for row in seen.data["bad_records"])


def test_it_overwrites_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = hivesink(capsys, "init", "--from", "events", "--dry-run")
    assert (shown.code, "CREATE TABLE `demo`.`events`" in shown.out) == (0, True)
    assert not (folder / "ddl").exists()
    (folder / "jobs").mkdir()
    (folder / "jobs" / "events.py").write_text("mine")
    said = hivesink(capsys, "init", "--from", "events")
    assert (said.code, "jobs/events.py: init overwrites nothing; move it away" in said.error) == (2, True)
    assert (folder / "jobs" / "events.py").read_text() == "mine"
    assert not (folder / "ddl").exists()


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("kafka://h:1/Web-Clicks.v2", "demo.web_clicks_v2"),
        ("in/day.jsonl.gz", "demo.day"),
        ("./events/", "demo.events"),
        ("/", "demo.events"),
    ],
)
def test_the_table_is_named_after_the_source(source: str, table: str) -> None:
    assert _table_of(source) == table


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--table", "a.b.c"], 2, "is not a table name"),
        (["--time-column", "id"], 2, "--time-column id: write one of time, arrival, seen_at"),
        (["--every", "week"], 2, "'week' is not one of 'none', 'month', 'day', 'hour'"),
        (
            ["--from", "none.json"],
            65,
            "--from none.json: no JSON object with a field that can be a column; it holds no",
        ),
    ],
)
def test_what_it_refuses_writes_nothing(
    arguments: list[str], code: int, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "none.json").touch()
    source = [] if "--from" in arguments else ["--from", "events"]
    said = hivesink(capsys, "init", *source, *arguments)
    assert (said.code, problem in said.error) == (code, True), said.error
    assert not (folder / "ddl").exists()
    assert not (folder / "jobs").exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            FilesSource("/in/a'b", {"x": 1}, is_deep=True),
            (
                "spark = session(WRITER)",
                """FOLDER = environ.get("FOLDER", "file:/in/a'b")""",
                'events = sources.lines(spark, FOLDER, options={"recursiveFileLookup": "true"})',
            ),
        ),
        (FilesSource("hdfs://n/in", {"x": 1}), ("\"FOLDER\", 'hdfs://n/in'", "sources.lines(spark, FOLDER)\n")),
        (
            TopicSource("h:1,i:2", "clicks"),
            (
                "spark = session(WRITER, kafka=True)",
                "SERVERS = environ.get(\"KAFKA_SERVERS\", 'h:1,i:2')",
                'TOPIC = environ.get("KAFKA_TOPIC", "clicks")',
                "events = sources.kafka(spark, SERVERS, TOPIC)",
                'events = events.drop("timestamp")',
            ),
        ),
    ],
)
def test_the_job_reads_the_source(source: FilesSource | TopicSource, expected: tuple[str, ...]) -> None:
    columns = (Column("timestamp", Primitive.STRING), Column("value", Primitive.DOUBLE))
    spec = TableSpec(TableName("demo", "clicks"), columns)
    text = job_text(Path("jobs/clicks.py"), source, spec)
    compile(text, "clicks.py", "exec")
    for line in expected:
        assert line in text
