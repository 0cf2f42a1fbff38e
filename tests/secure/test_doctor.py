"""`hivesink doctor` where servers ask for Kerberos: the login and its end, or what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.site import Capsys, hivesink

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from jobs.cluster import Cluster


def test_a_login(alice: Cluster, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HIVE_CONF_DIR"):
        monkeypatch.setenv(name, str(alice.conf))
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    found = hivesink(capsys, "doctor", "--json")
    assert found.code == 0, found.out
    said = {check["what"]: check["said"] for check in found.data["checks"]}
    assert said["login"].startswith("alice@EXAMPLE.COM, whose ticket ends at ")
    assert said[f"metastore {alice.metastore_uri}"] == "Hive 4.0.1, as alice"
    assert said[f"NameNode {alice.filesystem.removeprefix('hdfs://')}"] == "active"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    found = hivesink(capsys, "doctor", "--json")
    bad = {check["what"]: check["said"] for check in found.data["checks"] if not check["ok"]}
    assert (found.code, {*bad} >= {"login", f"metastore {alice.metastore_uri}"}) == (65, True), found.out
    assert all("run kinit" in text for text in bad.values())
