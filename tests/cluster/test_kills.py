"""A real job on the cluster under SIGKILL, killed at a named step of the protocol and started again until it is done.

The job says that it stands at the step, and its whole process tree is killed there: nothing is closed, no lease of
HDFS given back. The log then proves where it died.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

import pytest

from jobs.cluster import Cluster
from tests.cluster.gates import ROLLING, Kills, Stage, local, on_cluster
from tests.cluster.target import Feed, Target, own
from tests.cluster.yarn import on_yarn

# In each run, tests/cluster/test_dying_servers.py has a kill in the tasks, and tests/crash deaths at each step.
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]
BATCH = 400
SETTLED = 3
"""Epochs that are left for the last run."""

STEPS = (
    *("in-task", "while-publishing", "after-manifest", "before-manifest"),
    *("before-register", "after-register", "after-publish", "random"),
)


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
