"""Tasks in processes of their own, on the real cluster: the package they import, retries, speculation."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesink.embedded.server import Launch
from jobs.cluster import Cluster
from jobs.cluster.spark import SparkWorker
from tests.cluster.gates import master_of
from tests.cluster.target import Feed, Target, own

JOB = Path(__file__).with_name("executors_job.py")
ROWS = 300

# In each run, tests/integration/test_kills.py has a stage that runs again.
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.long]


class OtherHost(SparkWorker):
    """A worker on what Spark takes for another machine: it runs no two attempts of a task on one."""

    def _launch(self, port: int) -> Launch:
        launch = super()._launch(port)
        words = ["127.0.0.2" if word == "127.0.0.1" else word for word in launch.command]
        # One of two executors comes to the worker with the most cores.
        words[words.index("--cores") + 1] = "9"
        return dataclasses.replace(launch, command=tuple(words))


@pytest.fixture
def other_host(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    worker = OtherHost(tmp_path / "worker", 9, lambda: master_of(cluster))
    worker.start()
    yield
    worker.stop()


@pytest.mark.usefixtures("other_host")
def test_tasks_import_the_drivers_package_and_each_row_is_written_once(cluster: Cluster, tmp_path: Path) -> None:
    target, feed = Target.create(cluster, own("executors")), Feed(cluster.kafka, own("executors"))
    feed.put(ROWS)
    # The driver alone finds the package by PYTHONPATH.
    site = {"HADOOP_CONF_DIR": str(cluster.conf), "HIVE_CONF_DIR": str(cluster.conf)}
    own_path = {"HIVESINK_MASTER": master_of(cluster), "PYTHONPATH": str(JOB.parents[2])}
    (tmp_path / "job").mkdir()
    command = [sys.executable, str(JOB), target.name, feed.topic, cluster.kafka, str(tmp_path / "job")]
    done = subprocess.run(command, env={**os.environ, **site, **own_path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    # Nobody has installed it for the executors: `hivesink-0.1.0-….zip` came by Spark's own way for Python files.
    assert all(".zip/hivesink/" in home for home in said["homes"]), said
    tries = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    assert said["attempts"] == [f"partition-{partition}-attempt-{number}" for partition, number in tries]
    target.check_once(ROWS)
    # What the losing attempts left is swept: by their epoch, or, where one of them ended late, by the next start.
    assert target.staged() == []
