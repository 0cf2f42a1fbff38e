"""The site as a Spark session sees it, and what only the driver's JVM knows about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from hivesink.config.site import Site
from hivesink.core.bucket import scheme
from hivesink.errors import InvalidOption, StoreUnavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

T = TypeVar("T")


def site_of(spark: SparkSession) -> Site:
    """The site's files under the session's own Hadoop configuration, which wins. Raises SiteInvalid."""
    written = driver_jvm(spark).java.io.StringWriter()
    hadoop_configuration(spark).writeXml(written)
    return Site.load(os.environ).overlaid(str(written.toString()))


def hadoop_configuration(spark: SparkSession) -> Any:
    """The session's `org.apache.hadoop.conf.Configuration`, in the driver's JVM."""
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  PySpark offers no other way


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's own JVM, on its own disks."""
    return runs_here(str(spark.sparkContext.master))


def runs_here(master: str) -> bool:
    """Whether `master` stands for the driver's own process: `local-cluster[…]` starts others."""
    return master == "local" or master.startswith("local[")


def allowed_tries(spark: SparkSession) -> int:
    """How often Spark runs a task that fails, before the job fails."""
    if is_local(spark):
        # Spark ignores the setting here; `local[2,4]` allows four tries.
        _, _, tries = str(spark.sparkContext.master).rstrip("] ").partition(",")
        return int(tries or 1)
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures") or 4)


def resolved_checkpoint(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> str:
    """The checkpoint's whole location, as Spark resolves it: a path without a scheme is `fs.defaultFS`'s.

    Raises StoreUnavailable, and Unsupported if that is this machine's disk and the session's master is another
    machine's: a driver started elsewhere would find no checkpoint there. To allow it, write `file:/…`.
    """
    place = os.fspath(checkpoint)
    resolved = on_file_system(spark, place, lambda fs, path: str(fs.makeQualified(path).toString()))
    has_scheme = ":" in place.partition("/")[0]
    if scheme(resolved) == "file" and not has_scheme and not is_local(spark):
        what = f"the checkpoint {place!r} on this machine's disk, with the master {spark.sparkContext.master},"
        why = "a driver on another machine would begin anew"
        raise Unsupported(what, why, f"write hdfs://…, or {resolved} if the driver always runs here")
    return resolved


def check_encryption(spark: SparkSession, location: str, log: str) -> None:
    """Refuse an unencrypted log beside a table in an encryption zone: it holds offsets and partition values.

    Raises Unsupported, StoreUnavailable.
    """

    def is_encrypted(fs: Any, path: Any) -> bool:
        # Only HDFS has zones.
        if "getEZForPath" not in dir(fs):
            return False
        # The NameNode answers only for what exists; what is made there later is in the same zone.
        while not fs.exists(path):
            path = path.getParent()
        return fs.getEZForPath(path) is not None

    if on_file_system(spark, location, is_encrypted) and not on_file_system(spark, log, is_encrypted):
        msg = f"a log outside of an encryption zone, {log},"
        why = f"{location} is in such a zone, and the log holds partition values and offsets"
        raise Unsupported(msg, why, "set sink.log-location to a folder in a zone")


def on_file_system(spark: SparkSession, location: str, act: Callable[[Any, Any], T]) -> T:
    """Call `act` with Hadoop's FileSystem and Path of a location.

    Raises InvalidOption for an unknown scheme, StoreUnavailable.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    path = driver_jvm(spark).org.apache.hadoop.fs.Path(location)
    try:
        return act(path.getFileSystem(hadoop_configuration(spark)), path)
    except (Py4JJavaError, PySparkException) as error:
        reason = str(getattr(error, "java_exception", error)).partition("\n")[0]
        if "UnsupportedFileSystemException" in reason:
            problem = f"{location}: Spark has no file system for it; correct its scheme, or add the file system's jars"
            raise InvalidOption((problem,)) from error
        action = "reach"
        raise StoreUnavailable(action, location, reason) from error


def driver_jvm(spark: SparkSession) -> Any:
    """The packages of the driver's JVM."""
    return spark.sparkContext._jvm  # noqa: SLF001  PySpark offers no other way
