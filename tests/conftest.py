"""The real servers, one of each for the whole run, started when a test first asks for one."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.jvm import jars
from hivesink.spark.session import session
from hivesink.spark.settings import LOCAL
from jobs.cluster import Cluster
from jobs.cluster.cluster import PARTS
from jobs.cluster.kafka import EmbeddedKafka
from jobs.cluster.s3 import S3Server
from jobs.cluster.server import OwnMetastore
from tests import workers
from tests.hive3.servers import BY_FOLDERS, Hive3Metastore, Hive3Server
from tests.secure.site import login_of

# Many short-lived JVMs share few cores: half the time of a start goes into optimising what runs once.
# The zone: Hive's reader turns TIMESTAMPs by the JVM's own, which is not to be this machine's.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC"
# Verifying classes takes a fifth of a server's start.
os.environ["JDK_JAVA_OPTIONS"] = f"{QUICK} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# Where Python keeps no bytecode, as in many containers, each process compiles all modules: a quarter of its start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# For tests that start Spark without `session`, or have a cache of their own.
os.environ["SPARK_SUBMIT_OPTS"] = jars.archive_options()


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis tries a few examples, others each time, and many in `make test-long`."""
    config.pluginmanager.register(workers)
    examples = 200 if config.option.markexpr.startswith("long") else 20
    # A busy machine fails no test.
    settings.register_profile("any machine", deadline=None, max_examples=examples)
    settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """The garbage collector skips what exists by now, such as modules: a full collection ends each module's tests."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """Clients of HDFS end with their objects: PySpark can't call back by a file descriptor above 1,023."""
    yield
    gc.collect()


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Beside the first tests of a run in several processes, make the archive if it is missing."""
    if session.config.option.numprocesses is None or jars.class_archive().is_file():
        return (yield)
    command = [sys.executable, "-m", "hivesink.cli", "prepare"]
    # A JVM that is told to use an archive that isn't there writes none. Users' JVMs, which verify classes, refuse an
    # archive of a JVM that doesn't.
    env = {name: text for name, text in os.environ.items() if name != "SPARK_SUBMIT_OPTS"} | {"JDK_JAVA_OPTIONS": QUICK}
    with tempfile.TemporaryFile() as said:
        # An own session, as its processes end together.
        with subprocess.Popen(command, stdout=said, stderr=said, env=env, start_new_session=True) as maker:
            try:
                result = yield
                failed = maker.poll()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(maker.pid, signal.SIGKILL)
        said.seek(0)
        # Without it the suite would take twice as long, and nobody would know why.
        if failed:
            session.shouldfail = said.read().decode()
            raise session.Failed(session.shouldfail)
    return result


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real Hive Metastore: `uri`, `warehouse` (a folder)."""
    folder = tmp_path_factory.mktemp("metastore")
    with OwnMetastore(folder / "server", folder / "warehouse", durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def spark(metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this process, on that metastore, with the Kafka connector."""
    scratch = tmp_path_factory.mktemp("spark")
    started = session(
        "hivesink tests",
        metastore=metastore.uri,
        master=LOCAL,
        kafka=True,
        extra={
            "spark.local.dir": str(scratch),
            "spark.sql.session.timeZone": "UTC",
            # A query that waits for rows asks its source each 10 ms by default.
            "spark.sql.streaming.pollingDelay": "100ms",
            "spark.sql.warehouse.dir": metastore.warehouse.as_uri(),
        },
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of a real Kafka broker."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The real cluster, with S3, without Spark. A test that stops one of its servers starts it again."""
    with Cluster(tmp_path_factory.mktemp("cluster"), only=PARTS.keys() - {"spark"}) as servers:
        yield servers


@pytest.fixture(scope="session")
def hive3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hive3Metastore, Hive3Server]]:
    """A metastore of Hive 3.1.3, and a HiveServer2 for it that isn't started yet."""
    folder = tmp_path_factory.mktemp("hive3")
    with Hive3Metastore(folder / "metastore", BY_FOLDERS) as metastore:
        server = Hive3Server(folder / "hiveserver2", metastore)
        try:
            yield metastore, server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """HDFS and a metastore that ask for Kerberos, with their key server; `alice` has a ticket for them."""
    if importlib.util.find_spec("gssapi") is None:
        missing = "gssapi isn't installed: apt-get install gcc libkrb5-dev, then make venv"
        (pytest.fail if {"CI", "HIVESINK_CI"} & {*os.environ} else pytest.skip)(missing)
    with Cluster(tmp_path_factory.mktemp("secured"), secure=True, only={"metastore"}) as servers:
        yield servers


@pytest.fixture(scope="session")
def ticket(secured: Cluster) -> Mapping[str, str]:
    """What the environment of a process of alice's has, with her ticket."""
    return login_of(secured, "alice")


@pytest.fixture
def alice(secured: Cluster, ticket: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The secured cluster, for this process as alice."""
    for name, value in ticket.items():
        monkeypatch.setenv(name, value)
    return secured


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server: `endpoint`, `properties` for a site, `environment` for boto3, `make_bucket`."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server
