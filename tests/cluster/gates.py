"""Jobs in processes of their own that stand at gates (see gated_job), and are killed there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hivesink.core.lifecycle import EpochState
from hivesink.core.table import TableName
from hivesink.embedded.server import wait_until
from hivesink.jvm import jars
from hivesink.jvm.jars import fetch, kafka_connector
from hivesink.jvm.java import find_java
from hivesink.logs import table_root
from hivesink.metastore import connect
from hivesink.ports import CommitLog
from jobs.cluster import Cluster
from tests.cli.site import REPOSITORY, command
from tests.cluster.target import DATABASE, Feed, Target
from tests.secure.site import environment_of, site_of

JOB = Path(__file__).with_name("gated_job.py")
GONE = suppress(psutil.NoSuchProcess)
"""For what may have ended by itself."""
LONGEST = 300.0
"""Seconds that anything may take that must come by itself."""
WRITER = "gated"
ROLLING = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.rollover-interval": "1s",
    "sink.rolling-policy.check-interval": "100ms",
    # Tasks write their segments piece by piece.
    "sink.task-memory": "16KB",
}


def driver() -> dict[str, str]:
    """Spark settings for a driver on this machine."""
    # At the front of the class path, as the archive of classes has them, which halves a start's CPU time.
    connector = os.pathsep.join(map(str, fetch(kafka_connector(importlib.metadata.version("pyspark")))))
    return {
        "spark.driver.extraClassPath": connector,
        "spark.executor.extraClassPath": connector,
        "spark.executor.extraJavaOptions": jars.archive_options(),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def local(cores: int = 2) -> dict[str, str]:
    """Spark settings for a driver that does it all itself."""
    # As `session` does it: by itself each worker loads the sink's modules, which takes more than a second of CPU.
    return {**driver(), "spark.master": f"local[{cores}]", "spark.python.daemon.module": "hivesink.spark.daemon"}


@dataclass
class Gates:
    """One job's world in `folder`. `running` starts its process; gates are shut and opened by name."""

    folder: Path
    writer: str = field(default=WRITER, kw_only=True)

    def __post_init__(self) -> None:
        self.gates.mkdir(parents=True, exist_ok=True)

    def order(self) -> dict[str, Any]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def log(self) -> CommitLog:
        raise NotImplementedError

    @property
    def gates(self) -> Path:
        return self.folder / "gates"

    @property
    def output(self) -> str:
        path = self.folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def told(self) -> list[str]:
        """What the command line said, a line for each end of the job."""
        return [line for line in self.output.splitlines() if line.startswith("hivesink: ")]

    def epochs(self) -> int:
        return sum(line.startswith("epoch ") for line in self.output.splitlines())

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        """`hivesink run` of the job. Its group is its own."""
        command = [sys.executable, "-m", "hivesink.cli", "run", *flags, "--writer", self.writer, str(JOB), "--"]
        with (self.folder / "output").open("a") as output:
            return subprocess.Popen(
                [*command, json.dumps(self.order())],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    "JAVA_HOME": str(find_java().home),
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": str(REPOSITORY),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    **self.environment(),
                },
            )

    @contextmanager
    def running(self, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """The job while the block runs; what is left of it afterwards is killed."""
        process = self.start(*flags)
        try:
            yield process
        finally:
            kill_all(process)

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """Ask it to end (SIGTERM), and wait."""
        process.send_signal(signal.SIGTERM)
        return process.wait(LONGEST)

    def drain(self) -> int:
        """Run the job until nothing is left. Returns its exit code."""
        with self.running() as process:
            return process.wait(LONGEST)

    def shut(self, step: str) -> None:
        (self.gates / f"reached-{step}").unlink(missing_ok=True)
        (self.gates / f"halt-{step}").touch()

    def open(self, step: str) -> None:
        (self.gates / f"halt-{step}").unlink()

    def stands_at(self, step: str) -> bool:
        return (self.gates / f"reached-{step}").exists()

    def wait_at(self, process: subprocess.Popen[bytes], step: str) -> None:
        """Until the job stands at the gate `step`."""
        self.wait(process, lambda: self.stands_at(step), f"the job never came to {step}")

    def wait(
        self, process: subprocess.Popen[bytes], condition: Callable[[], bool], message: str, seconds: float = LONGEST
    ) -> None:
        """Fails where the job ends before `condition` holds, or it doesn't come true in time."""

        def settled() -> bool:
            return condition() or process.poll() is not None

        assert wait_until(settled, seconds), f"{message}:\n{self.output[-4000:]}"
        assert condition(), f"{message}, and the job ended with {process.returncode}:\n{self.output[-4000:]}"


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to `hivesink run` and to all below it, each by its id, as a machine that goes down."""
    if process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in below:
            with GONE:
                child.kill()
        psutil.wait_procs(below, timeout=30)
    process.wait()


@dataclass
class Kills:
    """What became of a job that was killed again and again."""

    stage: Gates
    chance: random.Random = field(default_factory=lambda: random.Random(4711))  # noqa: S311  a repeatable choice
    between: int = 0
    died: list[str] = field(default_factory=list)

    def kill_at(self, step: str) -> None:
        """Run the job until it stands at `step`, or for a random while, and kill it."""
        stage, before = self.stage, self.stage.epochs()
        if step != "random":
            stage.shut(step)
        with stage.running() as process:
            if step == "random":
                stage.wait(process, lambda: stage.epochs() > before, "no epoch was committed")
                time.sleep(self.chance.uniform(0, 1))
            else:
                stage.wait_at(process, step)
            assert process.poll() is None, "the source ran dry before the kills were done"
            kill_all(process)
        if step != "random":
            stage.open(step)
        self.died.append(step)
        self.between += self._died_between()

    def _died_between(self) -> bool:
        """Whether the log's head is decided, and not all of it is published and registered."""
        log = self.stage.log()
        view = log.view()
        if not view.head:
            return False
        marks = view.marks.get(view.head, frozenset())
        head = log.manifest(view.head)
        waits = not marks >= {EpochState.PUBLISHED, EpochState.SETTLED}
        return bool(head.add and waits)


def master_of(cluster: Cluster) -> str:
    """The address of Spark's master on the cluster. It and its workers are started if they don't run."""
    for server in (cluster.servers.master, *cluster.servers.workers):
        server.start()
    return cluster.spark_master


def on_cluster(cluster: Cluster) -> dict[str, str]:
    """Spark settings for two executors of one core, one on each worker."""
    return {
        **driver(),
        "spark.master": master_of(cluster),
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
            "checkpoint": f"{self.cluster.filesystem}/{DATABASE}/checkpoints/{self.target.name}-{self.writer}",
            "trigger": self.trigger,
            "gates": str(self.gates),
            "slow": self.slow,
            "spark": {**self.spark, "spark.local.dir": str(self.folder / "scratch")},
        }

    def environment(self) -> dict[str, str]:
        return environment_of(self.cluster)

    def log(self) -> CommitLog:
        site = site_of(self.cluster)
        live = connect("thrift", self.cluster.metastore_uri, site).table(TableName.parse(self.target.name))
        return table_root(live, None, site).log(self.writer)

    def check(self, rows: int) -> None:
        """Each of the rows once, no leftovers, and nothing that `hivesink verify` finds wrong."""
        self.target.check_once(rows)
        assert self.target.staged() == []
        verified = self.command("verify", self.target.name)
        assert verified.returncode == 0, verified.stdout + verified.stderr

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line, with the site's files for all that it must know."""
        return command(*arguments, more=self.environment(), cwd=self.folder)
