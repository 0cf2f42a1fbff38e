"""The primitives that a store with rename needs: local disks, HDFS, memory. Not a port, since S3 has no rename.

Paths and locations are absolute, in any spelling; results repeat the caller's spelling.
Every changing primitive is one call that may arrive late, and then does what it promises or fails harmlessly.

The error of a changing primitive says what happened:
  FileExistsError, FileNotFoundError            not done, for that reason
  NotWritable, StoreUnavailable, Unsupported,
  DanglingLink                                  not done, and won't be
  OutcomeUnknown                                done, not done, or done later: look
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from hivesink.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """What a folder holds under `name`; `length` is None for a folder."""

    name: str
    length: int | None

    @property
    def is_folder(self) -> bool:
        return self.length is None


@dataclass(frozen=True, slots=True)
class Ownership:
    """Owner, group and mode of new files: `sink.file.permission`, `.owner` and `.group`.

    None leaves it to the file system. Folders made for such files get `folder_permission`.
    """

    permission: int | None = None
    owner: str | None = None
    group: str | None = None

    @property
    def folder_permission(self) -> int | None:
        """The mode of folders: who may read files may also enter and list their folder."""
        if self.permission is None:
            return None
        return self.permission | 0o300 | (self.permission & 0o444) >> 2


class FileSystem(Protocol):
    """One file system. Every method may raise StoreUnavailable or NotWritable, changing ones OutcomeUnknown."""

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

        A crash in it may leave both names for one file (`same_file`). Raises FileExistsError where `target`
        is taken, FileNotFoundError where `source` is missing.
        """

    def rename_folder(self, source: str, target: str) -> None:
        """As `rename`, for a folder with all that is in it; no crash leaves both names."""

    def make_durable(self, path: str) -> None:
        """Make what another process did durable, as it now is: a folder's names, or a file's bytes and its name."""

    def delete(self, path: str) -> bool:
        """Delete a file, past any trash. False where there is none. A power cut may bring it back."""

    def trash(self, path: str) -> str | None:
        """Move a file to the trash. Where it is now; None where there was none. Raises Unsupported without a trash."""

    def remove_empty(self, folder: str) -> bool:
        """Delete `folder` if it is there and empty, never what is in it. Whether it did."""

    def length(self, path: str) -> int | None:
        """A file's bytes; None where there is no file. Raises DanglingLink where its folder leads nowhere."""

    def is_folder(self, path: str) -> bool: ...

    def same_file(self, one: str, other: str) -> bool:
        """Whether two names lead to one file: a rename that was cut short. One name spelled twice is not two."""

    def list(self, folder: str) -> Sequence[Entry]:
        """What `folder` holds, sorted by name, in one listing; nothing if it is missing."""

    def read(self, path: str) -> bytes | None:
        """A whole small file, or None where there is none."""

    def open(self, path: str) -> BinaryIO:
        """A file to read, seekable. FileNotFoundError where there is none."""


def join(folder: str, name: str) -> str:
    """The path of `name` in `folder`."""
    return f"{folder.rstrip('/')}/{name}"


def cannot_give(path: str, wanted: Ownership, reason: str) -> Unsupported:
    """The error for a file system that doesn't let this user give `path` what is wanted."""
    mode = None if wanted.permission is None else f"{wanted.permission:o}"
    options = {"permission": mode, "owner": wanted.owner, "group": wanted.group}
    what = ", ".join(f"sink.file.{name} = {value}" for name, value in options.items() if value is not None)
    way = "set an owner only where a superuser writes, and a group that this user is in"
    return Unsupported(f"{what} for {path}", reason, way)
