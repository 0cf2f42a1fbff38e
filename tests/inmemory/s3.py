# ruff: noqa: N803  boto3's own names

"""S3 in memory, as far as the sink asks: the methods of boto3's client, one bucket, with its refusals."""

from __future__ import annotations

import io
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from hivesink.storage.s3_client import Bucket
from hivesink.storage.s3_objects import Objects


def refused(status: int, code: str, operation: str = "Request") -> ClientError:
    """The error that boto3 raises for such an answer."""
    said = {"Error": {"Code": code, "Message": "said so"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(said, operation)


@dataclass
class Stored:
    data: bytes
    metadata: dict[str, str]


@dataclass
class Begun:
    key: str
    metadata: dict[str, str]
    parts: dict[int, bytes] = field(default_factory=dict)


ANSWERED: dict[str, Any] = {"ResponseMetadata": {"HTTPStatusCode": 200, "RequestId": "1"}}
"""What each of S3's own answers has."""


class MemoryS3:
    """A client of boto3's shape. `objects` and `uploads` are what is there; every request is atomic.

    A listing gives `page` entries at a time.
    """

    def __init__(self, page: int = 2) -> None:
        self._size = page
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, Begun] = {}
        self._begun = 0
        self._lock = threading.RLock()

    def _require_free(self, key: str, given: dict[str, Any]) -> None:
        if given.get("IfNoneMatch") == "*" and key in self.objects:
            raise refused(412, "PreconditionFailed")

    def _stored(self, key: str) -> Stored:
        if key not in self.objects:
            raise refused(404, "NoSuchKey")
        return self.objects[key]

    def _upload(self, number: str, key: str) -> Begun:
        if number not in self.uploads or self.uploads[number].key != key:
            raise refused(404, "NoSuchUpload")
        return self.uploads[number]

    def put_object(self, *, Key: str, Body: bytes, Metadata: dict[str, str] | None = None, **given: Any) -> Any:
        with self._lock:
            self._require_free(Key, given)
            self.objects[Key] = Stored(bytes(Body), Metadata or {})
        return {"ETag": '"of"', **ANSWERED}

    def get_object(self, *, Key: str, Range: str = "bytes=0-", **_: Any) -> Any:
        stored = self._stored(Key)
        data = stored.data
        first, last = re.findall(r"\d*", Range.removeprefix("bytes="))[0], Range.rpartition("-")[2]
        if data and int(first) >= len(data):
            raise refused(416, "InvalidRange")
        data = data[int(first) : int(last) + 1 if last else None]
        return {"Body": io.BytesIO(data), "ContentLength": len(data), "Metadata": dict(stored.metadata), **ANSWERED}

    def head_object(self, *, Key: str, **_: Any) -> Any:
        stored = self._stored(Key)
        return {"ContentLength": len(stored.data), "Metadata": dict(stored.metadata), **ANSWERED}

    def delete_object(self, *, Key: str, **_: Any) -> Any:
        self.objects.pop(Key, None)
        return ANSWERED

    def create_multipart_upload(self, *, Key: str, Metadata: dict[str, str], **_: Any) -> Any:
        with self._lock:
            self._begun += 1
            number = f"up/{self._begun}.é="
            self.uploads[number] = Begun(Key, Metadata)
        return {"UploadId": number, **ANSWERED}

    def upload_part(self, *, Key: str, UploadId: str, PartNumber: int, Body: Any, **_: Any) -> Any:
        with self._lock:
            data = Body if isinstance(Body, bytes) else Body.read()
            self._upload(UploadId, Key).parts[PartNumber] = data
        return {"ETag": f'"{hash(data)}"', **ANSWERED}

    def upload_part_copy(
        self,
        *,
        Key: str,
        UploadId: str,
        PartNumber: int,
        CopySource: dict[str, str],
        CopySourceRange: str,
        **_: Any,
    ) -> Any:
        data = self.get_object(Key=CopySource["Key"], Range=CopySourceRange)["Body"].read()
        part = self.upload_part(Key=Key, UploadId=UploadId, PartNumber=PartNumber, Body=data)
        return {"CopyPartResult": part, **ANSWERED}

    def list_parts(self, *, Key: str, UploadId: str, PartNumberMarker: int = 0, **_: Any) -> Any:
        parts = sorted(self._upload(UploadId, Key).parts.items())
        left = [(number, data) for number, data in parts if number > PartNumberMarker]
        page = [{"PartNumber": n, "ETag": f'"{hash(data)}"', "Size": len(data)} for n, data in left[: self._size]]
        more = {"NextPartNumberMarker": page[-1]["PartNumber"]} if page else {}
        return {"Parts": page, "IsTruncated": len(left) > len(page), **more, **ANSWERED}

    def complete_multipart_upload(
        self,
        *,
        Key: str,
        UploadId: str,
        MultipartUpload: dict[str, Any],
        **given: Any,
    ) -> Any:
        with self._lock:
            begun = self._upload(UploadId, Key)
            self._require_free(Key, given)
            whole = b"".join(begun.parts[part["PartNumber"]] for part in MultipartUpload["Parts"])
            self.objects[Key] = Stored(whole, begun.metadata)
            del self.uploads[UploadId]
        return {"ETag": '"of"', **ANSWERED}

    def abort_multipart_upload(self, *, Key: str, UploadId: str, **_: Any) -> Any:
        with self._lock:
            self._upload(UploadId, Key)
            del self.uploads[UploadId]
        return ANSWERED

    def list_objects_v2(
        self,
        *,
        Prefix: str,
        Delimiter: str = "",
        ContinuationToken: str = "",
        **_: Any,
    ) -> Any:
        return self._page(Prefix, Delimiter, [(key, key) for key in self.objects], ContinuationToken)

    def list_multipart_uploads(
        self,
        *,
        Prefix: str,
        Delimiter: str = "",
        KeyMarker: str = "",
        UploadIdMarker: str = "\uffff",
        **_: Any,
    ) -> Any:
        after = f"{KeyMarker}\n{UploadIdMarker}" if KeyMarker else ""
        return self._page(
            Prefix, Delimiter, [(b.key, f"{b.key}\n{number}") for number, b in self.uploads.items()], after
        )

    def _page(self, prefix: str, delimiter: str, entries: list[tuple[str, str]], after: str) -> Any:
        """Entries are (key, what they are sorted by)."""
        found: dict[str, tuple[str, str]] = {}
        for key, order in entries:
            below = key.removeprefix(prefix)
            if key.startswith(prefix):
                head, slash, _ = below.partition(delimiter) if delimiter else (below, "", "")
                found[prefix + head + slash if slash else order] = (key, prefix + head + slash if slash else "")
        names = [name for name in sorted(found) if name > after]
        contents, uploads, folders = [], [], []
        for name in names[: self._size]:
            key, folder = found[name]
            if folder:
                folders.append({"Prefix": folder})
            elif "\n" in name:
                uploads.append({"Key": key, "UploadId": name.partition("\n")[2]})
            else:
                contents.append({"Key": key, "Size": len(self.objects[key].data)})
        last = names[: self._size][-1] if names else ""
        markers = {"NextContinuationToken": last, "NextKeyMarker": last.partition("\n")[0]}
        truncated = {"IsTruncated": len(names) > self._size, "NextUploadIdMarker": last.partition("\n")[2], **markers}
        return {"Contents": contents, "Uploads": uploads, "CommonPrefixes": folders, **truncated, **ANSWERED}


def objects_of(client: Any, tries: int = 1) -> Objects:
    """The objects of a single client, which asks `tries` times."""
    return Objects(lambda name: Bucket(name, {}, client, tries))
