"""A job on a real S3 server: table, log and checkpoint on `s3a://`, under SIGKILL, and read by every engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hivesink.config.site import Site
from hivesink.embedded.metastore import EmbeddedMetastore, stop
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.jvm.jars import fetch, s3a
from hivesink.metastore import catalog
from jobs.cluster.s3 import S3Server
from tests.cli.site import Capsys, hivesink
from tests.cluster.gates import ROLLING, Kills
from tests.docs.pages import ROOT, block, shell
from tests.integration.test_kills import (
    RETRIES,
    ROLLING_STEPS,
    ROWS_A_BATCH,
    SMALL_BATCHES,
    Job,
    day,
    write_files,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]
KILLS = 30
# A session of its own, as a user's: it reads with Hive's reader, then inserts.
READER = """
import json, sys
from hivesink import session
table, database = sys.argv[1], sys.argv[1].partition(".")[0]
spark = session("reader", extra={"spark.sql.hive.convertMetastoreParquet": "false"})
print(json.dumps([[row.id, row.dt] for row in spark.sql(f"SELECT id, dt FROM {table}").collect()]))
spark.sql(f"INSERT INTO {table} VALUES (-1, 'd0000'), (-2, 'new')")
print(json.dumps([row.id for row in spark.sql(f"SELECT id FROM {table} WHERE id < 0 ORDER BY id").collect()]))
spark.stop()
"""


@dataclass
class JobOnS3(Job):
    """Its checkpoint is in `root`, too."""

    root: str = ""

    def order(self) -> dict[str, Any]:
        return {**super().order(), "checkpoint": f"{self.root}/checkpoint"}


class Documented(NamedTuple):
    """The folder in which the docs' commands were run, and what they printed. Their metastore is up."""

    folder: Path
    said: str

    @property
    def home(self) -> Path:
        return self.folder / "home"


@pytest.fixture(scope="module")
def documented(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documented]:
    folder = tmp_path_factory.mktemp("docs")
    text = block("docs/sites.md", "fs.s3a.endpoint").text
    assert "http://127.0.0.1:8333" in text
    s3.make_bucket("demo")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HIVESINK_HOME": str(folder / "home"), "PATH": path, "PYTHONPATH": str(ROOT)}
    try:
        said = shell(folder, text.replace("http://127.0.0.1:8333", s3.endpoint), environment)
        yield Documented(folder, said.stdout + said.stderr)
    finally:
        stop(folder / "home")


def test_the_docs_from_an_empty_bucket_to_an_answer(documented: Documented, s3: S3Server) -> None:
    assert re.search(r"\b1\b.*2024-01-03", documented.said), documented.said
    keys = [found["Key"] for found in s3.client().list_objects_v2(Bucket="demo")["Contents"]]
    assert {key.partition("/")[0] for key in keys} >= {"events", "checkpoints"}


@pytest.fixture
def metastore_on_s3(documented: Documented, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> EmbeddedMetastore:
    """The docs' own, which the environment names from now on, with its site and keys."""
    server = EmbeddedMetastore(documented.home / "metastore", documented.home / "warehouse")
    server.resume()
    site = {"HADOOP_CONF_DIR": str(documented.folder / "conf"), "HIVESINK_METASTORE": server.uri}
    for name, value in {**s3.environment, **site}.items():
        monkeypatch.setenv(name, value)
    return server


def read_by_hive(table: str) -> list[str]:
    ended = subprocess.run([sys.executable, "-c", READER, table], capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


# In each run, tests/crash/test_every_step_on_servers.py has deaths at each step.
@pytest.mark.long
def test_kills_on_s3(s3: S3Server, metastore_on_s3: EmbeddedMetastore, tmp_path: Path, capsys: Capsys) -> None:
    """In the last run a stage runs again beside a task of its first run, which counts once, too."""
    table, root = "kills.on_s3", f"{s3.make_bucket('kills')}/job"
    site = Site.load(os.environ)
    parts = f"(id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET LOCATION '{root}/table'"
    apply([parse_ddl(f"CREATE TABLE {table} {parts}", "kills.sql")], catalog(metastore_on_s3.uri, site))
    batches = KILLS + 8
    jars = {"spark.jars": ",".join(path.as_uri() for path in fetch(s3a()))}
    job = JobOnS3(
        tmp_path, metastore_on_s3, table, write_files(tmp_path, batches),
        options=ROLLING, settings={**SMALL_BATCHES, **RETRIES, **jars}, root=root,
    )  # fmt: skip
    killed = Kills(job)
    for step in islice(cycle(ROLLING_STEPS), KILLS):
        killed.kill_at(step)
    job.troubled = True
    assert job.drain() == 0, job.output[-4000:]
    assert job.has_run_a_stage_again()

    for command in ("verify", "status", "show"):
        said = hivesink(capsys, command, table)
        assert said.code == 0, said.out + said.err
    rows = [[number, day(number)] for number in range(batches * ROWS_A_BATCH)]
    asked = "query", f"SELECT id, dt FROM {table} ORDER BY id", "--limit", str(2 * len(rows)), "--json"
    found = hivesink(capsys, *asked).data
    assert (found["engine"], found["rows"]) == ("duckdb", rows)
    by_hive, inserted = map(json.loads, read_by_hive(table))
    assert (sorted(by_hive), inserted) == (rows, [-2, -1])
    # What a user adds is the user's.
    assert hivesink(capsys, "verify", table).code == 0
    assert job.drain() == 0, job.output[-4000:]
    bucket = s3.client()
    left = [upload["Key"] for upload in bucket.list_multipart_uploads(Bucket="kills").get("Uploads", [])]
    assert left == []
