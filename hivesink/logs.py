"""Where a table's logs are, and which uids are known beside it: what its pointers and accepted parts say."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.config.site import Site
from hivesink.core.bucket import normal
from hivesink.errors import InvalidOption, LogDamaged, StoreUnavailable
from hivesink.storage.commit_log import RenameCommitLog, default_log_location, logs_of
from hivesink.storage.fs import Ownership
from hivesink.storage.hdfs_address import beside, is_hdfs
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.pointers import Accepted, accept, accepted_in, pointer_path, siblings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableName
    from hivesink.ports import CommitLog, LiveTable
    from hivesink.storage.fs import FileSystem

__all__ = ["NO_SITE", "Accepted", "TableLogs", "commit_log", "file_system", "log_folder"]

NO_SITE = Site()


def file_system(location: str, site: Site, ownership: Ownership | None = None) -> FileSystem:
    """Without `ownership`: for a log, whose files are no more open than the folder that they are in."""
    if normal(location).startswith("/"):
        return LocalFileSystem(ownership or Ownership())
    if is_hdfs(location):
        from hivesink.storage.hdfs import HdfsFileSystem

        return HdfsFileSystem(site.hadoop, ownership or Ownership(), as_folder=ownership is None)
    problem = f"{location}: this version writes to HDFS (hdfs://…) and local file systems (file:/…) only"
    raise InvalidOption((problem,))


def commit_log(folder: str, writer: str, site: Site = NO_SITE) -> CommitLog:
    """The log of `writer` in `folder`. Raises InvalidOption for a file system that has no adapter."""
    return RenameCommitLog(file_system(folder, site), normal(folder), writer)


def log_folder(live: LiveTable, config: SinkConfig, writer: str) -> str:
    """Where the log of `writer` is or will be. Raises InvalidOption."""
    configured: str | None = config["sink.log-location"]
    own = normal(live.location)
    if configured is None:
        return default_log_location(own, live.spec.name, writer)
    place = normal(configured)
    if place.startswith("/") and not configured.startswith("file:"):
        # As everywhere in Hadoop, a path alone is on the file system at hand, here the table's.
        place = beside(own, place)
    folder = f"{place}/{writer}"
    if f"{folder}/".startswith(f"{own}/"):
        problem = f"sink.log-location = {configured!r} lies in the table's own folder, which DROP and TRUNCATE empty"
        raise InvalidOption((problem,))
    return folder


@dataclass(frozen=True, slots=True)
class TableLogs:
    """What stands beside the folder of `table`, which is at `location`. Every method looks afresh."""

    table: TableName
    location: str
    site: Site = NO_SITE

    def writers(self) -> Mapping[str, str]:
        """The logs' folders of every writer that has a pointer, by writer, sorted. LogDamaged, NewerFormat."""
        return logs_of(self._fs(), self.table, normal(self.location))

    def accepted(self) -> Mapping[str, Accepted]:
        """By uid, whose parts a person has accepted as the users' own. LogDamaged, NewerFormat."""
        return accepted_in(self._fs(), self.table, normal(self.location))

    def uids(self) -> frozenset[str]:
        """Of every log that a pointer leads to, and that is there. LogDamaged, NewerFormat."""
        found = (commit_log(folder, writer, self.site).uid(None) for writer, folder in self.writers().items())
        return frozenset(uid for uid in found if uid)

    def with_uid(self, uid: str) -> str | None:
        """The log of `uid` among those of tables that stand beside this one."""
        for folder in siblings(self._fs(), normal(self.location)):
            # What else is wrong there is another table's matter.
            with contextlib.suppress(LogDamaged):
                if commit_log(folder, "", self.site).uid(None) == uid:
                    return folder
        return None

    def accept(self, accepted: Accepted) -> None:
        """From now on parts of that uid are the users' own."""
        accept(self._fs(), self.table, normal(self.location), accepted)

    def unpoint(self, writer: str) -> None:
        """Take the pointer of `writer` away."""
        self._fs().delete(pointer_path(normal(self.location), self.table, writer))

    def put_aside(self, folder: str, aside: str) -> None:
        """Rename a log's folder. Where it isn't there any more, nothing happens. StoreUnavailable, OutcomeUnknown."""
        fs = file_system(folder, self.site)
        if fs.is_folder(folder):
            try:
                fs.rename_folder(folder, aside)
            except FileExistsError as error:
                reason = f"{aside} is there already; move it away"
                raise StoreUnavailable(action="rename", path=folder, reason=reason) from error

    def _fs(self) -> FileSystem:
        return file_system(self.location, self.site)
