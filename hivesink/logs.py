"""Where logs are: a table's root, and the log of a writer."""

from __future__ import annotations

from importlib import import_module
from posixpath import normpath
from typing import TYPE_CHECKING, NamedTuple

from hivesink.config.site import NO_SITE, Site
from hivesink.core.bucket import file_system_of, normal, scheme
from hivesink.core.ownership import LogAddress, default_root
from hivesink.errors import InvalidOption
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.log_root import RenameLogRoot

if TYPE_CHECKING:
    from hivesink.ports import CommitLog, LiveTable, LogRoot
    from hivesink.storage.fs import FileSystem, NewModes


class Storage(NamedTuple):
    """A module of `hivesink.storage` whose `open_file_system` opens it, and what messages call it."""

    module: str
    example: str


STORAGES = {
    "hdfs": Storage("hdfs", "HDFS (hdfs://…)"),
    "file": Storage("local", "local file systems (file:/…)"),
}
"""By the schemes of locations. A further storage is an adapter and a line here."""


def file_system(location: str, site: Site, modes: NewModes | None = None) -> FileSystem:
    """The file system of `location`. Without `modes`, for a log: new files are no more open than their folder.

    Raises InvalidOption if there is no adapter for it.
    """
    if problems := store_problems(location):
        raise InvalidOption(problems)
    adapter = import_module(f"hivesink.storage.{STORAGES[scheme(location)].module}")
    opened: FileSystem = adapter.open_file_system(site.hadoop, modes)
    return opened


def store_problems(location: str) -> tuple[str, ...]:
    """Why no adapter can write to `location`; empty if there is one."""
    if scheme(location) in STORAGES:
        return ()
    kinds = " and ".join(storage.example for storage in STORAGES.values())
    return (f"{location}: hivesink writes only to {kinds}",)


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
    # As everywhere in Hadoop, a bare path is on the default file system, here the table's.
    base = normal(f"{file_system_of(own)}{configured}" if configured.startswith("/") else configured)
    setting = f"sink.log-location = {configured!r}"
    if scheme(own) != scheme(base):
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
