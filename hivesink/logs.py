"""The storages that hold tables and logs, and where a table's log is."""

from __future__ import annotations

from importlib import import_module
from posixpath import normpath
from typing import NamedTuple

from hivesink.config.site import NO_SITE, Site
from hivesink.core.log import LogAddress, default_root
from hivesink.core.partition import file_system_of, normal, scheme
from hivesink.errors import InvalidOption
from hivesink.ports import CommitLog, FileStore, LiveTable, LogRoot
from hivesink.storage.commit_log import FileCommitLog, FileLogRoot
from hivesink.storage.fs import Storage


class StorageKind(NamedTuple):
    """`adapter` is `module:function`, which makes a `Storage` from a site's properties; messages say `example`."""

    adapter: str
    example: str


STORAGES = {
    "hdfs": StorageKind("hivesink.storage.hdfs:storage", "HDFS (hdfs://…)"),
    "file": StorageKind("hivesink.storage.local:storage", "local file systems (file:/…)"),
    "s3a": StorageKind("hivesink.storage.s3:storage", "S3 (s3a://…)"),
}
"""By the schemes of locations. A further storage is an adapter and a line here."""


def storage_of(location: str, site: Site) -> Storage:
    """The storage that holds `location`. Raises InvalidOption if there is no adapter for it."""
    kind = STORAGES.get(scheme(location))
    if kind is None:
        raise InvalidOption(store_problems(location))
    module, _, name = kind.adapter.partition(":")
    opened: Storage = getattr(import_module(module), name)(site.hadoop)
    return opened


def store_problems(location: str) -> tuple[str, ...]:
    """Why no adapter knows `location`; empty if an adapter does."""
    if scheme(location) in STORAGES:
        return ()
    kinds = ", ".join(kind.example for kind in STORAGES.values())
    hint = f"; write s3a:{location.partition(':')[2]}" if scheme(location) in {"s3", "s3n"} else ""
    return (f"{location}: hivesink supports only {kinds}{hint}",)


def file_store(location: str, site: Site = NO_SITE, permission: int | None = None) -> FileStore:
    """The store for files below `location`; new ones get the mode `permission`, by default the site's.

    Raises InvalidOption for a storage without an adapter, Unsupported.
    """
    return storage_of(location, site).tables(permission)


def log_root(folder: str, site: Site = NO_SITE) -> LogRoot:
    """The root of a table's log in `folder`. Raises InvalidOption for a storage without an adapter."""
    return FileLogRoot(storage_of(folder, site).logs(), normal(folder))


def commit_log(folder: str, site: Site = NO_SITE) -> CommitLog:
    """The log in `folder`, also a log that was put aside. Raises InvalidOption for a storage without an adapter."""
    return FileCommitLog(storage_of(folder, site).logs(), normal(folder))


def table_root(live: LiveTable, configured: str | None, site: Site = NO_SITE) -> LogRoot:
    """The root of the table's log: what the table names, once it is begun, else where a start begins it.

    `configured` is the value of `sink.log-location`. Raises InvalidOption, LogDamaged, StoreUnavailable.
    """
    stated = LogAddress.parse(live.log)
    if stated is not None:
        root = log_root(stated.root, site)
        if configured is None or root.records():
            return root
    return log_root(root_folder(live, configured), site)


def root_folder(live: LiveTable, configured: str | None) -> str:
    """Where a start begins the log of a table that names none. Raises InvalidOption."""
    location = normal(live.location)
    if configured is None:
        return default_root(location, live.spec.name)
    # As everywhere in Hadoop, a bare path is on the default file system, here the table's.
    base = normal(f"{file_system_of(location)}{configured}" if configured.startswith("/") else configured)
    setting = f"sink.log-location = {configured!r}"
    if scheme(location) != scheme(base):
        # The table's file system can't even spell such a folder.
        problem = f"{setting}: the log {base} and the table at {live.location} are on different file systems"
        raise InvalidOption((f"{problem}; name a folder on the table's",))
    require_outside(location, base, setting)
    return base.rstrip("/")


def require_outside(table_location: str, folder: str, setting: str) -> None:
    """Raise InvalidOption, which begins with `setting`, if its `folder` is in the table's."""
    if f"{normpath(normal(folder))}/".startswith(f"{normpath(normal(table_location))}/"):
        problem = f"{setting} lies in the table's own folder, which DROP and TRUNCATE empty; choose a folder outside it"
        raise InvalidOption((problem,))
