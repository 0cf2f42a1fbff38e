"""The demonstration on a real cluster: it runs jobs/flights.py as a user would, and queries HiveServer2.

CLUSTER=1 is the cluster of `make cluster-up`, CLUSTER=compose the one of docker-compose.yml. Its site files describe
it. Tables, log, checkpoint and topic stay on it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from os import environ
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hivesink.config.site import Site
from hivesink.core.partfile import Finished
from hivesink.errors import HiveSinkError, InvalidOption
from hivesink.hive import Hive
from hivesink.metastore import catalog
from hivesink.tables.opened import open_table
from jobs.cluster import Addresses, Cluster
from jobs.cluster.__main__ import default_folder, start, variables_of
from jobs.demo import containers
from jobs.demo.answers import Ask, finished_files, show_answers, show_files, show_partitions
from jobs.demo.flights import TOPIC, Flights, KafkaTopic
from jobs.demo.screen import Screen
from jobs.demo.services import TABLE, committed, declare_tables

JOB = Path(__file__).parents[1] / "flights.py"
# Leaves room for another application on the workers.
SPARK_DEFAULTS = "spark.cores.max 2\nspark.executor.memory 1g\n"
ROWS = "SELECT carrier, month, dep_delay FROM demo.flights"


class JobEnded(HiveSinkError):
    """The job failed, and has reported why."""

    def __init__(self, code: int) -> None:
        self.exit_code = code
        super().__init__(f"the job ended with exit code {code}")


def addresses(kind: str, screen: Screen) -> tuple[Addresses, Mapping[str, str]]:
    """The servers' addresses, and `EmbeddedKafka.login`: of `compose`, or of `make cluster-up`.

    Those of the latter are started where they don't run, and stay up; with SECURE=1 they ask for logins, and this
    process has one. Raises ServerFailed, SourceUnreachable, JavaFailed, InvalidOption.
    """
    if kind == "compose":
        return containers.addresses(), {}
    folder, secure = default_folder(), environ.get("SECURE", "0") not in {"", "0"}
    if Cluster.running(folder) is None:
        screen.step("Starting the cluster, as `make cluster-up` does")
        screen.fact("30 s, and longer at the first start, which fetches jars")
        start(folder, None, lambda name, server: screen.fact(f"{name:15} {server.address}"), secure=secure)
        screen.fact("they stay up; `make cluster-down` stops them")
    cluster = Cluster.detached(folder)
    if secure and cluster.servers.kdc is None:
        raise InvalidOption((f"SECURE=1: {folder} has a cluster without logins; name another by HIVESINK_CLUSTER",))
    environ.update(variables_of(cluster))
    return cluster.addresses, cluster.servers.broker.login


def on_cluster(where: Addresses, login: Mapping[str, str], home: Path, screen: Screen) -> None:
    """Run all steps. Raises JobEnded, and what the servers' clients raise."""
    screen.step("Connecting to a running cluster")
    for name, address in (("HDFS", where.filesystem), ("Kafka", where.kafka), ("Spark", where.spark_master)):
        screen.fact(f"{name:9} {address}")
    screen.fact(f"Hive      {where.metastore_uri}, HiveServer2 {where.hiveserver2}")
    environ.update(_settings(where, home))
    site = Site.load(environ)
    declare_tables(catalog(where.metastore_uri, site), screen)

    flights = Flights.load()
    screen.step(f"Sending {flights.total:,} flights to the Kafka topic {TOPIC}")
    screen.fact(f"{KafkaTopic(None, where.kafka, login).send(flights):,} of them were new")
    screen.step("Running jobs/flights.py on the Spark cluster until all are written")
    stream(flights, screen)
    show_files(_state()[2], screen)
    with Hive(where.hiveserver2, site.hive) as hive:

        def ask(sql: str) -> Sequence[Sequence[Any]]:
            return hive.query(sql).rows

        show_partitions(ask, flights, screen)
        screen.step("HiveServer2's answers, through PyHive")
        if site.has_kerberos:
            screen.fact("(its rows, counted here: a secured Hadoop reduces on YARN alone)")
        show_answers(scanned(ask(ROWS)) if site.has_kerberos else ask, flights, screen)


def scanned(rows: Sequence[Sequence[Any]]) -> Ask:
    """Answers from the answer to `ROWS`, by DuckDB."""
    database, columns = duckdb.connect(), zip(*rows, strict=True)
    database.register("scanned", pa.table(dict(zip(("carrier", "month", "dep_delay"), columns, strict=True))))
    return lambda sql: database.sql(sql.replace(TABLE, "scanned")).fetchall()


def stream(flights: Flights, screen: Screen) -> None:
    """Run the job and show what it added. Raises JobEnded."""
    _, before, files = _state()
    command = [sys.executable, "-m", "hivesink.cli", "run", str(JOB)]
    code = subprocess.run(command, check=False).returncode  # noqa: S603  our own command
    if code:
        raise JobEnded(code)
    rows, after, now = _state()
    screen.fact(f"epochs {after} ({after - before} new), rows {rows:,} of {flights.total:,}")
    if after == before:
        screen.check("nothing added, nothing duplicated", right=now == files)


def _state() -> tuple[int, int, list[Finished]]:
    """Rows and epochs of all writers, and the files that readers see."""
    with open_table(TABLE, None) as opened:
        counted = [committed(context.log) for context in opened.writers.values()]
        rows, epochs = (sum(numbers) for numbers in zip(*counted, strict=True)) if counted else (0, 0)
        return rows, epochs, finished_files(opened.live.location, opened.site)


def _settings(where: Addresses, home: Path) -> dict[str, str]:
    """The environment of a user of the cluster."""
    (home / "spark-defaults.conf").write_text(SPARK_DEFAULTS, encoding="utf-8")
    return {
        "HADOOP_CONF_DIR": str(where.conf),
        "HIVE_CONF_DIR": str(where.conf),
        "HIVESINK_MASTER": where.spark_master,
        "KAFKA_SERVERS": where.kafka,
        "KAFKA_TOPIC": TOPIC,
        "SPARK_CONF_DIR": str(home),
        "TRIGGER": "availableNow",
    }
