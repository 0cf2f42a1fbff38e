"""Local disks (POSIX). Rename without overwrite is `link(2)`, then `unlink(2)`: rename(2) would overwrite."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from posixpath import dirname
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from hivesink.errors import HiveSinkError, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.fs import TRIES, Entry, abandon, apart, folder_permission
from hivesink.storage.rename_store import RenameStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# Paths here are text, as manifests hold them; pathlib would only wrap each call.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH112, PTH116, PTH119, PTH121, PTH123


_T = TypeVar("_T")
_BUFFER = 1 << 18
_ABSENT_OK = contextlib.suppress(FileNotFoundError, NotADirectoryError)
"""Reusable, also by several threads: it has no state."""


class _FolderVanished(Exception):
    """The folder of a new name was pruned meanwhile."""


@contextlib.contextmanager
def _done_or_not(path: str) -> Iterator[None]:
    """What fails in here comes after the rename."""
    try:
        yield
    except OSError as error:
        raise OutcomeUnknown(action="rename", path=path, reason=error.strerror or str(error)) from error


class LocalFileSystem:
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

        def create() -> BinaryIO:
            with refusing(file, "create", but=FileExistsError):
                try:
                    return cast("BinaryIO", io.BufferedWriter(NewFile(file), _BUFFER))
                except FileNotFoundError:
                    raise _FolderVanished from None

        return self._in_folder(dirname(file), create, "create", file)

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        try:
            with refusing(path, "write"):
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
            with refusing(path, "write"):
                sync_folder(dirname(posix(path)))
        except HiveSinkError:
            abandon(self, path, stream)
            raise

    def rename(self, source: str, target: str) -> None:
        self.link(source, target)
        # Without an old name, another process has finished this rename.
        with _done_or_not(source), contextlib.suppress(FileNotFoundError):
            sync_folder(dirname(posix(target)))
            os.unlink(posix(source))

    def link(self, source: str, target: str) -> None:
        """The first half of `rename`: a second name for the file, not yet durable."""
        old, new = posix(source), posix(target)

        def link() -> None:
            try:
                os.link(old, new, follow_symlinks=False)
            except FileNotFoundError:
                if os.path.lexists(old):
                    raise _FolderVanished from None
                raise
            except FileExistsError:
                raise
            except OSError as error:
                raise no_link(source, target, error) from error

        self._in_folder(dirname(new), link, "rename", source)

    def rename_folder(self, source: str, target: str) -> None:
        old, new = posix(source), posix(target)
        if not os.path.isdir(old):
            raise FileNotFoundError(source)
        if os.path.lexists(new):
            # rename(2) would replace an empty folder. Nobody else makes a folder of this name in between.
            raise FileExistsError(target)
        self._make(dirname(new))
        self._known.clear()
        with refusing(source, "rename"):
            os.rename(old, new)
        with _done_or_not(source):
            for folder in (dirname(new), dirname(old)):
                sync_folder(folder)

    def make_durable(self, path: str) -> None:
        target = posix(path)
        with refusing(path, "sync"), contextlib.suppress(FileNotFoundError):
            if not os.path.isdir(target):
                sync(target)
                target = dirname(target)
            sync_folder(target)

    def delete(self, path: str) -> bool:
        with refusing(path, "delete"), _ABSENT_OK:
            os.unlink(posix(path))
            return True
        return False

    def remove_empty(self, folder: str) -> bool:
        target = posix(folder)
        self._forget(target)
        with refusing(folder, "remove"):
            try:
                os.rmdir(target)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR}:
                    raise
                return False
        return True

    def length(self, path: str) -> int | None:
        try:
            status = os.stat(posix(path))
        except NotADirectoryError:
            return None
        except FileNotFoundError:
            # Behind a dangling link the file may still exist: it must not count as lost, or as not renamed yet.
            require_no_dangling_link(dirname(posix(path)))
            return None
        except OSError as error:
            raise refusal(path, "look at", error) from error
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(posix(path))

    def same_file(self, left: str, right: str) -> bool:
        old, new = posix(left), posix(right)
        try:
            # One name reached through a linked folder is not a second name: unlinking it would lose the file.
            if os.path.basename(old) == os.path.basename(new) and os.path.samefile(dirname(old), dirname(new)):
                return False
            return os.path.samefile(old, new)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refusal(left, "look at", error) from error

    def list(self, folder: str) -> Sequence[Entry]:
        with refusing(folder, "list"), _ABSENT_OK, os.scandir(posix(folder)) as items:
            return sorted(entry for item in items if (entry := entry_of(item)) is not None)
        return ()

    def read(self, path: str) -> bytes | None:
        with refusing(path, "read"), _ABSENT_OK, open(posix(path), "rb") as stream:
            return stream.read()
        return None

    def open(self, path: str) -> BinaryIO:
        with refusing(path, "read", but=FileNotFoundError):
            return open(posix(path), "rb")

    def _in_folder(self, folder: str, call: Callable[[], _T], action: str, path: str) -> _T:
        """The result of `call`, which makes a name in `folder`. Others may prune the folder before it has one."""
        for _ in range(TRIES):
            self._make(folder)
            with contextlib.suppress(_FolderVanished):
                return call()
            self._forget(folder)
        raise StoreUnavailable(action, path, f"the folder {folder} keeps vanishing")

    def _make(self, folder: str) -> None:
        """Make `folder` and those above it, each name durable, also where another process has made it."""
        if folder in self._known or folder == "/":
            return
        parent = dirname(folder)
        self._make(parent)
        try:
            if not os.path.isdir(folder):
                os.mkdir(folder)
                if self._permission is not None:
                    # The folder above hands down its setgid bit, which keeps all below in one group.
                    special = os.stat(folder).st_mode & (stat.S_ISGID | stat.S_ISVTX)
                    os.chmod(folder, folder_permission(self._permission) | special)
        except FileExistsError:
            # Another process was quicker. If a file is in the way, the first use of the folder fails.
            require_no_dangling_link(folder)
        except FileNotFoundError:
            # Pruned meanwhile: the caller tries again.
            self._forget(parent)
            return
        except OSError as error:
            raise refusal(folder, "create", error) from error
        # This process did not make a folder that it can pass through but not read.
        with refusing(parent, "sync"), contextlib.suppress(PermissionError):
            sync_folder(parent)
        self._known.add(folder)

    def _forget(self, folder: str) -> None:
        while folder != "/":
            self._known.discard(folder)
            folder = dirname(folder)


def storage(_properties: Mapping[str, str]) -> RenameStorage:
    """This machine's disks, for which a site has no properties."""
    return RenameStorage(LocalFileSystem, LocalFileSystem)


# Paths here are text, as in `local`.
# ruff: noqa: PTH110, PTH114, PTH115


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
