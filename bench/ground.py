"""Where the contenders run: this process's threads over the embedded metastore, or the executors of a cluster."""

from __future__ import annotations

import contextlib
import os
import re
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from hive_metastore.ttypes import AlreadyExistsException, Database, NoSuchObjectException

from hivesink.config.site import NO_SITE, Site
from hivesink.core.partition import scheme
from hivesink.jvm.jars import JarSet, fetch, kafka_connector
from hivesink.metastore.thrift_connection import Connection
from hivesink.spark.session import session
from hivesink.spark.settings import JARS, LOCAL
from hivesink.storage.local import posix

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "bench"
_COUNTS = re.compile(r'(?:^SeaweedFS_s3_request_total.* |"RpcProcessingTimeNumOps" : )([\d.e+]+)', re.MULTILINE)
"""SeaweedFS's of each kind, and the NameNode's."""
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
ON_A_CLUSTER = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "2g"}
"""Two executors of one core each, in their own processes."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a contender's process makes its session and its tables from.

    Without `master` Spark is local. `tables` and `checkpoints` are whole locations. `counter` is the page on which the
    store counts its requests.
    """

    metastore: str
    tables: str
    checkpoints: str
    master: str | None = None
    counter: str | None = None

    @property
    def is_local(self) -> bool:
        return scheme(self.tables) == "file"

    def requests(self) -> int:
        """Those that the store has answered so far; 0 where nobody counts."""
        if self.counter is None:
            return 0
        with urlopen(self.counter) as page:  # noqa: S310  on the loopback
            return int(sum(map(float, _COUNTS.findall(page.read().decode()))))

    def site(self) -> Site:
        """Where its servers are, for clients without Spark."""
        return NO_SITE if self.is_local else Site.load(os.environ)

    def session(self, scratch: str) -> SparkSession:
        """On a cluster, HADOOP_CONF_DIR and HIVE_CONF_DIR say where everything is."""
        settings = {**SETTINGS, "spark.local.dir": scratch, JARS: spark_avro()}
        settings |= {"spark.sql.warehouse.dir": self.tables} if self.is_local else {}
        settings |= ON_A_CLUSTER if self.master else {}
        master = self.master or LOCAL
        return session("hivesink bench", metastore=self.metastore, master=master, kafka=True, extra=settings)


def spark_avro() -> str:
    """Spark's `from_avro`, which is not among PySpark's own jars."""
    # Of the connector's release, since PySpark's own isn't always there.
    coordinates = [each for each in kafka_connector(version("pyspark")).coordinates if "spark-sql-kafka" in each]
    avro = JarSet("spark-avro", tuple(each.replace("spark-sql-kafka-0-10", "spark-avro") for each in coordinates))
    return ",".join(path.as_uri() for path in fetch(avro))


def prepare(ground: Ground) -> None:
    def create(client: Any) -> None:
        with contextlib.suppress(AlreadyExistsException):
            client.create_database(Database(name=DATABASE, locationUri=f"{ground.tables}/{DATABASE}.db"))

    with closing(_connection(ground)) as connection:
        connection.read(create)


def clear(ground: Ground, name: str) -> None:
    """Drop the table, with its dead letters, and what a local run leaves beside it."""

    def drop(client: Any) -> None:
        for table in (name, f"{name}__rejected"):
            # Not every contender makes them.
            with contextlib.suppress(NoSuchObjectException):
                client.drop_table(DATABASE, table, True)

    with closing(_connection(ground)) as connection:
        connection.read(drop)
    if ground.is_local:
        tables = Path(posix(ground.tables), f"{DATABASE}.db")
        logs = tables / ".hivesink" / f"{DATABASE}.{name}"
        for folder in (tables / name, tables / f"{name}__rejected", logs, Path(posix(ground.checkpoints), name)):
            rmtree(folder, ignore_errors=True)


def _connection(ground: Ground) -> Connection:
    return Connection(ground.metastore, ground.site().hive)
