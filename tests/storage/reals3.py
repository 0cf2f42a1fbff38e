"""A bucket on the real S3 server of the run, by what boto3 finds in the environment, and sites that name the server."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from jobs.cluster.s3 import S3Server

BUCKET = "hivesink-tests"


def s3_folder(request: pytest.FixtureRequest) -> str:
    """`s3a://bucket/…`, where nothing is yet; this process finds the server without a site."""
    server: S3Server = request.getfixturevalue("s3")
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name, value in server.environment.items():
        patch.setenv(name, value)
    return f"{server.make_bucket(BUCKET)}/contracts/{secrets.token_hex(6)}"


class Bound:
    """A client of the server that asks for nothing twice, whose requests are all for one bucket."""

    bucket = BUCKET

    def __init__(self, server: S3Server) -> None:
        server.make_bucket(BUCKET)
        self._client = server.client(retries={"total_max_attempts": 1}, max_pool_connections=32)

    def __getattr__(self, name: str) -> Any:
        return partial(self._bound, name)

    def _bound(self, name: str, **given: Any) -> Any:
        if "CopySource" in given:
            given["CopySource"] = {**given["CopySource"], "Bucket": BUCKET}
        return getattr(self._client, name)(**{**given, "Bucket": BUCKET})
