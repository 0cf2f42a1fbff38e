"""`hivesink init`: what it writes is accepted, runs, and holds the sample's rows."""

from __future__ import annotations

import gzip
import json
import runpy
import sys
from typing import TYPE_CHECKING

import pytest

from hivesink.cli.init import _table_of
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore

EVENTS = [
    {
        "id": 1,
        "Time": "2024-01-01T23:30:00Z",
        "dt": "x",
        "select": {"order": [1, 2.5], "x": {}},
        "by": {"a": 1, "A": "x", "k😷": 2.50, "": None},
        "bad.name": 1,
    },
    {"ID": 2, "Time": "2024-01-02T01:00:00Z", "mixed": 1, "scores": {"2024-01-01": 1}, "größe": 3, "It": 1, "it": 2},
    {"id": 3, "Time": "2024-01-03T01:00:00Z", "mixed": "a", "scores": {}, "made_ms": 1704150000000, "n": None},
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
def test_the_whole_way(
    metastore: EmbeddedMetastore,
    spark: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRIGGER", "availableNow")
    monkeypatch.setenv("CHECKPOINT", str(folder / "checkpoint"))
    assert metastore.uri
    said = hivesink(
        capsys, "init", "--from", "events", "--table", "init_way.events", "--zone", "Europe/Berlin", "--yes"
    )
    assert said.code == 0, said.err
    assert "3 of the sample's 5 records fit" in said.out
    assert "mixed: string, mixed: whole numbers (1), texts (1)" in said.out
    assert "by: map<string,string>, a map: 2 of 3 keys can't be names of a STRUCT's fields" in said.out
    assert "partitioned by event_dt: day of time in Europe/Berlin" in said.out
    assert "metastore start" not in said.out

    ddl = (folder / "ddl" / "events.sql").read_text()
    left_out = ["it is left out: most records have both It and it, and Hive ignores case"]
    assert [line for line in said.out.splitlines() if "left out" in line] == left_out
    for line in (
        "`bad_name` bigint COMMENT 'of the field bad.name'",
        """'sink.column.bad_name.from'='$["bad.name"]'""",
        "-- it is left out: most records have both It and it, and Hive ignores case.",
        "2 of the sample's records don't fit and would go to init_way.events__rejected",
        "`mixed` string COMMENT 'mixed: whole numbers (1), texts (1)'",
        "`made_ms` bigint COMMENT 'epoch milliseconds, by its name and values; as a TIMESTAMP: sink.timestamp-format'",
        "PARTITIONED BY (`event_dt` string COMMENT 'day of time in Europe/Berlin, yyyy-MM-dd')",
    ):
        assert line in ddl
    assert hivesink(capsys, "ddl", "apply", "ddl").code == 0
    again = hivesink(capsys, "init", "--from", "events", "--table", "init_way.events", "--dry-run").out
    assert "init_way.events is there already, and decides what the records become" in again
    assert "ddl apply" not in again
    seen = hivesink(capsys, "preview", "--table", "init_way.events", "--from", "events", "--json")
    assert seen.code == 65

    runpy.run_path(str(folder / "jobs" / "events.py"), run_name="__main__")

    rows = spark.sql(
        "SELECT id, select.order, by, mixed, scores, `größe`, bad_name, dt, event_dt FROM init_way.events ORDER BY id"
    )
    assert [tuple(row) for row in rows.collect()] == [
        (1, [1.0, 2.5], {"a": "1", "A": "x", "k😷": "2.5", "": None}, None, None, None, 1, "x", "2024-01-02"),
        (2, None, None, "1", {"2024-01-01": 1}, 3, None, None, "2024-01-02"),
        (3, None, None, "a", {}, None, None, None, "2024-01-03"),
    ]
    partitions = {f"event_dt={row.event_dt}": 1 for row in rows.collect()} | {"event_dt=2024-01-02": 2}
    assert seen.data["partitions"] == partitions
    bad = spark.sql("SELECT reason FROM init_way.events__rejected ORDER BY reason").collect()
    assert [row.reason for row in bad] == sorted(one["reason"] for one in seen.data["bad_records"])


def test_it_overwrites_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = hivesink(capsys, "init", "--from", "events", "--table", "a.events", "--dry-run")
    assert shown.code == 0
    assert "CREATE TABLE `a`.`events`" in shown.out
    assert "jobs/email_job.py:" in hivesink(capsys, "init", "--from", "events", "--table", "a.email", "--dry-run").out
    assert not (folder / "ddl").exists()
    (folder / "jobs").mkdir()
    (folder / "jobs" / "events.py").write_text("mine")
    said = hivesink(capsys, "init", "--from", "events", "--table", "a.events", "--yes")
    assert (said.code, "jobs/events.py: exists already" in said.error) == (2, True)
    assert (folder / "jobs" / "events.py").read_text() == "mine"
    # Said before the sample is read, which may take its time.
    (folder / "ddl").mkdir()
    (folder / "ddl" / "events.sql").write_text("mine")
    (folder / "empty.json").touch()
    both = hivesink(capsys, "init", "--from", "empty.json", "--table", "a.events", "--yes").error
    assert "ddl/events.sql and jobs/events.py: exist already, and init overwrites nothing; remove them, or" in both
    (folder / "ddl" / "events.sql").unlink()
    (folder / "ddl").rmdir()
    (folder / "empty.json").unlink()
    (folder / "ddl").write_text("a file in its place")
    (folder / "jobs" / "events.py").rename(folder / "mine")
    no = hivesink(capsys, "init", "--from", "events", "--table", "a.events", "--yes")
    assert f"{folder}/ddl can't be written: File exists; give this user access, or name other files" in no.error
    (folder / "ddl").unlink()
    assert not (folder / "ddl").exists()
    one = hivesink(capsys, "init", "--from", "events/a.json", "--table", "a.one", "--dry-run").out
    reads = (
        f"the job reads every file in {folder}/events, not only a.json: those that come later, and b.json.gz; FOLDER"
    )
    assert reads in one
    assert "the job reads" not in shown.out
    named = hivesink(
        capsys, "init", "--from", "events", "--table", "a.events", "--job", "jobs/two.py", "--json", "--yes"
    )
    assert named.code == 0
    assert "hivesink metastore start" in named.data["next"] or named.data["next"][0].startswith("hivesink ddl apply")
    assert [one["field"] for one in named.data["left_out"]] == ["it"]
    assert 'environ.get("WRITER", "two")' in (folder / "jobs" / "two.py").read_text()


def test_in_a_terminal_it_asks_again_until_the_answer_is_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["", "evnts", "events", "a b", "a.asked", "no-ddl", "", "no-job", "jobs/mine.py"]
    answers = iter([*where, "nonsense", "made_ms", "hour", "Mars", "Europe/Paris"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", lambda _: next(answers), raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(answers), raising=False)
    said = hivesink(capsys, "init")
    assert said.code == 0, said.err
    assert "there is nothing to take for it" in said.err
    ddl = (folder / "ddl" / "asked.sql").read_text()
    for setting in ("time-column'='made_ms'", "time-pattern'='yyyy-MM-dd--HH'", "time-zone'='Europe/Paris'"):
        assert setting in ddl
    assert (folder / "jobs" / "mine.py").exists()


def test_a_folder_of_folders_is_read_to_its_depths(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in ("01", "02"):
        path = folder / "days" / "2024" / day / "a.json"
        path.parent.mkdir(parents=True)
        path.write_text(f'{{"id": {int(day)}}}\n')
    said = hivesink(capsys, "init", "--from", "days", "--table", "a.days", "--json", "--yes")
    assert (said.code, said.data["records"]) == (0, 2)
    job = (folder / "jobs" / "days.py").read_text()
    assert 'sources.lines(spark, FOLDER, options={"recursiveFileLookup": "true"})' in job
    # What is beside them is all that Spark reads then.
    (folder / "days" / "one.json").write_text('{"id": 3}\n')
    said = hivesink(capsys, "init", "--from", "days", "--table", "a.one", "--dry-run", "--json")
    assert said.data["records"] == 1
    assert "recursive" not in said.data["job"]["text"]


def test_a_field_whose_column_has_another_name_decides_the_partition(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "odd.json").write_text('{"@timestamp": "2024-01-02T03:04:05Z", "made_at": "2024-01-02T03:04:05Z"}\n')
    asked = ["--from", "odd.json", "--table", "a.b", "--dry-run", "--time-column", "@timestamp"]
    assert "'sink.bucket.time-column'='timestamp'" in hivesink(capsys, "init", *asked).out


def test_it_says_how_many_rows_lack_their_partitions_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"ts": "2024-01-02T03:04:05Z", "made_at": "2024-01-02"}, {"made_at": "2024-01-02"}]
    (folder / "gaps.json").write_text("\n".join(map(json.dumps, records)))
    said = hivesink(capsys, "init", "--from", "gaps.json", "--table", "a.b", "--dry-run", "--time-column", "ts").out
    told = "1 of 2 records have no ts and go to the partition of nulls; --time-column made_at has none of these"
    assert said.count(told) == 2
    assert "have no" not in hivesink(capsys, "init", "--from", "gaps.json", "--table", "a.b", "--dry-run").out


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("kafka://h:1/Web-Clicks.v2", "demo.web_clicks_v2"),
        ("in/day.jsonl.gz", "demo.day"),
        ("./events/", "demo.events"),
        ("/", None),
    ],
)
def test_the_table_that_it_proposes_is_named_after_the_source(source: str, table: str | None) -> None:
    assert _table_of(source) == table


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--table", "a.b"], 2, "add --yes to take what it proposes, or --dry-run"),
        (["--table", "a.b.c", "--yes"], 2, "is not a table name"),
        (["--table", f"a.{'x' * 120}", "--yes"], 2, "up to 118 characters"),
        (
            ["--table", "a.b", "--yes", "--time-column", "id"],
            2,
            "--time-column id: write one of time, made_ms, arrival",
        ),
        (
            ["--table", "a.b", "--yes", "--time-column", "by.a"],
            2,
            "it is within by; have init write another DDL, then add a column `a` TIMESTAMP to it, with 'sink.c",
        ),
        (["--table", "a.b", "--yes", "--every", "week"], 2, "--every week: write one of day, hour"),
        (["--table", "a.b", "--yes", "--zone", "Mars"], 2, "--zone Mars: write a zone of the IANA database"),
        (["--table", "a.b", "--yes", "--job", "b.txt"], 2, "--job b.txt: a job's file ends in .py"),
        (["--table", "a.b", "--yes", "--job", "queue.py"], 2, "would import it for Python's own module queue; give it"),
        (
            ["--table", "a.b", "--yes", "--time-column", "nope", "--from", "times.json"],
            2,
            'the nearest is at: 1 of its 3 values are no timestamps, such as "n/a"; write arrival',
        ),
        (
            ["--table", "a.b", "--yes", "--time-column", "soon", "--from", "times.json"],
            2,
            "--time-column soon: 2 of its 3 values are no timestamps, such as 7; write arrival; or make it a TIMESTAMP",
        ),
        (
            ["--table", "a.b", "--yes", "--from", "lines.txt"],
            65,
            "lines.txt line 1 is no; write one JSON object a line: `jq -c .`",
        ),
        (["--table", "a.b", "--yes", "--from", "wide.json"], 65, "a line: `iconv -f utf-16 -t utf-8` makes that of"),
        (["--table", "a.b", "--yes", "--from", "none.json"], 65, "none.json holds no records"),
        (["--table", "a.b", "--yes", "--from", "days"], 65, "begin with . or _; put files there"),
        (
            ["--table", "a.b", "--yes", "--from", "odd.json"],
            65,
            'no field of the sample can be a column; "a\\u000ab": its',
        ),
        (["--table", "a.b", "--yes", "--from", "value.json"], 65, "the only fields are value, as columns"),
        (["--table", "a.b", "--yes", "--from", "some.json"], 65, "put the data into a folder of its own"),
    ],
)
def test_what_it_can_not_do_is_one_line_and_writes_nothing(
    arguments: list[str], code: int, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "days" / "2024-01-02").mkdir(parents=True)
    (folder / "days" / "_hidden").mkdir()
    (folder / "days" / "_hidden" / "a.json").touch()
    at = "2024-01-02T03:04:05Z"
    times = [{"at": at, "soon": 7}, {"at": "n/a", "soon": at}, {"at": at, "soon": 7}]
    files = {
        "lines": "no\n[1]\n",
        "times": "\n".join(map(json.dumps, times)),
        "none": "",
        "odd": '{"a\\nb": 1}',
        "value": '{"value": 1}',
        "some": '{"a": 1}',
    }
    for name, text in files.items():
        (folder / f"{name}.{'txt' if name == 'lines' else 'json'}").write_text(text)
    (folder / "wide.json").write_text('{"a": 1}', "utf-16")
    source = [] if "--from" in arguments else ["--from", "events"]
    said = hivesink(capsys, "init", *arguments, *source)
    assert said.code == code
    assert told in said.error
    assert not (folder / "ddl").exists()
    assert not (folder / "jobs").exists()
