"""How much a job's tasks read, the code that they get, and what they do with an error of the sink's."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyspark
import pytest

from hivesink.config.options import SinkConfig
from hivesink.core.manifest import Rows
from hivesink.errors import NotWritable, StoreUnavailable
from hivesink.sink.task.messages import TaskFailure, TaskReport
from hivesink.spark import batchjobs
from hivesink.spark.batchjobs import A_TASK, BYTES, BYTES_A_TASK, MOST, ROWS, UNLIMITED, BatchJobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = "1000000"


@pytest.fixture
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with a limit of the user's own, as a Spark that knows no limit never has."""
    made = spark.newSession()
    made.conf.set(BYTES, OWN)
    yield made
    made.conf.unset(BYTES)


def jobs(spark: SparkSession, tasks: int = 2) -> BatchJobs:
    made = BatchJobs(spark, Mock())
    made.tasks = tasks
    return made


def report(largest: int) -> TaskReport:
    return TaskReport(0, 0, Rows(), largest=largest)


@pytest.mark.spark
def test_the_limit_follows_the_largest_record_of_the_batch_before(own_session: SparkSession) -> None:
    rows, limited = own_session.range(1), jobs(own_session)
    fitting = MOST // int(own_session.conf.get(ROWS) or 0)
    found = []
    for largest in ([], [10, fitting], [0], [10, fitting + 1], [10]):
        limited.learn(map(report, largest))
        limited.sized(rows, None)
        found.append(own_session.conf.get(BYTES))
    assert found == [OWN, UNLIMITED, UNLIMITED, OWN, UNLIMITED]


@pytest.mark.spark
def test_few_small_records_are_read_in_few_tasks(spark: SparkSession) -> None:
    rows, sizes = spark.range(0, 8, 1, 8), jobs(spark, 4)

    def tasks(records: int | None) -> int:
        return sizes.sized(rows, records).rdd.getNumPartitions()

    # Nothing is known of the first batch's records.
    assert tasks(1) == 8
    sizes.learn([report(100)])
    assert [tasks(n) for n in (0, A_TASK - 1, A_TASK, 3 * A_TASK - 1, 3 * A_TASK)] == [1, 1, 2, 3, 8]
    assert tasks(None) == 8
    sizes.learn([report(BYTES_A_TASK // 8)])
    assert [tasks(n) for n in (7, 8, 23, 24)] == [1, 2, 3, 8]


Raised = tuple[type[Exception], tuple[str, ...]]

FULL: Raised = (StoreUnavailable, ("write", "/w/t", "the disk is full"))
READ_ONLY: Raised = (NotWritable, ("/w/t", "Read-only file system"))


@dataclass
class Tools:
    """They raise an error when they are opened, and cross to the task as what it is made of."""

    error: Raised

    def open(self, _: object) -> Any:
        kind, arguments = self.error
        raise kind(*arguments)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TaskReport]:
    def run(error: Raised, attempt: int, tries: int) -> TaskReport:
        context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17, attemptNumber=lambda: attempt)
        monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
        (batch,) = batchjobs.perform(iter(()), pickle.dumps((None, Tools(error), tries)))
        return TaskReport.decode(batch.column(0)[0].as_py())

    return run


@pytest.mark.parametrize(
    ("error", "attempt", "tries", "outcome"),
    [
        (FULL, 0, 1, TaskFailure("could not write /w/t: the disk is full", retryable=True)),
        (FULL, 3, 4, TaskFailure("could not write /w/t: the disk is full", retryable=True)),
        (FULL, 2, 4, StoreUnavailable),
        # No other try can help here, and what isn't the sink's is Spark's matter.
        (READ_ONLY, 0, 4, TaskFailure(str(NotWritable(*READ_ONLY[1])), retryable=False)),
        ((ZeroDivisionError, ()), 3, 4, ZeroDivisionError),
    ],
)
def test_an_error_is_raised_only_where_another_try_may_help(
    task: Callable[..., TaskReport], error: Raised, attempt: int, tries: int, outcome: TaskFailure | type[Exception]
) -> None:
    if isinstance(outcome, TaskFailure):
        report = task(error, attempt, tries)
        assert (report.task, report.task_attempt, report.parts, report.failure) == (3, 17, (), outcome)
    else:
        with pytest.raises(outcome):
            task(error, attempt, tries)


IMPORTS = """
import importlib, pkgutil, sys, hivesink
for module in pkgutil.walk_packages(hivesink.__path__, "hivesink."):
    importlib.import_module(module.name)
from hivesink.jvm.jars import HIVE_CLIENT
from hivesink.spark.batchjobs import zipped
from pathlib import Path
Path(sys.argv[1]).write_bytes(zipped())
print(hivesink.spark.sink.__file__, len(HIVE_CLIENT.coordinates))
"""


def test_the_zip_is_the_package_without_its_commands_and_makes_itself_again(tmp_path: Path) -> None:
    first, again = tmp_path / "hivesink-1.zip", tmp_path / "again.zip"
    first.write_bytes(batchjobs.zipped())
    environment = {**os.environ, "PYTHONPATH": str(first), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, str(again)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    where, jars = done.stdout.split()
    assert where == f"{first}/hivesink/spark/sink.py"
    assert int(jars) > 0
    assert again.read_bytes() == first.read_bytes()
    with zipfile.ZipFile(first) as archive:
        packages = {name.split("/")[1] for name in archive.namelist()}
    assert {"core", "sink", "spark"} <= packages
    assert not {"cli", "tables"} & packages


def test_tasks_need_no_more_than_the_environment_that_make_dist_makes() -> None:
    script = "import sys, hivesink.spark.sink; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"pyarrow", "msgspec", "numpy"} <= set(done.stdout.split())
    others = {"click", "hive_metastore", "puresasl", "pyhive", "rich", "sqlglot", "TCLIService", "thrift", "typer"}
    assert not others & set(done.stdout.split())


@pytest.mark.spark
def test_local_tasks_need_no_zip(spark: SparkSession) -> None:
    before = spark.sparkContext.listFiles
    batchjobs.ship(spark, SinkConfig.parse({}))
    assert spark.sparkContext.listFiles == before
