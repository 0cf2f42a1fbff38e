"""A bucket on the real S3 server of the run, by what boto3 finds in the environment, and sites that name the server."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

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
