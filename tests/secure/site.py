"""What a client of the secured cluster has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hivesink.config.site import Site
from jobs.cluster import Cluster
from jobs.cluster.kdc import Kdc


def kdc_of(cluster: Cluster) -> Kdc:
    assert cluster.servers.kdc is not None
    return cluster.servers.kdc


def site_of(cluster: Cluster) -> Site:
    return Site.load({"HADOOP_CONF_DIR": str(cluster.conf), "HIVE_CONF_DIR": str(cluster.conf)})


def environment_of(cluster: Cluster) -> dict[str, str]:
    """Where a process finds the site's files."""
    found = {"HADOOP_CONF_DIR": str(cluster.conf), "HIVE_CONF_DIR": str(cluster.conf)}
    if cluster.servers.kdc:
        found["HIVESINK_KAFKA_CONFIG"] = str(cluster.servers.broker.client_properties)
    return found


def login_of(cluster: Cluster, user: str, folder: Path | None = None) -> Mapping[str, str]:
    """The environment of a process of `user`'s, with a new ticket; JVMs know the key server by it, too."""
    kdc = kdc_of(cluster)
    variables = kdc.environment(user, folder)
    with kdc.logged_in(user, folder):
        pass
    return {**variables, "JDK_JAVA_OPTIONS": " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *kdc.java])}
