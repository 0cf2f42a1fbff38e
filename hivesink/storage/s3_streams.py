"""The bytes of S3's objects as Python's file objects."""

from __future__ import annotations

import io
import tempfile
from contextlib import suppress
from typing import Any, BinaryIO, cast

from hivesink.errors import HiveSinkError, StoreUnavailable
from hivesink.storage.hdfs_address import quantity
from hivesink.storage.ranged import RangedFile
from hivesink.storage.s3_client import Failed
from hivesink.storage.s3_objects import PART, Place, SentPart, Upload

_LEAST, _USUAL = 5 << 20, "64m"
"""Bytes of an upload's parts: S3's least, and s3a's default."""
_IN_MEMORY = 1 << 20
"""Bytes of a file that is being written; more of them wait on the local disk, as with s3a."""


class NewObject(io.RawIOBase):
    """The bytes of an object that is being written: an upload, begun when a part of it is full, if not before.

    `name` is what its metadata will say. Closing it without `finish` gives it up; if that fails, an upload is left.
    """

    def __init__(self, place: Place, name: str) -> None:
        super().__init__()
        self.place, self.name = place, name
        self.upload: Upload | None = None
        self.sent: list[SentPart] = []
        self._size = max(_LEAST, quantity(place.bucket.settings.get("multipart.size") or _USUAL))
        self._length = 0
        self.rest = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  closed with this

    def begin(self, **given: str) -> Upload:
        """The upload, begun if it wasn't yet."""
        if self.upload is None:
            self.upload = self.place.begin({PART: self.name}, **given)
        return self.upload

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any, /) -> int:
        piece = memoryview(data).cast("B")
        try:
            self.rest.write(piece)
        except OSError as error:
            raise StoreUnavailable(
                action="write", path=self.place.path, reason=f"the local disk: {error.strerror}"
            ) from error
        self._length += len(piece)
        if self.rest.tell() >= self._size:
            self.send()
        return len(piece)

    def send(self) -> None:
        """Send what is left as a part; an upload has at least one. Raises StoreUnavailable, NotWritable."""
        if self.sent and not self.rest.tell():
            return
        upload, number, size = self.begin(), len(self.sent) + 1, self.rest.tell()
        try:
            self.sent.append((number, upload.send(number, self.rest), size))
        except Failed as failed:
            reason = f"something has aborted its upload ({failed.reason}); nothing was committed: start the job again"
            raise StoreUnavailable(action="write", path=self.place.path, reason=reason) from failed
        self.rest.seek(0)
        self.rest.truncate()

    def finish(self) -> None:
        """All has been sent: close it, and keep the upload."""
        self.upload = None
        self.close()

    def close(self) -> None:
        self.rest.close()
        super().close()
        upload, self.upload = self.upload, None
        if upload is not None:
            with suppress(HiveSinkError):
                upload.abort()


def stored(place: Place, length: int | None = None, lost: Exception | None = None) -> BinaryIO:
    """An object to read by ranges, each read a request. Its length is asked for where it is needed.

    A read raises `lost` where nothing is any more; FileNotFoundError without it.
    """

    def read(start: int, size: int) -> bytes:
        data = place.get(f"bytes={start}-{start + size - 1}")
        # There are no bytes behind the end, either.
        if data is None and place.head() is None:
            raise lost or FileNotFoundError(place.path)
        return data or b""

    def measure() -> int:
        there = place.head()
        return there.length if there else 0

    return cast("BinaryIO", RangedFile(read, measure if length is None else length))
