"""Where the contenders run: this process's threads over the embedded metastore, or the executors of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hivesink.spark.session import LOCAL, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    Without `master` it is local. `tables` and `checkpoints` are whole locations.
    """

    metastore: str
    tables: str
    checkpoints: str
    master: str | None = None

    def session(self, scratch: str) -> SparkSession:
        """On a cluster, HADOOP_CONF_DIR and HIVE_CONF_DIR say where everything is."""
        settings = {**SETTINGS, "spark.local.dir": scratch}
        settings |= {"spark.sql.warehouse.dir": self.tables} if self.master is None else ON_A_CLUSTER
        master = self.master or LOCAL
        return session("hivesink bench", metastore=self.metastore, master=master, kafka=True, extra=settings)


def visible_files(spark: SparkSession, folder: str) -> tuple[int, int]:
    """How many files readers see in the folders in `folder`, and their bytes."""
    path = _path(spark, folder + "/dt=*/[!._]*")
    found = _system(spark, path).globStatus(path)
    return len(found), sum(status.getLen() for status in found)


def remove(spark: SparkSession, folder: str) -> None:
    """Delete `folder` with all that is in it."""
    path = _path(spark, folder)
    _system(spark, path).delete(path, True)


def rename(spark: SparkSession, old: str, new: str) -> None:
    path = _path(spark, old)
    if not _system(spark, path).rename(path, _path(spark, new)):
        message = f"can't rename {old} to {new}"
        raise OSError(message)


def _path(spark: SparkSession, location: str) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.Path(location)


def _system(spark: SparkSession, path: Any) -> Any:
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
