"""The primitives that a store with rename needs: local disks, HDFS, memory. Not a port, since S3 has no rename.

Paths and locations are absolute, in any spelling; results repeat the caller's spelling.
Every changing primitive is a call that may arrive late, and then does what it promises or fails harmlessly.

The error of a changing primitive says what happened:
  FileExistsError, FileNotFoundError            not done, for that reason
  NotWritable, StoreUnavailable, Unsupported    not done, and won't be
  OutcomeUnknown                                done, not done, or done later: look

The functions here repeat changes until their outcome is known, and create whole files if absent.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from functools import partial
from posixpath import split
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


class FileSystem(Protocol):
    """A file system. Every method may raise StoreUnavailable or NotWritable, changing ones OutcomeUnknown."""

    @property
    def parallel(self) -> int:
        """How many calls to make at a time; 1 where more are no faster."""

    def canonical(self, location: str) -> str:
        """The spelling by which to compare two locations. Raises Unsupported for another scheme."""

    def open_new(self, path: str) -> BinaryIO:
        """A new file to write; its folders are made durably. FileExistsError if the name is taken."""

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        """Close what `open_new` gave, its bytes durable. Its name isn't until it is renamed."""

    def write_new(self, path: str, data: bytes) -> None:
        """A whole small file, with its folders; bytes and name durable. FileExistsError if the name is taken.

        Not atomic: a failure or a crash may leave a torn file under the name.
        """

    def rename(self, source: str, target: str) -> None:
        """Durably, atomically for readers of `target`, with its folders, never over anything.

        A crash in it may leave both names for the file (`same_file`). Raises FileExistsError where `target`
        is taken, FileNotFoundError where `source` is missing.
        """

    def rename_folder(self, source: str, target: str) -> None:
        """As `rename`, for a folder with all that is in it; no crash leaves both names."""

    def make_durable(self, path: str) -> None:
        """Make what another process did durable, as it now is: a folder's names, or a file's bytes and its name."""

    def delete(self, path: str) -> bool:
        """Delete a file, past any trash. False where there is none. A power cut may bring it back."""

    def remove_empty(self, folder: str) -> bool:
        """Delete `folder` if it is there and empty, never what is in it. Whether it did."""

    def length(self, path: str) -> int | None:
        """A file's bytes; None where there is no file. Raises NotWritable where its folder leads nowhere."""

    def is_folder(self, path: str) -> bool: ...

    def same_file(self, left: str, right: str) -> bool:
        """Whether two names lead to the same file: a rename that was cut short. A name spelled twice is not two."""

    def list(self, folder: str) -> Sequence[Entry]:
        """What `folder` holds, sorted by name, at a moment; nothing if it is missing."""

    def read(self, path: str) -> bytes | None:
        """A whole small file, or None where there is none."""

    def open(self, path: str) -> BinaryIO:
        """A file to read, seekable. FileNotFoundError where there is none."""


def folder_permission(file: int) -> int:
    """The mode of folders for files of a mode: who may read a file may also enter and list its folder."""
    return file | 0o300 | (file & 0o444) >> 2


def join(folder: str, name: str) -> str:
    """The path of `name` in `folder`."""
    return f"{folder.rstrip('/')}/{name}"


def temporary_name(name: str, token: str) -> str:
    """`token` is hex and differs wherever the bytes may."""
    return f".{name}.{token}.tmp"


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


def stage(fs: FileSystem, path: str, data: bytes) -> None:
    """Make `path` hold `data`, durably; replace what an interrupted try left there.

    Only for names whose bytes never differ, and that nothing has been done with yet. Raises StoreUnavailable.
    """
    retry_unknown("write", path, partial(_write, fs, path, data))


def put_once(fs: FileSystem, path: str, data: bytes) -> bytes:
    """Return what `path` holds, durably, storing `data` there if it is absent: whole, or not at all.

    Raises StoreUnavailable, NotWritable, Unsupported.
    """
    folder, name = split(path)
    temporary = join(folder, temporary_name(name, hashlib.sha256(data).hexdigest()[:16]))

    def put() -> bytes:
        stored = fs.read(path)
        if stored is not None:
            fs.make_durable(folder)
            drop(fs, temporary)
            return stored
        _write(fs, temporary, data)
        fs.rename(temporary, path)
        return data

    return retry_unknown("create", path, put)


def _write(fs: FileSystem, path: str, data: bytes) -> None:
    """A try of `stage`. Raises DOUBTS."""
    try:
        fs.write_new(path, data)
    except FileExistsError:
        if fs.read(path) != data:
            fs.delete(path)
            raise
        # Whoever wrote it may have died before it was durable.
        fs.make_durable(path)


def delete(fs: FileSystem, path: str) -> None:
    """Delete a file, for certain. Raises StoreUnavailable."""
    retry_unknown("delete", path, partial(fs.delete, path))


def drop(fs: FileSystem, temporary: str) -> None:
    """Delete a temporary file that is no longer needed."""
    # Best effort: clean-up of the log takes it another time.
    with contextlib.suppress(HiveSinkError):
        fs.delete(temporary)


def begin(fs: FileSystem, path: str) -> BinaryIO:
    """A new file to write, of a name that nobody else uses. Raises NotWritable, StoreUnavailable."""
    try:
        return fs.open_new(path)
    except (FileExistsError, OutcomeUnknown) as error:
        # What appears later is an empty leftover.
        reason = error.reason if isinstance(error, OutcomeUnknown) else "a file of that name exists"
        raise StoreUnavailable(action="create", path=path, reason=reason) from error


def abandon(fs: FileSystem, path: str, stream: BinaryIO) -> None:
    """Close and delete a new file that nothing will commit."""
    # Best effort: recovery sweeps what stays behind.
    with contextlib.suppress(HiveSinkError, OSError):
        stream.close()
    with contextlib.suppress(HiveSinkError, OSError):
        fs.delete(path)
