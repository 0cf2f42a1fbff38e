"""Local disks (POSIX). Rename without overwrite is `link(2)`, then `unlink(2)`: rename(2) would overwrite.

A location is `/a/b`, `file:/a/b` or `file:///a/b` (metastores write `file:/a/b`); nothing is percent-decoded,
since Hive's own escapes (`dt=a%3Ab`) are part of a folder's name.
"""

# Paths here are text, as manifests hold them; pathlib would only wrap each call.
# ruff: noqa: PTH101, PTH102, PTH106, PTH108, PTH110, PTH112, PTH114, PTH115, PTH116, PTH119, PTH121, PTH123

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from posixpath import dirname
from typing import BinaryIO, TypeVar, cast

from hivesink.errors import HiveSinkError, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.fs import TRIES, Entry, FileSystem, Storage, abandon, apart, folder_permission
from hivesink.storage.rename_store import RenameFileStore

_T = TypeVar("_T")
_BUFFER = 1 << 18
_LOCATION = re.compile(r"(?:file:(?://)?)?(/(?!/).*)", re.DOTALL)
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NOT_EMPTY_OR_ABSENT = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR})
_ABSENT_OK = contextlib.suppress(FileNotFoundError, NotADirectoryError)
"""Reusable, also by several threads: it has no state."""


class LocalFileSystem(FileSystem):
    """Implements `storage.fs.FileSystem`. Shared by threads."""

    parallel = 1

    def __init__(self, permission: int | None = None) -> None:
        self._known: set[str] = set()
        self._permission = permission

    def canonical(self, location: str) -> str:
        """Links resolved, as far as the path exists."""
        return os.path.realpath(posix(location))

    def open_new(self, path: str) -> BinaryIO:
        file = posix(path)
        stream = self._in_folder(dirname(file), lambda: io.BufferedWriter(_NewFile(file), _BUFFER), "create", file)
        return cast("BinaryIO", stream)

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        try:
            with _refusing(path, "write"):
                stream.flush()
                if self._permission is not None:
                    os.fchmod(stream.fileno(), self._permission)
                if stream.tell():
                    os.fsync(stream.fileno())
                stream.close()
        except HiveSinkError:
            with contextlib.suppress(OSError, HiveSinkError):
                stream.close()
            raise

    def write_new(self, path: str, data: bytes) -> None:
        stream = self.open_new(path)
        try:
            stream.write(data)
            self.sync_close(stream, path)
            with _refusing(path, "write"):
                _sync(dirname(posix(path)))
        except HiveSinkError:
            abandon(self, path, stream)
            raise

    def rename(self, source: str, target: str) -> None:
        self.link(source, target)
        # Without an old name, another process has finished this rename.
        with _refusing(source, "rename", unknown=True), contextlib.suppress(FileNotFoundError):
            _sync(dirname(posix(target)))
            os.unlink(posix(source))

    def link(self, source: str, target: str) -> None:
        """The first half of `rename`: a second name for the file, not yet durable."""
        old, new = posix(source), posix(target)

        def link() -> None:
            try:
                os.link(old, new, follow_symlinks=False)
            except OSError as error:
                if error.errno == errno.EXDEV:
                    raise apart(source, target) from error
                if error.errno in _NO_LINKS:
                    what = f"the file system of {target}"
                    why = f"it has no hard links (link: {error.strerror}); a rename might overwrite"
                    raise Unsupported(what, why, "use one with hard links, such as ext4 or xfs") from error
                raise

        self._in_folder(dirname(new), link, "rename", source, needs=old)

    def make_durable(self, path: str) -> None:
        target = posix(path)
        with _refusing(path, "sync"), contextlib.suppress(FileNotFoundError):
            if not os.path.isdir(target):
                _sync(target)
                target = dirname(target)
            _sync(target)

    def delete(self, path: str) -> bool:
        with _refusing(path, "delete"), _ABSENT_OK:
            os.unlink(posix(path))
            return True
        return False

    def remove_empty(self, folder: str) -> bool:
        target = posix(folder)
        self._forget(target)
        with _refusing(folder, "remove"):
            try:
                os.rmdir(target)
            except OSError as error:
                if error.errno not in _NOT_EMPTY_OR_ABSENT:
                    raise
                return False
        return True

    def length(self, path: str) -> int | None:
        with _refusing(path, "look at"):
            try:
                status = os.stat(posix(path))
            except NotADirectoryError:
                return None
            except FileNotFoundError:
                # Behind a dangling link the file may still exist: it must not count as lost, or as not renamed yet.
                _require_no_dangling_link(dirname(posix(path)))
                return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(posix(path))

    def same_file(self, left: str, right: str) -> bool:
        old, new = posix(left), posix(right)
        with _refusing(left, "look at"), contextlib.suppress(FileNotFoundError):
            # The same name reached through a linked folder is not a second name: unlinking it would lose the file.
            is_one_name = os.path.basename(old) == os.path.basename(new)
            if not (is_one_name and os.path.samefile(dirname(old), dirname(new))):
                return os.path.samefile(old, new)
        return False

    def list(self, folder: str) -> Sequence[Entry]:
        entries: list[Entry] = []
        with _refusing(folder, "list"), _ABSENT_OK, os.scandir(posix(folder)) as items:
            for item in items:
                # What has vanished since is none, nor is a link to a folder, which could lead out of the table.
                with contextlib.suppress(FileNotFoundError):
                    if item.is_dir(follow_symlinks=False):
                        entries.append(Entry(item.name, None))
                    elif stat.S_ISREG((status := item.stat()).st_mode):
                        entries.append(Entry(item.name, status.st_size))
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        with _refusing(path, "read"), _ABSENT_OK, open(posix(path), "rb") as stream:
            return stream.read()
        return None

    def open(self, path: str) -> BinaryIO:
        with _refusing(path, "read", FileNotFoundError):
            return open(posix(path), "rb")

    def _in_folder(self, folder: str, call: Callable[[], _T], action: str, path: str, needs: str | None = None) -> _T:
        """The result of `call`, which makes a name in `folder`. Others may prune the folder before it has one."""
        for _ in range(TRIES):
            self._make(folder)
            try:
                with _refusing(path, action, FileExistsError, FileNotFoundError):
                    return call()
            except FileNotFoundError:
                if needs is not None and not os.path.lexists(needs):
                    raise
            self._forget(folder)
        raise StoreUnavailable(action, path, f"the folder {folder} keeps vanishing")

    def _make(self, folder: str) -> None:
        """Make `folder` and those above it, each name durable, also where another process has made it."""
        if folder in self._known or folder == "/":
            return
        parent = dirname(folder)
        self._make(parent)
        with _refusing(folder, "create"):
            try:
                if not os.path.isdir(folder):
                    os.mkdir(folder)
                    if self._permission is not None:
                        # The folder above hands down its setgid bit, which keeps all below in one group.
                        special = os.stat(folder).st_mode & (stat.S_ISGID | stat.S_ISVTX)
                        os.chmod(folder, folder_permission(self._permission) | special)
            except FileExistsError:
                # Another process was quicker. If a file is in the way, the first use of the folder fails.
                _require_no_dangling_link(folder)
            except FileNotFoundError:
                # Pruned meanwhile: the caller tries again.
                self._forget(parent)
                return
        # This process did not make a folder that it can pass through but not read.
        with _refusing(parent, "sync"), contextlib.suppress(PermissionError):
            _sync(parent)
        self._known.add(folder)

    def _forget(self, folder: str) -> None:
        while folder != "/":
            self._known.discard(folder)
            folder = dirname(folder)


class _NewFile(io.FileIO):
    """A new file whose writes fail with hivesink's errors, also for a format that writes through pyarrow."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "xb")
        self._path = path

    def write(self, data: object, /) -> int:
        with _refusing(self._path, "write"):
            return super().write(cast("bytes", data))


def posix(location: str) -> str:
    """The absolute path, without trailing slashes. Raises Unsupported for a location elsewhere."""
    match = _LOCATION.fullmatch(location)
    if match is None:
        what, why = f"the location {location!r}", "it is not an absolute path of the local file system"
        raise Unsupported(what, why, "write it as /path or file:/path")
    return match[1].rstrip("/") or "/"


@contextlib.contextmanager
def _refusing(path: str, action: str, *but: type[OSError], unknown: bool = False) -> Iterator[None]:
    """Raise hivesink's error instead of an OSError, except for `but`; OutcomeUnknown after an `unknown` change."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        if unknown:
            raise OutcomeUnknown(action=action, path=path, reason=reason) from error
        if error.errno in _DENIED:
            raise NotWritable(path, f"{action}: {reason}") from error
        raise StoreUnavailable(action, path, reason) from error


def _require_no_dangling_link(folder: str) -> None:
    """Raise NotWritable if `folder`, or the nearest existing folder above it, is a link to nothing."""
    while not os.path.lexists(folder):
        folder = dirname(folder)
    if os.path.islink(folder) and not os.path.exists(folder):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(folder)
            why = f"a symbolic link to {target}, which doesn't exist"
            raise NotWritable(folder, why, f"restore {target} (is a disk not mounted?), or remove the link")


def _sync(path: str) -> None:
    """Make the bytes of a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def storage(_properties: Mapping[str, str]) -> Storage:
    """This machine's disks, for which a site has no properties."""
    return Storage(lambda permission: RenameFileStore(LocalFileSystem(permission)), LocalFileSystem, posix=posix)
