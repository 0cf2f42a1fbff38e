"""A storage shaped like S3, to prove that the ports fit it: uploads completed at publish, and no rename.

A staged part is an upload; its id comes before the hidden path that it was begun for.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from hivesink.core.partfile import Finished, InProgress, Pending, PublishStep, Stage, decide_publish, parse_staged
from hivesink.errors import StoreUnavailable
from hivesink.storage.fs import Entry, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")


class MultipartFileStore:
    """Implements `ports.FileStore`. Objects have keys, folders exist only as prefixes of keys."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self._begun = 0

    keeps_staged = True

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


class ObjectFiles:
    """Implements `storage.fs.Files`: objects are created by a conditional PUT."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def create(self, path: str, data: bytes) -> None:
        if self.objects.setdefault(path, data) != data:
            raise FileExistsError(path)

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data

    def open_new(self, path: str) -> BinaryIO:
        if path in self.objects:
            raise FileExistsError(path)
        return io.BytesIO()

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        stream.seek(0)
        self.create(path, stream.read())

    def make_durable(self, path: str) -> None:
        """Whatever is there is durable."""

    def delete(self, path: str) -> bool:
        return self.objects.pop(path, None) is not None

    def length(self, path: str) -> int | None:
        return len(self.objects[path]) if path in self.objects else None

    def list(self, folder: str) -> Sequence[Entry]:
        below = [path.removeprefix(f"{folder}/") for path in self.objects if path.startswith(f"{folder}/")]
        names = {name.partition("/")[0] for name in below}
        return sorted(Entry(name, self.length(f"{folder}/{name}")) for name in names)

    def read(self, path: str) -> bytes | None:
        return self.objects.get(path)

    def open(self, path: str) -> BinaryIO:
        if path not in self.objects:
            raise FileNotFoundError(path)
        return io.BytesIO(self.objects[path])

    def rename_folder(self, source: str, target: str) -> None:
        paths = [path for path in self.objects if path.startswith(f"{source}/")]
        if not paths:
            raise FileNotFoundError(source)
        if self.list(target):
            raise FileExistsError(target)
        for path in paths:
            self.objects[target + path.removeprefix(source)] = self.objects.pop(path)


def multipart() -> Storage:
    store, files = MultipartFileStore(), ObjectFiles()
    return Storage(lambda _: store, lambda: files)


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
