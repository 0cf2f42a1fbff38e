"""What the demonstration starts and always stops again, and the table that it streams into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.config.cache import local_location
from hivesink.embedded import metastore
from hivesink.errors import HiveSinkError
from hivesink.hiveql.apply import Catalog, apply
from hivesink.hiveql.parse import parse_path
from hivesink.jvm.java import write_sites
from hivesink.ports import CommitLog
from hivesink.spark.session import session
from hivesink.spark.settings import LOCAL
from jobs.cluster.s3 import S3Server
from jobs.cluster.server import OwnMetastore
from jobs.demo.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = Path(__file__).parents[2] / "ddl"
TABLE = "demo.flights"


class AlreadyRunning(HiveSinkError):
    """Another demonstration streams into the same table."""

    def __init__(self, home: Path) -> None:
        self.home = home
        super().__init__(f"another demonstration is running in {home}; wait until it ends")


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Lock the state folder. Raises AlreadyRunning if another demonstration uses it."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "demo.lock").open("a") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(home) from error
        yield


@contextmanager
def running_metastore(home: Path) -> Iterator[str]:
    """The metastore of the state folder: a running one (`hivesink metastore start`), else a new one."""
    detached = metastore.detached(home)
    if detached.alive:
        yield detached.uri
        return
    with OwnMetastore(home / "metastore", home / "warehouse") as own:
        yield own.uri


@contextmanager
def s3_server(home: Path) -> Iterator[str]:
    """A bucket's `s3a://` location on an S3 server, which the environment's site names from now on."""
    with S3Server(home / "s3") as server:
        write_sites(home / "conf", {"core-site": server.properties})
        environ["HADOOP_CONF_DIR"] = str(home / "conf")
        yield server.make_bucket("demo")


@contextmanager
def spark_session(uri: str, home: Path, *, kafka: bool) -> Iterator[SparkSession]:
    """A Spark session that reads Hive tables with Hive's reader, not Spark's own for Parquet."""
    settings = {
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.hive.convertMetastoreParquet": "false",
        "spark.sql.warehouse.dir": local_location(home / "warehouse"),
    }
    spark = session("hivesink demo", metastore=uri, master=LOCAL, kafka=kafka, extra=settings)
    try:
        yield spark
    finally:
        spark.stop()


def declare_tables(catalog: Catalog, screen: Screen) -> None:
    """Apply ddl/, as `hivesink ddl apply ddl` does."""
    screen.step("Declaring the tables in ddl/")
    for done in apply(parse_path(DDL), catalog):
        screen.fact(str(done))


def committed(log: CommitLog) -> tuple[int, int]:
    """The numbers of rows and epochs in the sink's log, from earlier runs."""
    view, floor = log.view(), log.floor()
    rows = sum(log.manifest(epoch).rows.written for epoch in view.manifests)
    return rows + (floor.totals.written if floor else 0), view.head
