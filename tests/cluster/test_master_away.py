"""A Spark master that doesn't take the application."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.cluster import Cluster

JOB = """
from hivesink.spark.session import session

session("away", master="spark://127.0.0.1:1")
"""


@pytest.mark.long
def test_a_master_that_is_away_is_named_and_tried_again(cluster: Cluster, tmp_path: Path) -> None:
    """Spark itself asks for a minute."""
    job = tmp_path / "job.py"
    job.write_text(JOB)
    done = subprocess.run(
        [sys.executable, "-m", "hivesink.cli", "run", str(job)],
        env={**os.environ, "JAVA_HOME": str(find_java().home), "HIVE_CONF_DIR": str(cluster.conf)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 75, done.stderr
    assert "hivesink: the Spark master spark://127.0.0.1:1 does not answer" in done.stderr
