"""What a local file system refused, as hivesink's errors."""

# Paths here are text, as in `local`.
# ruff: noqa: PTH110, PTH114, PTH115

from __future__ import annotations

import contextlib
import errno
import os

from hivesink.errors import DanglingLink, HiveSinkError, NotWritable, StoreUnavailable, Unsupported

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def refusal(path: str, action: str, error: OSError) -> HiveSinkError:
    """The error that says in plain words what the system refused."""
    if error.errno in _DENIED:
        return NotWritable(path, f"{action}: {os.strerror(error.errno)}")
    if error.errno in _FULL:
        return StoreUnavailable(action, path, "the disk is full")
    return StoreUnavailable(action, path, error.strerror or str(error))


def no_link(source: str, target: str, error: OSError) -> HiveSinkError:
    """Why `source` gets no second name `target`."""
    if error.errno == errno.EXDEV:
        return Unsupported(
            f"publishing {source} as {target}",
            "the two are on different file systems",
            "keep a table's partitions on one file system",
        )
    if error.errno in _NO_LINKS:
        return Unsupported(
            f"the file system of {target}",
            f"it gives no second name to a file (link: {os.strerror(error.errno)}), without which a rename might "
            "overwrite",
            "use one with hard links, such as ext4 or xfs",
        )
    return refusal(source, "rename", error)


def require_no_dangling_link(folder: str) -> None:
    """Raise DanglingLink where `folder`, or the first one above it that is there, is a link to nothing."""
    while not os.path.lexists(folder):
        folder = folder.rpartition("/")[0] or "/"
    if os.path.islink(folder) and not os.path.exists(folder):
        with contextlib.suppress(FileNotFoundError):
            raise DanglingLink(folder, os.readlink(folder))
