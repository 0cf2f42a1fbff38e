"""A job with YARN's executors, killed at each step of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_kills import STEPS, kill_until_done
from tests.cluster.yarn import on_yarn

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


def test_kills_of_a_job_on_yarn(cluster: Cluster, tmp_path: Path) -> None:
    with on_yarn(cluster, tmp_path) as settings:
        kills = kill_until_done(cluster, tmp_path / "job", "kills_yarn", STEPS, settings)
    assert len(kills.died) == len(STEPS)
    assert kills.between >= 2
