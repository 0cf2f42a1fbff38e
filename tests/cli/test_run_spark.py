"""A real job under `hivesink run`: its ends, its bad record, and a query over what it wrote."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.site import REPOSITORY, Capsys, hivesink

pytestmark = pytest.mark.spark


JOB = """
import sys
from hivesink import HiveSink, session, sources
table, folder, checkpoint = sys.argv[1:]
spark = session("cli test")
sink = HiveSink.for_table(spark, table, on_commit=lambda done: print("epoch", done.epoch, flush=True))
query = sink.start(sources.lines(spark, folder), checkpoint=checkpoint, trigger={"processingTime": "1 second"})
query.awaitTermination()
print("ended by itself", flush=True)
"""
POLLS = JOB.replace("query.awaitTermination()", "import time\nwhile query.isActive: time.sleep(0.2)")


def _start(folder: Path, table: str, lines: str = JOB) -> subprocess.Popen[str]:
    job = folder / "clicks.py"
    job.write_text(lines)
    (folder / "events").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "hivesink.cli", "run", str(job), table, str(folder / "events"), str(folder / "ck")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _feed(folder: Path, name: str, *records: object) -> None:
    """A file appears whole: Spark may list the folder at any time."""
    path = folder / f".{name}"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    path.rename(folder / "events" / name)


def test_a_job_is_killed_goes_on_ends_by_sigterm_and_needs_a_person_for_a_bad_record(
    table: str, ddl: Path, tmp_path: Path, capsys: Capsys
) -> None:
    with _start(tmp_path, table) as process:
        _feed(tmp_path, "one.json", *({"id": number, "dt": "2026-01-01"} for number in range(5)))
        assert process.stdout is not None
        assert process.stdout.readline() == "epoch 1\n", process.communicate()
        running = psutil.Process(process.pid).children(recursive=True)
        assert {"java"} < {one.name() for one in running}
        # Its supervisor alone: the job and its JVM end too.
        process.kill()
        _, alive = psutil.wait_procs(running, timeout=60)
        assert alive == []
        assert process.stdout.read() == "ended by itself\n"

    _feed(tmp_path, "two.json", *({"id": number, "dt": "2026-01-01"} for number in range(5, 8)))
    with _start(tmp_path, table) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "epoch 3\n", process.communicate()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "ended by itself\n"), err
    assert "Spark is starting" in err.splitlines()
    assert "rror" not in err
    (writer,) = hivesink(capsys, "status", table, "--json").data["writers"]
    told = writer["writer"], writer["epoch"], writer["rows"]["written"], writer["unsettled"]
    assert told == ("clicks", 4, 8, [])
    assert hivesink(capsys, "verify", table).code == 0

    ddl.write_text(ddl.read_text().replace("'drop'", "'fail'"))
    assert hivesink(capsys, "ddl", "apply", ddl).code == 0
    _feed(tmp_path, "three.json", {"id": "seven", "dt": "2026-01-01"})
    with _start(tmp_path, table, POLLS) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (65, "ended by itself\n")
    (line,) = [line for line in err.splitlines() if line.startswith("hivesink: ")]
    assert "bad record for" in line
    assert "bad record for" in next(line for line in err.splitlines() if f"the query into {table} ends: " in line)
    assert "three.json" in line
    assert "Traceback" not in err
    assert "\tat " not in err


# test_codes.py has its code and its line, with a process of its own for the JVM.
@pytest.mark.long
def test_the_death_of_the_jvm_is_told_as_that(table: str, tmp_path: Path) -> None:
    with _start(tmp_path, table) as process:
        _feed(tmp_path, "one.json", {"id": 1, "dt": "2026-01-01"})
        assert process.stdout is not None
        assert process.stdout.readline() == "epoch 1\n", process.communicate()
        (jvm,) = [one for one in psutil.Process(process.pid).children(recursive=True) if one.name() == "java"]
        jvm.kill()
        _, err = process.communicate()
    (told,) = [line for line in err.splitlines() if line.startswith("hivesink: ")]
    assert "the JVM of Spark's driver died, with exit code 137: " in told
    # PySpark's threads print stacks of their own.
    assert (process.returncode, len(err.splitlines()) < 100) == (75, True), err


SEVERAL = """
import json, sys
from hivesink.cli import main
for arguments in map(json.loads, sys.argv[1:]):
    try:
        main(["query", *arguments])
    except SystemExit as ended:
        for stream in (sys.stdout, sys.stderr):
            print("----", ended.code, file=stream, flush=True)
"""
"""Queries of one process: Spark's JVM starts once."""


def test_query_by_spark(table: str, tmp_path: Path) -> None:
    usual = os.environ["JDK_JAVA_OPTIONS"].replace("-Duser.timezone=UTC", "")
    java = f"{usual} -Djava.io.tmpdir={tmp_path}"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "JDK_JAVA_OPTIONS": java}
    # The files' wall clocks are shown as they are, wherever this machine is.
    environment["TZ"] = "Europe/Berlin"
    nested = "array(struct(1 AS a, map('k', struct(2 AS b)) AS m))"
    spark = ["--engine", "spark"]
    statements = [
        [f"CREATE TABLE {table}_copy STORED AS PARQUET PARTITIONED BY (d) AS SELECT 1 AS n, 'x' AS d"],
        [f"SELECT count(*) AS n, current_timezone() AS z, {nested} AS s FROM {table}", "--json", *spark],
        ["SELECT nothing FROM nowhere.at_all", *spark],
        ["SELECT CAST(concat('a', id) AS INT) FROM range(3)", "--json", *spark],
        ["SELECT reflect('java.lang.Integer', 'parseInt', id || 'x') FROM range(1)", *spark],
    ]
    command = [sys.executable, "-c", SEVERAL, *map(json.dumps, statements)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    _, answer, *_ = done.stdout.split("---- 0\n")
    rows = [[0, "UTC", [{"a": 1, "m": {"k": {"b": 2}}}]]]
    assert json.loads(answer) == {"columns": ["n", "z", "s"], "rows": rows, "more": False, "engine": "spark"}
    copied, said, failed = done.stderr.split("---- 0\n")
    assert "duckdb doesn't answer this, and Spark starts: it isn't a SELECT" in copied
    assert said == "engine: spark\n"
    # Spark 4 starts a Python to look for data sources, and kills it at the session's end while it may still answer.
    failed = re.sub(r"Traceback \(most recent call last\):\n(  .*\n)+BrokenPipeError: .*\n", "", failed)
    # One line each, also of what fails in a task.
    begins = 2 * ["hivesink: the query failed: "]
    begins.insert(1, '{"error": {"type": "QueryFailed", "code": "HS089", "message": "the query failed: ')
    causes = ("Exception: [TABLE_OR_VIEW_NOT_FOUND]", "Exception: [CAST_INVALID_INPUT]", "NumberFormatException: ")
    for line, begin, cause in zip(failed.replace("---- 65\n", "").splitlines(), begins, causes, strict=True):
        assert line.startswith(begin), failed
        assert cause in line, failed
    # Hive's client makes one for each session.
    assert not [*tmp_path.glob("*_resources")]
