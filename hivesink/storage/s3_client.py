"""S3 by boto3: a client for each process and bucket, made from a site's `fs.s3a.*`, and what its answers mean.

boto3 itself tries nothing again: what it would hide, whether an earlier try may still take effect, decides here.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from hivesink.errors import InvalidOption, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported

TRIES = 10
"""With growing pauses: some 20 seconds of throttling, or of a server that is away."""
_LONGEST_PAUSE = 10.0
_PATIENCE = 120.0
"""Seconds after which nothing is tried again: a server that swallows requests costs a time-out for each."""
_AWS = re.compile(r"(?:https?://)?s3[.-]?([a-z0-9-]*)\.amazonaws\.com(?:\.cn)?/?")
_SSE = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
_BUSY = re.compile(r"SlowDown|Throttl|TooManyRequests|RequestLimitExceeded|RequestTimeout$|BandwidthLimit")
_LATER = re.compile(r"Expired|TokenRefreshRequired|RequestTimeTooSkewed")
_KINDS: Mapping[int, type[Exception]] = {
    404: FileNotFoundError,
    409: OutcomeUnknown,
    412: FileExistsError,
    416: FileNotFoundError,
    429: OutcomeUnknown,
    501: NotWritable,
}
"""What a refusal's status means; of others, those from 500 on may pass."""


@dataclass(frozen=True)
class Settings:
    """What a site says of a bucket: `fs.s3a.bucket.NAME.*` wins over `fs.s3a.*`."""

    name: str
    properties: Mapping[str, str]

    def get(self, name: str) -> str | None:
        special = self.properties.get(f"fs.s3a.bucket.{self.name}.{name}")
        return special or self.properties.get(f"fs.s3a.{name}") or None

    @property
    def encryption(self) -> dict[str, str]:
        """How new objects are encrypted, as arguments. Raises InvalidOption."""
        kind = self.get("encryption.algorithm") or self.get("server-side-encryption-algorithm")
        key = self.get("encryption.key") or self.get("server-side-encryption.key")
        if kind is None:
            return {}
        if kind not in _SSE:
            raise InvalidOption((f"fs.s3a.encryption.algorithm = {kind!r}: hivesink knows {', '.join(_SSE)}",))
        return {"ServerSideEncryption": _SSE[kind], **({"SSEKMSKeyId": key} if key and "KMS" in kind else {})}

    @property
    def of_uploads(self) -> dict[str, str]:
        """What new uploads are asked for: how they are encrypted, and their storage class. Raises InvalidOption."""
        name = self.get("create.storage.class")
        return {**self.encryption, **({"StorageClass": name.upper()} if name else {})}


def client(settings: Settings) -> Any:
    """A client of boto3 for that bucket. What the site doesn't say, boto3's own chain does.

    Raises Unsupported, InvalidOption.
    """
    try:
        import boto3
        import botocore.session
        from botocore.config import Config
    except ImportError as error:
        raise Unsupported(what="S3", why="boto3 is not installed", instead="run: pip install 'hivesink[s3]'") from error
    core = botocore.session.Session()
    endpoint, region = settings.get("endpoint"), settings.get("endpoint.region")
    if endpoint and (aws := _AWS.fullmatch(endpoint)):
        # boto3 knows AWS's own hosts.
        endpoint, region = None, region or aws[1] or None
    elif endpoint and "://" not in endpoint:
        is_plain = (settings.get("connection.ssl.enabled") or "true").lower() == "false"
        endpoint = f"{'http' if is_plain else 'https'}://{endpoint}"
    key, secret = settings.get("access.key"), settings.get("secret.key")
    if key and secret:
        core.set_credentials(key, secret, settings.get("session.token"))
    # boto3 asks a metadata service once, and its silence looks as if there were no keys.
    attempts = "metadata_service_num_attempts"
    core.set_config_variable(attempts, max(5, core.get_config_variable(attempts)))
    region = region or core.get_config_variable("region") or "us-east-1"
    if role := settings.get("assumed.role.arn"):
        _assume(core, role, region, settings)
    return boto3.session.Session(botocore_session=core).client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        config=Config(
            retries={"total_max_attempts": 1},
            max_pool_connections=32,
            connect_timeout=10,
            s3={"addressing_style": "path" if (settings.get("path.style.access") or "").lower() == "true" else "auto"},
            # Other servers than AWS's don't all know the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _assume(core: Any, role: str, region: str, settings: Settings) -> None:
    """Let the session's credentials be those of a role, renewed when they expire."""
    from botocore.credentials import DeferredRefreshableCredentials, create_assume_role_refresher

    endpoint = settings.get("assumed.role.sts.endpoint")
    given = {
        "RoleArn": role,
        "RoleSessionName": settings.get("assumed.role.session.name") or "hivesink",
        "Policy": settings.get("assumed.role.policy"),
        "ExternalId": settings.get("assumed.role.external.id"),
    }
    sts = core.create_client(
        "sts",
        endpoint_url=endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}",
        region_name=settings.get("assumed.role.sts.endpoint.region") or region,
    )
    renew = create_assume_role_refresher(sts, {name: value for name, value in given.items() if value})
    core._credentials = DeferredRefreshableCredentials(renew, "assume-role")  # noqa: SLF001  its only place


def meaning(error: Exception) -> tuple[type[Exception], str]:
    """What an error of boto3 says, by the errors of `storage.fs`, and its text.

    OutcomeUnknown is what may pass in a moment; StoreUnavailable passes later, with other keys. The text holds no
    secret: headers and signatures are not in it.
    """
    from botocore import exceptions

    text = str(error).partition("\n")[0]
    if isinstance(error, exceptions.ClientError):
        code, said = error.response["Error"].get("Code", ""), error.response["ResponseMetadata"]
        status = said["HTTPStatusCode"]
        kind = _KINDS.get(status, OutcomeUnknown if status >= HTTPStatus.INTERNAL_SERVER_ERROR else NotWritable)
        # S3 says what it lacks or refuses. A HEAD's error has no body for that: a 404 has the request's number.
        is_told = code.strip("0123456789") or (said.get("RequestId") and kind is FileNotFoundError)
        if code == "NoSuchBucket":
            kind = NotWritable
        elif _LATER.search(code):
            kind = StoreUnavailable
        elif (_BUSY.search(code) or not is_told) and kind is not FileExistsError:
            kind = OutcomeUnknown
        return kind, f"{code}: {error.response['Error'].get('Message') or text}".partition("\n")[0]
    # A metadata service that is silent, or hands out what has expired.
    keyless = (exceptions.MetadataRetrievalError, exceptions.CredentialRetrievalError)
    if isinstance(error, keyless) or "still expired" in text:
        return StoreUnavailable, text
    transport = (exceptions.HTTPClientError, exceptions.IncompleteReadError, exceptions.ConnectionError)
    passes = isinstance(error, transport) and "CERTIFICATE_VERIFY_FAILED" not in text
    # While a body was read; boto3 follows a redirection to itself without end.
    passes = passes or not isinstance(error, exceptions.BotoCoreError)
    return OutcomeUnknown if passes else NotWritable, text


@dataclass(frozen=True)
class Bucket(Settings):
    """A bucket, by a client that threads share."""

    client: Any
    tries: int = TRIES

    def ask(self, action: str, path: str, method: str, *, changing: bool = False, **given: Any) -> Any:
        """The answer of a method of the client, a request that may be repeated, tried again while it isn't answered.

        Raises FileNotFoundError, FileExistsError, NotWritable, StoreUnavailable; OutcomeUnknown instead of the last
        two if it is `changing` and a try may yet take effect.
        """
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        doubtful, end, asked = False, time.monotonic() + _PATIENCE, method
        for number in range(self.tries):
            try:
                return self._once(asked, given, whole=method == "get_object")
            except (ClientError, BotoCoreError, OSError, HTTPError, RuntimeError) as error:
                (kind, reason), cause = meaning(error), error
            doubtful |= kind is OutcomeUnknown
            if kind is not OutcomeUnknown or number + 1 == self.tries or time.monotonic() > end:
                break
            if method == "head_object":
                # An error of HEAD has no body, which alone tells expired keys from wrong ones; GET's has.
                asked = "get_object"
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.1 * 2**number)))  # noqa: S311  no secret
        if issubclass(kind, OSError):
            raise kind(path) from cause
        if changing and doubtful:
            raise OutcomeUnknown(action, path, reason) from cause
        if kind is NotWritable:
            raise NotWritable(path, reason) from cause
        raise StoreUnavailable(action, path, reason) from cause

    def _once(self, method: str, given: Mapping[str, Any], *, whole: bool) -> Any:
        """The answer to a request, its body read if `whole`. Raises as boto3; RuntimeError for another's answer."""
        if rewind := getattr(given.get("Body"), "seek", None):
            rewind(0)
        said = getattr(self.client, method)(Bucket=self.name, **given)
        if "Body" in said:
            with closing(said["Body"]) as body:
                said["Body"] = body.read() if whole else b""
        if not said["ResponseMetadata"].get("RequestId"):
            # S3 numbers each request. A proxy's page would be read as a success with nothing in it.
            message = f"an answer that is not S3's, {said['ResponseMetadata'].get('HTTPStatusCode')} without a number"
            raise RuntimeError(message)
        return said


_lock = threading.Lock()
_buckets: dict[tuple[int, str, frozenset[tuple[str, str]]], Bucket] = {}


def shared(name: str, properties: frozenset[tuple[str, str]]) -> Bucket:
    """The bucket of that name, by one client for this process. Asked for each path. Raises Unsupported."""
    # No client outlives a fork. A frozenset keeps its hash.
    key = os.getpid(), name, properties
    with _lock:
        if key not in _buckets:
            settings = Settings(name, dict(properties))
            _buckets[key] = Bucket(name, settings.properties, client(settings))
        return _buckets[key]
