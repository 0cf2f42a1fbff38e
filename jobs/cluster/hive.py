"""A Hive Metastore 4 on Derby, and a HiveServer2."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hivesink.embedded.metastore import derby_options, derby_site
from hivesink.embedded.server import HOST, Launch
from hivesink.jvm.jars import fetch
from hivesink.jvm.java import OPENS, write_sites
from jobs.cluster import kdc, settings
from jobs.cluster.hdfs import client_sites
from jobs.cluster.s3 import S3Server
from jobs.cluster.server import NOT_DURABLE, EmbeddedServer

GRACE = 2
"""Seconds. At their end the servers wait for clients to leave, which those may never do."""
# `bin/hive` of Hive 4 opens these as well as what Spark's launcher opens.
MORE_OPENS = tuple(
    f"--add-opens={package}=ALL-UNNAMED"
    for package in ("java.base/java.text", "java.base/java.time", "java.base/java.util.regex", "java.sql/java.sql")
)


class _HiveServer(EmbeddedServer):
    """`extra` properties win over the server's own. Tables may lie in `s3` as well, if that runs at the start."""

    keeps_port = True
    jars = settings.HIVE_JARS
    s3: S3Server | None = None

    def __init__(self, folder: Path, filesystem: Callable[[], str], extra: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.extra = dict(extra)
        self._filesystem = filesystem

    @property
    def _on_s3(self) -> S3Server | None:
        return self.s3 if self.s3 and self.s3.alive else None

    def _hive(self, heap: str, site: Mapping[str, str], logger: str, *options: str) -> tuple[str, ...]:
        """Its command line, up to the main class; `logger` logs the line that says it is ready."""
        sites = client_sites(self._filesystem(), self.kdc)
        sites["core-site"]["hadoop.tmp.dir"] = str(self.folder / "tmp")
        secured = kdc.hive_site(self.kdc.keytab) if self.kdc else {}
        options += self.kdc.java if self.kdc else ()
        jars = fetch(self.jars) + (fetch(settings.HIVE_SECURE_JARS) if self.kdc else ())
        if self._on_s3:
            sites["core-site"] |= self._on_s3.properties
            jars += fetch(settings.HIVE_S3A_JARS)
        return self._java(
            os.pathsep.join(map(str, jars)),
            heap,
            *options,
            sites={**sites, "hive-site": {**site, **secured, **self.extra}},
            levels={logger: "info"},
            opens=(*OPENS, *MORE_OPENS),
        )


class HiveMetastore(_HiveServer):
    """A Hive Metastore 4.0.1 whose warehouse is on HDFS."""

    name = "the Hive Metastore"
    logger = "org.apache.hadoop.hive.metastore.HMSHandler"
    """Says that it is ready."""

    def __init__(self, folder: Path, filesystem: Callable[[], str], *, durable: bool, extra: Mapping[str, str]) -> None:
        super().__init__(folder, filesystem, extra)
        self._durable = durable

    @property
    def uri(self) -> str:
        """The `thrift://` address."""
        return f"thrift://{self.address}"

    def _launch(self, port: int) -> Launch:
        site = {
            **settings.metastore_site(self._filesystem()),
            **derby_site(self.folder),
            "metastore.thrift.bind.host": HOST,
            "metastore.thrift.port": str(port),
            "metastore.thrift.uris": f"thrift://{self.host}:{port}",
        }
        derby = derby_options(self.folder)
        if not self._durable:
            derby += NOT_DURABLE
        java = self._hive("768m", site, self.logger, *derby)
        return Launch(
            command=(*java, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
            log=self.folder / "metastore.log",
            ready=f"Started the new metaserver on port [{port}]",
            grace=GRACE,
        )


class HiveServer2(_HiveServer):
    """A HiveServer2 4.0.1 over that metastore, auth NOSASL."""

    name = "HiveServer2"

    def __init__(
        self,
        folder: Path,
        filesystem: Callable[[], str],
        metastore_uri: Callable[[], str],
        *,
        extra: Mapping[str, str],
    ) -> None:
        super().__init__(folder, filesystem, extra)
        self._metastore_uri = metastore_uri

    def _launch(self, port: int) -> Launch:
        scratch = self.folder / "scratch"
        site = {
            **settings.hiveserver2_site(self._metastore_uri(), self._filesystem()),
            "hive.downloaded.resources.dir": str(scratch / "resources"),
            # Milliseconds until it looks whether a job has ended; few here take the second of the default.
            "hive.exec.counters.pull.interval": "50",
            "hive.exec.local.scratchdir": str(scratch),
            "hive.querylog.location": str(self.folder / "queries"),
            "hive.server2.thrift.bind.host": HOST,
            "hive.server2.thrift.port": str(port),
        }
        java = self._hive("1g", site, "org.apache.hive.service.cli.thrift")
        write_sites(self.folder / "conf", {"mapred-site": settings.mapred_site()})
        return Launch(
            command=(*java, "org.apache.hive.service.server.HiveServer2"),
            log=self.folder / "hiveserver2.log",
            ready=f"Starting ThriftBinaryCLIService on port {port} ",
            # It hides `fs.s3a.access.key` and its like from its own queries.
            env=self._on_s3.environment if self._on_s3 else {},
            grace=GRACE,
        )
