"""HDFS, by hdfs-native: no JVM. Its rename2 never overwrites, and is atomic; all names are durable (the edit log).

A file's bytes are on the disks of every DataNode of its pipeline once it is closed: hdfs-native asks for a sync with
the last packet of each block.
"""

from __future__ import annotations

import io
import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from posixpath import basename, dirname
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from hdfs_native import WriteOptions

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable
from hivesink.storage.fs import TRIES, Entry, apart, folder_permission
from hivesink.storage.hdfs_address import Address, quantity, resolve, umask
from hivesink.storage.hdfs_calls import ABSENT, Failed, Failure, HdfsCalls, Kind, shared
from hivesink.storage.hdfs_streams import NewFile, StoredFile, open_whole
from hivesink.storage.rename_store import RenameStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hdfs_native import Client, FileStatus, FileWriter


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


_T = TypeVar("_T")
_SHARED = ".hivesink"
"""Holds the logs of every table of a folder, whoever writes them."""
_OWNER_WRITES = 0o200


@dataclass(frozen=True, slots=True)
class Folder:
    """`mode` is its nine bits and the sticky one; `inherits`: it has a default ACL."""

    mode: int
    inherits: bool


@dataclass(slots=True, eq=False)
class Folders:
    """The folders of a file system, as last seen. `as_folder` files are as readable as their folder."""

    calls: HdfsCalls
    permission: int | None
    umask: int
    as_folder: bool
    _known: dict[str, Folder] = field(default_factory=dict)
    _acls: bool = True

    def need(self, path: str) -> Folder:
        """The folder at `path`, made with its parents if missing. Raises Failed."""
        if path not in self._known:
            self._known[path] = self._look(path) or self._make(path)
        return self._known[path]

    def forget(self, path: str) -> None:
        """Somebody removed `path`: look again at it and everything below."""
        # A copy, since other threads add to it.
        for folder in [known for known in list(self._known) if f"{known}/".startswith(f"{path}/")]:
            self._known.pop(folder, None)

    def file_mode(self, folder: Folder) -> int:
        if self.as_folder:
            return folder.mode & 0o644
        if self.permission is not None:
            # The owner must be able to append at the end of a block; `set_mode` withdraws the right.
            return self.permission | _OWNER_WRITES
        return 0o666 if folder.inherits else 0o666 & ~self.umask

    def set_mode(self, path: str, mode: int | None, folder: Folder) -> None:
        """Give the new `path` in `folder` its `mode`, where its creation left it another. Raises Failed."""
        if mode is not None and (folder.inherits or not mode & _OWNER_WRITES):
            self.calls.ask(lambda client: client.set_permission(path, mode), repeatable=True)

    def _look(self, path: str) -> Folder | None:
        try:
            return self.calls.ask(lambda client: self._status(client, path), repeatable=True)
        except Failed as error:
            if error.failure.kind in ABSENT:
                return None
            if self._acls and "AclException" in error.failure.reason:
                # dfs.namenode.acls.enabled is false.
                self._acls = False
                return self._look(path)
            raise

    def _status(self, client: Client, path: str) -> Folder:
        if not self._acls:
            return Folder(client.get_file_info(path).permission & 0o1777, inherits=False)
        acl = client.get_acl_status(path)
        sticky = 0o1000 if acl.sticky else 0
        return Folder(acl.permission & 0o777 | sticky, any(entry.scope == "default" for entry in acl.entries))

    def _make(self, path: str) -> Folder:
        nearest = dirname(path)
        if self.as_folder:
            return self._make_beside(path, self.need(nearest))
        missing = [path]
        # Look again: an ACL may have been set since the last look.
        while (existing := self._look(nearest)) is None and nearest != "/":
            missing.append(nearest)
            nearest = dirname(nearest)
        parent = existing or Folder(0o755, inherits=False)
        wanted = None if self.permission is None else folder_permission(self.permission)
        mode = wanted if wanted is not None else 0o777 if parent.inherits else 0o777 & ~self.umask
        self.calls.ask(lambda client: client.mkdirs(path, mode, create_parent=True), repeatable=True)
        for folder in reversed(missing):
            self.set_mode(folder, wanted, parent)
        return Folder(mode, parent.inherits)

    def _make_beside(self, path: str, parent: Folder) -> Folder:
        """A folder as open as its parent. Only the outermost hidden one lets other users add names."""
        shared = basename(path) == _SHARED
        mode = (parent.mode if shared else parent.mode & ~0o1002) | 0o700
        self.calls.ask(lambda client: client.mkdirs(path, mode, create_parent=True), repeatable=True)
        return Folder(mode, parent.inherits)


@dataclass(frozen=True, slots=True)
class Place:
    """A location, its `path` in the file system, and how to ask about it, with hivesink's errors."""

    location: str
    path: str
    calls: HdfsCalls
    folders: Folders

    def ask(self, action: str, call: Callable[[Client, str], _T], *, changing: bool = False) -> _T | None:
        """The answer about `path`, or None where there is nothing."""
        with self.refusing(action, changing=changing):
            try:
                return self.calls.ask(lambda client: call(client, self.path), repeatable=not changing)
            except Failed as error:
                if error.failure.kind not in ABSENT:
                    raise
        return None

    def make(self, call: Callable[[], _T]) -> _T:
        """The result of `call`, which makes this name. Others may prune its folder before that. Raises Failed."""
        folder = dirname(self.path)
        for _ in range(TRIES):
            try:
                return call()
            except Failed as error:  # noqa: PERF203 - to try again
                if error.failure.kind is not Kind.NO_PARENT:
                    raise
                self.folders.forget(folder)
                self.folders.need(folder)
        raise Failed(Failure(Kind.REFUSED, f"the folder {folder} keeps vanishing"))

    def delete(self, action: str = "delete") -> bool:
        """Delete the file or the empty folder. False where there is none."""
        with self.refusing(action, changing=True):
            try:
                return self.calls.ask(lambda client: client.delete(self.path, recursive=False), repeatable=False)
            except Failed as error:
                if error.failure.kind not in {*ABSENT, Kind.EXISTS}:
                    raise
        return False

    def remove(self) -> bool:
        """Whether the file is surely gone, after another try to delete it."""
        with suppress(HiveSinkError):
            return self.delete() or self.ask("look at", lambda client, path: client.get_file_info(path)) is None
        return False

    @contextmanager
    def refusing(self, action: str, *, changing: bool = False) -> Iterator[None]:
        """Raise hivesink's error instead of Failed."""
        try:
            yield
        except Failed as error:
            raise self.refusal(error.failure, action, changing=changing) from error

    def refusal(self, failure: Failure, action: str, *, changing: bool = False) -> Exception:
        return self.calls.refusal(action, self.location, failure, changing=changing)
