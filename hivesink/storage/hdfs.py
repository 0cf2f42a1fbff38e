"""HDFS, by hdfs-native: no JVM. Its rename2 never overwrites, and is atomic; all names are durable (the edit log).

A file's bytes are on the disks of every DataNode of its pipeline once it is closed: hdfs-native asks for a sync with
the last packet of each block.
"""

from __future__ import annotations

import io
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from hdfs_native import TrashNotEnabledError, WriteOptions

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.fs import Entry, Ownership, split
from hivesink.storage.hdfs_address import quantity, resolve, umask
from hivesink.storage.hdfs_calls import Calls, Failed, shared
from hivesink.storage.hdfs_failures import Failure, GivenUp, Kind, Unreported, judge
from hivesink.storage.hdfs_folders import Folders
from hivesink.storage.hdfs_refusals import refusal
from hivesink.storage.hdfs_streams import NewFile, StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hdfs_native import Client, FileReader, FileStatus, FileWriter

    from hivesink.storage.hdfs_address import Address

_T = TypeVar("_T")
_TRIES = 5
_UNREACHED = frozenset({Kind.NOT_TAKEN, Kind.NO_DATA})
"""In a write: a DataNode that is dead, mostly."""
_STREAM = 300.0
"""Seconds for one step of a write: hdfs-native gives DataNodes a minute each before it goes on without them."""
_NONE = frozenset({Kind.MISSING, Kind.NOT_A_FOLDER})
_READ_BUFFER = 1 << 16


class HdfsFileSystem:
    """Implements `storage.fs.FileSystem` for `hdfs:` locations of the site that `properties` describe.

    Files get `ownership`; with `as_folder` they are as open as the folder that they are in. Shared by threads;
    a pickled copy is as good, in any process. Every method may raise FileSystemUnknown too.
    """

    parallel = 16

    def __init__(
        self,
        properties: Mapping[str, str],
        ownership: Ownership = Ownership(),  # noqa: B008  frozen
        *,
        as_folder: bool = False,
        connect: Callable[[Address, Mapping[str, str]], Calls] = shared,
    ) -> None:
        self._properties = dict(properties)
        self._ownership = ownership
        self._as_folder = as_folder
        self._connect = connect
        self._umask = umask(properties)
        self._block = quantity(properties.get("dfs.blocksize", "128m"))
        self._replication = quantity(properties["dfs.replication"]) if "dfs.replication" in properties else None
        self._places: dict[tuple[int, Address], tuple[Calls, Folders]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(HdfsFileSystem, as_folder=self._as_folder, connect=self._connect)
        return make, (self._properties, self._ownership)

    def canonical(self, location: str) -> str:
        address, path = resolve(location, self._properties)
        return f"hdfs://{address.authority}{path}"

    def open_new(self, path: str) -> BinaryIO:
        return cast("BinaryIO", self._create(path, self._at(path)[0].pauses()))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        cast("NewFile", stream).finish()
        mode = self._ownership.permission
        if self._ownership != Ownership():
            _, folders, place = self._at(path)
            self._change("change", path, lambda: folders.dress(place, mode, folders.need(split(place)[0])))

    def write_new(self, path: str, data: bytes) -> None:
        pauses = self._at(path)[0].pauses()
        for _ in range(_TRIES):
            stream = self._create(path, pauses)
            try:
                stream.write(data)
                self.sync_close(cast("BinaryIO", stream), path)
            except StoreUnavailable as error:
                last = error
                # The file is this call's own: what is torn goes, or nobody can tell what stands there.
                if not self._is_gone(path):
                    raise OutcomeUnknown(action="write", path=path, reason=error.reason) from error
            else:
                return
        raise last

    def rename(self, source: str, target: str) -> None:
        calls, folders, old = self._at(source)
        other, _, new = self._at(target)
        if other is not calls:
            raise Unsupported(
                what=f"publishing {source} as {target}",
                why="the two are on different file systems",
                instead="keep a table's partitions on one file system",
            )
        for _ in range(_TRIES):
            try:
                calls.ask(lambda client: client.rename(old, new, overwrite=False), repeatable=False)
            except Failed as error:  # noqa: PERF203 - to try again
                if error.failure.kind is not Kind.NO_PARENT:
                    raise self._refusal(source, "rename", error.failure, changing=True) from error
                folders.forget(split(new)[0])
                self._change("create", split(target)[0], lambda: folders.need(split(new)[0]))
            else:
                return
        raise StoreUnavailable(action="rename", path=source, reason=f"the folder of {target} keeps vanishing")

    def rename_folder(self, source: str, target: str) -> None:
        folders, place = self._at(source)[1:]
        self.rename(source, target)
        folders.forget(place)

    def make_durable(self, path: str) -> None:
        """Every name that the NameNode shows is in its edit log; bytes of a file can be read only once it is closed."""

    def delete(self, path: str) -> bool:
        return self._delete("delete", path)

    def trash(self, path: str) -> str | None:
        calls, _, place = self._at(path)
        try:
            found = calls.ask(lambda client: _throw(client, place), repeatable=False)
        except Failed as error:
            if error.failure.kind in _NONE:
                return None
            raise self._refusal(path, "throw away", error.failure, changing=True) from error
        return f"hdfs://{calls.address.authority}{found}"

    def remove_empty(self, folder: str) -> bool:
        _, folders, place = self._at(folder)
        folders.forget(place)
        return self.is_folder(folder) and self._delete("remove", folder)

    def length(self, path: str) -> int | None:
        found = self._status(path)
        return None if found is None or found.isdir else found.length

    def is_folder(self, path: str) -> bool:
        found = self._status(path)
        return found is not None and found.isdir

    def same_file(self, one: str, other: str) -> bool:  # noqa: ARG002  a rename in HDFS is never cut short
        return False

    def list(self, folder: str) -> Sequence[Entry]:
        place = self._at(folder)[2]
        found = self._look("list", folder, lambda client: [*client.list_status(place)])
        if found is None or (len(found) == 1 and found[0].path == place):
            return ()
        entries = (Entry(status.path.rpartition("/")[2], None if status.isdir else status.length) for status in found)
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        place = self._at(path)[2]
        return self._look("read", path, lambda client: _whole(client, place).read())

    def open(self, path: str) -> BinaryIO:
        calls, _, place = self._at(path)
        reader = self._look("read", path, lambda client: _whole(client, place))
        if reader is None:
            raise FileNotFoundError(path)

        def ranged(step: Callable[[], bytes]) -> bytes:
            try:
                return calls.ask(lambda _: step(), repeatable=True)
            except Failed as error:
                raise self._refusal(path, "read", error.failure) from error

        return cast("BinaryIO", io.BufferedReader(StoredFile(reader, ranged), _READ_BUFFER))

    def _create(self, path: str, pauses: Iterator[None]) -> NewFile:
        calls, _, place = self._at(path)
        step, append = partial(self._stream, calls, path), partial(self._append, calls, path, place)
        return NewFile(self._begin(path), step, append, partial(self._anew, path, pauses), self._block)

    def _anew(self, path: str, pauses: Iterator[None], error: StoreUnavailable) -> FileWriter:
        """Begin a file again that no DataNode took: by and by the NameNode names others. Raises `error`."""
        cause = error.__cause__
        for _ in pauses if cause is not None and judge(cause).kind in _UNREACHED else ():
            if self._is_gone(path):
                return self._begin(path)
        raise error

    def _begin(self, path: str) -> FileWriter:
        calls, folders, place = self._at(path)
        above = split(place)[0] or "/"
        for _ in range(_TRIES):
            try:
                options = WriteOptions(
                    permission=folders.file_mode(folders.need(above)),
                    create_parent=False,
                    block_size=self._block,
                    replication=self._replication,
                )
                return calls.create(lambda client: client.create(place, options))  # noqa: B023  it ends here
            except Failed as error:  # noqa: PERF203 - to try again
                if error.failure.kind is not Kind.NO_PARENT:
                    raise self._refusal(path, "create", error.failure, changing=True) from error
                # Somebody pruned the folder as empty between its making and its first file.
                folders.forget(above)
        raise StoreUnavailable(action="create", path=path, reason="its folder keeps vanishing")

    def _append(self, calls: Calls, path: str, place: str) -> FileWriter:
        try:
            return calls.create(lambda client: client.append(place))
        except Failed as error:
            raise self._refusal(path, "write", error.failure) from error

    def _stream(self, calls: Calls, path: str, step: Callable[[], object]) -> None:
        try:
            calls.bounded(step, _STREAM)
        except (OSError, RuntimeError, NotImplementedError, GivenUp) as error:
            failure = judge(error)
            if failure.kind is Kind.MISSING:
                failure = Failure(Kind.REFUSED, f"somebody has deleted it meanwhile: {failure.reason}")
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
        calls, _, place = self._at(path)
        try:
            return calls.ask(lambda client: client.delete(place, recursive=False), repeatable=False)
        except Failed as error:
            if error.failure.kind in {*_NONE, Kind.EXISTS}:
                return False
            raise self._refusal(path, action, error.failure, changing=True) from error

    def _status(self, path: str) -> FileStatus | None:
        place = self._at(path)[2]
        return self._look("look at", path, lambda client: client.get_file_info(place))

    def _look(self, action: str, path: str, call: Callable[[Client], _T]) -> _T | None:
        """The answer, or None where there is nothing at `path`."""
        try:
            return self._at(path)[0].ask(call, repeatable=True)
        except Failed as error:
            if error.failure.kind in _NONE:
                return None
            raise self._refusal(path, action, error.failure) from error

    def _change(self, action: str, path: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Failed as error:
            raise self._refusal(path, action, error.failure, changing=True) from error

    def _refusal(self, path: str, action: str, failure: Failure, *, changing: bool = False) -> Exception:
        calls = self._at(path)[0]
        return refusal(action, self.canonical(path), failure, calls, self._properties, changing=changing)

    def _at(self, location: str) -> tuple[Calls, Folders, str]:
        address, path = resolve(location, self._properties)
        # No client outlives a fork.
        key = (os.getpid(), address)
        with self._lock:
            if key not in self._places:
                calls = self._connect(address, self._properties)
                self._places[key] = calls, Folders(calls, self._ownership, self._umask, as_folder=self._as_folder)
            return *self._places[key], path


def _throw(client: Client, place: str) -> str:
    try:
        return client.trash(place) or place
    except TrashNotEnabledError as error:
        # Its own kind of error, which says no more than its name.
        message = "the cluster has no trash (fs.trash.interval is 0)"
        raise NotImplementedError(message) from error


def _whole(client: Client, place: str) -> FileReader:
    """A reader of all that was written: just after a close it may be told of none of the last block's bytes.

    The NameNode counts the block in a file's length once the writer has committed it, and in what a reader gets
    once a DataNode has reported it (`dfs.namenode.file.close.num-committed-allowed`).
    """
    reader = client.read(place)
    written = client.get_file_info(place).length
    if len(reader) < written:
        message = f"the DataNodes have reported {len(reader)} of its {written} bytes"
        raise Unreported(message)
    return reader
