"""A real job on the cluster under SIGKILL, killed at a named step of the protocol and started again until it is done.

The job says that it stands at the step, and its whole process tree is killed there: nothing is closed, no lease of
HDFS given back. The log then proves where it died.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.feed import Feed
from tests.cluster.gates import Kills, local
from tests.cluster.target import Target, own
from tests.cluster.underfire import Stage, on_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
    stage = Stage(folder, cluster, target, feed, spark, BATCH, options=options or {}, slow=True)
    # Several batches of rows in a task, so that it can stand still between two.
    stage.spark = {**spark, "spark.sql.execution.arrow.maxRecordsPerBatch": "15"}
    kills = Kills(stage)
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
    assert kills.stage.log().segments.lengths() == {}


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_twenty_five_kills_of_a_job_on_the_spark_cluster(cluster: Cluster, tmp_path: Path) -> None:
    steps = tuple(STEPS[number % len(STEPS)] for number in range(25))
    kills = kill_until_done(cluster, tmp_path, "kills_25", steps, on_cluster(cluster))
    assert len(kills.died) == 25
    assert kills.between >= 9
    print(f"25 kills on HDFS, {kills.between} of them between manifest and registration")
