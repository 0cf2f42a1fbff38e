"""A folder on the cluster's HDFS, and clients that nobody else has."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.hdfs_address import Address
from hivesink.storage.hdfs_calls import HdfsCalls
from jobs.cluster import Cluster

if TYPE_CHECKING:
    import pytest


def hdfs_folder(request: pytest.FixtureRequest) -> str:
    """`hdfs://host:port/…`, not there yet."""
    cluster: Cluster = request.getfixturevalue("cluster")
    return f"{cluster.filesystem}/contracts/{secrets.token_hex(6)}"


def apart(site: Mapping[str, str], permission: int | None = None, **calls: Any) -> HdfsFileSystem:
    """A file system with clients of its own, and fields of `HdfsCalls`."""
    made: dict[Address, HdfsCalls] = {}

    def connect(address: Address, properties: frozenset[tuple[str, str]]) -> HdfsCalls:
        return made.setdefault(address, HdfsCalls(address, dict(properties), **calls))

    return HdfsFileSystem(site, permission, connect=connect)
