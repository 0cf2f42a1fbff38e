"""A gated job on the cluster: for tests that kill things."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from hivesink.config.site import Site
from hivesink.core.table import TableName
from hivesink.logs import table_root
from hivesink.metastore import connect
from tests.cluster.gates import REPOSITORY, WRITER, Gates, local, suppress_gone
from tests.cluster.target import DATABASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.ports import CommitLog
    from jobs.cluster import Cluster
    from tests.cluster.feed import Feed
    from tests.cluster.target import Target


def on_cluster(cluster: Cluster) -> dict[str, str]:
    """Spark settings for two executors of one core, one on each worker."""
    return {
        **local(),
        "spark.master": cluster.spark_master,
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    }


@dataclass
class Stage(Gates):
    """From a feed's topic into a target on the cluster."""

    cluster: Cluster
    target: Target
    source: Feed
    spark: Mapping[str, str]
    batch: int = 400
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})
    options: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False

    def order(self) -> dict[str, Any]:
        return {
            "servers": self.source.servers,
            "topic": self.source.topic,
            "batch": self.batch,
            "table": self.target.name,
            "metastore": self.cluster.metastore_uri,
            "options": {"sink.rolling-policy.on-epoch": "true", **self.options},
            "checkpoint": f"{self.cluster.filesystem}/{DATABASE}/checkpoints/{self.target.name}",
            "trigger": self.trigger,
            "gates": str(self.gates),
            "slow": self.slow,
            "spark": {**self.spark, "spark.local.dir": str(self.folder / "scratch")},
        }

    def environment(self) -> dict[str, str]:
        return {"HADOOP_CONF_DIR": str(self.cluster.conf), "HIVE_CONF_DIR": str(self.cluster.conf)}

    def log(self) -> CommitLog:
        live = connect("thrift", self.cluster.metastore_uri).table(TableName.parse(self.target.name))
        return table_root(live, None, Site.load({"HADOOP_CONF_DIR": str(self.cluster.conf)})).log(WRITER)

    def verify(self) -> subprocess.CompletedProcess[str]:
        return self.command("verify", self.target.name)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line, with the site's files for all that it must know."""
        return subprocess.run(
            [sys.executable, "-m", "hivesink.cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={**os.environ, **self.environment(), "PYTHONPATH": str(REPOSITORY)},
        )


def executors(worker: int | None) -> list[psutil.Process]:
    """The executors that a worker, by its process id, has running."""
    if worker is None:
        return []
    with suppress_gone():
        below = psutil.Process(worker).children(recursive=True)
        return [one for one in below if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline())]
    return []
