"""The recipes of docs/recipes.md, word for word but for the database's name and folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from sqlglot import transpile

from hivesink.config.options import SinkConfig
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.decode.reader import RowsReader
from hivesink.embedded.metastore import EmbeddedMetastore
from tests.cli.site import Ingest
from tests.decode.test_debezium import ADA, PEOPLE_FIELDS, event, texts, with_schema
from tests.docs.pages import ROOT, block
from tests.integration.stage import Topic

PAGE = "docs/recipes.md"


class Shell:
    """A shell like cron's, without a profile, in a folder with a table and a job that `init` has made from `events/`.

    The page's database `demo` is `database` here.
    """

    def __init__(self, folder: Path, metastore: EmbeddedMetastore, database: str, **own: str) -> None:
        self.folder, self.database = folder, database
        self.environment = {
            "HOME": os.environ["HOME"],
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HIVESINK_METASTORE": metastore.uri,
            **own,
        }
        self.put("events", 1)
        self.must("hivesink init --from events --table demo.events --every day && hivesink ddl apply ddl/events.sql")

    def put(self, folder: str, first: int, name: str = "a.json") -> None:
        """Two records of one day, with ids from `first` on."""
        (self.folder / folder).mkdir(exist_ok=True)
        (self.folder / folder / name).write_text("".join(f"{json.dumps(one)}\n" for one in records(first)))

    def __call__(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-euc", script.replace("demo.", f"{self.database}.")]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )

    def must(self, script: str) -> str:
        """What a script prints, in one line; it has to end with 0."""
        ended = self(script)
        assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
        return " ".join(ended.stdout.split())

    def rows(self) -> list[list[object]]:
        asked = self("hivesink query 'SELECT id, dt FROM demo.events ORDER BY id' --json")
        assert asked.returncode == 0, asked.stderr
        return list(json.loads(asked.stdout)["rows"])


def records(first: int) -> list[dict[str, object]]:
    return [{"id": first + n, "at": f"2024-01-03T0{n}:00:00Z"} for n in range(2)]


def day(*ids: int) -> list[list[object]]:
    return [[one, "2024-01-03"] for one in ids]


@pytest.mark.spark
@pytest.mark.long
def test_a_backfill_from_files(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    sh = Shell(tmp_path, metastore, "recipes_files")
    sh.put("day", 11)
    sh.must(block(PAGE, "# drop_day.sh").text)
    assert sh.rows() == []
    assert "is gone since it was published" in sh.must(block(PAGE, "FOLDER=file").text)
    assert sh.rows() == day(11, 12)


@pytest.mark.spark
@pytest.mark.long
def test_compaction(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    sh = Shell(tmp_path, metastore, "recipes_compact")
    for first in (1, 21):
        sh.put("events", first, f"{first}.json")
        sh.must("TRIGGER=availableNow hivesink run jobs/events.py")
    asked = "SELECT COUNT(DISTINCT f), MAX(at) FROM (SELECT input_file_name() f, at FROM demo.events)"
    files = f"hivesink query '{asked}' --engine spark --json"
    assert json.loads(sh(files).stdout)["rows"] == [[2, "2024-01-03T01:00:00"]]
    compact = block(PAGE, "# compact.sh").text
    sh.environment |= {"DAY": "2024-01-03"}
    # Killed once the old rows are gone.
    sh.must(compact.partition('hivesink query "INSERT')[0] + 'hivesink query "TRUNCATE TABLE demo.events"')
    assert sh.rows() == []
    sh.must(compact)
    assert json.loads(sh(files).stdout)["rows"] == [[1, "2024-01-03T01:00:00"]]
    assert sh.rows() == day(1, 2, 21, 22)
    assert "is gone since it was published" in sh.must("hivesink verify demo.events")


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.long
def test_change_events(metastore: EmbeddedMetastore, kafka: str, tmp_path: Path) -> None:
    topic, renamed, bob = f"people-{tmp_path.name}", {**ADA, "name": "Ada King"}, {**ADA, "id": 2}
    changes = event("c", None, ADA), event("c", None, bob), event("u", ADA, renamed), event("d", bob, None)
    records = [json.dumps(with_schema(change, PEOPLE_FIELDS)).encode() for change in changes]
    Topic.create(kafka, topic, 1).put_raw([*((0, record, b"k") for record in records), (0, None, b"k")])
    sh = Shell(tmp_path, metastore, "recipes_cdc", KAFKA_SERVERS=kafka)
    (tmp_path / "view.sql").write_text(block(PAGE, "CREATE VIEW demo.people AS").text.replace("demo.", "recipes_cdc."))
    told = sh.must(block(PAGE, "# cdc.sh").text.replace("localhost:9092/people", f"{kafka}/{topic}"))
    assert "Ada King" in told
    asked = sh("hivesink query 'SELECT id, name FROM demo.people' --json")
    assert json.loads(asked.stdout)["rows"] == [[1, "Ada King"]]


def test_the_latest_state_has_each_row_that_is_left_as_it_was_changed_last() -> None:
    view = block(PAGE, "CREATE VIEW demo.people AS").text
    columns = {"id": "int", "name": "string", "balance": "decimal(6,2)", "op": "string", "record_offset": "bigint"}
    sources = {"op": "$.op", "record_offset": "kafka.offset"}
    config = SinkConfig.parse(
        {"sink.value.format": "debezium-json", **{f"sink.column.{at}.from": path for at, path in sources.items()}}
    )
    bob, renamed = {**ADA, "id": 2, "name": "Bob"}, {**ADA, "name": "Ada King"}
    changes = [event("r", None, ADA), event("c", None, bob), event("u", ADA, renamed), event("d", bob, None), None]
    values = pa.array(texts([change and with_schema(change, PEOPLE_FIELDS) for change in changes]), pa.binary())
    batch = pa.RecordBatch.from_pydict({"value": values, "offset": range(5)})
    rows = RowsReader([Column(name, parse_type(kind)) for name, kind in columns.items()], "value", config).read(batch)
    assert (rows.table["op"].to_pylist(), rows.skipped) == (["r", "c", "u", "d"], 1)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA demo")
        connection.register("log", rows.table)
        connection.execute("CREATE TABLE demo.people_log AS SELECT * FROM log")
        connection.execute(transpile(view, "hive", "duckdb")[0])
        assert connection.execute("FROM demo.people").fetchall() == [(1, "Ada King")]


@pytest.mark.spark
@pytest.mark.long
def test_records_that_hold_many(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    sh = Shell(tmp_path, metastore, "recipes_many")
    (tmp_path / "batches").mkdir()
    lines = ['{"account": 7, "Records": [{"id": 1}, {"id": 2}]}', '{"account": 8, "Records": [{"id": 3}, 4]}']
    (tmp_path / "batches" / "a.json").write_text("\n".join(lines))
    told = sh.must(block(PAGE, "# wrapped.sh").text)
    assert "a.json line 2 element 1" in told
    asked = sh("hivesink query 'SELECT account, id FROM demo.records ORDER BY id' --json")
    assert json.loads(asked.stdout)["rows"] == [[7, 1], [7, 2], [8, 3]]


@pytest.mark.spark
@pytest.mark.long
def test_starting_over(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    sh = Shell(tmp_path, metastore, "recipes_over")
    sh.must("TRIGGER=availableNow hivesink run jobs/events.py")
    sh.must('hivesink query "INSERT INTO demo.events SELECT 0, NULL, NULL"')
    sh.must(block(PAGE, "# start-over.sh").text)
    assert sh.rows() == day(1, 2)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.long
def test_a_backfill_from_kafka(metastore: EmbeddedMetastore, kafka: str, tmp_path: Path) -> None:
    topic = Topic.create(kafka, f"recipes-{tmp_path.name}", 1)
    midnight, moment = datetime(2024, 1, 3, tzinfo=timezone.utc), timedelta(milliseconds=1)
    end = midnight + timedelta(days=1)
    # Rows show by their ids what was read. By Kafka's time 21 and 22 are before the day, and 51 is after it.
    # By its own time 61 alone is of another day.
    sent = {21: midnight - moment, 31: midnight, 22: midnight - moment, 51: end, 41: end - moment, 61: midnight}
    for first, at in sent.items():
        record = records(first)[0] | ({"at": "2024-01-04T00:00:00Z"} if first == 61 else {})
        topic.put_raw([(0, json.dumps(record).encode())], at)
    sh = Shell(tmp_path, metastore, "recipes_kafka", KAFKA_SERVERS=kafka)
    job = block(PAGE, "# jobs/backfill.py").text.replace('SERVERS, "events"', f'SERVERS, "{topic.name}"')
    job = job.replace("demo.", "recipes_kafka.")
    commands = block(PAGE, "BEGIN=2024").text
    (tmp_path / "jobs" / "backfill.py").write_text(job)
    drop = block(PAGE, "# drop_day.sh").text
    sh.must("TRIGGER=availableNow hivesink run jobs/events.py")
    sh.must(drop)
    sh.must(commands)
    assert sh.rows() == day(21, 22, 31, 41, 51)

    # By Kafka's time, as the page says, one of another day by its own comes along.
    by_kafka, times = re.subn(r"AT = .*\nREAD_FROM = .*\n", 'AT = "timestamp"\nREAD_FROM = BEGIN\n', job)
    assert times == 1
    (tmp_path / "jobs" / "backfill.py").write_text(by_kafka)
    sh.must(drop)
    sh.must(commands.replace("backfill-events-2024-01-03", "by-kafka"))
    assert sh.rows() == [*day(31, 41), [61, "2024-01-04"]]


def test_days_that_have_changed_are_computed_once(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    """The job's rows come from `Ingest`, without Spark."""
    sh = Shell(tmp_path, metastore, "recipes_changed")
    (tmp_path / "recompute.sh").write_text(block(PAGE, "# recompute.sh").text.replace("demo.", "recipes_changed."))
    told = "import json, sys; print(*(each['partition'] for each in json.load(open(sys.argv[1]))['partitions']))"
    (tmp_path / "compute.py").write_text("raise SystemExit(7)")
    with closing(Ingest("recipes_changed.events", metastore.uri, options={"sink.on-bad-record": "drop"})) as writer:
        writer.commit(2)
        writer.committer.finish()
        assert sh("sh recompute.sh").returncode == 7
        (tmp_path / "compute.py").write_text(told)
        assert sh.must("sh recompute.sh") == "dt=__HIVE_DEFAULT_PARTITION__"
        assert sh("sh recompute.sh").returncode == 3


def test_cron(tmp_path: Path) -> None:
    """It says nothing while another run holds the lock or where one ends well, and mails the end of a failed one."""
    job, log = tmp_path / "jobs" / "events.py", tmp_path / "run.log"
    job.parent.mkdir()
    (tmp_path / "run.sh").write_text(block(PAGE, "# run.sh").text)
    line = block(PAGE, "*/10 * * * * cd").text.partition("/srv/events && ")[2].strip()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def cron(command: str) -> tuple[int, str]:
        shell = ["sh", "-c", f"{command} 2>&1"]
        ended = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout

    job.write_text("")
    assert cron(f"flock run.lock {line}") == (0, "")
    assert not log.exists()
    assert cron(line) == (0, ""), log.read_text()
    log.unlink()
    job.write_text("raise SystemExit(65)")
    code, mail = cron(line)
    said = mail.splitlines()
    assert (code, said[0]) == (65, "jobs/events.py ended with 65")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} jobs/events.py starts", said[1])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    name = "hivesink-events.service"
    text = block(PAGE, f"# {name}\n").text
    unit = tmp_path / name
    unit.write_text(text.replace("/opt/hivesink/.venv/bin", str(Path(sys.executable).parent)))
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (found.returncode, name in found.stderr) == (0, False), found.stderr
