"""HDFS, by hdfs-native: no JVM. Its rename2 never overwrites, and is atomic; all names are durable (the edit log).

A file's bytes are on the disks of every DataNode of its pipeline once it is closed: hdfs-native asks for a sync with
the last packet of each block.
"""

from __future__ import annotations

import io
import os
import threading
from functools import partial
from posixpath import dirname
from typing import TYPE_CHECKING, BinaryIO, cast

from hdfs_native import WriteOptions

from hivesink.errors import OutcomeUnknown, StoreUnavailable
from hivesink.storage.fs import Entry, apart
from hivesink.storage.hdfs_address import Address, quantity, resolve, umask
from hivesink.storage.hdfs_calls import HdfsCalls, shared
from hivesink.storage.hdfs_folders import Folders, Place
from hivesink.storage.hdfs_streams import NewFile, StoredFile, open_whole
from hivesink.storage.rename import RenameStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hdfs_native import FileStatus, FileWriter


class HdfsFileSystem:
    """Implements `storage.fs.FileSystem` for `hdfs:` locations of the site that `properties` describe.

    Files get the mode `permission`; with `as_folder` they are as open as the folder that they are in.
    Shared by threads. Every method may raise FileSystemUnknown too.
    """

    parallel = 16

    def __init__(
        self,
        properties: Mapping[str, str],
        permission: int | None = None,
        *,
        as_folder: bool = False,
        connect: Callable[[Address, Mapping[str, str]], HdfsCalls] = shared,
    ) -> None:
        self._properties = dict(properties)
        self._permission = permission
        self._as_folder = as_folder
        self._connect = connect
        self._umask = umask(properties)
        self._block = quantity(properties.get("dfs.blocksize", "128m"))
        self._replication = quantity(properties["dfs.replication"]) if "dfs.replication" in properties else None
        self._file_systems: dict[tuple[int, Address], tuple[HdfsCalls, Folders]] = {}
        self._lock = threading.Lock()

    def canonical(self, location: str) -> str:
        address, path = resolve(location, self._properties)
        return f"hdfs://{address.authority}{path}"

    def open_new(self, path: str) -> BinaryIO:
        place = self._at(path)
        folders = place.folders

        def create() -> FileWriter:
            options = WriteOptions(
                permission=folders.file_mode(folders.need(dirname(place.path))),
                create_parent=False,
                block_size=self._block,
                replication=self._replication,
            )
            return place.calls.create(lambda client: client.create(place.path, options))

        def begin() -> FileWriter:
            with place.refusing("create", changing=True):
                return place.make(create)

        return cast("BinaryIO", NewFile(place, begin, self._block))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        cast("NewFile", stream).finish()
        if self._permission is not None:
            place = self._at(path)
            with place.refusing("change", changing=True):
                place.folders.set_mode(place.path, self._permission, place.folders.need(dirname(place.path)))

    def write_new(self, path: str, data: bytes) -> None:
        stream = self.open_new(path)
        try:
            stream.write(data)
            self.sync_close(stream, path)
        except StoreUnavailable as error:
            # Only this call uses the name.
            if self._at(path).remove():
                raise
            raise OutcomeUnknown(action="write", path=path, reason=error.reason) from error

    def rename(self, source: str, target: str) -> None:
        old, new = self._at(source), self._at(target)
        if new.calls is not old.calls:
            raise apart(source, target)
        rename = partial(old.calls.ask, lambda client: client.rename(old.path, new.path, overwrite=False))
        with old.refusing("rename", changing=True):
            new.make(partial(rename, repeatable=False))

    def rename_folder(self, source: str, target: str) -> None:
        self.rename(source, target)
        place = self._at(source)
        place.folders.forget(place.path)

    def make_durable(self, path: str) -> None:
        """Nothing to do: names that the NameNode shows are in its edit log, and bytes that can be read are on disk."""

    def delete(self, path: str) -> bool:
        return self._at(path).delete()

    def remove_empty(self, folder: str) -> bool:
        place = self._at(folder)
        place.folders.forget(place.path)
        return self.is_folder(folder) and place.delete("remove")

    def length(self, path: str) -> int | None:
        status = self._status(path)
        return None if status is None or status.isdir else status.length

    def is_folder(self, path: str) -> bool:
        status = self._status(path)
        return status is not None and status.isdir

    def same_file(self, left: str, right: str) -> bool:  # noqa: ARG002  a rename in HDFS is never cut short
        return False

    def list(self, folder: str) -> Sequence[Entry]:
        place = self._at(folder)
        listed = place.ask("list", lambda client, path: [*client.list_status(path)])
        if listed is None or (len(listed) == 1 and listed[0].path == place.path):
            return ()
        entries = (Entry(status.path.rpartition("/")[2], None if status.isdir else status.length) for status in listed)
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        return self._at(path).ask("read", lambda client, at: open_whole(client, at).read())

    def open(self, path: str) -> BinaryIO:
        place = self._at(path)
        reader = place.ask("read", open_whole)
        if reader is None:
            raise FileNotFoundError(path)
        return cast("BinaryIO", io.BufferedReader(StoredFile(place, reader), 1 << 16))

    def _status(self, path: str) -> FileStatus | None:
        return self._at(path).ask("look at", lambda client, at: client.get_file_info(at))

    def _at(self, location: str) -> Place:
        address, path = resolve(location, self._properties)
        # No client outlives a fork.
        key = (os.getpid(), address)
        with self._lock:
            if key not in self._file_systems:
                calls = self._connect(address, self._properties)
                folders = Folders(calls, self._permission, self._umask, as_folder=self._as_folder)
                self._file_systems[key] = calls, folders
            calls, folders = self._file_systems[key]
        return Place(f"hdfs://{address.authority}{path}", path, calls, folders)


def storage(properties: Mapping[str, str]) -> RenameStorage:
    """HDFS by the site's `properties`. A log is no more open than the folder that it is in."""
    return RenameStorage(partial(HdfsFileSystem, properties), partial(HdfsFileSystem, properties, as_folder=True))
