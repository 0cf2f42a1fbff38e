"""Local disks (POSIX). Rename without overwrite is `link(2)`, then `unlink(2)`: rename(2) would overwrite.

A location is `/a/b`, `file:/a/b` or `file:///a/b` (metastores write `file:/a/b`); nothing is percent-decoded,
since Hive's own escapes (`dt=a%3Ab`) are part of a folder's name.
"""

# Paths here are text, as manifests hold them; pathlib would only wrap each call.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH112, PTH116, PTH119, PTH121, PTH123

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING, BinaryIO, cast

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.fs import Entry
from hivesink.storage.local_refusals import no_link, refusal, require_no_dangling_link
from hivesink.storage.ownership import Ownership, cannot_give

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOCATION = re.compile(r"(?:file:(?://)?)?(/(?!/).*)", re.DOTALL)
_BUFFER = 1 << 18
_TRIES = 5


def posix(location: str) -> str:
    """The plain absolute path, without slashes at its end. Raises Unsupported for any other location."""
    found = _LOCATION.fullmatch(location)
    if found is None:
        raise Unsupported(
            what=f"the location {location!r}",
            why="it is not an absolute path of the local file system",
            instead="write it as /path or file:/path",
        )
    return found[1].rstrip("/") or "/"


class _NewFile(io.FileIO):
    """A file whose failing writes say what is wrong, also to a format that writes through pyarrow."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "xb")
        self._path = path

    def write(self, data: object, /) -> int:
        try:
            return super().write(cast("bytes", data))
        except OSError as error:
            raise refusal(self._path, "write", error) from error


class LocalFileSystem:
    """Implements `storage.fs.FileSystem`. Shared by threads; a pickled copy is as good."""

    parallel = 1

    def __init__(self, ownership: Ownership = Ownership()) -> None:  # noqa: B008  frozen
        self._known: set[str] = set()
        self._ownership = ownership

    def canonical(self, location: str) -> str:
        return posix(location)

    def open_new(self, path: str) -> BinaryIO:
        return cast("BinaryIO", io.BufferedWriter(self._create(posix(path)), _BUFFER))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        try:
            stream.flush()
            self._dress(stream.fileno(), path, self._ownership.permission)
            os.fsync(stream.fileno())
            stream.close()
        except (OSError, HiveSinkError) as error:
            with contextlib.suppress(OSError, HiveSinkError):
                stream.close()
            if isinstance(error, HiveSinkError):
                raise
            raise refusal(path, "write", error) from error

    def write_new(self, path: str, data: bytes) -> None:
        place = posix(path)
        stream = self._create(place)
        try:
            with stream:
                self._dress(stream.fileno(), path, self._ownership.permission)
                if data:
                    _write_all(stream, data)
                    os.fsync(stream.fileno())
            _sync_folder(_above(place))
        except (OSError, HiveSinkError) as error:
            with contextlib.suppress(OSError):
                os.unlink(place)
            if isinstance(error, HiveSinkError):
                raise
            raise refusal(path, "write", error) from error

    def rename(self, source: str, target: str) -> None:
        self.link(source, target)
        try:
            _sync_folder(_above(posix(target)))
            os.unlink(posix(source))
        except FileNotFoundError:
            # Whoever finished this rename for us has taken the old name away.
            return
        except OSError as error:
            raise OutcomeUnknown(action="rename", path=source, reason=error.strerror or str(error)) from error

    def link(self, source: str, target: str) -> None:
        """The first half of `rename`: a second name for the file, not yet durable."""
        old, new = posix(source), posix(target)
        for _ in range(_TRIES):
            self._make(_above(new))
            try:
                os.link(old, new, follow_symlinks=False)
            except FileNotFoundError:
                if not os.path.lexists(old):
                    raise
                self._forget(_above(new))
            except FileExistsError:
                raise
            except OSError as error:
                raise no_link(source, target, error) from error
            else:
                return
        raise StoreUnavailable(action="rename", path=source, reason=f"the folder of {target} keeps vanishing")

    def rename_folder(self, source: str, target: str) -> None:
        old, new = posix(source), posix(target)
        if not os.path.isdir(old):
            raise FileNotFoundError(source)
        if os.path.lexists(new):
            # rename(2) would take an empty folder's place; in between, nobody makes one of such a name.
            raise FileExistsError(target)
        self._make(_above(new))
        self._known.clear()
        try:
            os.rename(old, new)
        except OSError as error:
            raise refusal(source, "rename", error) from error
        try:
            _sync_folder(_above(new))
            _sync_folder(_above(old))
        except OSError as error:
            raise OutcomeUnknown(action="rename", path=source, reason=error.strerror or str(error)) from error

    def make_durable(self, path: str) -> None:
        place = posix(path)
        try:
            if not os.path.isdir(place):
                _sync(place)
                place = _above(place)
            _sync_folder(place)
        except FileNotFoundError:
            return
        except OSError as error:
            raise refusal(path, "sync", error) from error

    def delete(self, path: str) -> bool:
        try:
            os.unlink(posix(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise refusal(path, "delete", error) from error
        return True

    def trash(self, path: str) -> str | None:
        raise Unsupported(
            what=f"throwing away {path}", why="local disks have no trash", instead="move it out of the table by hand"
        )

    def remove_empty(self, folder: str) -> bool:
        place = posix(folder)
        self._forget(place)
        try:
            os.rmdir(place)
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR}:
                return False
            raise refusal(folder, "remove", error) from error
        return True

    def length(self, path: str) -> int | None:
        try:
            found = os.stat(posix(path))
        except NotADirectoryError:
            return None
        except FileNotFoundError:
            # What a link doesn't lead to isn't gone: nobody may take it for lost, or for not done yet.
            require_no_dangling_link(_above(posix(path)))
            return None
        except OSError as error:
            raise refusal(path, "look at", error) from error
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(posix(path))

    def same_file(self, one: str, other: str) -> bool:
        left, right = posix(one), posix(other)
        try:
            # One name, reached through a linked folder, is no second name: unlinking it would lose the file.
            if os.path.basename(left) == os.path.basename(right) and os.path.samefile(_above(left), _above(right)):
                return False
            return os.path.samefile(left, right)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refusal(one, "look at", error) from error

    def list(self, folder: str) -> Sequence[Entry]:
        try:
            with os.scandir(posix(folder)) as found:
                entries = [entry for item in found if (entry := _entry(item)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise refusal(folder, "list", error) from error
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        try:
            with open(posix(path), "rb") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise refusal(path, "read", error) from error

    def open(self, path: str) -> BinaryIO:
        try:
            return open(posix(path), "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise refusal(path, "read", error) from error

    def _create(self, place: str) -> _NewFile:
        folder = _above(place)
        for _ in range(_TRIES):
            self._make(folder)
            try:
                return _NewFile(place)
            except FileExistsError:
                raise
            except FileNotFoundError:
                # Somebody pruned the folder as empty between its making and its first file.
                self._forget(folder)
            except OSError as error:
                raise refusal(place, "create", error) from error
        raise StoreUnavailable(action="create", path=place, reason="its folder keeps vanishing")

    def _make(self, folder: str) -> None:
        """Make `folder` and those above it, each name durable: also what another process has only just made."""
        if folder in self._known or folder == "/":
            return
        parent = _above(folder)
        self._make(parent)
        try:
            if not os.path.isdir(folder):
                os.mkdir(folder)
                self._dress(folder, folder, self._ownership.folder_permission)
        except FileExistsError:
            # Another process was quicker, or a file is in the way, which the first use tells.
            require_no_dangling_link(folder)
        except FileNotFoundError:
            # Pruned by somebody while we were on the way down: the caller tries again, a few times.
            self._forget(parent)
            return
        except OSError as error:
            raise refusal(folder, "create", error) from error
        try:
            _sync_folder(parent)
        except PermissionError:
            # A folder that can be passed but not read was there before us.
            pass
        except OSError as error:
            raise refusal(parent, "sync", error) from error
        self._known.add(folder)

    def _dress(self, what: int | str, path: str, mode: int | None) -> None:
        """Give a new file or folder its mode and owner. Raises Unsupported where the system doesn't let this user."""
        own = self._ownership
        try:
            if own.owner is not None:
                shutil.chown(what, own.owner)
            if own.group is not None:
                shutil.chown(what, group=own.group)
            if mode is not None:
                os.chmod(what, mode)
        except (PermissionError, LookupError) as error:
            raise cannot_give(path, own, str(error)) from error

    def _forget(self, folder: str) -> None:
        while folder != "/":
            self._known.discard(folder)
            folder = _above(folder)


def _write_all(stream: _NewFile, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _sync_folder(folder: str) -> None:
    _sync(folder, os.O_DIRECTORY)


def _sync(path: str, flags: int = 0) -> None:
    handle = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _entry(item: os.DirEntry[str]) -> Entry | None:
    """None for what vanished meanwhile, and for links to folders, which could lead out of the table."""
    try:
        if item.is_dir(follow_symlinks=False):
            return Entry(item.name, None)
        found = item.stat()
    except FileNotFoundError:
        return None
    return Entry(item.name, found.st_size) if stat.S_ISREG(found.st_mode) else None
