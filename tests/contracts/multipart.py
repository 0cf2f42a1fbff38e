"""A file store shaped like S3, to prove that the port fits it: uploads completed at publish, and no rename.

A staged part is an upload; its id comes before the hidden path that it was begun for.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from hivesink.core.partfile import Finished, InProgress, Pending, PublishStep, Stage, decide_publish, parse_staged
from hivesink.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hivesink.ports import LogRoot

_T = TypeVar("_T")


class MultipartFileStore:
    """Implements `ports.FileStore`. Objects have keys, folders exist only as prefixes of keys."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self._begun = 0

    def canonical(self, location: str) -> str:
        return location.rstrip("/")

    @property
    def parallelism(self) -> int:
        return 1

    def run_parallel(self, calls: Iterable[Callable[[], _T]]) -> list[_T]:
        return [call() for call in calls]

    def create(self, part: InProgress) -> Upload:
        self._begun += 1
        staged = f"upload-{self._begun}:{part.folder}/{part.name.staged(Stage.PENDING)}"
        self.uploads[staged] = b""
        return Upload(self, part, staged, io.BytesIO())

    def set_aside(self, part: Pending, folder: str) -> Pending:  # noqa: ARG002  an upload is in no folder
        return part

    def publish(self, part: Pending) -> Finished:
        match decide_publish(part, self._length(part.staged), self._length(part.target)):
            case PublishStep.RENAME:
                # S3 completes an upload under the key that it was begun for; elsewhere it is a copy.
                self.objects[part.target] = self.uploads.pop(part.staged)
            case PublishStep.DONE | PublishStep.UNLINK:
                pass
        return part.finish()

    def discard(self, staged: Iterable[str]) -> None:
        paths = list(staged)
        for path in paths:
            if parse_staged(_name(path)) is None:
                message = f"{path} is not a staged part"
                raise ValueError(message)
        for path in paths:
            self.uploads.pop(path, None)

    def remove(self, files: Iterable[Finished]) -> None:
        for file in files:
            if self.find(file.path) == file:
                del self.objects[file.path]

    def staged(self, folder: str) -> Sequence[str]:
        return sorted(path for path in self.uploads if _folder(path.partition(":")[2]) == folder)

    def visible(self, folder: str) -> Sequence[Finished]:
        paths = sorted(path for path in self.objects if _folder(path) == folder and _name(path)[0] not in "._")
        return [Finished(path, len(self.objects[path])) for path in paths]

    def find(self, path: str) -> Finished | None:
        return Finished(path, len(self.objects[path])) if path in self.objects else None

    def open(self, path: str) -> BinaryIO:
        if path not in self.objects:
            raise StoreUnavailable(action="read", path=path, reason="it is not there")
        return io.BytesIO(self.objects[path])

    def mark(self, path: str) -> None:
        self.objects.setdefault(path, b"")

    def walk(self, folder: str) -> Iterable[str]:
        paths = [*self.objects, *(path.partition(":")[2] for path in self.uploads)]
        found = set()
        for path in paths:
            above = _folder(path)
            while f"{above}/".startswith(f"{folder}/"):
                found.add(above)
                above = _folder(above)
        return sorted(found)

    def prune(self, folders: Iterable[str]) -> None:
        """An empty folder is none."""

    def _length(self, path: str) -> int | None:
        found = self.uploads.get(path, self.objects.get(path))
        return None if found is None else len(found)


@dataclass(frozen=True, slots=True)
class MultipartStorage:
    """Implements `ports.Storage`, but for the log."""

    store: MultipartFileStore = field(default_factory=MultipartFileStore)

    def files(self, permission: int | None) -> MultipartFileStore:  # noqa: ARG002  no modes there
        return self.store

    def root(self, folder: str) -> LogRoot:
        raise NotImplementedError(folder)


@dataclass(frozen=True, slots=True)
class Upload:
    """Implements `ports.StagedFile`."""

    store: MultipartFileStore
    part: InProgress
    staged: str
    stream: BinaryIO

    def close_for_commit(self) -> Pending:
        self.stream.seek(0)
        data = self.stream.read()
        self.store.uploads[self.staged] = data
        return Pending(self.staged, self.part.close(len(data)).target, len(data))

    def abort(self) -> None:
        self.store.uploads.pop(self.staged, None)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
