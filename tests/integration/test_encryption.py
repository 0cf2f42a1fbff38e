"""Encryption zones, of a real KMS and a real NameNode: a log in the clear is refused, a log in a zone goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.server import HOST, Launch
from hivesink.errors import InvalidOption, StoreUnavailable, Unsupported
from hivesink.jvm.jars import JarSet, fetch
from hivesink.jvm.java import write_sites
from hivesink.spark.sink import check_encryption
from hivesink.storage.hdfs_calls import WINDOW
from jobs.cluster.hdfs import DataNode, NameNode, _client, _java, log4j1
from jobs.cluster.server import EmbeddedServer
from tests.integration.stage import Stage, table_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Four servers, which no other test needs.
pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZonedHdfs]:
    folder = tmp_path_factory.mktemp("zoned")
    with (
        KeyServer(folder / "kms") as keys,
        KeyedNameNode(folder / "namenode", keys) as namenode,
        DataNode(folder / "datanode", 1, lambda: namenode.filesystem) as datanode,
    ):
        conf = namenode.folder / "conf"
        for place in ("/secret", "/open"):
            _client(namenode.filesystem).mkdirs(place, 0o777, True)
        run(conf, "org.apache.hadoop.hdfs.tools.CryptoAdmin", "-createZone", "-keyName", KEY, "-path", "/secret")
        yield ZonedHdfs(keys, namenode.filesystem, conf, datanode.folder / "blocks")


@pytest.fixture
def site(hdfs: ZonedHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The process has the site's core-site.xml, with the KMS's address in it; a client gives up soon."""
    core = tmp_path / "conf" / "core-site.xml"
    core.parent.mkdir()
    soon = f"<property><name>{WINDOW}</name><value>2000</value></property></configuration>"
    core.write_text((hdfs.conf / core.name).read_text().replace("</configuration>", soon))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(core.parent))
    return core


def in_zone(stage: Stage, hdfs: ZonedHdfs, log: str | None = None) -> Stage:
    """The stage's table, in the zone; its log is beside it."""
    location = f"{hdfs.filesystem}/secret/{stage.table}/t"
    return stage.create(
        table_ddl(stage.table, location=location, properties={"sink.log-location": log} if log else None)
    )


def files(hdfs: ZonedHdfs, folder: str) -> list[str]:
    return [entry.path for entry in _client(hdfs.filesystem).list_status(folder, True) if not entry.isdir]


def check_ciphertext(hdfs: ZonedHdfs, name: str) -> None:
    """Neither a Parquet file nor a manifest can be read on the DataNode's disk, or this proves nothing of zones."""
    blocks = [path.read_bytes() for path in hdfs.blocks.rglob("blk_*") if path.suffix != ".meta"]
    assert blocks
    for block in blocks:
        assert b"PAR1" not in block
        assert name.encode() not in block


def test_both_are_to_be_in_a_zone_before_they_are_there(hdfs: ZonedHdfs, spark: SparkSession) -> None:
    at = hdfs.filesystem
    check_encryption(spark, f"{at}/secret/db/t", f"{at}/secret/logs/a/b")
    check_encryption(spark, f"{at}/secret/t", f"{at}/secret/.hivesink/t/w")
    for place in (f"{at}/open/t", "file:/tmp/t"):
        check_encryption(spark, place, f"{at}/open/log")
    for log in (f"{at}/open/log", "file:/tmp/log"):
        with pytest.raises(Unsupported, match=f"{log}.*{at}/secret/t is in"):
            check_encryption(spark, f"{at}/secret/t", log)


@pytest.mark.usefixtures("site")
def test_a_log_in_the_clear_is_refused_and_the_job_goes_on_with_one_in_a_zone(hdfs: ZonedHdfs, stage: Stage) -> None:
    clear = f"{hdfs.filesystem}/open/log"
    in_zone(stage, hdfs, clear)
    stage.put(range(10))
    with pytest.raises(Unsupported, match=r"sink\.log-location"):
        stage.sink()
    assert files(hdfs, "/") == []

    stage.spark.sql(f"ALTER TABLE {stage.table} UNSET TBLPROPERTIES ('sink.log-location')")
    stage.drain()
    assert stage.ids() == list(range(10))

    stage.put(range(10, 20))
    before = files(hdfs, "/")
    with pytest.raises(InvalidOption, match=f"but the log of {stage.table} is in "):
        stage.sink(options={"sink.log-location": clear})
    assert files(hdfs, "/") == before
    assert stage.ids() == list(range(10))
    stage.drain()
    assert stage.ids() == list(range(20))
    assert files(hdfs, "/open") == []
    assert [path for path in before if "/.part-" in path] == []
    check_ciphertext(hdfs, stage.table)


def test_without_the_kms_a_job_says_so_and_goes_on_with_it(hdfs: ZonedHdfs, stage: Stage, site: Path) -> None:
    """Where the site doesn't name it, and where it is away."""
    in_zone(stage, hdfs)
    stage.put(range(10))
    whole = site.read_text()
    assert PROVIDER in whole
    site.write_text(whole.replace(PROVIDER, "not.the.provider"))
    with pytest.raises(Unsupported, match=f"{hdfs.filesystem}.*encryption zone.*{PROVIDER}"):
        stage.drain()
    site.write_text(whole)
    stage.drain()
    assert stage.ids() == list(range(10))
    stage.put(range(10, 20))
    hdfs.keys.kill()
    try:
        with pytest.raises(StoreUnavailable, match=hdfs.keys.address) as told:
            stage.drain()
    finally:
        hdfs.keys.start()
    assert told.value.retryable
    stage.drain()
    assert stage.ids() == list(range(20))


# The last release whose KMS is on Maven Central; it runs on the newer Hadoop's libraries.
KMS = JarSet("kms-3.4.1", ("org.apache.hadoop:hadoop-kms:3.4.1", "org.slf4j:jul-to-slf4j:1.7.36"))
KEY = "k"
PROVIDER = "hadoop.security.key.provider.path"
# Its own web.xml names the servlet of Jersey 1, which Hadoop 3.5 has left.
_CRYPTO = "org.apache.hadoop.crypto.key.kms.server"
_FILTERS = "".join(
    f"<filter><filter-name>{name}</filter-name><filter-class>{_CRYPTO}.{name}</filter-class></filter>"
    f"<filter-mapping><filter-name>{name}</filter-name><url-pattern>/*</url-pattern></filter-mapping>"
    for name in ("KMSAuthenticationFilter", "KMSMDCFilter")
)
WEB = f"""<web-app version="2.4" xmlns="http://java.sun.com/xml/ns/j2ee">
  <listener><listener-class>{_CRYPTO}.KMSWebApp</listener-class></listener>
  <servlet>
    <servlet-name>kms</servlet-name>
    <servlet-class>org.glassfish.jersey.servlet.ServletContainer</servlet-class>
    <init-param>
      <param-name>jersey.config.server.provider.packages</param-name><param-value>{_CRYPTO}</param-value>
    </init-param>
    <load-on-startup>1</load-on-startup>
  </servlet>
  <servlet-mapping><servlet-name>kms</servlet-name><url-pattern>/kms/*</url-pattern></servlet-mapping>
  {_FILTERS}
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
        return Launch(command, self.folder / "kms.log", ": Started @", env=keyed)


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


def run(conf: Path, tool: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Run one of Hadoop's own tools."""
    command = (*_java(conf, "128m"), tool, *arguments)
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
