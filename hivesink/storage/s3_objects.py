"""Objects and uploads of S3: each method is a request, or a few."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import quote, unquote

from hivesink.core.partfile import PartName, Pending, Stage, parse_staged
from hivesink.errors import HiveSinkError, StoreUnavailable, Unsupported
from hivesink.storage.fs import RangedFile
from hivesink.storage.hdfs_address import quantity
from hivesink.storage.s3_client import Bucket

_LOCATION = re.compile(r"s3a://([^/@]+)(/.*)?", re.DOTALL)
_UPLOAD = re.compile(
    r"(?P<folder>.+)/\.upload-(?P<id>[^/]+)(?:/\.hivesink-waiting-[^/]+)?/(?P<hidden>[^/]+)", re.DOTALL
)
COPIED = 5 << 30
"""The most bytes that a request copies."""
SentPart = tuple[int, str, int]
"""Number, tag and length of a part of an upload."""
PART, MOVED = "hivesink-part", "hivesink-moved-from"
"""Metadata: a part's name, set when its upload begins; where it was before, on a copy of it."""


class Object(NamedTuple):
    """What is known of an object without its bytes."""

    length: int
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """A key in a bucket. `path` is its location, as its caller spells it."""

    bucket: Bucket
    key: str
    path: str

    def ask(self, action: str, method: str, **given: Any) -> Any:
        """The answer of a method of the client, for this key. Takes and raises what `Bucket.ask` does."""
        return self.bucket.ask(action, self.path, method, Key=self.key, **given)

    def find(self, action: str, method: str, **given: Any) -> Any:
        """As `ask`; None where there is nothing."""
        with suppress(FileNotFoundError):
            return self.ask(action, method, **given)
        return None

    def head(self) -> Object | None:
        answer = self.find("look at", "head_object")
        if answer is None:
            return None
        # MinIO spells their names as those of headers.
        return Object(answer["ContentLength"], {name.lower(): text for name, text in answer["Metadata"].items()})

    def get(self, span: str | None = None) -> bytes | None:
        """Its bytes, all or of an HTTP range; None where there are none."""
        answer = self.find("read", "get_object", **({"Range": span} if span else {}))
        data: bytes | None = answer and answer["Body"]
        return data

    def put(self, data: bytes, action: str = "create", *, anew: bool = False, **given: Any) -> None:
        """`anew`: only where nothing is, which may raise `storage.fs.DOUBTS`."""
        only = {"IfNoneMatch": "*"} if anew else {}
        only |= self.bucket.encryption
        self.ask(action, "put_object", Body=data, changing=anew, **only, **given)

    def delete(self) -> None:
        self.find("delete", "delete_object")

    def begin(self, metadata: Mapping[str, str]) -> Upload:
        """Begin an upload to this key."""
        given: dict[str, Any] = {"Metadata": metadata, **self.bucket.of_uploads}
        return Upload(self, self.ask("create", "create_multipart_upload", **given)["UploadId"])

    def copy_to(self, target: Place, length: int, metadata: Mapping[str, str]) -> None:
        """Copy to where nothing is, on the server: an upload whose parts are copied. May raise `storage.fs.DOUBTS`."""
        upload, parts = target.begin(metadata), list[SentPart]()
        source = {"Bucket": self.bucket.name, "Key": self.key}
        try:
            for number, start in enumerate(range(0, length, COPIED), 1):
                span = f"bytes={start}-{min(start + COPIED, length) - 1}"
                more: dict[str, Any] = {"PartNumber": number, "UploadId": upload.id, "CopySourceRange": span}
                part = target.ask("copy", "upload_part_copy", CopySource=source, **more)
                parts.append((number, part["CopyPartResult"]["ETag"], 0))
            upload.complete(parts)
        except Exception:
            with suppress(HiveSinkError):
                upload.abort()
            raise


@dataclass(frozen=True)
class Upload:
    """A multipart upload to `place`: what it holds is invisible until it is completed."""

    place: Place
    id: str

    @property
    def staged(self) -> str:
        """The upload as the path of a staged part; empty for an upload of anything else."""
        folder, _, file = self.place.path.rpartition("/")
        name = PartName.parse(file)
        return f"{folder}/.upload-{quote(self.id, safe='')}/{name.staged(Stage.PENDING)}" if name else ""

    def send(self, number: int, body: Any) -> str:
        """Send a part, whose tag is returned. Raises FileNotFoundError if something has aborted the upload."""
        given: dict[str, Any] = {"UploadId": self.id, "PartNumber": number, "Body": body}
        tag: str = self.place.ask("write", "upload_part", **given)["ETag"]
        return tag

    def parts(self) -> list[SentPart] | None:
        """Its parts; None if the upload was completed or aborted, or never was."""
        parts: list[SentPart] = []
        page: Any = {"IsTruncated": True}
        while page.get("IsTruncated"):
            more = {"PartNumberMarker": page["NextPartNumberMarker"]} if parts else {}
            page = self.place.find("look at", "list_parts", UploadId=self.id, **more)
            if page is None:
                return None
            parts += [(part["PartNumber"], part["ETag"], part["Size"]) for part in page.get("Parts", ())]
        return parts

    def complete(self, parts: Sequence[SentPart]) -> None:
        """Ask for the object. Only a look shows whether it is there then: `storage.fs.DOUBTS` don't say."""
        named = {"Parts": [{"PartNumber": number, "ETag": tag} for number, tag, _ in parts]}
        given: dict[str, Any] = {"UploadId": self.id, "MultipartUpload": named, "IfNoneMatch": "*"}
        self.place.ask("publish", "complete_multipart_upload", changing=True, **given)

    def abort(self) -> None:
        self.place.find("delete", "abort_multipart_upload", UploadId=self.id)


@dataclass(frozen=True)
class Objects:
    """What is in the buckets that `connect` finds by name. Shared by threads."""

    connect: Callable[[str], Bucket]

    def at(self, location: str) -> Place:
        """Raises Unsupported for a location elsewhere."""
        match = _LOCATION.fullmatch(location)
        if match is None:
            shown = re.sub(r"//.*@", "//***@", location)
            what = f"the location {shown!r}"
            raise Unsupported(what, "it is not in S3", "write it as s3a://bucket/folder")
        key = re.sub(r"/+", "/", match[2] or "").strip("/")
        return Place(self.connect(match[1]), key, location.rstrip("/"))

    def upload(self, staged: str) -> Upload | None:
        """The upload that a staged path names; None for any other path."""
        match = _UPLOAD.fullmatch(staged)
        parsed = match and parse_staged(match["hidden"])
        return Upload(self.at(f"{match['folder']}/{parsed[0]}"), unquote(match["id"])) if match and parsed else None

    def listed(self, folder: str, *, deep: bool = False) -> Iterator[tuple[str, int | None]]:
        """What is below `folder`, by names relative to it: objects with lengths, and, unless `deep`, folders with None.

        What s3a and others leave to stand for folders is not among the objects: names that end in `/` or `_$folder$`.
        """
        for name, entry in self._entries(folder, "list_objects_v2", deep=deep):
            if entry is None or deep or (name and not name.endswith(("/", "_$folder$"))):
                yield name, entry and entry["Size"]

    def uploads(self, folder: str, *, deep: bool = False) -> Iterator[tuple[str, str]]:
        """The uploads that were begun for keys below `folder`: the key's name relative to it, and the upload's id."""
        entries = self._entries(folder, "list_multipart_uploads", deep=deep)
        yield from ((name, entry["UploadId"]) for name, entry in entries if entry)

    def _entries(self, folder: str, method: str, *, deep: bool) -> Iterator[tuple[str, Any]]:
        """What a listing says of each name below `folder`; None of a folder."""
        place = self.at(folder)
        prefix = f"{place.key}/" if place.key else ""
        given: dict[str, Any] = {"Prefix": prefix, **({} if deep else {"Delimiter": "/"})}
        page: Any = {"IsTruncated": True}
        while page.get("IsTruncated"):
            page = place.bucket.ask("list", place.path, method, **given)
            for entry in (*page.get("Contents", ()), *page.get("Uploads", ())):
                yield entry["Key"].removeprefix(prefix), entry
            for entry in page.get("CommonPrefixes", ()):
                yield entry["Prefix"].removeprefix(prefix).rstrip("/"), None
            given |= {argument: page[name] for name, argument in _MARKERS.items() if page.get(name)}


_MARKERS = {"NextContinuationToken": "ContinuationToken", "NextKeyMarker": "KeyMarker"}
"""Where a listing goes on. By keys alone: a part's key has no other upload, but one without an answer, and empty."""
_LEAST, _USUAL = 5 << 20, "64m"
"""Bytes of an upload's parts: S3's least, and s3a's default."""
_IN_MEMORY = 1 << 20
"""Bytes of a file that is being written; more of them wait on the local disk, as with s3a."""


class NewObject(io.RawIOBase):
    """The bytes of an object that is being written: an upload, begun when a part of it is full, if not before.

    `name` is what its metadata will say. Implements `ports.NewFile` for a part. Closing it gives up its `upload`, if it
    has any; if that fails, an upload is left.
    """

    def __init__(self, place: Place, name: str) -> None:
        super().__init__()
        self.place, self.name = place, name
        self.upload: Upload | None = None
        self.sent: list[SentPart] = []
        self._size = max(_LEAST, quantity(place.bucket.get("multipart.size") or _USUAL))
        self.stream = cast("BinaryIO", self)
        self.rest = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  closed with this

    def begin(self) -> Upload:
        """The upload, begun if it wasn't yet."""
        self.upload = self.upload or self.place.begin({PART: self.name})
        return self.upload

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return sum(size for _, _, size in self.sent) + self.rest.tell()

    def write(self, data: Any, /) -> int:
        piece = memoryview(data).cast("B")
        try:
            self.rest.write(piece)
        except OSError as error:
            reason = f"the local disk: {error.strerror}"
            raise StoreUnavailable(action="write", path=self.place.path, reason=reason) from error
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
        except FileNotFoundError as error:
            reason = "something has aborted its upload; nothing was committed: start the job again"
            raise StoreUnavailable(action="write", path=self.place.path, reason=reason) from error
        self.rest.seek(0)
        self.rest.truncate()

    def close_for_commit(self) -> Pending:
        self.send()
        pending = Pending(self.begin().staged, self.place.path, self.tell())
        self.upload = None
        self.close()
        return pending

    def close(self) -> None:
        self.rest.close()
        super().close()
        upload, self.upload = self.upload, None
        if upload is not None:
            with suppress(HiveSinkError):
                upload.abort()

    abort = close


def stored(place: Place, lost: Exception) -> BinaryIO:
    """An object to read by ranges, each read a request. Its length is asked for where it is needed.

    What asks for it raises `lost` where there is nothing.
    """

    def measure() -> int:
        there = place.head()
        if there is None:
            raise lost
        return there.length

    def read(start: int, size: int) -> bytes:
        data = place.get(f"bytes={start}-{start + size - 1}")
        if data is None:
            # There are no bytes behind the end, either.
            measure()
        return data or b""

    return cast("BinaryIO", RangedFile(read, measure))
