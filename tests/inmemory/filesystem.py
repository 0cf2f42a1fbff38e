"""The primitives in memory, for tests that crash at every step. Threads of one process share it, nobody else."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from typing import BinaryIO

from hivesink.storage.fs import Entry, FileSystem


class _Node:
    """A file without its names."""

    __slots__ = ("data",)

    def __init__(self, data: bytes = b"") -> None:
        self.data = data


class _Stream(io.BytesIO):
    """What is written stays here until `sync_close`: a writer that dies leaves an empty file."""

    def __init__(self, node: _Node) -> None:
        super().__init__()
        self.node = node


class MemoryFileSystem(FileSystem):
    """Implements `storage.fs.FileSystem`."""

    parallel = 1

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._files: dict[str, _Node] = {}
        # Each folder with the names in it: the suites list folders more often than anything else.
        self._folders: dict[str, set[str]] = {"": set()}

    def canonical(self, location: str) -> str:
        return location.rstrip("/")

    def open_new(self, path: str) -> BinaryIO:
        return _Stream(self._create(path, b""))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        if not isinstance(stream, _Stream):
            message = f"{path} was not opened here"
            raise TypeError(message)
        stream.node.data = stream.getvalue()
        stream.close()

    def write_new(self, path: str, data: bytes) -> None:
        self._create(path, data)

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self.link(source, target)
            self._take(source)

    def link(self, source: str, target: str) -> None:
        """Both names for one file: what a crash in `rename` leaves on a local disk."""
        with self._lock:
            if target in self._files or target in self._folders:
                raise FileExistsError(target)
            if source not in self._files:
                raise FileNotFoundError(source)
            self._put(target, self._files[source])

    def rename_folder(self, source: str, target: str) -> None:
        """What a user does: an ALTER TABLE … RENAME takes a managed table's folder along."""
        with self._lock:
            if target in self._files or target in self._folders:
                raise FileExistsError(target)
            if source not in self._folders:
                raise FileNotFoundError(source)
            self._make(split(target)[0])
            self._files = {_moved(path, source, target): node for path, node in self._files.items()}
            self._folders = {_moved(path, source, target): names for path, names in self._folders.items()}
            self._leave(source)
            self._enter(target)

    def make_durable(self, path: str) -> None:
        """Memory has nothing more durable than itself."""

    def delete(self, path: str) -> bool:
        with self._lock:
            return path in self._files and self._take(path) is not None

    def remove_empty(self, folder: str) -> bool:
        place = folder.rstrip("/")
        with self._lock:
            if place not in self._folders or self.list(place):
                return False
            del self._folders[place]
            self._leave(place)
            return True

    def length(self, path: str) -> int | None:
        with self._lock:
            node = self._files.get(path)
            return None if node is None else len(node.data)

    def is_folder(self, path: str) -> bool:
        return path.rstrip("/") in self._folders

    def same_file(self, one: str, other: str) -> bool:
        with self._lock:
            return one != other and one in self._files and self._files[one] is self._files.get(other)

    def list(self, folder: str) -> Sequence[Entry]:
        place = folder.rstrip("/")
        with self._lock:
            paths = ((name, f"{place}/{name}") for name in sorted(self._folders.get(place, ())))
            return [Entry(name, len(self._files[path].data) if path in self._files else None) for name, path in paths]

    def read(self, path: str) -> bytes | None:
        with self._lock:
            node = self._files.get(path)
            return None if node is None else node.data

    def open(self, path: str) -> BinaryIO:
        found = self.read(path)
        if found is None:
            raise FileNotFoundError(path)
        return io.BytesIO(found)

    def _create(self, path: str, data: bytes) -> _Node:
        with self._lock:
            if path in self._files or path in self._folders:
                raise FileExistsError(path)
            return self._put(path, _Node(data))

    def _put(self, path: str, node: _Node) -> _Node:
        self._make(split(path)[0])
        self._files[path] = node
        self._enter(path)
        return node

    def _take(self, path: str) -> _Node:
        self._leave(path)
        return self._files.pop(path)

    def _make(self, folder: str) -> None:
        if folder not in self._folders:
            self._make(split(folder)[0])
            self._folders[folder] = set()
            self._enter(folder)

    def _enter(self, path: str) -> None:
        folder, name = split(path)
        self._folders[folder].add(name)

    def _leave(self, path: str) -> None:
        folder, name = split(path)
        self._folders[folder].discard(name)


def split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _moved(path: str, source: str, target: str) -> str:
    return f"{target}{path.removeprefix(source)}" if f"{path}/".startswith(f"{source}/") else path
