"""Where logs are: a table's root, and the log of a writer."""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING

from hivesink.config.site import NO_SITE, Site
from hivesink.core.bucket import normal
from hivesink.core.ownership import LogAddress, default_root
from hivesink.errors import InvalidOption
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.fs import FileSystem, NewModes
from hivesink.storage.hdfs_address import beside
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.log_root import RenameLogRoot

if TYPE_CHECKING:
    from hivesink.ports import CommitLog, LiveTable, LogRoot


def file_system(location: str, site: Site, modes: NewModes | None = None) -> FileSystem:
    """The file system of `location`. Without `modes`, for a log: new files are no more open than their folder.

    Raises InvalidOption if there is no adapter for it.
    """
    if problems := store_problems(location):
        raise InvalidOption(problems)
    if normal(location).startswith("/"):
        return LocalFileSystem(modes or NewModes())
    from hivesink.storage.hdfs import HdfsFileSystem

    return HdfsFileSystem(site.hadoop, modes or NewModes(), as_folder=modes is None)


def store_problems(location: str) -> tuple[str, ...]:
    """Why no adapter can write to `location`; empty if there is one."""
    if normal(location).startswith("/") or location.startswith("hdfs:"):
        return ()
    return (f"{location}: hivesink writes only to HDFS (hdfs://…) and local file systems (file:/…)",)


def commit_log(folder: str, site: Site = NO_SITE) -> CommitLog:
    """The log in `folder`. Raises InvalidOption for a file system without an adapter."""
    return RenameCommitLog(file_system(folder, site), normal(folder))


def log_root(folder: str, site: Site = NO_SITE) -> LogRoot:
    """The root of a table's log in `folder`. Raises InvalidOption for a file system without an adapter."""
    return RenameLogRoot(file_system(folder, site), normal(folder).rstrip("/"))


def table_root(live: LiveTable, configured: str | None, site: Site = NO_SITE) -> LogRoot:
    """The root of the table's log: the one that the table names, once it is begun, else where a start begins it.

    `configured` is the value of `sink.log-location`. Raises InvalidOption, LogDamaged, NewerFormat, StoreUnavailable.
    """
    stated = LogAddress.parse(live.log)
    if stated is not None:
        root = log_root(stated.root, site)
        if configured is None or root.records():
            return root
    return log_root(root_folder(live, configured), site)


def root_folder(live: LiveTable, configured: str | None) -> str:
    """Where a start begins the log of a table that names none. Raises InvalidOption."""
    own = normal(live.location)
    if configured is None:
        return default_root(own, live.spec.name)
    base = normal(configured)
    if base.startswith("/") and not configured.startswith("file:"):
        # As everywhere in Hadoop, a bare path is on the default file system, here the table's.
        base = beside(own, base)
    setting = f"sink.log-location = {configured!r}"
    if own.startswith("/") != base.startswith("/"):
        # The table's file system can't even spell such a folder.
        problem = f"{setting}: the log {base} and the table at {live.location} are on different file systems"
        raise InvalidOption((f"{problem}; name a folder on the table's",))
    require_outside(own, base, setting)
    return base.rstrip("/")


def require_outside(table_location: str, folder: str, setting: str) -> None:
    """Raise InvalidOption, which begins with `setting`, if its `folder` is in the table's."""
    if f"{normpath(normal(folder))}/".startswith(f"{normpath(normal(table_location))}/"):
        problem = f"{setting} lies in the table's own folder, which DROP and TRUNCATE empty; choose a folder outside it"
        raise InvalidOption((problem,))
