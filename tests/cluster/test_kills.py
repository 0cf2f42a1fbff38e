"""A real job on the cluster under SIGKILL, killed at a named step of the protocol and started again until it is done.

The job says that it stands at the step, and its whole process tree is killed there: nothing is closed, no lease of
HDFS given back. The log then proves where it died.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest

from tests.cluster.gates import LONGEST, Kills, Stage, local, on_cluster
from tests.cluster.target import Feed, Target, own
from tests.cluster.yarn import on_yarn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jobs.cluster import Cluster

# In each run, tests/cluster/test_dying_servers.py has a kill in the tasks, and tests/crash deaths at each step.
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]
BATCH = 400
SETTLED = 3
"""Epochs that are left for the last run."""

STEPS = (
    *("in-task", "while-publishing", "after-manifest", "before-manifest"),
    *("before-register", "after-register", "after-publish", "random"),
)
ROLLING = {
    "sink.rolling-policy.on-epoch": "false",
    "sink.rolling-policy.rollover-interval": "1s",
    "sink.rolling-policy.check-interval": "100ms",
    # Tasks write their segments piece by piece.
    "sink.task-memory": "16KB",
}


@pytest.mark.parametrize(
    ("where", "kills", "between", "options"),
    [
        ("local", len(STEPS), 2, ROLLING),
        ("cluster", 25, 9, {}),
        ("yarn", len(STEPS), 2, {}),
    ],
    ids=["while rows wait", "on the Spark cluster", "on YARN"],
)
def test_kills_of_a_job_on_hdfs(  # noqa: PLR0917  a table's columns
    cluster: Cluster, tmp_path: Path, where: str, kills: int, between: int, options: Mapping[str, str]
) -> None:
    name = own("kills")
    feed, target = Feed(cluster.kafka, name, pad=400), Target.create(cluster, name)
    feed.put((kills + SETTLED) * BATCH)
    with ExitStack() as stack:
        spark = local() if where == "local" else on_cluster(cluster)
        if where == "yarn":
            spark = stack.enter_context(on_yarn(cluster, tmp_path))
        # Several batches of rows in a task, so that it can stand still between two.
        spark["spark.sql.execution.arrow.maxRecordsPerBatch"] = "15"
        stage = Stage(tmp_path / "job", cluster, target, feed, spark, BATCH, options=options, slow=True)
        found = Kills(stage)
        for step in islice(cycle(STEPS), kills):
            found.kill_at(step)
        assert stage.drain() == 0, stage.output[-4000:]
    stage.check(feed.sent)
    assert found.between >= between
    assert stage.log().segments.lengths() == {}
    print(f"{kills} kills on HDFS, {found.between} of them between manifest and registration")


# Each run of the suite has two writers in one process: tests/cli/test_waiting.py, tests/contracts/test_registrar.py.
def test_two_applications_at_once_in_the_same_partitions(cluster: Cluster, tmp_path: Path) -> None:
    name = own("two_writers")
    target = Target.create(cluster, name)
    stages, running = [], []
    for number, writer in enumerate(("left", "right")):
        feed = Feed(cluster.kafka, f"{name}_{writer}", sent=number * 4 * BATCH)
        feed.put(4 * BATCH)
        stage = Stage(tmp_path / writer, cluster, target, feed, local(1), BATCH // 2, writer=writer)
        stage.shut("before-manifest")
        stages.append(stage)
    with ExitStack() as stack:
        running = [stack.enter_context(stage.running()) for stage in stages]
        for stage, process in zip(stages, running, strict=True):
            stage.wait_at(process, "before-manifest")
        for stage in stages:
            stage.open("before-manifest")
        assert [process.wait(LONGEST) for process in running] == [0, 0], [stage.output[-4000:] for stage in stages]
    stages[0].check(2 * 4 * BATCH)
