from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hdfs_native import Client, WriteOptions
from pyhive import hive

from hivesink.embedded.process import identity_of, wait_until
from jobs.cluster import Cluster
from jobs.cluster.__main__ import main, start
from jobs.cluster.kafka import create_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB = """
import json, os, sys
import psutil
from pyspark.sql import SparkSession

def look(_):
    # The worker's Python, the executor that started it, and the Spark worker that started that.
    family = psutil.Process().parents()[:4]
    ips = {c.laddr.ip for p in family for c in p.net_connections("tcp") if c.status == "LISTEN"}
    return os.getcwd(), sorted(ips)

spark = SparkSession.builder.getOrCreate()
with spark.sparkContext as context:
    # Both executors must be there, or one of them does it all.
    while len(context._jsc.sc().statusTracker().getExecutorInfos()) < 3:
        pass
    print(json.dumps(context.parallelize(range(8), 8).map(look).collect()))
"""


def hdfs(cluster: Cluster) -> Client:
    return Client(cluster.filesystem)


def query(cluster: Cluster, *statements: str) -> Any:
    """Run these in one session of HiveServer2; return the rows of the last."""
    host, _, port = cluster.hiveserver2.partition(":")
    with closing(hive.connect(host, int(port), auth="NOSASL")) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    with closing(consumer):
        return [message.value() for message in consumer.consume(count, timeout=60)]


def listening(pids: Sequence[int]) -> set[str]:
    """The addresses that these processes take connections at."""
    connections = (c for pid in pids for c in psutil.Process(pid).net_connections("tcp"))
    return {c.laddr.ip.removeprefix("::ffff:") for c in connections if c.status == psutil.CONN_LISTEN}


def pids(cluster: Cluster) -> dict[str, int]:
    found = {name: server.pid for name, server in cluster.servers.by_name().items()}
    return {name: pid for name, pid in found.items() if pid is not None}


def test_every_server_runs_and_listens_on_the_loopback_alone(cluster: Cluster) -> None:
    running = pids(cluster)
    assert list(running) == list(cluster.servers.by_name())
    assert listening(list(running.values())) == {"127.0.0.1"}


@pytest.mark.long
def test_what_the_servers_hold_is_there_after_all_were_killed(cluster: Cluster) -> None:
    hdfs(cluster).create("/kept", WriteOptions(overwrite=True)).close()
    query(
        cluster,
        "create database if not exists kept",
        "create table kept.t (id int) stored as parquet",
        "insert into kept.t values (1), (2)",
    )
    assert create_topic(cluster.kafka, "kept")
    produce(cluster.kafka, "kept", b"1")
    before = pids(cluster)
    addresses = {name: server.address for name, server in cluster.servers.by_name().items()}

    for server in cluster.servers.by_name().values():
        server.kill()
    assert not any(identity_of(pid) for pid in before.values())
    assert pids(cluster) == {}
    cluster.start()

    assert not set(before.values()) & set(pids(cluster).values())
    assert {name: server.address for name, server in cluster.servers.by_name().items()} == addresses
    assert hdfs(cluster).get_file_info("/kept").length == 0
    assert query(cluster, "select count(*), sum(id) from kept.t where id > 0") == [(2, 3)]
    assert consume(cluster.kafka, "kept", 1) == [b"1"]


def test_a_file_outlives_the_death_of_a_datanode_and_of_the_namenode(cluster: Cluster) -> None:
    client, content = hdfs(cluster), os.urandom(100_000)
    namenode, datanode = cluster.servers.namenode, cluster.servers.datanodes[0]
    with client.create("/outlives", WriteOptions(overwrite=True)) as file:
        file.write(content)
    datanode.kill()
    assert client.read("/outlives").read() == content
    namenode.kill()
    namenode.start()
    # Ready means that the other DataNode has told what it holds.
    assert hdfs(cluster).read("/outlives").read() == content
    datanode.start()


def test_safe_mode_is_entered_and_left_by_command(cluster: Cluster) -> None:
    client = hdfs(cluster)
    assert "Safe mode is ON" in cluster.dfsadmin("-safemode", "enter")
    try:
        with pytest.raises(Exception, match="SafeModeException"):
            client.mkdirs("/not-in-safe-mode", 0o755, True)
    finally:
        cluster.dfsadmin("-safemode", "leave")
    client.mkdirs("/not-in-safe-mode", 0o755, True)


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


def test_python_runs_on_executors_of_both_workers(cluster: Cluster, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    settings = {
        "spark.cores.max": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": "-Djava.net.preferIPv4Stack=true",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    answer = subprocess.run(
        [sys.executable, job],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--master {cluster.spark_master} {options} pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seen = json.loads(answer.stdout.splitlines()[-1])
    homes = {Path(folder).relative_to(cluster.folder).parts[0] for folder, _ in seen}
    assert homes == {"spark-worker-1", "spark-worker-2"}
    assert {ip.removeprefix("::ffff:") for _, ips in seen for ip in ips} == {"127.0.0.1"}


def test_nothing_is_left_of_a_cluster_whose_starter_was_killed(tmp_path: Path) -> None:
    starter = textwrap.dedent(
        """
        import json, sys, time, pathlib
        from jobs.cluster import Cluster
        with Cluster(pathlib.Path(sys.argv[1]), only={"spark"}) as cluster:
            print(json.dumps([s.pid for s in cluster.servers.by_name().values() if s.pid]), flush=True)
            time.sleep(600)
        """
    )
    command = [sys.executable, "-c", starter, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as parent:
        assert parent.stdout is not None
        servers: list[int] = json.loads(parent.stdout.readline())
        assert len(servers) == 3
        assert all(identity_of(pid) for pid in servers)
        parent.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not any(identity_of(pid) for pid in servers), 60)


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


def test_the_detached_cluster_comes_up_once_mends_itself_and_goes_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"
    names = {"spark-master", "spark-worker-1", "spark-worker-2"}

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
        pids = [{server.pid for name, server in one.servers.by_name().items() if name in names} for one in both]
        assert (len(pids[0]), pids[0]) == (3, pids[1]), "of two at once, the second finds what the first has started"
        first = running()
        assert set(first) == names
        assert command("env", "--folder", folder) == 0
        assert capsys.readouterr().out == f"export HIVESINK_MASTER=spark://{first['spark-master'].split()[0]}\n"
        assert command("up", "--folder", folder, "--only", "spark") == 0
        assert running() == first, "a second start changes nothing"
        assert Cluster.running(folder) is None, "some servers that have an address are missing"

        os.kill(int(first["spark-worker-1"].split()[1]), signal.SIGKILL)
        assert wait_until(lambda: set(running()) == names - {"spark-worker-1"}, 60)
        ended = unread("up", "--folder", folder, "--only", "spark")
        assert (ended.returncode, ended.stderr) == (0, ""), "what is started doesn't depend on a reader"
        second = running()
        changed = {name for name in names if first[name] != second[name]}
        assert changed == {"spark-worker-1"}
        assert [s["spark-worker-1"].split()[0] for s in (first, second)] == [first["spark-worker-1"].split()[0]] * 2
    finally:
        assert command("down", "--folder", folder) == 0
    assert running() == {}
    assert command("down", "--folder", folder) == 0, "stopping twice is harmless"
