"""What the driver's JVM says of the site; and Java's errors, which reach Python as texts with stack traces."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from hivesink.config.site import Site
from hivesink.core.partition import scheme
from hivesink.errors import InvalidOption, StoreUnavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_JAVA = re.compile(r"^\s*(?:: |Caused by: )?((?:[a-z]\w*\.)+[A-Z][\w$]*)(?:: (.*))?$", re.MULTILINE)
_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)", re.MULTILINE)
_CARRIERS = ("py4j.protocol.Py4J", "pyspark.errors.exceptions.")
"""Errors of Python that pass on what Java raised."""
_IN_TASK = re.compile(r"\(TID \d+\) \([^)]*\): ")
"""Where Spark names a task that failed, before what it failed with."""
_SENTENCE = re.compile(r"(?<=[^.]\.)\s+(?=[A-Z\[(])|\s+SQLSTATE: ")
_FRAME = re.compile(r"^\s+(?:at |\.\.\. \d+ more).*\n?", re.MULTILINE)
_HEAD, _ROOT = 1000, 300
"""Characters of a long text that stay: its beginning, and of its root cause."""


def site_of(spark: SparkSession) -> Site:
    """The site's files under the session's own Hadoop configuration, which wins. Raises SiteInvalid."""
    written = driver_jvm(spark).java.io.StringWriter()
    spark.sparkContext._jsc.hadoopConfiguration().writeXml(written)  # noqa: SLF001  PySpark offers no other way
    return Site.load(os.environ).overlaid(str(written.toString()))


def runs_here(master: str | None) -> bool:
    """Whether tasks run in the driver's own process, on its own disks: `local-cluster[…]` starts others."""
    return master == "local" or str(master).startswith("local[")


def resolved_checkpoint(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> str:
    """The checkpoint's whole location, as Spark resolves it: a path without a scheme is `fs.defaultFS`'s.

    Raises StoreUnavailable, and Unsupported if that is this machine's disk and the session's master is another
    machine's: a driver started elsewhere would find no checkpoint there. To allow it, write `file:/…`.
    """
    place = os.fspath(checkpoint)
    with _on_file_system(spark, place) as (fs, path):
        resolved = str(fs.makeQualified(path).toString())
    has_scheme = ":" in place.partition("/")[0]
    if scheme(resolved) == "file" and not has_scheme and not runs_here(spark.sparkContext.master):
        what = f"the checkpoint {place!r} on this machine's disk, with the master {spark.sparkContext.master},"
        why = "a driver on another machine would begin anew"
        raise Unsupported(what, why, f"write hdfs://…, or {resolved} if the driver always runs here")
    return resolved


def check_encryption(spark: SparkSession, location: str, log: str) -> None:
    """Refuse an unencrypted log beside a table in an encryption zone: it holds offsets and partition values.

    Raises Unsupported, StoreUnavailable.
    """
    if _is_encrypted(spark, location) and not _is_encrypted(spark, log):
        msg = f"a log outside of an encryption zone, {log},"
        why = f"{location} is in such a zone, and the log holds partition values and offsets"
        raise Unsupported(msg, why, "set sink.log-location to a folder in a zone")


def _is_encrypted(spark: SparkSession, location: str) -> bool:
    with _on_file_system(spark, location) as (fs, path):
        # Only HDFS has zones. The NameNode answers only for what exists; what is made there later is in the same zone.
        has_zones, place = "getEZForPath" in dir(fs), path
        while has_zones and not fs.exists(place):
            place = place.getParent()
        return has_zones and fs.getEZForPath(place) is not None


@contextmanager
def _on_file_system(spark: SparkSession, location: str) -> Iterator[tuple[Any, Any]]:
    """Hadoop's FileSystem and Path of a location. Raises InvalidOption for an unknown scheme, StoreUnavailable."""
    from pyspark.errors import PySparkException

    path = driver_jvm(spark).org.apache.hadoop.fs.Path(location)
    try:
        yield path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path  # noqa: SLF001  as above
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


def short_java_error(text: str) -> str:
    """The root cause in a text with Java's stack trace, in a line: its class and its first sentence.

    Where Java passes on what Python raised, that is the root. A text without a trace gives its own first sentence.
    """
    python = [line for line in _PYTHON.findall(text) if not line.startswith(_CARRIERS)]
    java = [": ".join(filter(None, parts)) for parts in _JAVA.findall(text)]
    first = next((line for line in text.splitlines() if line.strip()), "(no message)")
    root = (python or java or [first])[-1]
    return _SENTENCE.split(_IN_TASK.split(root)[-1].strip(), maxsplit=1)[0]


class _Brief(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    def __init__(self, error: Py4JJavaError) -> None:
        super().__init__(error.errmsg, error.java_exception)
        self._text = without_frames(str(error))

    def __str__(self) -> str:
        return self._text


# Spark knows the error by this name in the traceback.
_Brief.__module__, _Brief.__qualname__ = Py4JJavaError.__module__, Py4JJavaError.__qualname__


def briefly(error: BaseException) -> BaseException:
    """`error`; without the stack trace if it is Java's.

    Whether a batch failed because its query was stopped, Spark asks a regular expression (`PROXY_ERROR` in its
    `StreamExecution`). That takes a frame of the JVM's stack for each character, so Java's own trace overflows it.
    """
    return _Brief(error) if isinstance(error, Py4JJavaError) else error


def without_frames(text: str) -> str:
    """The beginning of an error's text without the lines of Java's stack trace, and its root cause."""
    short = _FRAME.sub("", text)
    root = next((line for line in reversed(short.splitlines()) if line.startswith("Caused by: ")), "")[:_ROOT]
    return short[:_HEAD] if root in short[:_HEAD] else f"{short[:_HEAD]}\n{root}"
