from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from hdfs_native import Client

from hivesink.embedded.server import wait_until
from hivesink.jvm.java import find_java
from jobs.cluster import Cluster
from jobs.cluster.__main__ import main, start
from tests.cli import site

SPARK = {"spark-master", "spark-worker-1", "spark-worker-2"}
"""The servers that a test starts which needs them."""


def hdfs(cluster: Cluster) -> Client:
    return Client(cluster.filesystem)


def listening(pids: Sequence[int]) -> set[str]:
    """The addresses that these processes take connections at."""
    connections = (c for pid in pids for c in psutil.Process(pid).net_connections("tcp"))
    return {c.laddr.ip.removeprefix("::ffff:") for c in connections if c.status == psutil.CONN_LISTEN}


def pids(cluster: Cluster) -> dict[str, int]:
    found = {name: server.pid for name, server in cluster.servers.by_name().items()}
    return {name: pid for name, pid in found.items() if pid is not None}


def test_every_server_runs_and_listens_on_the_loopback_alone(cluster: Cluster) -> None:
    running = pids(cluster)
    assert set(cluster.servers.by_name()) - set(running) <= SPARK
    assert listening(list(running.values())) == {"127.0.0.1"}


def test_everybody_may_write_where_tables_go_and_nowhere_else(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    stranger = hdfs(cluster)
    for folder in ("/user/hive/warehouse", "/user/hive/warehouse-ext", "/tmp"):  # noqa: S108 - of HDFS
        stranger.mkdirs(f"{folder}/of-a-stranger", 0o755, True)
        assert stranger.get_file_info(f"{folder}/of-a-stranger").owner == "stranger"
    for folder in ("", "/user", "/user/hive"):
        with pytest.raises(Exception, match="Permission denied"):
            stranger.mkdirs(f"{folder}/of-a-stranger", 0o755, True)


def command(*arguments: str | Path) -> int:
    """Run the command line in this process."""
    before = sys.argv
    sys.argv = ["cluster", *map(str, arguments)]
    try:
        return main()
    finally:
        sys.argv = before


def unread(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process whose output nobody reads, as after `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    line, root = [sys.executable, "-m", "jobs.cluster", *map(str, arguments)], Path(__file__).parents[2]
    try:
        return subprocess.run(line, cwd=root, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)


def test_a_reader_that_has_read_enough_ends_it(tmp_path: Path) -> None:
    ended = unread("status", "--folder", tmp_path)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


# In each run, tests/embedded/test_server.py has detached servers.
@pytest.mark.long
def test_the_detached_cluster_comes_up_once_mends_itself_and_goes_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"

    def running() -> dict[str, str]:
        """Name and process of each server that `status` calls up."""
        capsys.readouterr()
        assert command("status", "--folder", folder) == 1, "HDFS and the rest were not asked for"
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert len(lines) == len(Cluster(folder).servers.by_name())
        return {name: f"{address} {pid}" for name, address, pid, state in lines if state == "up"}

    assert running() == {}
    assert command("env", "--folder", folder) == 1
    assert not folder.exists(), "asking leaves no traces"
    try:
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda _: start(folder, ["spark"], lambda *_: None), range(2)))
        assert pids(both[0]) == pids(both[1]), "of two at once, the second finds what the first has started"
        assert listening(list(pids(both[0]).values())) == {"127.0.0.1"}
        first = running()
        assert set(first) == SPARK
        assert command("env", "--folder", folder) == 0
        assert capsys.readouterr().out == f"export HIVESINK_MASTER=spark://{first['spark-master'].split()[0]}\n"
        assert command("up", "--folder", folder, "--only", "spark") == 0
        assert running() == first, "a second start changes nothing"
        assert Cluster.running(folder) is None, "some servers that have an address are missing"

        os.kill(int(first["spark-worker-1"].split()[1]), signal.SIGKILL)
        assert wait_until(lambda: set(running()) == SPARK - {"spark-worker-1"}, 60)
        ended = unread("up", "--folder", folder, "--only", "spark")
        assert (ended.returncode, ended.stderr) == (0, ""), "what is started doesn't depend on a reader"
        second = running()
        changed = {name for name in SPARK if first[name] != second[name]}
        assert changed == {"spark-worker-1"}
        assert [s["spark-worker-1"].split()[0] for s in (first, second)] == [first["spark-worker-1"].split()[0]] * 2
    finally:
        assert command("down", "--folder", folder) == 0
    assert running() == {}
    assert command("down", "--folder", folder) == 0, "stopping twice is harmless"


@pytest.mark.long
def test_a_master_that_is_away_is_named_and_tried_again(cluster: Cluster, tmp_path: Path) -> None:
    """Spark itself asks for a minute."""
    job = tmp_path / "job.py"
    job.write_text('from hivesink.spark.session import session\nsession("away", master="spark://127.0.0.1:1")\n')
    done = site.command("run", job, more={"JAVA_HOME": str(find_java().home), "HIVE_CONF_DIR": str(cluster.conf)})
    assert done.returncode == 75, done.stderr
    assert "hivesink: the Spark master spark://127.0.0.1:1: it doesn't answer" in done.stderr
