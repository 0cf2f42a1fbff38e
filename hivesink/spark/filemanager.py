"""Spark's managers of checkpoint files, and which of them a checkpoint needs where it is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from hivesink.core.partition import scheme
from hivesink.errors import Unsupported
from hivesink.spark.running import driver_jvm, runs_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_OF_SPARK = "org.apache.spark.sql.execution.streaming."
# On a local disk Hadoop's newer interface runs `chmod` in a process for each file, which takes 100 ms an epoch. Spark
# keeps the older for stores without the newer. Spark 4.1 moved it.
_OLDER = tuple(f"{_OF_SPARK}{part}FileSystemBasedCheckpointFileManager" for part in ("", "checkpointing."))
# It stores a file by a single PUT.
ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"


def choose(spark: SparkSession, location: str) -> None:
    """Set the manager for the session's next checkpoint, at `location`, unless the user has set another."""
    if spark.conf.get(SETTING, None) not in {None, *_OLDER, ABORTABLE}:
        return
    # Asked of the session: submit arguments set the master too.
    is_here = runs_here(spark.sparkContext.master)
    names = {"s3a": (ABORTABLE,), "file": _OLDER if is_here else ()}.get(scheme(location), ())
    there = [name for name in names if _is_there(spark, name)]
    spark.conf.set(SETTING, there[0]) if there else spark.conf.unset(SETTING)


def refuse_renaming(spark: SparkSession, location: str) -> None:
    """Raise Unsupported for a checkpoint on S3 that Spark's own managers keep, in a query of this session.

    Both write to another name first. To replace a file, they delete it before the other is copied to its name; the
    other doesn't replace it, and says nothing.
    """
    if scheme(location) == "s3a" and str(spark.conf.get(SETTING, None) or _OF_SPARK).startswith(_OF_SPARK):
        what = f"the checkpoint {location} with Spark's own manager of its files"
        instead = f"start the query by HiveSink.start with spark-hadoop-cloud's jar, or set {SETTING} = {ABORTABLE}"
        raise Unsupported(what, "it renames, which isn't atomic on S3", instead)


def _is_there(spark: SparkSession, name: str) -> bool:
    with suppress(Py4JJavaError):
        # The session's jars are not on the JVM's own class path.
        driver_jvm(spark).java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
        return True
    return False
