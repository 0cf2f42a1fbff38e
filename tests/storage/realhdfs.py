"""A folder of one's own on the cluster's HDFS."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from jobs.cluster import Cluster


def hdfs_folder(request: pytest.FixtureRequest) -> str:
    """`hdfs://host:port/…`, not there yet."""
    cluster: Cluster = request.getfixturevalue("cluster")
    return f"{cluster.filesystem}/contracts/{secrets.token_hex(6)}"
