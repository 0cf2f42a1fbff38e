"""A bucket on the real S3 server of the run, by what boto3 finds in the environment, and sites that name the server."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink.embedded.server import HOST, Launch
from hivesink.storage import s3_client
from hivesink.storage.s3_client import Settings
from jobs.cluster.s3 import S3Server
from jobs.cluster.server import EmbeddedServer

if TYPE_CHECKING:
    import pytest

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


class VersityGw(EmbeddedServer):
    """versitygw on a folder: it honours every condition. Its program is built by Go, which takes minutes."""

    name = "versitygw"

    def client(self) -> Any:
        """A client of boto3."""
        return s3_client.client(Settings("bucket", self.properties))

    @property
    def properties(self) -> Mapping[str, str]:
        """What core-site.xml has of it."""
        return {
            "fs.s3a.endpoint": f"http://{self.address}",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "test",
            "fs.s3a.secret.key": "testtest",
        }

    def _launch(self, port: int) -> Launch:
        for name in ("bin", "data", "meta"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        program = self.folder / "bin" / "versitygw"
        if not program.exists():
            package = "github.com/versity/versitygw/cmd/versitygw@latest"
            subprocess.run(("go", "install", package), check=True, env={**os.environ, "GOBIN": str(program.parent)})
        options = ("--access", "test", "--secret", "testtest", "--port", f"{HOST}:{port}")
        command = (str(program), *options, "posix", "--sidecar", str(self.folder / "meta"), str(self.folder / "data"))
        return Launch(command, self.folder / "versitygw.log", "127.0.0.1:")
