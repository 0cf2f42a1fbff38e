"""Files and file systems."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError


class PartLost(HiveSinkError):
    """A decided part is neither staged nor published."""

    def __init__(self, staged: str, target: str) -> None:
        self.staged = staged
        self.target = target
        super().__init__(
            f"{staged} and {target} are both missing, so rows that the log counts as committed are gone; restore "
            "one of them, or accept the loss with `hivesink recover TABLE --accept-lost`"
        )


class LengthMismatch(HiveSinkError):
    """A decided part has another length than its task wrote."""

    def __init__(self, path: str, expected: int, found: int) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        super().__init__(
            f"{path} has {found} bytes where {expected} were written; something else changed it: restore it, or "
            "accept the loss with `hivesink recover TABLE --accept-lost`"
        )


class TargetTaken(HiveSinkError):
    """Both the staged part and a file under its final name exist."""

    def __init__(self, staged: str, target: str) -> None:
        self.staged = staged
        self.target = target
        super().__init__(
            f"{target} exists beside {staged}, which was to become it; hivesink never overwrites: see which of the "
            "two holds the rows (`hivesink verify TABLE`) and move the other away"
        )


class StoreUnavailable(HiveSinkError):
    """The file system did not do what it was asked, for a reason that may pass."""

    retryable = True

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.action = action
        self.path = path
        self.reason = reason
        super().__init__(f"could not {action} {path}: {reason}")


class OutcomeUnknown(HiveSinkError):
    """The file system may or may not have done what it was asked: look before trying again."""

    retryable = True

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.action = action
        self.path = path
        self.reason = reason
        super().__init__(f"no answer to: {action} {path} ({reason}); it may have happened or not")


class NotWritable(HiveSinkError):
    """A location can't be written by this user."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} can't be written ({reason}); give this user write access, or set another location")


class DanglingLink(HiveSinkError):
    """A folder is a symbolic link that leads to nothing."""

    def __init__(self, path: str, target: str) -> None:
        self.path = path
        self.target = target
        super().__init__(
            f"{path} is a symbolic link to {target}, which is not there, so nothing can be read or written in it; "
            "bring back what it leads to (is a disk not mounted?), or remove the link"
        )


class FileSystemUnknown(HiveSinkError):
    """A location whose file system nobody knows: a wrong host or nameservice, or no site files."""

    def __init__(self, location: str, reason: str) -> None:
        self.location = location
        self.reason = reason
        super().__init__(
            f"{location}: unknown file system ({reason}); correct the location, or let HADOOP_CONF_DIR name the "
            "folder of the site's core-site.xml and hdfs-site.xml"
        )


class EncryptionDiffers(HiveSinkError):
    """The table is in an encryption zone, and its log would be in the clear."""

    def __init__(self, location: str, log: str) -> None:
        self.location = location
        self.log = log
        super().__init__(
            f"{location} is in an encryption zone, but the log {log} is in none, and holds offsets, partition values "
            "and bad records' positions; set sink.log-location to a folder in a zone, or make a zone of "
            "the folder that holds both (`hdfs crypto -createZone`)"
        )
