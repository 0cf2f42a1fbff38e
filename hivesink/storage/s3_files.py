"""A log's files in S3: a manifest is created by a conditional PUT."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO, cast

from hivesink import errors
from hivesink.storage.fs import Entry, join
from hivesink.storage.s3_client import Failed
from hivesink.storage.s3_objects import PART, Objects
from hivesink.storage.s3_streams import NewObject, stored

if TYPE_CHECKING:
    from collections.abc import Sequence


DOUBTS = (Failed, errors.OutcomeUnknown, errors.StoreUnavailable)
"""What a request ends with after which only a look shows what happened."""


class S3Files:
    """Implements `storage.fs.Files`. Bytes and names that can be read are durable."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def create(self, path: str, data: bytes) -> None:
        place = self._objects.at(path)
        try:
            place.put(data, anew=True)
        except (Failed, errors.OutcomeUnknown) as doubt:
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
        except DOUBTS as doubt:
            stored = new.place.head()
            if stored is None or stored.metadata.get(PART) != new.name:
                raise errors.StoreUnavailable(action="close", path=path, reason=str(doubt)) from doubt
        new.finish()

    def make_durable(self, path: str) -> None:
        """Nothing to do."""

    def delete(self, path: str) -> bool:
        self._objects.at(path).delete()
        return True

    def length(self, path: str) -> int | None:
        stored = self._objects.at(path).head()
        return stored.length if stored else None

    def list(self, folder: str) -> Sequence[Entry]:
        def has_objects(name: str) -> bool:
            # Some servers keep folders that have become empty.
            return any(below[-1:] not in {"", "/"} for below, _ in self._objects.listed(join(folder, name), deep=True))

        entries = (Entry(*entry) for entry in self._objects.listed(folder))
        present = (entry for entry in entries if not entry.is_folder or has_objects(entry.name))
        return sorted(present, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        return self._objects.at(path).get()

    def open(self, path: str) -> BinaryIO:
        """Without a look first: FileNotFoundError comes from the first read."""
        return stored(self._objects.at(path))
