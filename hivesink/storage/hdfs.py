"""HDFS, by hdfs-native: no JVM. Its rename2 never overwrites, and is atomic; all names are durable (the edit log).

A file's bytes are on the disks of every DataNode of its pipeline once it is closed: hdfs-native asks for a sync with
the last packet of each block.

HDFS limits the ACL that a new file or folder inherits by the mode that the client sends. Java's client also sends the
mode before the umask, hdfs-native does not: so the umask applies here only without a default ACL (HDFS-6962).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from posixpath import basename, dirname
from typing import BinaryIO, TypeVar, cast

from hdfs_native import Client, FileWriter, WriteOptions

from hivesink.errors import OutcomeUnknown, StoreUnavailable
from hivesink.storage.fs import TRIES, Entry, FileSystem, Storage, apart, folder_permission
from hivesink.storage.hdfs_address import Address, quantity, resolve, umask
from hivesink.storage.hdfs_answers import ABSENT, Failed, Kind
from hivesink.storage.hdfs_calls import HdfsCalls, shared
from hivesink.storage.hdfs_files import NewFile, Place, open_whole, servers, stored
from hivesink.storage.rename_store import RenameFileStore

_T = TypeVar("_T")
_SHARED = ".hivesink"
"""Holds the logs of every table of a folder, whoever writes them."""
_OWNER_WRITES = 0o200


class HdfsFileSystem(FileSystem):
    """Implements `storage.fs.FileSystem` for `hdfs:` locations of the site that `properties` describe.

    Files get the mode `permission`; with `as_folder` they are as open as the folder that they are in.
    Shared by threads. Every method may raise Unsupported too.
    """

    parallel = 16

    def __init__(
        self,
        properties: Mapping[str, str],
        permission: int | None = None,
        *,
        as_folder: bool = False,
        connect: Callable[[Address, frozenset[tuple[str, str]]], HdfsCalls] = shared,
    ) -> None:
        self._properties, self._site = properties, frozenset(properties.items())
        self._permission = permission
        self._as_folder = as_folder
        self._connect = connect
        self._umask = umask(properties)
        self._block = quantity(properties.get("dfs.blocksize", "128m"))
        self._replication = quantity(properties["dfs.replication"]) if "dfs.replication" in properties else None
        self._folders: dict[HdfsCalls, Folders] = {}

    def canonical(self, location: str) -> str:
        address, path = resolve(location, self._properties)
        return f"hdfs://{address.authority}{path}"

    def open_new(self, path: str) -> BinaryIO:
        place = self._at(path)

        def create() -> FileWriter:
            mode = self._folders[place.calls].file_mode(self._folder(place))
            options = WriteOptions(
                permission=mode, create_parent=False, block_size=self._block, replication=self._replication
            )
            return place.calls.create(lambda client: client.create(place.path, options))

        return cast("BinaryIO", NewFile(place, partial(self._make, place, "create", create), self._block))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        cast("NewFile", stream).finish()
        if self._permission is not None:
            place = self._at(path)
            with place.refusing("change", changing=True):
                self._folders[place.calls].set_mode(place.path, self._permission, self._folder(place))

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

        def rename() -> None:
            old.calls.ask(lambda client: client.rename(old.path, new.path, overwrite=False), repeatable=False)

        self._make(new, "rename", rename, old)

    def make_durable(self, path: str) -> None:
        """Nothing to do: names that the NameNode shows are in its edit log, and bytes that can be read are on disk."""

    def delete(self, path: str) -> bool:
        return self._at(path).delete()

    def remove_empty(self, folder: str) -> bool:
        place = self._at(folder)
        self._folders[place.calls].forget(place.path)
        return self.is_folder(folder) and place.delete("remove")

    def length(self, path: str) -> int | None:
        status = self._at(path).status()
        return None if status is None or status.isdir else status.length

    def is_folder(self, path: str) -> bool:
        status = self._at(path).status()
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

    def written(self, path: str) -> float | None:
        """When a file was written, by the NameNode's clock, in seconds since 1970; None where there is none."""
        status = self._at(path).status()
        return None if status is None else status.modification_time / 1000

    def read(self, path: str) -> bytes | None:
        return self._at(path).ask("read", lambda client, at: open_whole(client, at).read())

    def open(self, path: str) -> BinaryIO:
        place = self._at(path)
        reader = place.ask("read", open_whole)
        if reader is None:
            raise FileNotFoundError(path)
        return cast("BinaryIO", io.BufferedReader(stored(place, reader), 1 << 16))

    def _at(self, location: str) -> Place:
        address, path = resolve(location, self._properties)
        calls = self._connect(address, self._site)
        if calls not in self._folders:
            self._folders.setdefault(calls, Folders(calls, self._permission, self._umask, as_folder=self._as_folder))
        return Place(f"hdfs://{address.authority}{path}", path, calls)

    def _folder(self, place: Place) -> Folder:
        """The folder of a place, made if missing. Raises Failed."""
        return self._folders[place.calls].need(dirname(place.path))

    def _make(self, place: Place, action: str, call: Callable[[], _T], source: Place | None = None) -> _T:
        """The result of `call`, which makes the name `place`. Others may prune its folder before that."""
        with (source or place).refusing(action, changing=True):
            for _ in range(TRIES):
                try:
                    return call()
                except Failed as error:  # noqa: PERF203 - to try again
                    if error.kind is not Kind.NO_PARENT:
                        raise
                    self._folders[place.calls].forget(dirname(place.path))
                    self._folder(place)
            raise Failed(Kind.REFUSED, f"the folder {dirname(place.path)} keeps vanishing")


@dataclass(frozen=True, slots=True)
class Folder:
    """`mode` is its nine bits and the sticky bit; `inherits`: it has a default ACL."""

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

    def set_mode(self, path: str, mode: int, folder: Folder) -> None:
        """Give the new `path` in `folder` its `mode`, where its creation left it another. Raises Failed."""
        if folder.inherits or not mode & _OWNER_WRITES:
            self.calls.ask(lambda client: client.set_permission(path, mode), repeatable=True)

    def _look(self, path: str) -> Folder | None:
        def look(client: Client) -> Folder:
            if not self._acls:
                return Folder(client.get_file_info(path).permission & 0o1777, inherits=False)
            acl = client.get_acl_status(path)
            sticky = 0o1000 if acl.sticky else 0
            return Folder(acl.permission & 0o777 | sticky, any(entry.scope == "default" for entry in acl.entries))

        try:
            return self.calls.ask(look, repeatable=True)
        except Failed as error:
            if error.kind in ABSENT:
                return None
            if self._acls and "AclException" in error.reason:
                # dfs.namenode.acls.enabled is false.
                self._acls = False
                return self._look(path)
            raise

    def _make(self, path: str) -> Folder:
        nearest = dirname(path)
        if self.as_folder:
            # As open as its parent. Only the outermost hidden folder lets other users add names.
            parent = self.need(nearest)
            mode = (parent.mode if basename(path) == _SHARED else parent.mode & ~0o1002) | 0o700
            return self._made(path, mode, parent)
        missing = [path]
        # Look again: an ACL may have been set since the last look.
        while (existing := self._look(nearest)) is None and nearest != "/":
            missing.append(nearest)
            nearest = dirname(nearest)
        parent = existing or Folder(0o755, inherits=False)
        if self.permission is None:
            return self._made(path, 0o777 if parent.inherits else 0o777 & ~self.umask, parent)
        mode = folder_permission(self.permission)
        made = self._made(path, mode, parent)
        for folder in reversed(missing):
            self.set_mode(folder, mode, parent)
        return made

    def _made(self, path: str, mode: int, parent: Folder) -> Folder:
        self.calls.ask(lambda client: client.mkdirs(path, mode, create_parent=True), repeatable=True)
        return Folder(mode, parent.inherits)


def storage(properties: Mapping[str, str]) -> Storage:
    """HDFS by the site's `properties`. A log is no more open than the folder that it is in."""
    logs = partial(HdfsFileSystem, properties, as_folder=True)
    return Storage(
        lambda permission: RenameFileStore(HdfsFileSystem(properties, permission)),
        logs,
        servers=partial(servers, properties),
        written=lambda path: logs().written(path),
    )
