"""The logs of a table, and the uids known there, from its pointers and the accepted parts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import chain
from posixpath import normpath
from typing import TYPE_CHECKING

from hivesink.config.site import NO_SITE, Site
from hivesink.core.bucket import normal
from hivesink.errors import HiveSinkError, InvalidOption, LogDamaged, StoreUnavailable
from hivesink.storage import pointers
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.fs import FileSystem, Ownership
from hivesink.storage.hdfs_address import beside
from hivesink.storage.local import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableName
    from hivesink.ports import CommitLog, LiveTable
    from hivesink.storage.pointers import Accepted


def file_system(location: str, site: Site, ownership: Ownership | None = None) -> FileSystem:
    """The file system of `location`. Without `ownership`, for a log: new files are no more open than their folder.

    Raises InvalidOption if there is no adapter for it.
    """
    if normal(location).startswith("/"):
        return LocalFileSystem(ownership or Ownership())
    if location.startswith("hdfs:"):
        from hivesink.storage.hdfs import HdfsFileSystem

        return HdfsFileSystem(site.hadoop, ownership or Ownership(), as_folder=ownership is None)
    raise InvalidOption((f"{location}: hivesink writes only to HDFS (hdfs://…) and local file systems (file:/…)",))


def commit_log(folder: str, writer: str, site: Site = NO_SITE) -> CommitLog:
    """The log of `writer` in `folder`. Raises InvalidOption for a file system without an adapter."""
    return RenameCommitLog(file_system(folder, site), normal(folder), writer)


def log_folder(live: LiveTable, config: SinkConfig, writer: str) -> str:
    """The folder of `writer`'s log, which may not exist yet. Raises InvalidOption."""
    configured: str | None = config["sink.log-location"]
    own = normal(live.location)
    if configured is None:
        return pointers.default_log_location(own, live.spec.name, writer)
    base = normal(configured)
    if base.startswith("/") and not configured.startswith("file:"):
        # As everywhere in Hadoop, a bare path is on the default file system, here the table's.
        base = beside(own, base)
    folder = f"{base}/{writer}"
    setting = f"sink.log-location = {configured!r}"
    if own.startswith("/") != base.startswith("/"):
        # The table's file system can't even spell such a folder.
        problem = f"{setting}: the log {folder} and the table at {live.location} are on different file systems"
        raise InvalidOption((f"{problem}; name a folder on the table's",))
    require_outside(own, folder, setting)
    return folder


def require_outside(table_location: str, folder: str, setting: str) -> None:
    """Raise InvalidOption, which begins with `setting`, if its `folder` is in the table's."""
    if f"{normpath(normal(folder))}/".startswith(f"{normpath(normal(table_location))}/"):
        problem = f"{setting} lies in the table's own folder, which DROP and TRUNCATE empty; choose a folder outside it"
        raise InvalidOption((problem,))


@dataclass(frozen=True, slots=True)
class TableLogs:
    """The logs and accepted uids beside the folder of `table`, at `location`. Every method reads afresh."""

    table: TableName
    location: str
    site: Site = NO_SITE

    def writers(self) -> Mapping[str, str]:
        """The log folder of each writer that has a pointer, sorted. Raises LogDamaged, NewerFormat."""
        return pointers.logs_of(self._fs(), self.table, normal(self.location))

    def accepted(self) -> Mapping[str, Accepted]:
        """By uid, the parts that a person has accepted as the users' own. Raises LogDamaged, NewerFormat."""
        return pointers.accepted_in(self._fs(), self.table, normal(self.location))

    def uids(self) -> frozenset[str]:
        """The uids of all logs that pointers lead to. Raises LogDamaged, NewerFormat."""
        uids = (commit_log(folder, writer, self.site).uid(None) for writer, folder in self.writers().items())
        return frozenset(uid for uid in uids if uid)

    def with_uid(self, uid: str, logs: str) -> str | None:
        """The log of `uid` in the folder `logs`, or among those of tables beside this one."""
        beside = pointers.siblings(self._fs(), normal(self.location))
        for folder in chain(pointers.logs_in(file_system(logs, self.site), logs), beside):
            # Other damage there is another table's problem.
            with contextlib.suppress(LogDamaged):
                if commit_log(folder, "", self.site).uid(None) == uid:
                    return folder
        return None

    def unpointed(self, folder: str) -> list[str]:
        """The logs in `folder` to which no pointer leads. Raises LogDamaged, NewerFormat for a pointer."""
        known = {*self.writers().values()}
        return [one for one in pointers.logs_in(file_system(folder, self.site), folder) if one not in known]

    def beside(self) -> Sequence[CommitLog]:
        """The logs of this table and of those beside it, as far as they can be found and read."""
        fs = self._fs()
        found: dict[str, CommitLog] = {}
        for table in pointers.tables_beside(fs, normal(self.location)):
            for search in (pointers.logs_in, pointers.pointed):
                with contextlib.suppress(HiveSinkError):
                    found |= {folder: commit_log(folder, "", self.site) for folder in search(fs, table)}
        return list(found.values())

    def accept(self, accepted: Accepted) -> None:
        """Record that parts of that uid are the users' own from now on, in place of an earlier record."""
        pointers.accept(self._fs(), self.table, normal(self.location), accepted)

    def retract(self, uid: str) -> None:
        """Take back that parts of `uid` were accepted: its log lives on, so a reset was never finished."""
        for path in pointers.accepted_paths(self._fs(), self.table, normal(self.location), uid):
            self._fs().delete(path)

    def unpoint(self, writer: str) -> None:
        self._fs().delete(pointers.pointer_path(normal(self.location), self.table, writer))

    def has_folder(self, folder: str) -> bool:
        return file_system(folder, self.site).is_folder(folder)

    def put_aside(self, folder: str, aside: str) -> None:
        """Rename a log's folder, if it still exists. Raises StoreUnavailable, OutcomeUnknown."""
        if self.has_folder(folder):
            try:
                file_system(folder, self.site).rename_folder(folder, aside)
            except FileExistsError as error:
                reason = f"{aside} exists already; move it away"
                raise StoreUnavailable(action="rename", path=folder, reason=reason) from error

    def _fs(self) -> FileSystem:
        return file_system(self.location, self.site)
