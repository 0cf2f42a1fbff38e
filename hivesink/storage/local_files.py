"""Single calls of a local file system, and its refusals as hivesink's errors.

A location is `/a/b`, `file:/a/b` or `file:///a/b` (metastores write `file:/a/b`); nothing is percent-decoded,
since Hive's own escapes (`dt=a%3Ab`) are part of a folder's name.
"""

# Paths here are text, as in `local`.
# ruff: noqa: PTH110, PTH114, PTH115

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from posixpath import dirname
from typing import TYPE_CHECKING, cast

from hivesink.errors import HiveSinkError, NotWritable, StoreUnavailable, Unsupported
from hivesink.storage.fs import Entry, apart

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCATION = re.compile(r"(?:file:(?://)?)?(/(?!/).*)", re.DOTALL)
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class NewFile(io.FileIO):
    """A new file whose writes fail with hivesink's errors, also for a format that writes through pyarrow."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "xb")
        self._path = path

    def write(self, data: object, /) -> int:
        try:
            return super().write(cast("bytes", data))
        except OSError as error:
            raise refusal(self._path, "write", error) from error


def posix(location: str) -> str:
    """The absolute path, without trailing slashes. Raises Unsupported for a location elsewhere."""
    match = _LOCATION.fullmatch(location)
    if match is None:
        raise Unsupported(
            what=f"the location {location!r}",
            why="it is not an absolute path of the local file system",
            instead="write it as /path or file:/path",
        )
    return match[1].rstrip("/") or "/"


def refusal(path: str, action: str, error: OSError) -> HiveSinkError:
    """The error for `error`, which `action` on `path` raised."""
    if error.errno in _DENIED:
        return NotWritable(path, f"{action}: {os.strerror(error.errno)}")
    return StoreUnavailable(action, path, error.strerror or str(error))


@contextlib.contextmanager
def refusing(path: str, action: str, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Raise `refusal` instead of an OSError, except for `but`."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise refusal(path, action, error) from error


def no_link(source: str, target: str, error: OSError) -> HiveSinkError:
    """The error for a failed hard link `target` to `source`."""
    if error.errno == errno.EXDEV:
        return apart(source, target)
    if error.errno in _NO_LINKS:
        return Unsupported(
            f"the file system of {target}",
            f"it has no hard links (link: {os.strerror(error.errno)}), and without them a rename might overwrite",
            "use one with hard links, such as ext4 or xfs",
        )
    return refusal(source, "rename", error)


def require_no_dangling_link(folder: str) -> None:
    """Raise NotWritable if `folder`, or the nearest existing folder above it, is a link to nothing."""
    while not os.path.lexists(folder):
        folder = dirname(folder)
    if os.path.islink(folder) and not os.path.exists(folder):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(folder)
            why = f"a symbolic link to {target}, which doesn't exist"
            raise NotWritable(folder, why, f"restore {target} (is a disk not mounted?), or remove the link")


def sync_folder(folder: str) -> None:
    """Make the names in `folder` durable."""
    sync(folder, os.O_DIRECTORY)


def sync(path: str, flags: int = 0) -> None:
    """Make the content of `path` durable."""
    handle = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def entry_of(item: os.DirEntry[str]) -> Entry | None:
    """None for what has vanished since, and for links to folders, which could lead out of the table."""
    try:
        if item.is_dir(follow_symlinks=False):
            return Entry(item.name, None)
        status = item.stat()
    except FileNotFoundError:
        return None
    return Entry(item.name, status.st_size) if stat.S_ISREG(status.st_mode) else None
