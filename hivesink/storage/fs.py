"""The primitives that storages offer: `Files` is what a log needs, `FileSystem` adds rename, for local disks and HDFS.

Paths and locations are absolute, in any spelling; results repeat the caller's spelling.
Every changing primitive is a call that may arrive late, and then does what it promises or fails harmlessly.

The error of a changing primitive says what happened:
  FileExistsError, FileNotFoundError            not done, for that reason
  NotWritable, StoreUnavailable, Unsupported    not done, and won't be
  OutcomeUnknown                                done, not done, or done later: look
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from posixpath import split
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

from hivesink.errors import HiveSinkError, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.ports import FileStore

_T = TypeVar("_T")
TRIES = 5
DOUBTS = (FileExistsError, FileNotFoundError, OutcomeUnknown)
"""What a change raises after which only another look shows what happened."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """What a folder holds under `name`; `length` is None for a folder."""

    name: str
    length: int | None

    @property
    def is_folder(self) -> bool:
        return self.length is None


class Files(Protocol):
    """Files in folders. Every method may raise StoreUnavailable or NotWritable, changing ones OutcomeUnknown."""

    def create(self, path: str, data: bytes) -> None:
        """A whole small file, with its folders, durably: all of it or nothing. Does nothing if `path` holds `data`.

        Raises FileExistsError where it holds other bytes; FileNotFoundError where a clean-up took it before it had its
        name.
        """

    def put(self, path: str, data: bytes) -> None:
        """Make `path` hold `data`, with its folders, durably; replace what an interrupted call left there.

        Only for names whose bytes never differ, and that nothing has been done with yet. Doesn't raise OutcomeUnknown.
        """

    def open_new(self, path: str) -> BinaryIO:
        """A new file to write; its folders are made durably. If its name is taken, FileExistsError here or later."""

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        """Close what `open_new` gave, its bytes durable."""

    def make_durable(self, path: str) -> None:
        """Make what was done before, or by another, durable: a folder's names, or a file's bytes and its name."""

    def delete(self, path: str) -> bool:
        """Delete a file, past any trash. False where there is none. A power cut may bring it back."""

    def length(self, path: str) -> int | None:
        """A file's bytes; None where there is no file. Raises NotWritable where its folder leads nowhere."""

    def is_folder(self, path: str) -> bool:
        """Whether a new file there makes no folder."""

    def list(self, folder: str) -> Sequence[Entry]:
        """What `folder` holds, sorted by name, at a moment; nothing if it is missing."""

    def read(self, path: str) -> bytes | None:
        """A whole small file, or None where there is none."""

    def open(self, path: str) -> BinaryIO:
        """A file to read, seekable. FileNotFoundError where there is none."""


class FileSystem(Files, Protocol):
    """Files that can be renamed."""

    @property
    def parallel(self) -> int:
        """How many calls to make at a time; 1 where more are no faster."""

    def canonical(self, location: str) -> str:
        """The spelling by which to compare two locations. Raises Unsupported for another scheme."""

    def write_new(self, path: str, data: bytes) -> None:
        """A whole small file, with its folders; bytes and name durable. FileExistsError if the name is taken.

        Not atomic: a failure or a crash may leave a torn file under the name.
        """

    def rename(self, source: str, target: str) -> None:
        """Durably, atomically for readers of `target`, with its folders, never over anything.

        A crash in it may leave both names for the file (`same_file`). Raises FileExistsError where `target`
        is taken, FileNotFoundError where `source` is missing.
        """

    def remove_empty(self, folder: str) -> bool:
        """Delete `folder` if it is there and empty, never what is in it. Whether it did."""

    def same_file(self, left: str, right: str) -> bool:
        """Whether two names lead to the same file: a rename that was cut short. A name spelled twice is not two."""

    def put(self, path: str, data: bytes) -> None:
        def write() -> None:
            try:
                self.write_new(path, data)
            except FileExistsError:
                if self.read(path) != data:
                    self.delete(path)
                    raise
                # Whoever wrote it may have died before it was durable.
                self.make_durable(path)

        retry_unknown("write", path, write)

    def create(self, path: str, data: bytes) -> None:
        folder, name = split(path)
        temporary = join(folder, f".{name}.{hashlib.sha256(data).hexdigest()[:16]}.tmp")
        self.put(temporary, data)
        try:
            self.rename(temporary, path)
        except DOUBTS as doubt:
            stored, is_over = self._look_again(path, temporary)
            if stored is None and is_over:
                raise StoreUnavailable(action="create", path=path, reason=str(doubt)) from doubt
            if stored is None:
                raise
            if stored != data:
                raise FileExistsError(path) from doubt
        except HiveSinkError:
            drop(self, temporary)
            raise

    def _look_again(self, path: str, temporary: str) -> tuple[bytes | None, bool]:
        """What `path` holds after a rename in doubt, and whether that rename can't arrive any more."""
        is_over = False
        try:
            stored = self.read(path)
            if stored is None:
                # The rename may still be on its way. Without its source it can do nothing.
                is_over = self.delete(temporary)
                stored = self.read(path)
            if stored is not None:
                self.make_durable(split(path)[0])
                drop(self, temporary)
        except (StoreUnavailable, NotWritable) as error:
            raise OutcomeUnknown(action="create", path=path, reason=str(error)) from error
        return stored, is_over


class Storage(NamedTuple):
    """A kind of storage, by a site's properties: the store of part files with a mode (None: the site's), and logs.

    `check` is asked at the start of a job, with the log's root and the table's location: whether a log can be there.
    `posix` gives a location's path on this machine; None for a storage elsewhere.
    `servers` are those of a location, each with a look at it, which says what is worth knowing, or raises what a job
    would; `written`: when a file was, by the server's clock, in seconds since 1970.
    """

    tables: Callable[[int | None], FileStore]
    logs: Callable[[], Files]
    check: Callable[[str, str], None] = lambda *_: None
    posix: Callable[[str], str] | None = None
    servers: Callable[[str], Iterable[tuple[str, Callable[[], str]]]] = lambda _: ()
    written: Callable[[str], float | None] = lambda _: None


def folder_permission(file: int) -> int:
    """The mode of folders for files of a mode: who may read a file may also enter and list its folder."""
    return file | 0o300 | (file & 0o444) >> 2


def join(folder: str, name: str) -> str:
    """The path of `name` in `folder`."""
    return f"{folder.rstrip('/')}/{name}"


def apart(source: str, target: str) -> Unsupported:
    """The error for a rename between file systems."""
    what = f"publishing {source} as {target}"
    return Unsupported(what, "the two are on different file systems", "keep a table's partitions on one file system")


def retry_unknown(action: str, path: str, call: Callable[[], _T]) -> _T:
    """The result of `call`, which looks, then changes; repeated after DOUBTS. Raises StoreUnavailable after TRIES."""
    doubt: Exception | None = None
    for _ in range(TRIES):
        try:
            return call()
        except DOUBTS as error:  # noqa: PERF203 - to try again
            doubt = error
    reason = doubt.reason if isinstance(doubt, OutcomeUnknown) else str(doubt)
    raise StoreUnavailable(action, path, f"still undecided after {TRIES} tries ({reason})") from doubt


def put_once(files: Files, path: str, data: bytes) -> bytes:
    """Return what `path` holds, durably, storing `data` there if it is absent: whole, or not at all.

    Raises StoreUnavailable, NotWritable, Unsupported.
    """

    def put() -> bytes:
        try:
            files.create(path, data)
        except FileExistsError:
            return read_listed(files, path)
        return data

    return retry_unknown("create", path, put)


def read_listed(files: Files, path: str) -> bytes:
    """A file that was there a moment ago. FileNotFoundError where somebody has deleted it since: look again."""
    data = files.read(path)
    if data is None:
        raise FileNotFoundError(path)
    return data


def delete(files: Files, path: str) -> None:
    """Delete a file, for certain. Raises StoreUnavailable."""
    retry_unknown("delete", path, partial(files.delete, path))


def drop(files: Files, temporary: str) -> None:
    """Delete a temporary file that is no longer needed."""
    # Best effort: clean-up of the log takes it another time.
    with contextlib.suppress(HiveSinkError):
        files.delete(temporary)


def begin(files: Files, path: str) -> BinaryIO:
    """A new file to write, of a name that nobody else uses. Raises NotWritable, StoreUnavailable."""
    try:
        return files.open_new(path)
    except (FileExistsError, OutcomeUnknown) as error:
        # What appears later is an empty leftover.
        reason = error.reason if isinstance(error, OutcomeUnknown) else "a file of that name exists"
        raise StoreUnavailable(action="create", path=path, reason=reason) from error


def abandon(files: Files, path: str, stream: BinaryIO) -> None:
    """Close and delete a new file that nothing will commit."""
    # Best effort: recovery sweeps what stays behind.
    with contextlib.suppress(HiveSinkError, OSError):
        stream.close()
    with contextlib.suppress(HiveSinkError, OSError):
        files.delete(path)


class RangedFile(io.RawIOBase):
    """A file to read, seekable. `read_range` takes a range's start and size, and returns less only at the end.

    `length` may be a function, which is asked where it is needed.
    """

    def __init__(self, read_range: Callable[[int, int], bytes], length: int | Callable[[], int]) -> None:
        super().__init__()
        self._read_range, self._length, self._at = read_range, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence)
        if base is None:
            base = self._length = self._length if isinstance(self._length, int) else self._length()
        if base + offset < 0:
            message = f"a negative position to read from: {base + offset}"
            raise ValueError(message)
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._length - self._at) if isinstance(self._length, int) else len(view)
        data = self._read_range(self._at, wanted) if wanted > 0 else b""
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
