"""`hivesink doctor` where servers ask for Kerberos: the login and its end, or what is missing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hivesink.config.site import Site
from hivesink.logs import storage_of
from jobs.cluster import Cluster
from tests.cli.site import Capsys, command, hivesink
from tests.cluster.target import Target, open_database, own
from tests.secure.site import environment_of, login_of, site_of

if TYPE_CHECKING:
    import pytest

CLOCK = """
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int gettimeofday(struct timeval *now, void *zone) {
    int failed = syscall(SYS_gettimeofday, now, zone);
    now->tv_sec += 600;
    return failed;
}

time_t time(time_t *seconds) {
    struct timeval now;
    gettimeofday(&now, 0);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
"""


def test_a_login(alice: Cluster, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_of(alice).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    found = hivesink(capsys, "doctor", "--json")
    assert found.code == 0, found.out
    said = {check["what"]: check["said"] for check in found.data["checks"]}
    assert said["login"].startswith("alice@EXAMPLE.COM, whose ticket ends at ")
    assert said[f"metastore {alice.metastore_uri}"] == "Hive 4.0.1, as alice"
    assert said[f"NameNode {alice.filesystem.removeprefix('hdfs://')}"] == "active"
    with_page = {"dfs.namenode.http-address": urlsplit(alice.servers.namenode.counter).netloc}
    ((_, look),) = storage_of(alice.filesystem, Site({**site_of(alice).hadoop, **with_page})).servers(alice.filesystem)
    assert look() == "active, Hadoop 3.5.0, asks for a login"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    found = hivesink(capsys, "doctor", "--json")
    bad = {check["what"]: check["said"] for check in found.data["checks"] if not check["ok"]}
    assert (found.code, {*bad} >= {"login", f"metastore {alice.metastore_uri}"}) == (65, True), found.out
    assert all("run kinit" in text for text in bad.values())


def test_a_clock_ten_minutes_ahead(alice: Cluster, tmp_path: Path) -> None:
    """That of MIT's library, in a process of its own."""
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c"], check=True)
    # Without tickets for services, which these themselves would refuse in fewer words.
    environment = {**environment_of(alice), **login_of(alice, "alice", tmp_path), "LD_PRELOAD": str(library)}
    ended = command("doctor", "--json", more=environment)
    bad = {check["what"]: check["said"] for check in json.loads(ended.stdout)["checks"] if not check["ok"]}
    namenode = f"NameNode {alice.filesystem.removeprefix('hdfs://')}"
    assert (ended.returncode, [*bad]) == (65, [namenode, f"metastore {alice.metastore_uri}"]), ended.stdout
    for said in bad.values():
        assert "Clock skew too great; compare the principals and keytabs of the site, krb5.conf, and the clocks" in said


def test_a_user_who_may_not_write(alice: Cluster, tmp_path: Path) -> None:
    """Into alice's table, in a process of bob's."""
    open_database(alice)
    table = Target.create(alice, own("alices")).name
    for user, bad in (("alice", []), ("bob", ["user=bob, access=WRITE"])):
        environment = {**environment_of(alice), **login_of(alice, user, tmp_path)}
        ended = command("doctor", table, "--json", more=environment)
        said = [check["said"] for check in json.loads(ended.stdout)["checks"] if not check["ok"]]
        assert (ended.returncode, len(said)) == (65 if bad else 0, len(bad)), ended.stdout
        assert all(words in text for words, text in zip(bad, said, strict=True))
