"""What people get wrong and clusters run out of: one line that names the server and what to do, and nothing lost.

After each the same query is started again, once the matter is mended, and goes on from where it was.
"""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TBufferedTransportFactory, TTransportException

from hivesink import errors
from hivesink.cli.codes import ExitCode
from hivesink.storage.hdfs_calls import WINDOW
from tests.cluster.feed import Feed, day
from tests.cluster.hive import Hive
from tests.cluster.target import Target, own
from tests.cluster.underfire import LONGEST, Stage, local
from tests.integration.conftest import own_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from thrift.protocol.TProtocol import TProtocolBase

    from jobs.cluster import Cluster
    from tests.cluster.ingest import Addresses

SCHEMA = pa.schema([("id", pa.int64()), ("pad", pa.string()), ("dt", pa.string())])


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist([{"id": n, "pad": "", "dt": day(n)} for n in numbers], schema=SCHEMA)


def said(told: pytest.ExceptionInfo[errors.HiveSinkError], *parts: str) -> str:
    """One line, with all of `parts`."""
    text = str(told.value)
    assert "\n" not in text
    assert len(text) < 700
    for part in parts:
        assert part in text, text
    return text


class Trial:
    """A table of the test's own, with the 400 rows of day 0 in it."""

    def __init__(self, cluster: Cluster, addresses: Addresses, name: str, **made: Any) -> None:
        self.cluster = cluster
        self.target = Target.create(cluster, name, **made)
        self.ingest = addresses.ingest(self.target.name, tolerant=False)
        self.ingest.put(rows(0, 400))
        self.rows = 400

    def refused(self) -> pytest.ExceptionInfo[errors.HiveSinkError]:
        """The next rows are refused; what was there can be read as before."""
        with pytest.raises(errors.HiveSinkError) as told:
            self.ingest.put(rows(self.rows, 400))
        return told

    def goes_on(self) -> None:
        """Started again, the query writes those very rows, and others."""
        self.ingest = self.ingest.again(tolerant=False)
        for _ in range(2):
            self.ingest.put(rows(self.rows, 400))
            self.rows += 400
        self.ingest.finish()
        self.target.check_once(self.rows)
        assert self.target.staged() == []
        assert [found for found in self.ingest.verify().findings if found.level.name == "ERROR"] == []


@pytest.fixture
def trial(request: pytest.FixtureRequest, cluster: Cluster, addresses: Addresses) -> Trial:
    # A client that gives up soon: a safe mode is waited for otherwise.
    site = replace(addresses.site, hadoop={**addresses.site.hadoop, WINDOW: "2000"})
    return Trial(cluster, replace(addresses, site=site), own(own_name(request)))


def test_a_wrong_nameservice(trial: Trial) -> None:
    wrong = "hdfs://prodction/logs"
    with pytest.raises(errors.HiveSinkError) as told:
        trial.ingest.again(options={"sink.log-location": wrong})
    said(told, "prodction", f"but the log of {trial.target.name} is in ")
    trial.goes_on()


def test_a_namenode_in_safe_mode(trial: Trial) -> None:
    trial.cluster.dfsadmin("-safemode", "enter")
    try:
        told = trial.refused()
        said(told, trial.cluster.filesystem.removeprefix("hdfs://"), "afe mode", "hdfs dfsadmin -safemode")
        assert told.value.retryable
        assert trial.target.count() == 400
    finally:
        trial.cluster.dfsadmin("-safemode", "leave")
    trial.goes_on()


def test_no_permission_on_the_location(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    client = trial.target.client
    base = trial.target.folder.rpartition("/")[0]
    for found in client.list_status(f"{base}/.hivesink/{trial.target.name}", recursive=True):
        client.set_permission(found.path, 0o777)
    monkeypatch.setenv("HADOOP_USER_NAME", "carol")
    # A client is one user's.
    site = replace(trial.ingest.site, hadoop={**trial.ingest.site.hadoop, WINDOW: "2001"})
    trial.ingest = trial.ingest.again(site=site)
    told = trial.refused()
    said(told, "carol", trial.cluster.filesystem.removeprefix("hdfs://"), trial.target.folder)
    assert not told.value.retryable
    assert trial.target.count() == 400
    client.set_owner(trial.target.folder, "carol")
    for folder in [trial.target.folder, *trial.target.registered().values()]:
        client.set_permission(folder, 0o777)
    trial.goes_on()


@pytest.mark.parametrize(("order", "clear"), [("-setSpaceQuota", "-clrSpaceQuota"), ("-setQuota", "-clrQuota")])
def test_a_full_quota(trial: Trial, order: str, clear: str) -> None:
    trial.cluster.dfsadmin(order, "2", trial.target.folder)
    told = trial.refused()
    said(told, trial.cluster.filesystem.removeprefix("hdfs://"), trial.target.folder, "quota")
    assert told.value.retryable
    assert trial.target.count() == 400
    trial.cluster.dfsadmin(clear, trial.target.folder)
    trial.goes_on()


class Stranger:
    """Speaks Thrift, and knows none of the calls that it is asked."""

    def process(self, incoming: TProtocolBase, outgoing: TProtocolBase) -> None:
        name, _, number = incoming.readMessageBegin()
        incoming.skip(TType.STRUCT)
        incoming.readMessageEnd()
        answer = TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{name}'")
        outgoing.writeMessageBegin(name, TMessageType.EXCEPTION, number)
        answer.write(outgoing)
        outgoing.writeMessageEnd()
        outgoing.trans.flush()


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of a metastore of a version that nobody knows."""
    socket = TServerSocket("127.0.0.1", 0)
    socket.listen()
    port = socket.handle.getsockname()[1]
    socket.listen = lambda: None  # it listens already: the port had to be known
    server = TThreadedServer(Stranger(), socket, TBufferedTransportFactory(), TBinaryProtocolFactory(), daemon=True)

    def serve() -> None:
        try:
            server.serve()
        except (OSError, TTransportException):
            return

    threading.Thread(target=serve, daemon=True).start()
    yield f"thrift://127.0.0.1:{port}"
    socket.close()


def test_a_metastore_of_an_unknown_version(trial: Trial, stranger: str) -> None:
    with pytest.raises(errors.MetastoreNotUnderstood) as told:
        trial.ingest.again(uri=stranger)
    said(told, stranger, "Invalid method name", "version")
    trial.goes_on()


def test_a_table_that_vanishes_while_the_job_runs(trial: Trial) -> None:
    partitions = trial.target.registered()
    trial.target.drop()
    told = trial.refused()
    said(told, trial.target.name, trial.cluster.metastore_uri)
    # It is external, so its files are there: made again, with its partitions, it is the same table.
    Target.create(trial.cluster, trial.target.name.split(".")[1])
    for partition, place in partitions.items():
        register(trial, partition, f"{trial.cluster.filesystem}{place}")
    trial.goes_on()


def test_a_partition_that_somebody_registers_elsewhere_on_hdfs_is_followed(trial: Trial) -> None:
    elsewhere = f"{trial.cluster.filesystem}{trial.target.folder}-elsewhere"
    register(trial, day(400), elsewhere)
    trial.goes_on()
    assert trial.target.registered()[day(400)] == f"{trial.target.folder}-elsewhere"


def test_a_partition_that_somebody_registers_on_another_file_system(
    trial: Trial, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere").as_uri()
    register(trial, day(400), elsewhere)
    told = trial.refused()
    parts = trial.cluster.metastore_uri, trial.target.name, f"dt={day(400)}", elsewhere.removeprefix("file://")
    said(told, *parts, f"alter the partition's location to {trial.cluster.filesystem}{trial.target.folder}")
    assert not told.value.retryable
    home = f"{trial.cluster.filesystem}{trial.target.folder}/dt={day(400)}"
    ask(trial.cluster, f"ALTER TABLE {trial.target.name} PARTITION (dt='{day(400)}') SET LOCATION '{home}'")
    trial.goes_on()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_that_meets_two_of_them_says_so_in_a_line_each_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """A full quota passes by itself, under --restart; a table that is gone needs a person."""
    name = own("bad_job")
    feed = Feed(cluster.kafka, name)
    feed.put(800)
    target = Target.create(cluster, name)
    target.client.mkdirs(target.folder, create_parent=True)
    stage = Stage(cluster, tmp_path, target, feed, local())
    cluster.dfsadmin("-setSpaceQuota", "2", target.folder)
    stage.shut("after-commit")
    with stage.running("--restart") as process:
        stage.wait(process, lambda: bool(stage.told), "the job didn't notice the quota")
        cluster.dfsadmin("-clrSpaceQuota", target.folder)
        stage.wait_at(process, "after-commit")
        partitions = target.registered()
        target.drop()
        stage.open("after-commit")
        assert process.wait(LONGEST) == ExitCode.NEEDS_PERSON
    first, last = stage.told[0], stage.told[-1]
    for part in ("a task failed: could not write", target.folder, "quota", cluster.filesystem.removeprefix("hdfs://")):
        assert part in first
    for part in (target.name, cluster.metastore_uri, "is not in the metastore"):
        assert part in last
    Target.create(cluster, name)
    for partition, place in partitions.items():
        ask(cluster, add_partition(target, partition, f"{cluster.filesystem}{place}"))
    assert stage.drain() == ExitCode.DONE, stage.output[-4000:]
    target.check_once(feed.sent)
    assert target.staged() == []


def ask(cluster: Cluster, statement: str) -> None:
    with closing(Hive(cluster.hiveserver2)) as session:
        session.ask(statement)


def register(trial: Trial, partition: str, location: str) -> None:
    """As somebody else does it."""
    ask(trial.cluster, add_partition(trial.target, partition, location))


def add_partition(target: Target, partition: str, location: str) -> str:
    return f"ALTER TABLE {target.name} ADD PARTITION (dt='{partition}') LOCATION '{location}'"
