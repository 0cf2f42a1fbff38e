"""S3 (`s3a://`): there is no rename, and no folder but as a prefix of keys.

A manifest is created by a conditional PUT. A part is a multipart upload to its final key, invisible until it is
published, which is the upload's completion. Nothing is decided by a listing, nor by an answer to a completion: that is
judged by the object's length and by the part's name in its metadata, which was set when the upload began.
"""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from posixpath import basename
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from hivesink import errors
from hivesink.core.partfile import Finished, InProgress, PartName, Pending, PublishStep, decide_publish
from hivesink.core.partition import normal
from hivesink.storage.fs import TRIES, Entry, Storage, join, retry_unknown
from hivesink.storage.rename_store import run_parallel
from hivesink.storage.s3_checks import check
from hivesink.storage.s3_client import Failed, Kind
from hivesink.storage.s3_objects import MOVED, PART, NewObject, Objects, StoredObject, Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hivesink.storage.s3_objects import Object, Place, SentPart

_T = TypeVar("_T")
_KNOWN = 10_000
"""Uploads whose parts are remembered between a look and their publish."""
_DOUBTS = (Failed, errors.OutcomeUnknown, errors.StoreUnavailable)
"""What a request ends with after which only a look shows what happened."""


class S3Files:
    """Implements `storage.fs.Files`. Bytes and names that can be read are durable."""

    def __init__(self, objects: Objects, parallel: int = 16) -> None:
        self._objects, self._parallel = objects, parallel

    def create(self, path: str, data: bytes) -> None:
        place = self._objects.at(path)
        try:
            place.put(data, anew=True)
        except (Failed, errors.OutcomeUnknown) as doubt:
            stored = self._judged(place, doubt)
            if stored == data:
                return
            if stored is not None:
                raise FileExistsError(path) from doubt
            if isinstance(doubt, errors.OutcomeUnknown):
                raise
            if doubt.kind is Kind.TAKEN:
                raise FileNotFoundError(path) from doubt
            # Another request for this key was under way each time, and none of them is there.
            raise errors.OutcomeUnknown(action="create", path=path, reason=doubt.reason) from doubt

    def _judged(self, place: Place, doubt: Exception) -> bytes | None:
        """What is there after a create in doubt."""
        try:
            return place.get()
        except (errors.StoreUnavailable, errors.NotWritable) as error:
            raise errors.OutcomeUnknown(action="create", path=place.path, reason=str(error)) from doubt

    def put(self, path: str, data: bytes) -> None:
        self._objects.at(path).put(data)

    def open_new(self, path: str) -> BinaryIO:
        place = self._objects.at(path)
        if place.head():
            raise FileExistsError(path)
        return cast("BinaryIO", NewObject(place, token_hex(8)))

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        new = cast("NewObject", stream)
        try:
            if new.upload is None:
                new.rest.seek(0)
                new.place.put(new.rest.read(), "close", anew=True, Metadata={PART: new.name})
            else:
                new.send()
                new.upload.complete(new.sent)
        except _DOUBTS as doubt:
            found = new.place.head()
            if found is None or found.metadata.get(PART) != new.name:
                raise errors.StoreUnavailable(action="close", path=path, reason=str(doubt)) from doubt
        new.finish()

    def make_durable(self, path: str) -> None:
        """Nothing to do."""

    def delete(self, path: str) -> bool:
        self._objects.at(path).delete()
        return True

    def length(self, path: str) -> int | None:
        found = self._objects.at(path).head()
        return found.length if found else None

    def list(self, folder: str) -> Sequence[Entry]:
        def is_there(name: str) -> bool:
            # Some servers keep folders that have become empty.
            return any(below[-1:] not in {"", "/"} for below, _ in self._objects.listed(join(folder, name), deep=True))

        entries = (Entry(*entry) for entry in self._objects.listed(folder))
        there = (entry for entry in entries if not entry.is_folder or is_there(entry.name))
        return sorted(there, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        return self._objects.at(path).get()

    def open(self, path: str) -> BinaryIO:
        """Without a look first: FileNotFoundError comes from the first read."""
        return cast("BinaryIO", StoredObject(self._objects.at(path)))

    def rename_folder(self, source: str, target: str) -> None:
        """Copy everything, then delete: done again after a kill, it leaves a part of the first copy beside the next.

        A log's `uid` is copied first and its manifests are deleted last, the newest at the end: so what is there of
        either log is known by its uid, and a start finds the old one whole, damaged or gone, never as it once was.
        """
        if next(iter(self._objects.listed(target)), None):
            raise FileExistsError(target)
        # What stands for a folder may stay: a folder without anything else is none.
        below = self._objects.listed(source, deep=True)
        names = {name: length for name, length in below if name[-1:] not in {"", "/"}}
        if not names:
            raise FileNotFoundError(source)

        def copy(name: str) -> None:
            old, new = (self._objects.at(join(folder, name)) for folder in (source, target))
            try:
                old.copy_to(new, names[name] or 0, {})
            except _DOUBTS as doubt:
                found = new.head()
                if found is None or found.length != names[name]:
                    raise errors.StoreUnavailable(action="rename", path=old.path, reason=str(doubt)) from doubt

        first = sorted(names, key=lambda name: name != "uid")
        copy(first[0])
        run_parallel((partial(copy, name) for name in first[1:]), self._parallel)
        for name in sorted(names, key=lambda name: (name.startswith("manifests/"), name)):
            self._objects.at(join(source, name)).delete()


class S3FileStore:
    """Implements `ports.FileStore`."""

    keeps_staged = False
    """s3a's committers abort every upload below where their jobs write, and lifecycle rules do."""

    def __init__(self, objects: Objects, parallelism: int = 16) -> None:
        self._objects = objects
        self.parallelism = parallelism
        self._known: dict[str, list[SentPart]] = {}

    def run_parallel(self, calls: Iterable[Callable[[], _T]]) -> list[_T]:
        return run_parallel(calls, self.parallelism)

    def canonical(self, location: str) -> str:
        upload = self._objects.upload(location)
        name = upload and PartName.parse(basename(upload.place.key))
        return upload.staged(name) if upload and name else normal(location)

    def create(self, part: InProgress) -> _StagedPart:
        new = NewObject(self._objects.at(f"{part.folder}/{part.name}"), str(part.name))
        new.begin(**new.place.bucket.settings.storage_class)
        return _StagedPart(part, new)

    def set_aside(self, part: Pending, folder: str) -> Pending:
        """An upload is in no folder: only its path says that it waits for its partition."""
        above, hidden = part.staged.rsplit("/", 1)
        return Pending(f"{above}/{basename(folder)}/{hidden}", part.target, part.length)

    def publish(self, part: Pending) -> Finished:
        upload, target = self._objects.upload(part.staged), self._objects.at(part.target)
        done = self._completed(upload, part) if upload else None
        source = upload.place if upload else self._objects.at(part.staged)
        if (source.bucket.name, source.key) != (target.bucket.name, target.key):
            self._move(source, target, part)
        elif found := done or target.head():
            decide_publish(part, None, found.length)
        else:
            raise errors.PartLost.missing(part.staged, part.target)
        return part.finish()

    def _completed(self, upload: Upload, part: Pending) -> Object | None:
        """The object that the upload is now; None if the upload isn't there any more. Raises as `publish`."""
        doubt: Exception | None = None
        for _ in range(TRIES):
            parts = self._known.pop(upload.id, None) or upload.parts()
            if parts is None:
                return None
            length = sum(size for _, _, size in parts)
            if length != part.length:
                raise errors.PartLost.wrong_length(part.staged, part.length, length)
            try:
                upload.complete(parts)
            except _DOUBTS as error:
                doubt = error
            found = upload.place.head()
            if found and found.metadata.get(PART) == basename(upload.place.key):
                return found
            if found and upload.parts() is not None:
                raise errors.TargetTaken(part.staged, upload.place.path)
        raise errors.OutcomeUnknown(action="publish", path=part.target, reason=str(doubt)) from doubt

    def _move(self, source: Place, target: Place, part: Pending) -> None:
        """Copy a visible part to where its partition is now, then delete it. Repeatable after a kill anywhere.

        Its metadata tells our own copy from a user's, whose source stays.
        """
        doubt: Exception | None = None
        origin = sha256(f"{source.bucket.name}/{source.key}".encode()).hexdigest()
        for _ in range(TRIES):
            old, new = source.head(), target.head()
            lengths = (found and found.length for found in (old, new))
            is_copy = new is not None and new.metadata.get(MOVED) == origin
            step = decide_publish(Pending(source.path, part.target, part.length), *lengths, one_file=is_copy)
            if step is PublishStep.UNLINK:
                source.delete()
            if step is not PublishStep.RENAME or old is None:
                return
            try:
                own = target.bucket.settings.storage_class
                source.copy_to(target, part.length, {**old.metadata, MOVED: origin}, **own)
            except _DOUBTS as error:
                doubt = error
        raise errors.OutcomeUnknown(action="publish", path=part.target, reason=str(doubt)) from doubt

    def discard(self, staged: Iterable[str]) -> None:
        uploads = []
        for path in staged:
            upload = self._objects.upload(path)
            if upload is None:
                message = f"{path} is not a staged part"
                raise ValueError(message)
            uploads.append(upload)
        self.run_parallel(upload.abort for upload in uploads)

    def remove(self, files: Iterable[Finished]) -> None:
        def unless_changed(file: Finished) -> None:
            if self.find(file.path) == file:
                self._objects.at(file.path).delete()

        self.run_parallel(partial(unless_changed, file) for file in files)

    def staged(self, folder: str) -> Sequence[str]:
        found = ((self._objects.at(join(folder, name)), name, number) for name, number in self._objects.uploads(folder))
        parts = ((Upload(place, number), PartName.parse(name)) for place, name, number in found)
        return sorted(upload.staged(name) for upload, name in parts if name)

    def visible(self, folder: str) -> Sequence[Finished]:
        entries = sorted((name, size) for name, size in self._objects.listed(folder) if size is not None)
        return [Finished(join(folder, name), size) for name, size in entries if name[0] not in "._"]

    def find(self, path: str) -> Finished | None:
        upload = self._objects.upload(path)
        if upload is None:
            found = self._objects.at(path).head()
            return Finished(path, found.length) if found else None
        parts = upload.parts()
        if parts is None:
            return None
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[upload.id] = parts
        return Finished(path, sum(size for _, _, size in parts))

    def open(self, path: str) -> BinaryIO:
        place = self._objects.at(path)
        found = place.head()
        if found is None:
            raise errors.StoreUnavailable(action="read", path=path, reason="it is not there")
        return cast("BinaryIO", io.BufferedReader(StoredObject(place, found.length), 1 << 16))

    def mark(self, path: str) -> None:
        def create() -> None:
            with suppress(Failed):
                self._objects.at(path).put(b"", anew=True)

        retry_unknown("create", path, create)

    def walk(self, folder: str) -> Iterable[str]:
        folders: set[str] = set()
        for name, _ in chain(self._objects.listed(folder, deep=True), self._objects.uploads(folder, deep=True)):
            above = name.rpartition("/")[0]
            while above not in folders:
                folders.add(above)
                above = above.rpartition("/")[0]
        return [join(folder, name).rstrip("/") for name in sorted(folders)]

    def prune(self, folders: Iterable[str]) -> None:
        """An empty folder is none."""


@dataclass(frozen=True, slots=True)
class _StagedPart:
    """Implements `ports.StagedFile`."""

    part: InProgress
    new: NewObject

    @property
    def stream(self) -> BinaryIO:
        return cast("BinaryIO", self.new)

    def close_for_commit(self) -> Pending:
        self.new.send()
        upload, whole = self.new.begin(), self.part.close(self.new.tell())
        self.new.finish()
        return Pending(upload.staged(self.part.name), whole.target, whole.length)

    def abort(self) -> None:
        self.new.close()


def storage(properties: Mapping[str, str]) -> Storage:
    """S3 by the site's `properties`. Files have no modes. Raises Unsupported without boto3."""
    objects = Objects(properties)
    return Storage(lambda _: S3FileStore(objects), lambda: S3Files(objects), partial(check, objects))
