"""An HDFS with encryption zones: a real KMS, a NameNode that has its keys from there, a DataNode."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.embedded.server import HOST, EmbeddedServer, Launch
from hivesink.jvm.jars import JarSet, fetch
from hivesink.jvm.java import write_sites
from jobs.cluster.hdfs import DataNode, NameNode, _client, _java, log4j1

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# The last release whose KMS is on Maven Central; it runs on the newer Hadoop's libraries.
KMS = JarSet("kms-3.4.1", ("org.apache.hadoop:hadoop-kms:3.4.1", "org.slf4j:jul-to-slf4j:1.7.36"))
KEY = "k"
PROVIDER = "hadoop.security.key.provider.path"
# Its own web.xml names the servlet of Jersey 1, which Hadoop 3.5 has left.
WEB = """<web-app version="2.4" xmlns="http://java.sun.com/xml/ns/j2ee">
  <listener><listener-class>org.apache.hadoop.crypto.key.kms.server.KMSWebApp</listener-class></listener>
  <servlet>
    <servlet-name>kms</servlet-name>
    <servlet-class>org.glassfish.jersey.servlet.ServletContainer</servlet-class>
    <init-param>
      <param-name>jersey.config.server.provider.packages</param-name>
      <param-value>org.apache.hadoop.crypto.key.kms.server</param-value>
    </init-param>
    <load-on-startup>1</load-on-startup>
  </servlet>
  <servlet-mapping><servlet-name>kms</servlet-name><url-pattern>/kms/*</url-pattern></servlet-mapping>
  <filter>
    <filter-name>who</filter-name>
    <filter-class>org.apache.hadoop.crypto.key.kms.server.KMSAuthenticationFilter</filter-class>
  </filter>
  <filter>
    <filter-name>request</filter-name>
    <filter-class>org.apache.hadoop.crypto.key.kms.server.KMSMDCFilter</filter-class>
  </filter>
  <filter-mapping><filter-name>who</filter-name><url-pattern>/*</url-pattern></filter-mapping>
  <filter-mapping><filter-name>request</filter-name><url-pattern>/*</url-pattern></filter-mapping>
</web-app>
"""
ANYBODY = {f"default.key.acl.{right}": "*" for right in ("DECRYPT_EEK", "GENERATE_EEK", "MANAGEMENT", "READ")}


class KeyServer(EmbeddedServer):
    """Hadoop's KMS, with the key `k` in it."""

    name = "the KMS"
    keeps_port = True

    @property
    def provider(self) -> str:
        """What `PROVIDER` is where this server is used."""
        return f"kms://http@{self.address}/kms"

    def _launch(self, port: int) -> Launch:
        conf = self.folder / "conf"
        store = f"jceks://file{self.folder}/keys.jceks"
        own = {
            "hadoop.kms.authentication.type": "simple",
            "hadoop.kms.http.host": HOST,
            "hadoop.kms.http.port": str(port),
            "hadoop.kms.key.provider.uri": store,
        }
        write_sites(conf, {"core-site": {}, "kms-acls": ANYBODY, "kms-site": own})
        (conf / "log4j.properties").write_text(log4j1("WARN", {"org.eclipse.jetty.server.Server": "INFO"}))
        web = conf / "webapps" / "kms" / "WEB-INF"
        web.mkdir(parents=True, exist_ok=True)
        (web / "web.xml").write_text(WEB)
        keyed = {"HADOOP_KEYSTORE_PASSWORD": "none"}
        if not (self.folder / "keys.jceks").exists():
            shell = "org.apache.hadoop.crypto.key.KeyShell", "create", KEY, "-size", "128", "-provider", store
            run(conf, *shell, env=keyed)
        *java, path = _java(conf, "128m")
        command = (
            *java,
            os.pathsep.join([path, *map(str, fetch(KMS))]),
            "-Dlog4j.configuration=log4j.properties",
            f"-Dkms.config.dir={conf}",
            f"-Dkms.log.dir={self.folder}",
            "org.apache.hadoop.crypto.key.kms.server.KMSWebServer",
        )
        return Launch(self.name, command, self.folder / "kms.log", ": Started @", env=keyed)


class KeyedNameNode(NameNode):
    """A NameNode that has its keys from that server."""

    def __init__(self, folder: Path, keys: KeyServer) -> None:
        super().__init__(folder, durable=False)
        self._keys = keys

    def _launch(self, port: int) -> Launch:
        launch = super()._launch(port)
        site = self.folder / "conf" / "core-site.xml"
        path = (
            f"<property><name>hadoop.security.key.provider.path</name><value>{self._keys.provider}</value></property>"
        )
        site.write_text(site.read_text().replace("</configuration>", f"{path}</configuration>"))
        return launch


@dataclass(frozen=True)
class ZonedHdfs:
    """`filesystem` is its `hdfs://` address, `conf` the folder of its site files, `blocks` what its DataNode holds."""

    keys: KeyServer
    filesystem: str
    conf: Path
    blocks: Path

    def make_zone(self, folder: str) -> None:
        _client(self.filesystem).mkdirs(folder, 0o777, True)
        run(self.conf, "org.apache.hadoop.hdfs.tools.CryptoAdmin", "-createZone", "-keyName", KEY, "-path", folder)


@contextmanager
def zoned_hdfs(folder: Path) -> Iterator[ZonedHdfs]:
    with (
        KeyServer(folder / "kms") as keys,
        KeyedNameNode(folder / "namenode", keys) as namenode,
        DataNode(folder / "datanode", 1, lambda: namenode.filesystem) as datanode,
    ):
        yield ZonedHdfs(keys, namenode.filesystem, namenode.folder / "conf", datanode.folder / "blocks")


def run(conf: Path, tool: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Run one of Hadoop's own tools."""
    command = (*_java(conf, "128m"), tool, *arguments)
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
