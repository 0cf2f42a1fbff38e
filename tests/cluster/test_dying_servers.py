"""Each server dies by SIGKILL at the moment when the job needs it most, and comes back. The job needs no help.

A job from Kafka to HDFS and Hive 4 is killed itself, then runs all the while under `hivesink run --restart`. The long
one has executors.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from hivesink.config.site import Site
from hivesink.metastore import connect
from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.hdfs_calls import WINDOW
from jobs.cluster import Cluster
from tests.cluster.gates import GONE, Kills, Stage, local, on_cluster
from tests.cluster.ingest import Addresses
from tests.cluster.target import DATABASE, Feed, Target, own, rows

pytestmark = pytest.mark.spark

ROWS = 400
"""Enough for a new day, so that each round registers a partition."""
PAD = 16000
"""Bytes in each, so that a part is many packets."""


@pytest.fixture
def mortal(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, whose servers all run again afterwards."""
    yield cluster
    servers = cluster.servers
    for server in (servers.namenode, *servers.datanodes, servers.metastore, servers.hiveserver2, servers.broker):
        server.start()


@dataclass
class Round:
    """One job on the mortal cluster, and the rows that it must have written by now."""

    cluster: Cluster
    stage: Stage
    feed: Feed
    process: subprocess.Popen[bytes]

    def __post_init__(self) -> None:
        self.servers = self.cluster.servers

    def halt(self, step: str) -> None:
        """New rows come, and the job stands at `step` with them."""
        self.stage.shut(step)
        self.feed.put(ROWS)
        self.stage.wait_at(self.process, step)

    def go_on(self, step: str) -> None:
        self.stage.open(step)

    def wait(self) -> None:
        """Until every row is there."""
        target = self.stage.target
        self.stage.wait(self.process, lambda: target.count() == self.feed.sent, "rows are missing")


def a_datanode_dies_while_parts_are_written(at: Round) -> None:
    at.halt("in-task")
    at.stage.wait(at.process, lambda: any("inprogress" in path for path in at.stage.target.staged()), "no part is open")
    at.servers.datanodes[0].kill()
    at.go_on("in-task")
    at.wait()
    at.servers.datanodes[0].start()


def the_namenode_dies_between_manifest_and_publish_and_comes_back_in_safe_mode(at: Round) -> None:
    at.halt("after-manifest")
    at.servers.namenode.kill()
    at.servers.namenode.start()
    at.cluster.dfsadmin("-safemode", "enter")
    try:
        before = len(at.stage.told)
        at.go_on("after-manifest")
        at.stage.wait(at.process, lambda: len(at.stage.told) > before, "the job didn't notice the safe mode")
        assert "safe mode" in " ".join(at.stage.told[before:]), at.stage.told
    finally:
        at.cluster.dfsadmin("-safemode", "leave")


def the_namenode_is_down_between_manifest_and_publish(at: Round) -> None:
    at.halt("after-manifest")
    at.servers.namenode.kill()
    at.go_on("after-manifest")
    at.servers.namenode.start()


def the_metastore_dies_while_partitions_are_registered(at: Round) -> None:
    at.halt("before-register")
    at.servers.metastore.kill()
    at.go_on("before-register")
    at.feed.put(ROWS)
    at.servers.metastore.start()


def kafka_dies(at: Round) -> None:
    at.servers.broker.kill()
    at.servers.broker.start()
    at.feed.put(ROWS)


def an_executor_dies_in_a_write(at: Round) -> None:
    at.halt("in-task")
    for worker in at.servers.workers[:1]:
        with GONE:
            for child in psutil.Process(worker.pid).children(recursive=True):
                if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                    child.kill()
    at.go_on("in-task")


def a_worker_dies_in_a_write(at: Round) -> None:
    at.halt("in-task")
    at.servers.workers[0].kill()
    at.go_on("in-task")
    at.wait()
    at.servers.workers[0].start()


SHORT = (the_namenode_dies_between_manifest_and_publish_and_comes_back_in_safe_mode,)
ROUNDS = (
    *SHORT,
    the_metastore_dies_while_partitions_are_registered,
    a_datanode_dies_while_parts_are_written,
    the_namenode_is_down_between_manifest_and_publish,
    kafka_dies,
    an_executor_dies_in_a_write,
    a_worker_dies_in_a_write,
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [SHORT, pytest.param(ROUNDS, marks=pytest.mark.long)], ids=["some", "all"])
def test_a_job_outlives_every_server(
    mortal: Cluster, tmp_path: Path, rounds: Sequence[Callable[[Round], None]]
) -> None:
    name = own("dying_servers")
    feed = Feed(mortal.kafka, name, pad=PAD)
    target = Target.create(mortal, name, properties={"sink.rolling-policy.check-interval": "1s"})
    stage = Stage(
        tmp_path,
        mortal,
        target,
        feed,
        # Several batches of rows in a task, so that it can stand still between two. It gives up a NameNode soon, so
        # that the restart is tried as well as the waiting.
        {
            **(local() if rounds is SHORT else on_cluster(mortal)),
            "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
            f"spark.hadoop.{WINDOW}": "5000",
        },
        trigger={"processingTime": "200 milliseconds"},
        # Less than a task's rows, so that parts are open while the task still reads.
        options={"sink.task-memory": "64KB"},
        slow=True,
    )
    feed.put(ROWS)
    # Its tasks' files stay open, and nobody gives their leases back.
    Kills(stage).kill_at("in-task")
    with stage.running("--restart") as process:
        at = Round(mortal, stage, feed, process)
        at.wait()
        for trouble in rounds:
            trouble(at)
            at.wait()
        # A job that was started again publishes before its first batch, and until then SIGTERM is a kill.
        feed.put(ROWS)
        at.wait()
        assert stage.end(process) == 0, stage.output[-4000:]
    stage.check(feed.sent)


# In each run, tests/crash/test_metastore_faults.py has a registrar that is away, in memory.
@pytest.mark.long
def test_hiveserver2_dies_under_a_sink_that_registers_through_it(mortal: Cluster, addresses: Addresses) -> None:
    target = Target.create(mortal, own("hiveserver2_dies"))
    ingest = addresses.ingest(target.name)
    nosasl = Site(hive={"hive.server2.authentication": "NOSASL"})
    ingest.set("registrar", connect("hiveserver2", mortal.hiveserver2, nosasl))
    ingest.put(rows(0, ROWS))
    killed: list[bool] = []

    def dies(real: Callable[..., None], *given: object) -> None:
        if not killed:
            killed.append(True)
            mortal.servers.hiveserver2.kill()
        real(*given)

    ingest.wrap("registrar", add=dies)
    done = ingest.put(rows(ROWS, ROWS))
    assert killed
    assert mortal.hiveserver2 in str(done.waiting)
    # Decided, and not there yet: nothing is published before the metastore has answered.
    assert ROWS <= target.count() < 2 * ROWS
    mortal.servers.hiveserver2.start()
    ingest.put(rows(2 * ROWS, ROWS))
    ingest.finish()
    target.check_once(3 * ROWS)
    assert target.staged() == []


@pytest.mark.long
def test_files_are_written_while_the_namenode_still_counts_on_a_dead_datanode(
    mortal: Cluster, addresses: Addresses
) -> None:
    fs = HdfsFileSystem(addresses.site.hadoop)
    folder = f"{mortal.filesystem}/{DATABASE}/{own('dead_datanode')}"
    mortal.servers.datanodes[0].kill()
    # The dead one is the first of some pipelines, and the second of others.
    paths = [f"{folder}/{number}" for number in range(6)]
    for path in paths:
        fs.write_new(path, b"whole")
    assert [fs.read(path) for path in paths] == [b"whole"] * len(paths)
