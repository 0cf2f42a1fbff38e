"""`hivesink doctor` on the whole cluster: its versions, another user's rights, and a clock that is off."""

from __future__ import annotations

import json
import platform
import re
import time
from urllib.parse import urlsplit

import pytest

from hivesink.config.site import Site
from hivesink.logs import storage_of
from jobs.cluster import Cluster
from tests.cli.site import command, hivesink
from tests.cluster.conftest import Place
from tests.cluster.gates import master_of
from tests.cluster.ingest import Addresses, Hive


# Executors take two servers and a session of their own.
@pytest.mark.parametrize("executors", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_site(  # noqa: PLR0917
    executors: bool,
    cluster: Cluster,
    addresses: Addresses,
    place: Place,
    hive: Hive,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HADOOP_CONF_DIR", "HIVE_CONF_DIR"):
        monkeypatch.setenv(name, str(cluster.conf))
    hive.ask(place.ddl("id INT", "dt STRING"))
    asked = ["doctor", place.table, "--hiveserver2", cluster.hiveserver2, "--kafka", cluster.kafka, "--json"]
    if executors:
        monkeypatch.setenv("HIVESINK_MASTER", master_of(cluster))
        asked.append("--executors")
    found = hivesink(capsys, *asked)
    assert found.code == 0, found.out
    said = {check["what"]: check["said"] for check in found.data["checks"]}
    assert str(cluster.conf / "hdfs-site.xml") in said["site files"]
    assert said[f"NameNode {cluster.filesystem.removeprefix('hdfs://')}"] == "active"
    assert said[f"metastore {addresses.metastore}"].startswith("Hive 4.0.1, as ")
    assert said[f"HiveServer2 {cluster.hiveserver2}"] == "version 4.0.1"
    kafka = rf"answers by PLAINTEXT, with metadata.version [1-9]\d* and the brokers {cluster.kafka}"
    assert re.fullmatch(kafka, said[f"Kafka {cluster.kafka}"])
    versions = rf"Java [\d.]+, Python {platform.python_version()}, pyarrow .*, hdfs-native [\d.]+ "
    if executors:
        assert re.fullmatch(rf"{versions}\(on {cluster.spark_master}\)", said["executors"])
    # By the NameNode's host.
    with_page = {"dfs.namenode.http-address": f"0.0.0.0:{urlsplit(cluster.servers.namenode.counter).port}"}
    ((_, look),) = storage_of(cluster.filesystem, Site(with_page)).servers(cluster.filesystem)
    assert look() == "active, Hadoop 3.5.0, asks for no login"
    assert said[f"folder {place.location}"].startswith("can be written; its server's clock is ")
    # A process's clients stay who they were.
    as_another = command(*asked[:2], "--json", more={"HADOOP_USER_NAME": "mallory"})
    checks = json.loads(as_another.stdout)["checks"]
    bad = {check["what"]: check["said"] for check in checks if not check["ok"]}
    assert (as_another.returncode, [*bad][:1]) == (65, [f"folder {place.location}"]), as_another.stdout
    assert "mallory" in bad[f"folder {place.location}"]
    now = time.time
    monkeypatch.setattr("hivesink.cli.doctor.time.time", lambda: now() + 120)
    found = hivesink(capsys, *asked[:2])
    assert found.code == 65
    assert found.out.count("is -120 s off this machine's: set both by NTP") == 2
