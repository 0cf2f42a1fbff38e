"""Tasks that fail and are tried again, whole stages that run again, and speculation: only the winners' rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.twohosts import two_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.embedded.metastore import EmbeddedMetastore
    from tests.integration.stage import Stage

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]
FILE_A_TASK = {"spark.sql.files.maxPartitionBytes": "16k", "spark.sql.files.openCostInBytes": "16k"}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "100ms",
}


def run(
    stage: Stage, metastore: EmbeddedMetastore, trouble: str, spark: Mapping[str, str], *, shuffle: bool = False
) -> list[str]:
    """The tasks' attempts, as `partition attempt id`."""
    order = {
        "metastore": metastore.uri,
        "warehouse": str(metastore.warehouse),
        "table": stage.table,
        "source": str(stage.source),
        "checkpoint": stage.checkpoint.as_uri(),
        "folder": str(stage.folder),
        "trouble": trouble,
        "shuffle": shuffle,
        "spark": {"spark.local.dir": str(stage.folder / "scratch"), "spark.sql.session.timeZone": "UTC", **spark},
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("retried_job.py")), json.dumps(order)],
        text=True,
        capture_output=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        timeout=240,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return (stage.folder / "attempts").read_text().splitlines()


def check_once(stage: Stage) -> None:
    """Each row once; and when one more run has recovered, no file that isn't a winner's."""
    assert stage.ids() == list(range(300))
    stage.put(range(300, 303))
    stage.drain()
    assert stage.ids() == list(range(303))
    assert stage.staged() == []


def begin(stage: Stage, **properties: str) -> None:
    stage.create(properties=properties)
    for number in range(3):
        stage.put(range(number * 100, number * 100 + 100))


# In each run of the suite, tests/spark/test_executors.py has both, on the real cluster.
@pytest.mark.long
def test_task_attempts_that_fail_leave_nothing(stage: Stage, metastore: EmbeddedMetastore) -> None:
    begin(stage)
    settings = {"spark.master": "local[2,4]", **FILE_A_TASK}
    tries = [line.split()[1] for line in run(stage, metastore, "failure", settings)]
    assert tries.count("0") == tries.count("1") == 3
    check_once(stage)


@pytest.mark.parametrize("by_partition", ["false", "true"])
def test_a_stage_that_runs_again_beside_a_task_of_its_first_run_counts_once(
    stage: Stage, metastore: EmbeddedMetastore, by_partition: str
) -> None:
    begin(stage, **{"sink.shuffle-by-partition.enable": by_partition})
    attempts = run(stage, metastore, "shuffle", {"spark.master": "local[2,4]"}, shuffle=True)
    # A stage that runs again counts its attempts from 0.
    assert sum(line.startswith("0 0 ") for line in attempts) == 2
    check_once(stage)


@pytest.mark.long
def test_speculative_attempts_that_lose_leave_nothing(stage: Stage, metastore: EmbeddedMetastore) -> None:
    begin(stage)
    with two_hosts(stage.folder) as master:
        settings = {"spark.master": master, "spark.executor.memory": "600m", **SPECULATION}
        attempts = run(stage, metastore, "straggler", settings, shuffle=True)
    assert any(line.startswith("0 1 ") for line in attempts), "no attempt was speculative"
    check_once(stage)
