"""Places in HDFS, and folders made as needed, with the modes of folders and of the files in them.

HDFS limits the ACL that a new file or folder inherits by the mode that the client sends. Java's client also sends the
mode before the umask, hdfs-native does not: so the umask applies here only without a default ACL (HDFS-6962).
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from posixpath import basename, dirname
from typing import TYPE_CHECKING, TypeVar

from hivesink.errors import HiveSinkError
from hivesink.storage.fs import TRIES, folder_permission
from hivesink.storage.hdfs_calls import Failed, HdfsCalls
from hivesink.storage.hdfs_failures import ABSENT, Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hdfs_native import Client

_T = TypeVar("_T")
_SHARED = ".hivesink"
"""Holds the logs of every table of a folder, whoever writes them."""
_OWNER_WRITES = 0o200


@dataclass(frozen=True, slots=True)
class Folder:
    """`mode` is its nine bits and the sticky one; `inherits`: it has a default ACL."""

    mode: int
    inherits: bool


@dataclass(slots=True, eq=False)
class Folders:
    """The folders of a file system, as last seen. `as_folder` files are as readable as their folder."""

    calls: HdfsCalls
    permission: int | None
    umask: int
    as_folder: bool
    _known: dict[str, Folder] = field(default_factory=dict)
    _acls: bool = True

    def need(self, path: str) -> Folder:
        """The folder at `path`, made with its parents if missing. Raises Failed."""
        if path not in self._known:
            self._known[path] = self._look(path) or self._make(path)
        return self._known[path]

    def forget(self, path: str) -> None:
        """Somebody removed `path`: look again at it and everything below."""
        # A copy, since other threads add to it.
        for folder in [known for known in list(self._known) if f"{known}/".startswith(f"{path}/")]:
            self._known.pop(folder, None)

    def file_mode(self, folder: Folder) -> int:
        if self.as_folder:
            return folder.mode & 0o644
        if self.permission is not None:
            # The owner must be able to append at the end of a block; `set_mode` withdraws the right.
            return self.permission | _OWNER_WRITES
        return 0o666 if folder.inherits else 0o666 & ~self.umask

    def set_mode(self, path: str, mode: int | None, folder: Folder) -> None:
        """Give the new `path` in `folder` its `mode`, where its creation left it another. Raises Failed."""
        if mode is not None and (folder.inherits or not mode & _OWNER_WRITES):
            self.calls.ask(lambda client: client.set_permission(path, mode), repeatable=True)

    def _look(self, path: str) -> Folder | None:
        try:
            return self.calls.ask(lambda client: self._status(client, path), repeatable=True)
        except Failed as error:
            if error.failure.kind in ABSENT:
                return None
            if self._acls and "AclException" in error.failure.reason:
                # dfs.namenode.acls.enabled is false.
                self._acls = False
                return self._look(path)
            raise

    def _status(self, client: Client, path: str) -> Folder:
        if not self._acls:
            return Folder(client.get_file_info(path).permission & 0o1777, inherits=False)
        acl = client.get_acl_status(path)
        sticky = 0o1000 if acl.sticky else 0
        return Folder(acl.permission & 0o777 | sticky, any(entry.scope == "default" for entry in acl.entries))

    def _make(self, path: str) -> Folder:
        nearest = dirname(path)
        if self.as_folder:
            return self._make_beside(path, self.need(nearest))
        missing = [path]
        # Look again: an ACL may have been set since the last look.
        while (existing := self._look(nearest)) is None and nearest != "/":
            missing.append(nearest)
            nearest = dirname(nearest)
        parent = existing or Folder(0o755, inherits=False)
        wanted = None if self.permission is None else folder_permission(self.permission)
        mode = wanted if wanted is not None else 0o777 if parent.inherits else 0o777 & ~self.umask
        self.calls.ask(lambda client: client.mkdirs(path, mode, create_parent=True), repeatable=True)
        for folder in reversed(missing):
            self.set_mode(folder, wanted, parent)
        return Folder(mode, parent.inherits)

    def _make_beside(self, path: str, parent: Folder) -> Folder:
        """A folder as open as its parent. Only the outermost hidden one lets other users add names."""
        shared = basename(path) == _SHARED
        mode = (parent.mode if shared else parent.mode & ~0o1002) | 0o700
        self.calls.ask(lambda client: client.mkdirs(path, mode, create_parent=True), repeatable=True)
        return Folder(mode, parent.inherits)


@dataclass(frozen=True, slots=True)
class Place:
    """A location, its `path` in the file system, and how to ask about it, with hivesink's errors."""

    location: str
    path: str
    calls: HdfsCalls
    folders: Folders

    def ask(self, action: str, call: Callable[[Client, str], _T], *, changing: bool = False) -> _T | None:
        """The answer about `path`, or None where there is nothing."""
        with self.refusing(action, changing=changing):
            try:
                return self.calls.ask(lambda client: call(client, self.path), repeatable=not changing)
            except Failed as error:
                if error.failure.kind not in ABSENT:
                    raise
        return None

    def make(self, call: Callable[[], _T]) -> _T:
        """The result of `call`, which makes this name. Others may prune its folder before that. Raises Failed."""
        folder = dirname(self.path)
        for _ in range(TRIES):
            try:
                return call()
            except Failed as error:  # noqa: PERF203 - to try again
                if error.failure.kind is not Kind.NO_PARENT:
                    raise
                self.folders.forget(folder)
                self.folders.need(folder)
        raise Failed(Failure(Kind.REFUSED, f"the folder {folder} keeps vanishing"))

    def delete(self, action: str = "delete") -> bool:
        """Delete the file or the empty folder. False where there is none."""
        with self.refusing(action, changing=True):
            try:
                return self.calls.ask(lambda client: client.delete(self.path, recursive=False), repeatable=False)
            except Failed as error:
                if error.failure.kind not in {*ABSENT, Kind.EXISTS}:
                    raise
        return False

    def remove(self) -> bool:
        """Whether the file is surely gone, after another try to delete it."""
        with suppress(HiveSinkError):
            return self.delete() or self.ask("look at", lambda client, path: client.get_file_info(path)) is None
        return False

    @contextmanager
    def refusing(self, action: str, *, changing: bool = False) -> Iterator[None]:
        """Raise hivesink's error instead of Failed."""
        try:
            yield
        except Failed as error:
            raise self.refusal(error.failure, action, changing=changing) from error

    def refusal(self, failure: Failure, action: str, *, changing: bool = False) -> Exception:
        return self.calls.refusal(action, self.location, failure, changing=changing)
