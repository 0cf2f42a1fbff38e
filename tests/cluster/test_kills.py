"""A real job on the cluster under SIGKILL, killed at a named step of the protocol and started again until it is done.

The job says that it stands at the step, and its whole process tree is killed there: nothing is closed, no lease of
HDFS given back. The log then proves where it died.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from hivesink.config.site import Site
from hivesink.core.log import Mark
from hivesink.core.table import TableName
from hivesink.logs import table_root
from hivesink.metastore import connect
from tests.cluster.feed import Feed
from tests.cluster.target import WRITER, Target, own
from tests.cluster.underfire import Stage, kill_all, local, on_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hivesink.ports import CommitLog
    from jobs.cluster import Cluster

BATCH = 400
SETTLED = 3
"""Epochs that are left for the last run."""

STEPS = (
    "in-task",
    "before-manifest",
    "after-manifest",
    "while-publishing",
    "before-register",
    "after-register",
    "after-publish",
    "random",
)
ROLLING = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.rollover-interval": "1s",
    "sink.rolling-policy.check-interval": "100ms",
    # Tasks write their segments piece by piece.
    "sink.task-memory": "16KB",
}
SHORT = ("after-manifest", "while-publishing", "in-task")
"""The first two lie between manifest and the end of the publish, of one epoch."""


@dataclass
class Kills:
    """What became of a job that was killed again and again."""

    stage: Stage
    chance: random.Random
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

    def segments(self) -> list[str]:
        """The segments that the job has left."""
        return sorted(self._log().segments.lengths())

    def _log(self) -> CommitLog:
        site = Site.load({"HADOOP_CONF_DIR": str(self.stage.cluster.conf)})
        live = connect("thrift", self.stage.cluster.metastore_uri).table(TableName.parse(self.stage.target.name))
        return table_root(live, None, site).log(WRITER)

    def _died_between(self) -> bool:
        """Whether the log's head is decided, and not all of it is published and registered."""
        log = self._log()
        view = log.view()
        if not view.head:
            return False
        marks = view.marks.get(view.head, frozenset())
        head = log.manifest(view.head)
        waits = not marks >= {Mark.PUBLISHED, Mark.SETTLED}
        return bool(head.add and waits)


def kill_until_done(
    cluster: Cluster,
    folder: Path,
    name: str,
    steps: tuple[str, ...],
    spark: Mapping[str, str],
    *,
    options: Mapping[str, str] | None = None,
) -> Kills:
    """A kill at each of `steps`, then a run until nothing is left; each row must be there once."""
    name = own(name)
    feed = Feed(cluster.kafka, name, pad=400)
    rows = (len(steps) + SETTLED) * BATCH
    feed.put(rows)
    target = Target.create(cluster, name)
    stage = Stage(cluster, folder, target, feed, spark, BATCH, options=options or {}, slow=True)
    # Several batches of rows in a task, so that it can stand still between two.
    stage.spark = {**spark, "spark.sql.execution.arrow.maxRecordsPerBatch": "15"}
    kills = Kills(stage, random.Random(4711))  # noqa: S311  a repeatable choice of moments
    for step in steps:
        kills.kill_at(step)
    assert stage.drain() == 0, stage.output[-4000:]
    target.check_once(rows)
    assert target.staged() == []
    found = stage.verify()
    assert found.returncode == 0, found.stdout + found.stderr
    return kills


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_three_kills_of_a_job_on_hdfs(cluster: Cluster, tmp_path: Path) -> None:
    kills = kill_until_done(cluster, tmp_path, "kills_3", SHORT, local())
    assert len(kills.died) == 3
    assert kills.between >= 2
    print(f"3 kills on HDFS, {kills.between} of them between manifest and registration")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_kills_on_hdfs_while_rows_wait(cluster: Cluster, tmp_path: Path) -> None:
    kills = kill_until_done(cluster, tmp_path, "kills_rolling", STEPS, local(), options=ROLLING)
    assert len(kills.died) == len(STEPS)
    assert kills.between >= 2
    assert kills.segments() == []


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_twenty_five_kills_of_a_job_on_the_spark_cluster(cluster: Cluster, tmp_path: Path) -> None:
    steps = tuple(STEPS[number % len(STEPS)] for number in range(25))
    kills = kill_until_done(cluster, tmp_path, "kills_25", steps, on_cluster(cluster))
    assert len(kills.died) == 25
    assert kills.between >= 9
    print(f"25 kills on HDFS, {kills.between} of them between manifest and registration")
