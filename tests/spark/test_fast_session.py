"""What makes a local session fast: workers forked ready, a JVM that compiles late, checkpoints without `chmod`."""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hivesink.errors import InvalidOption
from hivesink.jvm import archive
from hivesink.spark import daemon
from hivesink.spark.session import LATE_COMPILING, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    frozen = gc.get_freeze_count()
    made = pa.array([1])
    spec = sys.modules["__main__"].__spec__
    looked = [str(spec and spec.name), str(frozen > 0), str(len(made)), *sorted(sys.modules)]
    yield pa.RecordBatch.from_pydict({"x": looked})


def test_a_worker_has_all_that_a_task_needs(spark: SparkSession) -> None:
    main, frozen, _, *modules = (row.x for row in spark.range(1).mapInArrow(_look, "x string").collect())
    assert (main, frozen) == ("hivesink.spark.daemon", "True")
    needed = {
        "hivesink.wiring",
        "hivesink.spark.batchjobs",
        "hivesink.decode.json.columns",
        "pyarrow.parquet",
        "pyspark.worker",
    }
    assert needed <= set(modules)


@pytest.mark.usefixtures("spark")
def test_a_session_that_runs_stays_whose_it_is() -> None:
    with pytest.raises(InvalidOption, match=r"session of another user: run the job of bob@EXAMPLE\.COM"):
        session("demo", principal="bob@EXAMPLE.COM", keytab="/none")
    assert "KRB5_CLIENT_KTNAME" not in os.environ


def test_the_drivers_jvm_is_told_to_start_fast(spark: SparkSession) -> None:
    runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()  # type: ignore[union-attr]
    given = set(runtime.getInputArguments())
    assert {*LATE_COMPILING.split(), *archive.options().split()} <= given


def test_spark_writes_checkpoints_without_a_process_for_each_file(spark: SparkSession) -> None:
    chosen = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    assert str(chosen).endswith(".FileSystemBasedCheckpointFileManager")


def test_a_worker_whose_socket_spark_has_closed_ends_in_silence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(sock: socket.socket, authenticated: bool) -> int:
        assert authenticated
        with os.fdopen(os.dup(sock.fileno()), "wb") as spark:
            spark.write(b"the end of a task")
        return 0

    monkeypatch.setattr(daemon, "serve", serve)
    for gone in (False, True):
        own, sparks = socket.socketpair()
        with own, sparks:
            if gone:
                sparks.close()
            assert daemon.served(own, True) == int(gone)
    assert capfd.readouterr() == ("", "")
