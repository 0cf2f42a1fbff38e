"""HDFS, by hdfs-native: no JVM. Its rename2 never overwrites, and is atomic; all names are durable (the edit log).

A file's bytes are on the disks of every DataNode of its pipeline once it is closed: hdfs-native asks for a sync with
the last packet of each block.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from functools import partial
from posixpath import dirname
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from hdfs_native import TrashNotEnabledError, WriteOptions

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable
from hivesink.storage.fs import TRIES, Entry, apart
from hivesink.storage.hdfs_address import Address, quantity, resolve, umask
from hivesink.storage.hdfs_calls import Failed, HdfsCalls, shared
from hivesink.storage.hdfs_failures import ABSENT, CallAbandoned, Failure, Kind
from hivesink.storage.hdfs_folders import Folders
from hivesink.storage.hdfs_streams import NewFile, StoredFile, open_whole
from hivesink.storage.rename import RenameStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hdfs_native import Client, FileStatus, FileWriter


_T = TypeVar("_T")
_UNREACHED = frozenset({Kind.NOT_TAKEN, Kind.NO_DATA})
"""In a write: a DataNode that is dead, mostly."""
_STREAM = 300.0
"""Seconds for one step of a write: hdfs-native gives DataNodes a minute each before it goes on without them."""


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
        return cast("BinaryIO", self._create(path, self._at(path)[0].pauses()))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        cast("NewFile", stream).finish()
        if self._permission is not None:
            _, folders, hdfs_path = self._at(path)
            with self._refusing("change", path, changing=True):
                folders.set_mode(hdfs_path, self._permission, folders.need(dirname(hdfs_path)))

    def write_new(self, path: str, data: bytes) -> None:
        pauses = self._at(path)[0].pauses()
        for _ in range(TRIES):
            stream = self._create(path, pauses)
            try:
                stream.write(data)
                self.sync_close(cast("BinaryIO", stream), path)
            except StoreUnavailable as error:
                last = error
                # Only this call uses the name: delete the torn file, or the outcome stays unknown.
                if not self._is_gone(path):
                    raise OutcomeUnknown(action="write", path=path, reason=error.reason) from error
            else:
                return
        raise last

    def rename(self, source: str, target: str) -> None:
        calls, folders, old = self._at(source)
        other, _, new = self._at(target)
        if other is not calls:
            raise apart(source, target)
        rename = partial(calls.ask, lambda client: client.rename(old, new, overwrite=False), repeatable=False)
        self._in_folder(folders, dirname(new), rename, "rename", source)

    def rename_folder(self, source: str, target: str) -> None:
        folders, hdfs_path = self._at(source)[1:]
        self.rename(source, target)
        folders.forget(hdfs_path)

    def make_durable(self, path: str) -> None:
        """Nothing to do: names that the NameNode shows are in its edit log, and bytes that can be read are on disk."""

    def delete(self, path: str) -> bool:
        return self._delete("delete", path)

    def trash(self, path: str) -> str | None:
        trashed = self._ask("trash", path, _throw, changing=True)
        return trashed and f"hdfs://{self._at(path)[0].address.authority}{trashed}"

    def remove_empty(self, folder: str) -> bool:
        _, folders, hdfs_path = self._at(folder)
        folders.forget(hdfs_path)
        return self.is_folder(folder) and self._delete("remove", folder)

    def length(self, path: str) -> int | None:
        status = self._status(path)
        return None if status is None or status.isdir else status.length

    def is_folder(self, path: str) -> bool:
        status = self._status(path)
        return status is not None and status.isdir

    def same_file(self, left: str, right: str) -> bool:  # noqa: ARG002  a rename in HDFS is never cut short
        return False

    def list(self, folder: str) -> Sequence[Entry]:
        hdfs_path = self._at(folder)[2]
        listed = self._ask("list", folder, lambda client, at: [*client.list_status(at)])
        if listed is None or (len(listed) == 1 and listed[0].path == hdfs_path):
            return ()
        entries = (Entry(status.path.rpartition("/")[2], None if status.isdir else status.length) for status in listed)
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        return self._ask("read", path, lambda client, at: open_whole(client, at).read())

    def open(self, path: str) -> BinaryIO:
        calls = self._at(path)[0]
        reader = self._ask("read", path, open_whole)
        if reader is None:
            raise FileNotFoundError(path)

        def ranged(step: Callable[[], bytes]) -> bytes:
            with self._refusing("read", path):
                return calls.ask(lambda _: step(), repeatable=True)

        return cast("BinaryIO", io.BufferedReader(StoredFile(reader, ranged), 1 << 16))

    def _create(self, path: str, pauses: Iterator[None]) -> NewFile:
        calls, _, hdfs_path = self._at(path)
        step, append = partial(self._stream, calls, path), partial(self._append, calls, path, hdfs_path)
        return NewFile(self._begin(path), step, append, partial(self._anew, path, pauses), self._block)

    def _anew(self, path: str, pauses: Iterator[None], error: StoreUnavailable) -> FileWriter:
        """Begin a file again that no DataNode took: in time the NameNode names others. Raises `error`."""
        cause, calls = error.__cause__, self._at(path)[0]
        for _ in pauses if cause is not None and calls.judged(cause).kind in _UNREACHED else ():
            if self._is_gone(path):
                return self._begin(path)
        raise error

    def _begin(self, path: str) -> FileWriter:
        calls, folders, hdfs_path = self._at(path)
        folder = dirname(hdfs_path)

        def create() -> FileWriter:
            options = WriteOptions(
                permission=folders.file_mode(folders.need(folder)),
                create_parent=False,
                block_size=self._block,
                replication=self._replication,
            )
            return calls.create(lambda client: client.create(hdfs_path, options))

        return self._in_folder(folders, folder, create, "create", path)

    def _in_folder(self, folders: Folders, folder: str, call: Callable[[], _T], action: str, path: str) -> _T:
        """The result of `call`, which makes a name in `folder`. Others may prune the folder before it has one."""
        with self._refusing(action, path, changing=True):
            for _ in range(TRIES):
                try:
                    return call()
                except Failed as error:  # noqa: PERF203 - to try again
                    if error.failure.kind is not Kind.NO_PARENT:
                        raise
                    folders.forget(folder)
                    folders.need(folder)
        raise StoreUnavailable(action, path, f"the folder {folder} keeps vanishing")

    def _append(self, calls: HdfsCalls, path: str, hdfs_path: str) -> FileWriter:
        with self._refusing("write", path):
            return calls.create(lambda client: client.append(hdfs_path))

    def _stream(self, calls: HdfsCalls, path: str, step: Callable[[], object]) -> None:
        try:
            calls.bounded(step, _STREAM)
        except (OSError, RuntimeError, NotImplementedError, CallAbandoned) as error:
            failure = calls.judged(error)
            if failure.kind is Kind.MISSING:
                failure = Failure(Kind.REFUSED, f"somebody deleted it meanwhile: {failure.reason}")
            if failure.kind is Kind.NOT_TAKEN:
                # Most likely a DataNode: the client of a write waits for NameNodes by itself.
                failure = Failure(Kind.NO_DATA, failure.reason)
            raise self._refusal(path, "write", failure) from error

    def _is_gone(self, path: str) -> bool:
        try:
            return self.delete(path) or self.length(path) is None
        except HiveSinkError:
            return False

    def _delete(self, action: str, path: str) -> bool:
        hdfs_path = self._at(path)[2]
        with self._refusing(action, path, changing=True):
            try:
                return self._at(path)[0].ask(lambda client: client.delete(hdfs_path, recursive=False), repeatable=False)
            except Failed as error:
                if error.failure.kind not in {*ABSENT, Kind.EXISTS}:
                    raise
        return False

    def _status(self, path: str) -> FileStatus | None:
        return self._ask("look at", path, lambda client, at: client.get_file_info(at))

    def _ask(self, action: str, path: str, call: Callable[[Client, str], _T], *, changing: bool = False) -> _T | None:
        """The answer about the path in the file system, or None where there is nothing."""
        calls, _, hdfs_path = self._at(path)
        with self._refusing(action, path, changing=changing):
            try:
                return calls.ask(lambda client: call(client, hdfs_path), repeatable=not changing)
            except Failed as error:
                if error.failure.kind not in ABSENT:
                    raise
        return None

    @contextlib.contextmanager
    def _refusing(self, action: str, path: str, *, changing: bool = False) -> Iterator[None]:
        try:
            yield
        except Failed as error:
            raise self._refusal(path, action, error.failure, changing=changing) from error

    def _refusal(self, path: str, action: str, failure: Failure, *, changing: bool = False) -> Exception:
        return self._at(path)[0].refusal(action, self.canonical(path), failure, changing=changing)

    def _at(self, location: str) -> tuple[HdfsCalls, Folders, str]:
        address, path = resolve(location, self._properties)
        # No client outlives a fork.
        key = (os.getpid(), address)
        with self._lock:
            if key not in self._file_systems:
                calls = self._connect(address, self._properties)
                self._file_systems[key] = (
                    calls,
                    Folders(calls, self._permission, self._umask, as_folder=self._as_folder),
                )
            return *self._file_systems[key], path


def storage(properties: Mapping[str, str]) -> RenameStorage:
    """HDFS by the site's `properties`. A log is no more open than the folder that it is in."""
    return RenameStorage(partial(HdfsFileSystem, properties), partial(HdfsFileSystem, properties, as_folder=True))


def _throw(client: Client, hdfs_path: str) -> str:
    try:
        return client.trash(hdfs_path) or hdfs_path
    except TrashNotEnabledError as error:
        # hdfs-native's error has no text.
        message = "the cluster has no trash (fs.trash.interval is 0)"
        raise NotImplementedError(message) from error
