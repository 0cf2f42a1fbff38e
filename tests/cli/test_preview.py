"""`hivesink preview`: what it says is what a job's tasks do."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from hivesink.cli.preview import _table_of
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.sample.source import FilesSource, TopicSource
from hivesink.sample.tables import job_text
from tests.cli.site import Capsys, hivesink

COLUMNS = "id BIGINT, ts TIMESTAMP, x STRUCT<a: INT>, m MAP<STRING, DATE>, l ARRAY<STRUCT<b: INT>>"
BY_DAY = (
    "'sink.bucket.assigner'='date-time','sink.bucket.time-column'='ts','sink.bucket.time-pattern'='yyyy-MM-dd',"
    "'sink.bucket.time-zone'='Europe/Berlin'"
)


def _ddl(folder: Path, properties: str = BY_DAY, columns: str = COLUMNS) -> Path:
    path = folder / "t.sql"
    path.write_text(
        f"CREATE TABLE demo.t ({columns}) PARTITIONED BY (dt STRING) STORED AS PARQUET TBLPROPERTIES ({properties})"
    )
    return path


def _events(folder: Path, *lines: str) -> Path:
    path = folder / "events.json"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_rows_partitions_bad_records_and_unknown_fields(tmp_path: Path, capsys: Capsys) -> None:
    events = _events(
        tmp_path,
        '{"ID": "1", "ts": "2024-01-01T23:30:00Z", "x": {"a": 1, "zz": 2}, "m": {"K": "2024-01-01"}, "l": [{"c": 1}]}',
        "",
        '{"id": 1.5}',
        '{"id": 2, "more": null}',
        '{"m": {"k": "soon"}, "more": 1}',
    )
    said = hivesink(capsys, "preview", "--ddl", _ddl(tmp_path), "--from", events, "--json")
    assert said.code == 65
    assert (said.data["records"], said.data["fit"], said.data["bad"], said.data["skipped"]) == (5, 2, 3, 0)
    first, second = said.data["rows"]
    assert first == {
        "partition": "dt=2024-01-02",
        "row": {"id": 1, "ts": "2024-01-01T23:30:00", "x": {"a": 1}, "m": {"K": "2024-01-01"}, "l": [{"b": None}]},
    }
    assert second["partition"] == "dt=__HIVE_DEFAULT_PARTITION__"
    assert said.data["partitions"] == {"dt=2024-01-02": 1, "dt=__HIVE_DEFAULT_PARTITION__": 1}
    bad = [(row["line"], row["field"], row["reason"]) for row in said.data["bad_records"]]
    assert bad == [(2, None, "empty, not JSON"), (3, "id", "not a whole number"), (5, "m.k", "not a date")]
    assert {row["file"] for row in said.data["bad_records"]} == {str(events)}
    assert said.data["unknown_fields"] == {"more": 2}

    text = hivesink(capsys, "preview", "--ddl", _ddl(tmp_path), "--from", events)
    assert text.code == 65
    assert f"│ {events} │ 3 │ id │ not a whole number │" in re.sub(" +", " ", text.out)
    assert "2 of 5 records fit\n" in text.out


def test_only_the_first_of_many_are_printed(tmp_path: Path, capsys: Capsys) -> None:
    good = [f'{{"id": {day}, "ts": "2024-01-{day:02} 12:00:00", "f{day}": 0}}' for day in range(1, 31)]
    events = _events(tmp_path, *good, *["no"] * 25, *["{}"] * 1000)
    said = hivesink(capsys, "preview", "--ddl", _ddl(tmp_path), "--from", events, "--limit", "60")
    for line in ("… and 11 more partitions", "… and 5 more bad records", "… and 10 more fields", "35 of 60 records"):
        assert line in said.out
    assert len(hivesink(capsys, "preview", "--ddl", _ddl(tmp_path), "--from", events, "--json").data["rows"]) == 20


def test_a_table_of_the_metastore(table: str, tmp_path: Path, capsys: Capsys) -> None:
    events = _events(tmp_path, '{"id": 1, "dt": "a/b"}', '{"id": 2, "dt": ""}')
    said = hivesink(capsys, "preview", "--table", table, "--from", events, "--json")
    assert said.code == 0, said.err
    assert said.data["partitions"] == {"dt=__HIVE_DEFAULT_PARTITION__": 1, "dt=a%2Fb": 1}
    assert "not in the metastore" in hivesink(capsys, "preview", "--table", "a.b", "--from", events).error


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("preview --from events.json", 65, "either --table database.table or --ddl FILE.sql"),
        ("preview --from events.json --table a.b --ddl t.sql", 65, "either --table database.table or --ddl FILE.sql"),
        ("preview --from events.json --ddl no.sql", 65, "no.sql: can't be read: No such file"),
        ("preview --from events.json --ddl kafka.sql", 65, "'timestamp' is a column neither of the table nor of the"),
        ("preview --from events.json --ddl key.sql", 65, "'kafka.key': records of this sample have no such thing"),
        ("init --from events.json --time-column no", 65, "'no' is a column neither of the table nor of the"),
        # Nobody is asked there: settings come first.
        ("init --from kafka://localhost:1/t --set sink.x=1", 65, "sink.x"),
        ("init --from kafka://localhost:1/t --set sink.x", 65, "--set sink.x: write NAME=VALUE"),
        ("init --from events.json --every week", 2, "'week' is not one of 'none', 'month', 'day', 'hour'"),
    ],
)
def test_what_they_can_not_do_is_one_line(
    command: str, code: int, problem: str, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    _events(tmp_path, json.dumps({"id": 1}))
    _ddl(tmp_path, "'sink.column.id.from'='kafka.key','sink.bucket.assigner'='date-time'").rename("key.sql")
    _ddl(tmp_path, BY_DAY.replace("'ts'", "'timestamp'")).rename("kafka.sql")
    _ddl(tmp_path)
    said = hivesink(capsys, *command.split())
    assert (said.code, problem in said.error) == (code, True), said.error
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint({"ddl", "jobs"})


def test_columns_from_elsewhere(tmp_path: Path, capsys: Capsys) -> None:
    events = _events(tmp_path, '{"user": {"id": 7, "more": 1}, "uid": 1, "other": 2}')
    paths = "'sink.column.uid.from'='$.user.id','sink.column.file.from'='file.path'"
    ddl = _ddl(tmp_path, f"{paths},'sink.bucket.assigner'='date-time'", "uid INT NOT NULL, file STRING")
    said = hivesink(capsys, "preview", "--ddl", ddl, "--from", events, "--json")
    assert said.code == 0
    assert [row["row"] for row in said.data["rows"]] == [{"uid": 7, "file": events.as_uri().replace("//", "")}]
    assert said.data["unknown_fields"] == {"uid": 1, "other": 1}


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


# tests/integration/test_column_sources.py goes on to the rows, from a topic.
@pytest.mark.usefixtures("uri", "folder")
def test_from_a_folder_to_a_table(capsys: Capsys) -> None:
    said = hivesink(capsys, "init", "--from", "events", "--table", "init_way.events", "--every", "day")
    assert said.code == 0, said.err
    for line in (
        "mixed string: mixed: bigint (1), string (1)",
        "seen_at timestamp: epoch-seconds",
        "dt string: day of time in UTC, yyyy-MM-dd",
        "3 of 5 records fit",
        "│ not JSON ",
    ):
        assert line in said.out
    assert hivesink(capsys, "ddl", "apply", "ddl").code == 0
    seen = hivesink(capsys, "preview", "--table", "init_way.events", "--from", "events", "--json")
    assert seen.code == 65
    rows = [row["row"] for row in seen.data["rows"]]
    assert [(row["id"], row["by"], row["mixed"], row["bad_name"], row["seen_at"]) for row in rows] == [
        (1, {"a": 1.0, "k😷": 2.5, "": None}, None, 1, None),
        (2, {}, "1", None, "2024-01-01T23:00:00"),
        (3, None, "a", None, None),
    ]
    assert seen.data["partitions"] == {f"dt=2024-01-0{day}": 1 for day in (1, 2, 3)}
    assert sorted(row["reason"] for row in seen.data["bad_records"]) == ["empty, not JSON", "not JSON"]


def test_it_overwrites_nothing(folder: Path, capsys: Capsys) -> None:
    shown = hivesink(capsys, "init", "--from", "events", "--dry-run")
    assert (shown.code, "CREATE TABLE `demo`.`events`" in shown.out) == (0, True)
    (folder / "jobs").mkdir()
    (folder / "jobs" / "events.py").write_text("mine")
    said = hivesink(capsys, "init", "--from", "events")
    assert (said.code, "jobs/events.py: init overwrites nothing; move it away" in said.error) == (65, True)
    assert ((folder / "jobs" / "events.py").read_text(), (folder / "ddl").exists()) == ("mine", False)


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
    ("source", "place", "session", "events"),
    [
        (FilesSource("/in/a'b", [], is_deep=True), '"file:/in/a\'b"', "", 'lines(spark, FOLDER, options={"recur'),
        (FilesSource("hdfs://n/in", []), "'hdfs://n/in'", "", "lines(spark, FOLDER)\n"),
        (TopicSource("h:1,i:2", "clicks"), "'h:1,i:2'", ", kafka=True", "kafka(spark, SERVERS, TOPIC)\n"),
    ],
)
def test_the_job_reads_the_source(source: FilesSource | TopicSource, place: str, session: str, events: str) -> None:
    columns = (Column("timestamp", Primitive.STRING), Column("value", Primitive.DOUBLE))
    text = job_text(Path("jobs/clicks.py"), source, TableSpec(TableName("demo", "clicks"), columns))
    compile(text, "clicks.py", "exec")
    assert f"spark = session(WRITER{session})\nevents = sources.{events}" in text
    assert place in text
    assert ('events = events.drop("timestamp")' in text) == isinstance(source, TopicSource)
