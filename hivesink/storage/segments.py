"""The segments of a log on a file system: rows that wait across epochs, in files that no reader sees."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from posixpath import dirname
from typing import TYPE_CHECKING, BinaryIO

from hivesink import errors
from hivesink.storage.fs import FileSystem, abandon, begin, delete, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class LogSegments:
    """Implements `ports.SegmentStore` in `folder`, the log's `segments`, beside its `uid`."""

    fs: FileSystem
    folder: str
    require_log: Callable[[str], None]
    """Takes a new file back if it has made the log's folder anew, and raises LogMissing."""

    def create(self, name: str) -> _NewSegment:
        path = self.path(name)
        return _NewSegment(self.fs, path, begin(self.fs, path), self.require_log)

    def path(self, name: str) -> str:
        return join(self.folder, name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = self.path(name)
        try:
            with contextlib.closing(self.fs.open(path)) as stream:
                stream.seek(offset)
                data = stream.read(length)
        except FileNotFoundError as error:
            raise errors.SegmentLost(path, "it is missing") from error
        if len(data) != length:
            raise errors.SegmentLost(path, f"it has {offset + len(data)} bytes of {offset + length}")
        return data

    def lengths(self) -> Mapping[str, int]:
        return {entry.name: entry.length for entry in self.fs.list(self.folder) if entry.length is not None}

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            delete(self.fs, self.path(name))


@dataclass(frozen=True, slots=True)
class _NewSegment:
    """Implements `ports.SegmentFile`."""

    fs: FileSystem
    path: str
    stream: BinaryIO
    require_log: Callable[[str], None]

    def close(self) -> None:
        self.fs.sync_close(self.stream, self.path)
        self.fs.make_durable(dirname(self.path))
        self.require_log(self.path)

    def abort(self) -> None:
        abandon(self.fs, self.path, self.stream)
