"""A real job on a local disk under SIGKILL: killed after its first epoch, again and again, and run until it is done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.config.options import check
from hivesink.core.log import default_root
from hivesink.core.table import TableName
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_ddl
from hivesink.logs import commit_log
from hivesink.metastore import catalog, connect
from jobs.cluster.kafka import create_topic
from tests.cluster.gates import WRITER, Gates, Kills, local
from tests.integration.statestores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore
    from hivesink.ports import CommitLog

ROWS_A_BATCH = 200
PARTITIONS = 4

STEPS = (
    "after-manifest",
    "while-publishing",
    "before-register",
    "after-register",
    "after-publish",
    "before-manifest",
    "after-commit",
    "random",
)
"""The first three lie between manifest and registration."""
SHORT = STEPS[2:5]
"""`tests/cluster/test_kills.py` has the two before, from Kafka to HDFS."""
ROLLING_STEPS = (
    "in-task",
    "after-encoding",
    "after-roll",
    "before-sweep",
    "before-manifest",
    "after-manifest",
    "before-encoding",
    "before-roll",
    "while-publishing",
    "before-register",
    "after-register",
    "after-publish",
    "after-sweep",
    "after-commit",
    "random",
)
# Each epoch publishes and registers: otherwise only the end of the source does.
ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
ROLLING = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.rollover-interval": "1s",
    "sink.rolling-policy.check-interval": "100ms",
    # Tasks write their segments piece by piece.
    "sink.task-memory": "16KB",
}
SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "15"}


@dataclass
class Stage(Gates):
    """`source` is the part of the job's order that says what it reads."""

    metastore: EmbeddedMetastore
    table: str
    source: dict[str, str]
    distinct: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=lambda: ON_EPOCH)

    def order(self) -> dict[str, Any]:
        return {
            "metastore": self.metastore.uri,
            "table": self.table,
            "checkpoint": str(self.folder / "checkpoint"),
            "gates": str(self.gates),
            "batch": ROWS_A_BATCH,
            "distinct": self.distinct,
            "options": self.options,
            "trigger": {"availableNow": True},
            "slow": True,
            "spark": {**local(), "spark.local.dir": str(self.folder / "scratch"), **self.settings},
            **self.source,
        }

    def log(self) -> CommitLog:
        live = connect("thrift", self.metastore.uri).table(TableName.parse(self.table))
        return commit_log(str(Path(default_root(live.location.removeprefix("file:"), live.spec.name), WRITER)))


def day(number: int) -> str:
    # Each batch brings one new partition and writes to three older ones, so that every epoch registers.
    batch, row = divmod(number, ROWS_A_BATCH)
    return f"d{max(0, batch - row % PARTITIONS):04d}"


def record(number: int) -> str:
    return json.dumps({"id": number, "dt": day(number)})


def begin(folder: Path, metastore: EmbeddedMetastore, table: str, source: dict[str, str]) -> Stage:
    ddl = f"CREATE TABLE kills.{table} (id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET"
    apply([parse_ddl(ddl, "kills.sql", check)], catalog(metastore.uri))
    return Stage(folder, metastore, f"kills.{table}", source)


def kill_until_done(stage: Stage, steps: Iterable[str]) -> Kills:
    kills = Kills(stage)
    # The first run commits an epoch; what comes after it is under fire.
    for step in ("after-commit", *steps):
        kills.kill_at(step)
    assert stage.drain() == 0, stage.output[-4000:]
    return kills


def check_once(stage: Stage, spark: SparkSession, rows: int) -> None:
    """Each event exactly once, in its partition, by Hive's own reader."""
    spark.conf.set("spark.sql.hive.convertMetastoreParquet", "false")
    spark.catalog.refreshTable(stage.table)
    found = [(row.id, row.dt) for row in spark.sql(f"SELECT id, dt FROM {stage.table}").collect()]
    assert sorted(found) == [(number, day(number)) for number in range(rows)]
    warehouse = stage.metastore.warehouse / "kills.db" / stage.table.split(".")[1]
    assert [path for path in warehouse.rglob(".*") if not path.name.endswith(".crc")] == []
    assert stage.log().segments.lengths() == {}
    command = ("verify", stage.table, "--metastore", stage.metastore.uri)
    said = subprocess.run([sys.executable, "-m", "hivesink.cli", *command], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


def write_files(folder: Path, batches: int, *, again: bool = False) -> str:
    """A file a batch; `again`: with the rows of the one before it."""
    source = folder / "source"
    source.mkdir()
    for batch in range(batches):
        file = source / f"{batch:04d}.json"
        numbers = range(max(0, batch - again) * ROWS_A_BATCH, (batch + 1) * ROWS_A_BATCH)
        file.write_text("".join(record(number) + "\n" for number in numbers))
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))
    return str(source)


def run_on_files(
    folder: Path,
    metastore: EmbeddedMetastore,
    spark: SparkSession,
    *,
    table: str,
    steps: Sequence[str],
    between: int,
    options: Mapping[str, str] | None = None,
) -> None:
    batches = len(steps) + 8
    source = write_files(folder, batches)
    stage = begin(folder, metastore, table, {"source": source})
    if options is not None:
        stage.options, stage.settings = options, SMALL_BATCHES
    kills = kill_until_done(stage, steps)
    assert len(kills.died) == len(steps) + 1
    assert kills.between >= between
    check_once(stage, spark, batches * ROWS_A_BATCH)
    print(f"{len(steps)} kills on files, {kills.between} of them between manifest and registration")


def run_on_kafka(
    folder: Path, metastore: EmbeddedMetastore, spark: SparkSession, kafka: str, *, table: str, kills: int
) -> None:
    from confluent_kafka import Producer

    batches = kills + 8
    assert create_topic(kafka, table, 3)
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    for number in range(batches * ROWS_A_BATCH):
        producer.produce(table, record(number), partition=number % 3)
    assert producer.flush(30) == 0
    stage = begin(folder, metastore, table, {"servers": kafka, "topic": table})
    done = kill_until_done(stage, islice(cycle(STEPS), kills))
    assert len(done.died) == kills + 1
    check_once(stage, spark, batches * ROWS_A_BATCH)
    print(f"{kills} kills over Kafka, {done.between} of them between manifest and registration")


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_kill_at_each_step_of_publishing_on_a_file_source(
    tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession
) -> None:
    run_on_files(tmp_path, metastore, spark, table="files_3", steps=SHORT, between=1)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [4, pytest.param(30, marks=[pytest.mark.long, pytest.mark.timeout(3600)])], ids=str)
def test_kills_while_rows_wait(tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession, kills: int) -> None:
    steps = tuple(islice(cycle(ROLLING_STEPS), kills))
    # Only a roll has parts.
    between = steps.count("after-roll")
    run_on_files(tmp_path, metastore, spark, table=f"rolling_{kills}", steps=steps, between=between, options=ROLLING)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("store", STORES)
def test_a_kill_at_each_step_of_a_query_with_state(
    tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession, store: str
) -> None:
    batches = len(STEPS) + 4
    source = write_files(tmp_path, batches, again=True)
    stage = begin(tmp_path, metastore, f"state_{store.replace('-', '_')}", {"source": source})
    stage.distinct, stage.settings = True, STORES[store]
    assert len(kill_until_done(stage, STEPS).died) == len(STEPS) + 1
    check_once(stage, spark, batches * ROWS_A_BATCH)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_kills_on_a_file_source(tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession) -> None:
    run_on_files(tmp_path, metastore, spark, table="files_100", steps=list(islice(cycle(STEPS), 100)), between=30)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_five_kills_over_kafka(
    tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession, kafka: str
) -> None:
    run_on_kafka(tmp_path, metastore, spark, kafka, table="kafka_25", kills=25)
