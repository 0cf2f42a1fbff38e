"""A real schema registry, Apicurio, with Confluent's API, on the loopback. It forgets all when it ends."""

from __future__ import annotations

import io
import json
import os
import tarfile
from hashlib import sha1
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from hivesink.config.cache import made_once
from hivesink.embedded.server import HOST, Launch
from hivesink.jvm.jars import MAVEN_CENTRAL
from hivesink.jvm.java import find_java
from jobs.cluster.server import EmbeddedServer

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "2.6.13.Final"
_SHA1 = "28b56c85372e66e9ebcf569a31ad6b643e2bf33e"
_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m")


def _unpacked(scratch: Path) -> Path:
    repository = os.environ.get("HIVESINK_MAVEN_URL") or MAVEN_CENTRAL
    name = f"apicurio-registry-app-{VERSION}-all.tar.gz"
    url = f"{repository.rstrip('/')}/io/apicurio/apicurio-registry-app/{VERSION}/{name}"
    with urlopen(url, timeout=60) as answer:  # noqa: S310 -- Maven Central
        data = answer.read()
    assert sha1(data, usedforsecurity=False).hexdigest() == _SHA1
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(scratch / "apicurio")  # noqa: S202 -- of that checksum
    return scratch / "apicurio"


class Apicurio(EmbeddedServer):
    """A registry for the length of a `with` block. Raises ServerFailed, JavaFailed."""

    name = "the schema registry"
    keeps_port = True

    @property
    def url(self) -> str:
        return f"http://{self.address}/apis/ccompat/v7"

    def _launch(self, port: int) -> Launch:
        folder = made_once(f"apicurio-{VERSION}", _unpacked)
        (jar,) = folder.rglob("apicurio-registry-app-*-runner.jar")
        listen = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}")
        command = (find_java().program, *_FLAGS, *listen, "-jar", str(jar))
        return Launch(command, self.folder / "apicurio.log", ready="Listening on: http")

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """The number of the schema, which may be a text."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = json.dumps({"schema": text, **more}).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        url = f"{self.url}/subjects/{subject}/versions"
        with urlopen(Request(url, body, headers), timeout=30) as answer:  # noqa: S310 -- the loopback
            return int(json.load(answer)["id"])
