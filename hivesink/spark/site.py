"""The site as a Spark session sees it, and what the driver's JVM alone can answer about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hivesink.config.site import Site
from hivesink.errors import EncryptionDiffers, StoreUnavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def site_of(spark: SparkSession) -> Site:
    """The site's files under the session's own Hadoop configuration, which wins. Raises SiteInvalid."""
    written = _jvm(spark).java.io.StringWriter()
    hadoop_configuration(spark).writeXml(written)
    return Site.load(os.environ).overlaid(str(written.toString()))


def hadoop_configuration(spark: SparkSession) -> Any:
    """The session's `org.apache.hadoop.conf.Configuration`, in the driver's JVM."""
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  PySpark offers no other way


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's own JVM, on its own disks."""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def allowed_tries(spark: SparkSession) -> int:
    """How often Spark runs a task that fails, before the job fails."""
    if is_local(spark):
        # Spark ignores the setting here; `local[2,4]` allows four tries.
        _, _, tries = str(spark.sparkContext.master).rstrip("] ").partition(",")
        return int(tries or 1)
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures") or 4)


def resolved_checkpoint(spark: SparkSession, checkpoint: str) -> str:
    """The checkpoint's whole location, as Spark resolves it: a path without a scheme is `fs.defaultFS`'s.

    Raises Unsupported where that is this machine's disk and the session's master is another machine's: a driver that
    is started elsewhere would find no checkpoint there. Who is sure that it isn't writes `file:/…`.
    """
    path = _jvm(spark).org.apache.hadoop.fs.Path(checkpoint)
    found = str(_file_system(spark, path, checkpoint).makeQualified(path).toString())
    if found.startswith("file:") and not checkpoint.startswith("file:") and not is_local(spark):
        what = f"the checkpoint {checkpoint!r} on this machine's disk, with the master {spark.sparkContext.master},"
        why = "a driver on another machine would begin anew"
        raise Unsupported(what, why, f"write hdfs://…, or {found} if the driver always runs here")
    return found


def check_encryption(spark: SparkSession, locations: Sequence[str], log: str) -> None:
    """Refuse a log in the clear beside a table in an encryption zone: it holds offsets and partition values.

    Only HDFS has zones. Raises EncryptionDiffers, StoreUnavailable.
    """
    for location in locations:
        if location.startswith("hdfs:") and _zone(spark, location) is not None and _zone(spark, log) is None:
            raise EncryptionDiffers(location, log)


def _zone(spark: SparkSession, location: str) -> str | None:
    """The encryption zone that a location is in, or would be once it is there."""
    if not location.startswith("hdfs:"):
        return None
    from py4j.protocol import Py4JJavaError

    path = _jvm(spark).org.apache.hadoop.fs.Path(location)
    try:
        system = _file_system(spark, path, location)
        # The NameNode answers for what exists only.
        while not system.exists(path):
            path = path.getParent()
        zone = system.getEZForPath(path)
    except Py4JJavaError as error:
        action = "ask for the encryption zone of"
        raise StoreUnavailable(action, location, _reason(error)) from error
    return None if zone is None else str(zone.getPath())


def _file_system(spark: SparkSession, path: Any, location: str) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return path.getFileSystem(hadoop_configuration(spark))
    except Py4JJavaError as error:
        action = "reach the file system of"
        raise StoreUnavailable(action, location, _reason(error)) from error


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm  # noqa: SLF001  PySpark offers no other way


def _reason(error: Any) -> str:
    return str(error.java_exception).partition("\n")[0]
