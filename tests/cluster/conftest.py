"""Addresses of the cluster, a HiveServer2 session, and a place for each test's tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from hivesink.config.site import Site
from jobs.cluster import Cluster
from tests.cluster.ingest import Addresses, Hive
from tests.integration.conftest import own_name

DATABASE = "proofs"


@pytest.fixture(scope="session")
def addresses(cluster: Cluster) -> Addresses:
    return of_cluster(cluster)


def of_cluster(cluster: Cluster) -> Addresses:
    site = Site.load({"HADOOP_CONF_DIR": str(cluster.conf), "HIVE_CONF_DIR": str(cluster.conf)})
    return Addresses(cluster.metastore_uri, cluster.hiveserver2, f"{cluster.filesystem}/proofs", site)


@pytest.fixture(scope="module")
def hive(addresses: Addresses) -> Iterator[Hive]:
    """A session of HiveServer2 for one file's tests: another file kills the server, and a session dies with it."""
    with closing(Hive(addresses.hiveserver2)) as session:
        session.ask(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        yield session


@dataclass(frozen=True)
class Place:
    """A table's name and folder, of one test's own."""

    table: str
    location: str

    def ddl(self, columns: str, partitioned: str = "", kind: str = "EXTERNAL TABLE", form: str = "PARQUET") -> str:
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        return f"CREATE {kind} {self.table} ({columns}) {by} STORED AS {form} LOCATION '{self.location}'"


@pytest.fixture
def place(request: pytest.FixtureRequest, addresses: Addresses, hive: Hive) -> Place:
    name = own_name(request)
    hive.ask(f"DROP TABLE IF EXISTS {DATABASE}.{name}")
    return Place(f"{DATABASE}.{name}", f"{addresses.tables}/{name}")
