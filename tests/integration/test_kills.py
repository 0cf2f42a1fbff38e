"""A real job on a local disk under SIGKILL: killed again and again, and run until it is done.

`tests/cluster/test_dying_servers.py` kills jobs from Kafka to HDFS, `tests/jobs/test_demo.py` on S3. In each run,
`tests/crash` has deaths at each step, the former a kill in the tasks, and this module a stage that runs again. Queries
with state die in `test_state.py`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.logs import commit_log
from tests.cluster.gates import ROLLING, Gates, Kills, local
from tests.integration.stage import ON_EPOCH, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.ports import CommitLog

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]
ROWS_A_BATCH = 200
PARTITIONS = 4

STEPS = (
    *("after-commit", "after-manifest", "while-publishing", "before-register", "after-register", "after-publish"),
    *("before-manifest", "random"),
    # Of a roll's own epoch.
    *("in-task", "after-encoding", "after-roll", "before-register", "after-register", "after-publish"),
    *("before-encoding", "before-roll", "before-sweep", "after-sweep"),
)


@dataclass
class Job(Gates):
    """From the folder `source`, a file a batch, into the stage's table."""

    stage: Stage
    source: str
    options: Mapping[str, str]
    troubled: bool = False

    def order(self) -> dict[str, Any]:
        return {
            "metastore": self.stage.uri,
            "table": self.stage.table,
            "checkpoint": str(self.stage.checkpoint),
            "gates": str(self.gates),
            "source": self.source,
            "troubled": self.troubled,
            "options": self.options,
            "trigger": {"availableNow": True},
            "slow": not self.troubled,
            "spark": {
                **local(),
                "spark.local.dir": str(self.folder / "scratch"),
                "spark.master": "local[2,4]",
                # Several batches of rows in a task, so that it can stand still between two.
                **({} if self.troubled else {"spark.sql.execution.arrow.maxRecordsPerBatch": "15"}),
            },
        }

    def has_run_a_stage_again(self) -> bool:
        """Of a job that was troubled."""
        # Partition, attempt, stage: a stage that runs again counts its attempts from 0.
        starts = [tuple(line.split()[:3]) for line in (self.gates / "attempts").read_text().splitlines()]
        return len(starts) > len(set(starts))

    def log(self) -> CommitLog:
        return commit_log(str(self.stage.log()))


def day(number: int) -> str:
    # Each batch brings one new partition and writes to three older ones, so that every epoch registers.
    batch, row = divmod(number, ROWS_A_BATCH)
    return f"d{max(0, batch - row % PARTITIONS):04d}"


def write_files(stage: Stage, batches: int) -> str:
    """A file a batch."""
    stage.source.mkdir()
    for batch in range(batches):
        file = stage.source / f"{batch:04d}.json"
        numbers = range(batch * ROWS_A_BATCH, (batch + 1) * ROWS_A_BATCH)
        file.write_text("".join(json.dumps({"id": number, "dt": day(number)}) + "\n" for number in numbers))
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))
    return str(stage.source)


@pytest.mark.parametrize(
    ("kills", "options"),
    [
        (0, ON_EPOCH),
        pytest.param(0, {**ON_EPOCH, "sink.shuffle-by-partition.enable": "true"}, marks=pytest.mark.long),
        pytest.param(30, ROLLING, marks=pytest.mark.long),
    ],
    ids=["no kill", "shuffled", "rolling"],
)
def test_each_event_is_there_once_though_a_stage_runs_again(
    stage: Stage, kills: int, options: Mapping[str, str]
) -> None:
    """In the last run a stage runs again beside a task of its first run, which counts once, too.

    Tasks that fail and are tried again, and speculation, are in tests/spark/test_executors.py, a longer run.
    """
    batches = kills + (8 if kills else 2)
    stage.create(columns="id BIGINT")
    job = Job(stage.folder, stage, write_files(stage, batches), options, writer="stage")
    killed = Kills(job)
    for step in islice(cycle(STEPS), kills):
        killed.kill_at(step)
    job.troubled = True
    assert job.drain() == 0, job.output[-4000:]
    assert killed.between >= bool(kills)
    assert job.has_run_a_stage_again()
    found = stage.query(f"SELECT id, dt FROM {stage.table}")
    assert sorted(map(tuple, found)) == [(number, day(number)) for number in range(batches * ROWS_A_BATCH)]
    assert [name for name in stage.staged() if not name.endswith(".crc")] == []
    assert job.log().segments.lengths() == {}
    stage.verify()
