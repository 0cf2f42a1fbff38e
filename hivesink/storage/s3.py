"""S3 (`s3a://`): there is no rename, and no folder but as a prefix of keys.

A manifest is created by a conditional PUT. A part is a multipart upload to its final key, invisible until it is
published, which is the upload's completion. Nothing is decided by a listing, nor by an answer to a completion: that is
judged by the object's length and by the part's name in its metadata, which was set when the upload began.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain
from posixpath import basename
from secrets import token_hex
from typing import BinaryIO, cast

from hivesink import errors
from hivesink.core.partfile import Finished, InProgress, Pending, PublishStep, decide_publish
from hivesink.core.partition import normal
from hivesink.storage.fs import DOUBTS, TRIES, Entry, Storage, join, put_once
from hivesink.storage.part_store import PartStore
from hivesink.storage.s3_checks import check
from hivesink.storage.s3_client import shared
from hivesink.storage.s3_objects import MOVED, PART, NewObject, Object, Objects, Place, SentPart, Upload, stored


class S3FileStore(PartStore):
    """Implements `ports.FileStore`."""

    keeps_staged = False
    """s3a's committers abort every upload below where their jobs write, and lifecycle rules do."""

    def __init__(self, objects: Objects, parallelism: int = 16) -> None:
        super().__init__(S3Files(objects), parallelism)
        self._objects = objects
        self._sent: dict[str, list[SentPart]] = {}  # between a look and the publish

    def canonical(self, location: str) -> str:
        upload = self._objects.upload(location)
        return (upload and upload.staged) or normal(location)

    def create(self, part: InProgress) -> NewObject:
        new = NewObject(self._objects.at(f"{part.folder}/{part.name}"), str(part.name))
        new.begin()
        return new

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
        else:
            stored = done or target.head()
            decide_publish(part, None, stored and stored.length)
        return part.finish()

    def _completed(self, upload: Upload, part: Pending) -> Object | None:
        """The object that the upload is now; None if the upload isn't there any more. Raises as `publish`."""
        doubt: Exception | None = None
        for _ in range(TRIES):
            parts = self._sent.pop(upload.id, None) or upload.parts()
            if parts is None:
                return None
            decide_publish(part, sum(size for _, _, size in parts), None)
            try:
                upload.complete(parts)
            except DOUBTS as error:
                doubt = error
            stored = upload.place.head()
            if stored and stored.metadata.get(PART) == basename(upload.place.key):
                return stored
            if stored and upload.parts() is not None:
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
            lengths = (stored and stored.length for stored in (old, new))
            is_copy = new is not None and new.metadata.get(MOVED) == origin
            step = decide_publish(Pending(source.path, part.target, part.length), *lengths, one_file=is_copy)
            if step is PublishStep.UNLINK:
                source.delete()
            if step is not PublishStep.RENAME or old is None:
                return
            try:
                source.copy_to(target, part.length, {**old.metadata, MOVED: origin})
            except DOUBTS as error:
                doubt = error
        raise errors.OutcomeUnknown(action="publish", path=part.target, reason=str(doubt)) from doubt

    def drop(self, staged: str) -> None:
        if upload := self._objects.upload(staged):
            upload.abort()

    def staged(self, folder: str) -> Sequence[str]:
        uploads = (Upload(self._objects.at(join(folder, key)), number) for key, number in self._objects.uploads(folder))
        return sorted(filter(None, (upload.staged for upload in uploads)))

    def find(self, path: str) -> Finished | None:
        upload = self._objects.upload(path)
        if upload is None:
            return super().find(path)
        parts = upload.parts()
        if parts is None:
            return None
        self._sent[upload.id] = parts
        return Finished(path, sum(size for _, _, size in parts))

    def open(self, path: str) -> BinaryIO:
        lost = errors.StoreUnavailable(action="read", path=path, reason="it is not there")
        stream = stored(self._objects.at(path), lost)
        stream.seek(0, io.SEEK_END)
        stream.seek(0)
        return cast("BinaryIO", io.BufferedReader(stream, 1 << 16))

    def mark(self, path: str) -> None:
        put_once(self._files, path, b"")

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


def storage(properties: Mapping[str, str]) -> Storage:
    """S3 by the site's `properties`. Files have no modes. Raises Unsupported without boto3."""
    own = frozenset(entry for entry in properties.items() if entry[0].startswith("fs.s3a."))
    objects = Objects(lambda bucket: shared(bucket, own))

    def written(path: str) -> float:
        return float(objects.at(path).ask("look at", "head_object")["LastModified"].timestamp())

    return Storage(lambda _: S3FileStore(objects), lambda: S3Files(objects), partial(check, objects), written=written)


class S3Files:
    """Implements `storage.fs.Files`. Bytes and names that can be read are durable."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def create(self, path: str, data: bytes) -> None:
        place = self._objects.at(path)
        try:
            place.put(data, anew=True)
        except DOUBTS as doubt:
            try:
                there = place.get()
            except (errors.StoreUnavailable, errors.NotWritable) as error:
                raise errors.OutcomeUnknown(action="create", path=path, reason=str(error)) from doubt
            if there is None and isinstance(doubt, errors.OutcomeUnknown):
                raise
            if there != data:
                # Something else was there, and may have gone since.
                raise (FileNotFoundError if there is None else FileExistsError)(path) from doubt

    def put(self, path: str, data: bytes) -> None:
        self._objects.at(path).put(data)

    def open_new(self, path: str) -> BinaryIO:
        """Whether the name is taken shows only as the file is closed."""
        return NewObject(self._objects.at(path), token_hex(8)).stream

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        new = cast("NewObject", stream)
        try:
            if new.upload is None:
                new.rest.seek(0)
                new.place.put(new.rest.read(), "close", anew=True, Metadata={PART: new.name})
            else:
                new.send()
                new.upload.complete(new.sent)
        except DOUBTS as doubt:
            stored = new.place.head()
            if stored is None or stored.metadata.get(PART) != new.name:
                raise errors.StoreUnavailable(action="close", path=path, reason=str(doubt)) from doubt
        new.upload = None
        new.close()

    def make_durable(self, path: str) -> None:
        """Nothing to do."""

    def delete(self, path: str) -> bool:
        self._objects.at(path).delete()
        return True

    def length(self, path: str) -> int | None:
        stored = self._objects.at(path).head()
        return stored.length if stored else None

    def is_folder(self, path: str) -> bool:  # noqa: ARG002  nothing is made there
        return True

    def list(self, folder: str) -> Sequence[Entry]:
        return sorted((Entry(*entry) for entry in self._objects.listed(folder)), key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        return self._objects.at(path).get()

    def open(self, path: str) -> BinaryIO:
        """Without a look first: FileNotFoundError comes from the first read."""
        return stored(self._objects.at(path), FileNotFoundError(path))
