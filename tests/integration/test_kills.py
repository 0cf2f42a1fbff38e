"""A real job on a local disk under SIGKILL: killed again and again, and run until it is done.

`tests/cluster/test_kills.py` kills jobs from Kafka to HDFS, `test_s3.py` on S3. In each run, `tests/crash` has deaths
at each step, `tests/cluster/test_dying_servers.py` a kill in the tasks, and this module a stage that runs again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.config.site import Site
from hivesink.core.table import TableName
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.logs import table_root
from hivesink.metastore import catalog, connect
from hivesink.ports import CommitLog
from tests.cli.site import Capsys, hivesink
from tests.cluster.gates import ROLLING, WRITER, Gates, Kills, local
from tests.integration.stage import ON_EPOCH, hive_reader
from tests.integration.test_state import STORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]
ROWS_A_BATCH = 200
PARTITIONS = 4

ROLL_STEPS = ("in-task", "after-encoding", "after-roll", "before-register", "after-register", "after-publish")
"""Of a roll's own epoch."""
STEPS = (
    *("after-commit", "after-manifest", "while-publishing", "before-register", "after-register", "after-publish"),
    *("before-manifest", "random"),
)
ROLLING_STEPS = (*STEPS, *ROLL_STEPS, "before-encoding", "before-roll", "before-sweep", "after-sweep")
SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "15"}
RETRIES = {"spark.master": "local[2,4]"}


@dataclass
class Job(Gates):
    """From the folder `source`, a file a batch, into a table of the metastore."""

    metastore: EmbeddedMetastore
    table: str
    source: str
    distinct: bool = False
    troubled: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=lambda: ON_EPOCH)

    def order(self) -> dict[str, Any]:
        return {
            "metastore": self.metastore.uri,
            "table": self.table,
            "checkpoint": str(self.folder / "checkpoint"),
            "gates": str(self.gates),
            "source": self.source,
            "distinct": self.distinct,
            "troubled": self.troubled,
            "options": self.options,
            "trigger": {"availableNow": True},
            "slow": not self.troubled,
            "spark": {**local(), "spark.local.dir": str(self.folder / "scratch"), **self.settings},
        }

    def has_run_a_stage_again(self) -> bool:
        """Of a job that was troubled."""
        # Partition, attempt, stage: a stage that runs again counts its attempts from 0.
        starts = [tuple(line.split()[:3]) for line in (self.gates / "attempts").read_text().splitlines()]
        return len(starts) > len(set(starts))

    def log(self) -> CommitLog:
        live = connect("thrift", self.metastore.uri).table(TableName.parse(self.table))
        return table_root(live, None, Site.load(os.environ)).log(WRITER)


def day(number: int) -> str:
    # Each batch brings one new partition and writes to three older ones, so that every epoch registers.
    batch, row = divmod(number, ROWS_A_BATCH)
    return f"d{max(0, batch - row % PARTITIONS):04d}"


def write_files(folder: Path, batches: int, *, again: bool = False) -> str:
    """A file a batch; `again`: with the rows of the one before it."""
    source = folder / "source"
    source.mkdir()
    for batch in range(batches):
        file = source / f"{batch:04d}.json"
        numbers = range(max(0, batch - again) * ROWS_A_BATCH, (batch + 1) * ROWS_A_BATCH)
        file.write_text("".join(json.dumps({"id": number, "dt": day(number)}) + "\n" for number in numbers))
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))
    return str(source)


def check_once(job: Job, spark: SparkSession, rows: int, capsys: Capsys) -> None:
    """Each event exactly once, in its partition, by Hive's own reader."""
    spark.catalog.refreshTable(job.table)
    with hive_reader(spark):
        found = [(row.id, row.dt) for row in spark.sql(f"SELECT id, dt FROM {job.table}").collect()]
    assert sorted(found) == [(number, day(number)) for number in range(rows)]
    warehouse = job.metastore.warehouse / "kills.db" / job.table.split(".")[1]
    assert [path for path in warehouse.rglob(".*") if not path.name.endswith(".crc")] == []
    assert job.log().segments.lengths() == {}
    said = hivesink(capsys, "verify", job.table, "--metastore", job.metastore.uri)
    assert said.code == 0, said.out + said.err


@pytest.fixture
def run(tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession, capsys: Capsys) -> Any:
    """Kill a job at steps, run it until it is done, and look."""

    def run(
        table: str,
        steps: Iterable[str],
        between: int,
        *,
        again: bool = False,
        rest: int = 8,
        ends_troubled: bool = False,
        **settings: Any,
    ) -> None:
        wanted = list(steps)
        batches = len(wanted) + rest
        ddl = f"CREATE TABLE kills.{table} (id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET"
        apply([parse_ddl(ddl, "kills.sql")], catalog(metastore.uri))
        job = Job(tmp_path, metastore, f"kills.{table}", write_files(tmp_path, batches, again=again), **settings)
        kills = Kills(job)
        for step in wanted:
            kills.kill_at(step)
        job.troubled |= ends_troubled
        assert job.drain() == 0, job.output[-4000:]
        assert kills.between >= between
        check_once(job, spark, batches * ROWS_A_BATCH, capsys)
        print(f"{len(wanted)} kills on files, {kills.between} of them between manifest and registration")
        if job.troubled:
            assert job.has_run_a_stage_again()

    return run


@pytest.mark.long
def test_kills_while_rows_wait(run: Any) -> None:
    """In the last run a stage runs again beside a task of its first run, which counts once, too.

    Tasks that fail and are tried again, and speculation, are in tests/spark/test_executors.py, a longer run.
    """
    settings = {**SMALL_BATCHES, **RETRIES}
    run("rolling", islice(cycle(ROLLING_STEPS), 30), 1, ends_troubled=True, options=ROLLING, settings=settings)


@pytest.mark.long
def test_a_hundred_kills_on_a_file_source(run: Any) -> None:
    run("files_100", islice(cycle(STEPS), 100), between=30)


@pytest.mark.long
@pytest.mark.parametrize("store", STORES)
def test_a_kill_at_each_step_of_a_query_with_state(run: Any, store: str) -> None:
    name = f"state_{store.replace('-', '_')}"
    run(name, STEPS, between=1, again=True, distinct=True, settings=STORES[store])


@pytest.mark.parametrize("by_partition", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_a_stage_that_runs_again_beside_a_task_of_its_first_run_counts_once(run: Any, by_partition: str) -> None:
    options = {**ON_EPOCH, "sink.shuffle-by-partition.enable": by_partition}
    run(f"retried_{by_partition}", (), 0, rest=2, ends_troubled=True, options=options, settings=RETRIES)
