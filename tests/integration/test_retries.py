"""A whole stage that runs again beside a task of its first run: only the winners' rows.

Tasks that fail and are tried again, and speculation, are in tests/spark/test_executors.py, on the real cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hivesink.embedded.metastore import EmbeddedMetastore
    from tests.integration.stage import Stage

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.parametrize("by_partition", ["false", "true"])
def test_a_stage_that_runs_again_beside_a_task_of_its_first_run_counts_once(
    stage: Stage, metastore: EmbeddedMetastore, by_partition: str
) -> None:
    stage.create(properties={"sink.shuffle-by-partition.enable": by_partition})
    for number in range(3):
        stage.put(range(number * 100, number * 100 + 100))
    order = {
        "metastore": metastore.uri,
        "warehouse": str(metastore.warehouse),
        "table": stage.table,
        "source": str(stage.source),
        "checkpoint": stage.checkpoint.as_uri(),
        "folder": str(stage.folder),
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
    # A stage that runs again counts its attempts from 0.
    attempts = (stage.folder / "attempts").read_text().splitlines()
    assert sum(line.startswith("0 0 ") for line in attempts) == 2
    assert stage.ids() == list(range(300))
    # When one more run has recovered, no file is left that isn't a winner's.
    stage.put(range(300, 303))
    stage.drain()
    assert (stage.ids(), stage.staged()) == (list(range(303)), [])
