"""Flink as a peer: its Hive sink (1.20) and its filesystem sink (2.2), two Maven projects of one program.

The program runs the SQL that it is told. Both have what hivesink's own JVM has for a fast start, and take the settings
that Flink's documentation gives for speed (object reuse, Flink's own Parquet writer), hivesink's own fetch settings,
and a checkpoint each ten seconds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.contenders import Drain
from bench.ground import DATABASE, Ground
from bench.workloads import Workload
from hivesink.jvm.java import find_java, write_sites
from hivesink.spark.session import LATE_COMPILING
from hivesink.spark.sources import FETCH

HIVE, FILES = "flink-hive", "flink-fs"
HIVE_ORC = f"{HIVE}-orc"
PROGRAMS = {HIVE: HIVE, HIVE_ORC: HIVE, FILES: FILES}
"""Which of the two programs each contender is."""
PEERS = Path(__file__).parent / "peers"
OPEN = ("java.base/java.util", "java.base/java.lang", "java.base/java.net", "java.base/java.nio", "java.base/java.time")
"""Packages that Flink 1.20 reaches into."""
CHECKPOINT_SECONDS = 10
SETTINGS = {
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": f"{CHECKPOINT_SECONDS} s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "table.local-time-zone": "UTC",
    # Flink's own writer of Parquet is the faster of its two.
    "table.exec.hive.fallback-mapred-writer": "false",
}
CATALOG = {"type": "hive", "hive-version": "2.3.10"}
COMMIT = {
    "sink.partition-commit.trigger": "process-time",
    "sink.partition-commit.delay": "0s",
}


def build(peer: str, folder: Path) -> None:
    """Build the peer's program by Maven into `folder`, with its dependencies. Later builds are quick."""
    # Maven's own output goes beside it: nothing of a benchmark is left in the checkout.
    told = (f"-Dfolder={folder}", f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime")
    goals = ("package", "dependency:copy-dependencies")
    subprocess.run(["mvn", "-q", "-B", "-f", str(PEERS / peer / "pom.xml"), *told, *goals], check=True)
    # A JVM takes none of jars that were written again.
    archive(folder).unlink(missing_ok=True)


def archive(folder: Path) -> Path:
    """The archive of the program's classes, as hivesink has one of Spark's. A run without it writes it at its end."""
    return folder / "classes.jsa"


def command(folder: Path, ground: Ground) -> list[str]:
    """What starts the program that `build` has put into `folder`."""
    cores, classes = str(os.cpu_count()), archive(folder)
    archived = f"-XX:{'SharedArchiveFile' if classes.is_file() else 'ArchiveClassesAtExit'}={classes}"
    settings = {
        **SETTINGS,
        "parallelism.default": cores,
        "taskmanager.numberOfTaskSlots": cores,
        "execution.checkpointing.dir": f"{ground.checkpoints}/flink",
    }
    return [
        *(find_java().program, "-Xmx3g", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *(archived, "-Xlog:cds*=off", *LATE_COMPILING.split()),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPEN),
        # Jars alone: there is no archive of classes in folders.
        *("-cp", f"{folder}/*{os.pathsep}{folder / 'lib'}/*", "hivesink.bench.FlinkSql"),
        *(f"{key}={value}" for key, value in settings.items()),
    ]


def script(drain: Drain, workload: Workload, ground: Ground, conf: Path) -> Iterator[str]:
    """The statements of a drain; the last one ends when all is committed. `conf` is a folder for `hive-site.xml`."""
    consumer = {f"properties.{key.removeprefix('kafka.')}": value for key, value in FETCH.items()}
    source = {
        "connector": "kafka",
        "topic": drain.topic,
        "properties.bootstrap.servers": drain.servers,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "json",
        "json.timestamp-format.standard": "ISO-8601" if workload.instants else "SQL",
        **consumer,
    }
    yield f"CREATE TEMPORARY TABLE source_{drain.name} ({workload.flink_schema}) WITH ({_listed(source)})"
    table = drain.name
    if PROGRAMS[drain.contender] == HIVE:
        table = f"hive.{DATABASE}.{drain.name}"
        form = "orc" if drain.contender == HIVE_ORC else "parquet"
        yield from _hive_table(drain.name, form, workload, ground, conf)
    else:
        yield _folder(drain.name, workload, ground)
    yield f"INSERT INTO {table} SELECT {workload.flink_values} FROM source_{drain.name}"


def _hive_table(name: str, form: str, workload: Workload, ground: Ground, conf: Path) -> Iterator[str]:
    write_sites(conf, {"hive-site": {"hive.metastore.uris": ground.metastore}})
    yield f"CREATE CATALOG IF NOT EXISTS hive WITH ({_listed({**CATALOG, 'hive-conf-dir': str(conf)})})"
    yield "USE CATALOG hive"
    yield "SET table.sql-dialect=hive"
    columns = ", ".join(f"`{column}` {kind}" for column, kind in workload.columns.items())
    kept = {**_snappy(form), **COMMIT, "sink.partition-commit.policy.kind": "metastore,success-file"}
    yield (
        f"CREATE TABLE {DATABASE}.{name} ({columns}) PARTITIONED BY (`{workload.partition.column}` STRING) "
        f"STORED AS {form.upper()} LOCATION '{_location(name, ground)}' TBLPROPERTIES ({_listed(kept)})"
    )
    yield "SET table.sql-dialect=default"
    if form == "orc":
        # Its own writer doesn't run beside the older ORC that is in Hive's jar.
        yield "SET table.exec.hive.fallback-mapred-writer=true"
    yield "USE CATALOG default_catalog"


def _folder(name: str, workload: Workload, ground: Ground) -> str:
    sink = {
        "connector": "filesystem",
        "path": _location(name, ground),
        "format": "parquet",
        **_snappy("parquet"),
        "parquet.utc-timezone": "true",
        **COMMIT,
        "sink.partition-commit.policy.kind": "success-file",
    }
    return (
        f"CREATE TEMPORARY TABLE {name} ({workload.flink_columns}) "
        f"PARTITIONED BY (`{workload.partition.column}`) WITH ({_listed(sink)})"
    )


def _snappy(form: str) -> dict[str, str]:
    return {"orc.compress" if form == "orc" else "parquet.compression": "SNAPPY"}


def _location(name: str, ground: Ground) -> str:
    return f"{ground.tables}/{DATABASE}.db/{name}"


def _listed(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in options.items())
