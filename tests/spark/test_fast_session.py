"""What makes a local session fast: workers forked ready, a JVM that compiles late, checkpoints without `chmod`."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zipimport import zipimporter

import pyarrow as pa
import pytest

from hivesink.errors import InvalidOption
from hivesink.jvm import jars
from hivesink.spark import daemon
from hivesink.spark.session import LATE_COMPILING, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    frozen = gc.get_freeze_count()
    made = pa.array([1])
    spec = sys.modules["__main__"].__spec__
    zips = sum(isinstance(importer, zipimporter) for importer in sys.path_importer_cache.values())
    looked = [str(spec and spec.name), str(frozen > 0), str(zips), str(len(made)), *sorted(sys.modules)]
    yield pa.RecordBatch.from_pydict({"x": looked})


def test_a_worker_has_all_that_a_task_needs(spark: SparkSession) -> None:
    main, frozen, zips, _, *modules = (row.x for row in spark.range(1).mapInArrow(_look, "x string").collect())
    assert (main, frozen, zips) == ("hivesink.spark.daemon", "True", "0")
    needed = {
        "hivesink.wiring",
        "hivesink.spark.batchjobs",
        "hivesink.decode.json.columns",
        "pyarrow.parquet",
        "pyspark.worker",
    }
    assert needed <= set(modules)


def test_only_what_an_installed_pyspark_has_in_it_leaves_the_path(tmp_path: Path) -> None:
    site, apart = tmp_path / "site", tmp_path / "apart"
    for folder in (site / "py4j", site / "pyspark", apart):
        folder.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(site)
    kept = [str(site), str(apart / "pyspark" / "python" / "lib" / "pyspark.zip"), str(apart / "own.zip"), ""]
    gone = [f"{link}/pyspark/python/lib/pyspark.zip", f"{site}/pyspark/jars/spark-core.jar"]
    assert daemon.installed_alone([*gone, *kept]) == kept


@pytest.mark.usefixtures("spark")
def test_a_session_that_runs_stays_whose_it_is() -> None:
    with pytest.raises(InvalidOption, match=r"session of another user: run the job of bob@EXAMPLE\.COM"):
        session("demo", principal="bob@EXAMPLE.COM", keytab="/none")
    assert "KRB5_CLIENT_KTNAME" not in os.environ


def test_the_drivers_jvm_is_told_to_start_fast(spark: SparkSession) -> None:
    runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()  # type: ignore[union-attr]
    given = set(runtime.getInputArguments())
    assert {*LATE_COMPILING.split(), *jars.archive_options().split()} <= given


def test_spark_writes_checkpoints_without_a_process_for_each_file(spark: SparkSession) -> None:
    chosen = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    assert str(chosen).endswith(".FileSystemBasedCheckpointFileManager")


def test_a_worker_whose_socket_spark_has_closed_ends_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    def serve(sock: socket.socket, authenticated: bool) -> int:
        assert authenticated
        with os.fdopen(os.dup(sock.fileno()), "wb") as spark:
            spark.write(b"the end of a task")
        return 0

    for gone in (False, True):
        own, sparks = socket.socketpair()
        with own, sparks:
            if gone:
                sparks.close()
            assert daemon.served(serve, own, True) == int(gone)
    assert capfd.readouterr() == ("", "")
