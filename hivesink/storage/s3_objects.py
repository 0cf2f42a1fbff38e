"""Objects and uploads of S3: each method is a request, or a few."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from hivesink.core.partfile import PartName, Stage, parse_staged
from hivesink.errors import HiveSinkError, NotWritable, StoreUnavailable, Unsupported
from hivesink.storage.s3_client import Bucket, Failed, Kind, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

_LOCATION = re.compile(r"s3a://([^/@]+)(/.*)?", re.DOTALL)
_UPLOAD = re.compile(
    r"(?P<folder>.+)/\.upload-(?P<id>[^/]+)(?:/\.hivesink-waiting-[^/]+)?/(?P<hidden>[^/]+)", re.DOTALL
)
COPIED = 5 << 30
"""The most bytes that one request copies."""
ANSWERS = frozenset({Kind.ABSENT, Kind.TAKEN})
"""What a conditional request may be answered with."""
_ABSENT = frozenset({Kind.ABSENT})
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

    def ask(
        self, action: str, method: str, may: Container[Kind] = (), /, *, changing: bool = False, **given: Any
    ) -> Any:
        """The answer of a method of the client, for this key. Raises as `Bucket.ask`."""
        return self.bucket.ask(action, self.path, method, may, changing=changing, Key=self.key, **given)

    def find(self, action: str, method: str, **given: Any) -> Any:
        """As `ask`; None where there is nothing."""
        try:
            return self.ask(action, method, _ABSENT, **given)
        except Failed:
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
        """`anew`: only where nothing is, which may raise Failed and OutcomeUnknown."""
        only = {"IfNoneMatch": "*"} if anew else {}
        only |= self.bucket.settings.encryption
        self.ask(action, "put_object", ANSWERS if anew else (), Body=data, changing=anew, **only, **given)

    def delete(self) -> None:
        self.end("delete_object", self.head)

    def end(self, method: str, look: Callable[[], object], **given: Any) -> None:
        """Delete what `look` shows. Raises StoreUnavailable if it is still there after another success than S3's."""
        said = self.find("delete", method, **given) or {}
        status = said.get("ResponseMetadata", {}).get("HTTPStatusCode", HTTPStatus.NO_CONTENT)
        if status != HTTPStatus.NO_CONTENT and look() is not None:
            reason = f"it is still there after the answer {status}"
            raise StoreUnavailable(action="delete", path=self.path, reason=reason)

    def begin(self, metadata: Mapping[str, str], **given: str) -> Upload:
        """Begin an upload to this key."""
        more: dict[str, Any] = {**self.bucket.settings.encryption, **given}
        return Upload(self, self.ask("create", "create_multipart_upload", Metadata=metadata, **more)["UploadId"])

    def copy_to(self, target: Place, length: int, metadata: Mapping[str, str], **given: str) -> None:
        """Copy to where nothing is, on the server: an upload whose parts are copied. Raises Failed, OutcomeUnknown."""
        upload, parts = target.begin(metadata, **given), list[SentPart]()
        source = {"Bucket": self.bucket.name, "Key": self.key}
        try:
            for number, start in enumerate(range(0, length, COPIED), 1):
                span = f"bytes={start}-{min(start + COPIED, length) - 1}"
                more: dict[str, Any] = {"PartNumber": number, "UploadId": upload.id, "CopySourceRange": span}
                part = target.ask("copy", "upload_part_copy", ANSWERS, CopySource=source, **more)
                parts.append((number, part["CopyPartResult"]["ETag"], 0))
            upload.complete(parts)
        except (HiveSinkError, Failed):
            with suppress(HiveSinkError):
                upload.abort()
            raise


@dataclass(frozen=True)
class Upload:
    """A multipart upload to `place`: what it holds is invisible until it is completed."""

    place: Place
    id: str

    def staged(self, name: PartName) -> str:
        """The upload as the path of a staged part."""
        return f"{self.place.path.rpartition('/')[0]}/.upload-{quote(self.id, safe='')}/{name.staged(Stage.PENDING)}"

    def send(self, number: int, body: Any) -> str:
        """Send a part, whose tag is returned. Raises Failed (ABSENT) if something has aborted the upload."""
        given: dict[str, Any] = {"UploadId": self.id, "PartNumber": number, "Body": body}
        tag: str = self.place.ask("write", "upload_part", _ABSENT, **given)["ETag"]
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
        """Ask for the object. Only a look shows whether it is there then: Failed and OutcomeUnknown don't say."""
        named = {"Parts": [{"PartNumber": number, "ETag": tag} for number, tag, _ in parts]}
        given: dict[str, Any] = {"UploadId": self.id, "MultipartUpload": named, "IfNoneMatch": "*"}
        self.place.ask("publish", "complete_multipart_upload", ANSWERS, changing=True, **given)

    def abort(self) -> None:
        self.place.end("abort_multipart_upload", self.parts, UploadId=self.id)


@dataclass(frozen=True)
class Objects:
    """The buckets of the site that `properties`, `fs.s3a.*`, describe, by location. Shared by threads."""

    properties: frozenset[tuple[str, str]]
    connect: Callable[[str, frozenset[tuple[str, str]]], Bucket] = shared

    def at(self, location: str) -> Place:
        """Raises Unsupported for a location elsewhere."""
        match = _LOCATION.fullmatch(location)
        if match is None:
            shown = re.sub(r"//.*@", "//***@", location)
            raise Unsupported(
                what=f"the location {shown!r}", why="it is not in S3", instead="write it as s3a://bucket/folder"
            )
        key = re.sub(r"/+", "/", match[2] or "").strip("/")
        return Place(self.connect(match[1], self.properties), key, location.rstrip("/"))

    def upload(self, staged: str) -> Upload | None:
        """The upload that a staged path names; None for any other path."""
        match = _UPLOAD.fullmatch(staged)
        parsed = match and parse_staged(match["hidden"])
        return Upload(self.at(f"{match['folder']}/{parsed[0]}"), unquote(match["id"])) if match and parsed else None

    def listed(self, folder: str, *, deep: bool = False) -> Iterator[tuple[str, int | None]]:
        """What is below `folder`, by names relative to it: objects with lengths, and, unless `deep`, folders with None.

        What s3a and others leave to stand for folders is not among the objects: names that end in `/` or `_$folder$`.
        """
        for page in self._pages(folder, "list_objects_v2", {"NextContinuationToken": "ContinuationToken"}, deep=deep):
            base = len(page["Prefix"])
            for entry in page.get("Contents", ()):
                name = entry["Key"][base:]
                if deep or (name and not name.endswith(("/", "_$folder$"))):
                    yield name, entry["Size"]
            yield from ((entry["Prefix"][base:].rstrip("/"), None) for entry in page.get("CommonPrefixes", ()))

    def uploads(self, folder: str, *, deep: bool = False) -> Iterator[tuple[str, str]]:
        """The uploads that were begun for keys below `folder`: the key's name relative to it, and the upload's id."""
        markers = {"NextKeyMarker": "KeyMarker", "NextUploadIdMarker": "UploadIdMarker"}
        for page in self._pages(folder, "list_multipart_uploads", markers, deep=deep):
            base = len(page["Prefix"])
            yield from ((entry["Key"][base:], entry["UploadId"]) for entry in page.get("Uploads", ()))

    def _pages(self, folder: str, method: str, markers: Mapping[str, str], *, deep: bool) -> Iterator[Any]:
        place = self.at(folder)
        prefix = f"{place.key}/" if place.key else ""
        given: dict[str, Any] = {"Prefix": prefix, **({} if deep else {"Delimiter": "/"})}
        while True:
            try:
                page = place.bucket.ask("list", place.path, method, **given)
            except NotWritable:
                # versitygw refuses the one that it gave. A part's key has no other upload, but one that got no answer.
                if given.pop("UploadIdMarker", None) is None:
                    raise
                continue
            yield {**page, "Prefix": prefix}
            if not page.get("IsTruncated"):
                return
            given |= {argument: page[name] for name, argument in markers.items() if page.get(name)}
