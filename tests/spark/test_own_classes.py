"""Own classes beside a job file that runs in another folder: tasks, in processes of their own, find them too."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.metastore import catalog

REPOSITORY = Path(__file__).parents[2]
_numbers = count(1)

MINE = """
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from parts.digits import FIRST


class ByFirstDigit:
    def __init__(self, spec, config): ...

    def assign(self, rows, moment):
        return [pc.utf8_slice_codeunits(pc.cast(rows["id"], pa.string()), *FIRST)]


class Decades:
    def __init__(self, spec, config): ...

    def start(self, values):
        return datetime(1900 + 10 * int(values["decade"]), 1, 1)
"""
JOB = """
import sys

from hivesink import HiveSink, session, sources

table, folder = sys.argv[1:]
spark = session("own", extra={"spark.executor.memory": "512m"})
sink = HiveSink.for_table(spark, table, writer="own")
events = sources.lines(spark, f"file://{folder}/events")
sink.start(events, checkpoint=f"file://{folder}/checkpoint", trigger={"availableNow": True}).awaitTermination()
"""
DDL = """CREATE TABLE {name} (id BIGINT, at BIGINT) PARTITIONED BY (decade STRING) STORED AS PARQUET
LOCATION '{location}' TBLPROPERTIES ('sink.bucket.assigner'='mine:ByFirstDigit', 'sink.partition-commit.delay'='1h',
'sink.partition-commit.trigger'='partition-time', 'sink.partition-commit.watermark-column'='at',
'partition.time-extractor.class'='mine:Decades')
"""


# tests/sink/commit/test_own_classes.py has them in one process.
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "master"),
    [
        (("-m", "hivesink.cli", "run"), "local[2]"),
        # As `python JOB.py`; its executors are processes of their own, which get hivesink as those of any cluster do.
        ((), "local-cluster[1,1,512]"),
    ],
)
def test_tasks_find_the_classes_beside_the_job(
    start: tuple[str, ...], master: str, metastore: EmbeddedMetastore, tmp_path: Path
) -> None:
    name, location = f"own{next(_numbers)}.events", tmp_path / "data"
    ddl = DDL.format(name=name, location=location.as_uri())
    apply([parse_ddl(ddl, "own.sql")], catalog(metastore.uri))
    jobs = tmp_path / "jobs"
    (jobs / "parts").mkdir(parents=True)
    (jobs / "parts" / "digits.py").write_text("FIRST = (0, 1)\n")
    (jobs / "mine.py").write_text(MINE)
    (jobs / "own.py").write_text(JOB)
    (tmp_path / "events").mkdir()
    records = [f'{{"id": {number}, "at": 0}}\n' for number in (1, 12, 70)]
    (tmp_path / "events" / "a.json").write_text("".join(records))
    environment = {
        **os.environ,
        "HIVESINK_MASTER": master,
        "HIVESINK_METASTORE": metastore.uri,
        # Where hivesink is, and nothing of the job's.
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, *start, "jobs/own.py", name, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in location.glob("decade=*")) == ["decade=1", "decade=7"]
