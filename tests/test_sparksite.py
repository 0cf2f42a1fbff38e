"""What the driver's JVM says of a site: a checkpoint's place, and encryption zones, by a NameNode that has some."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink import HiveSink
from hivesink.embedded.cluster.hdfs import NameNode, _client, _java
from hivesink.errors import EncryptionDiffers, StoreUnavailable
from hivesink.sparksite import check_encryption, resolved_checkpoint, site_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore
    from hivesink.embedded.process import Launch

pytestmark = pytest.mark.spark


class KeyedNameNode(NameNode):
    """A NameNode with a key store in a file, and the key `k` in it."""

    @property
    def _provider(self) -> str:
        return f"jceks://file{self.folder}/keys.jceks"

    def _launch(self, port: int) -> Launch:
        launch = super()._launch(port)
        site = self.folder / "conf" / "core-site.xml"
        keys = f"<property><name>hadoop.security.key.provider.path</name><value>{self._provider}</value></property>"
        site.write_text(site.read_text().replace("</configuration>", f"{keys}</configuration>"))
        self.command(
            "org.apache.hadoop.crypto.key.KeyShell", "create", "k", "-size", "128", "-provider", self._provider
        )
        return launch

    def command(self, tool: str, *arguments: str) -> None:
        """Run one of HDFS's own tools."""
        done = subprocess.run(
            [*_java(self.folder / "conf", "128m"), tool, *arguments],
            env={**os.environ, "HADOOP_KEYSTORE_PASSWORD": "none"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def make_zone(self, folder: str) -> None:
        _client(self.filesystem).mkdirs(folder, 0o777, True)
        self.command("org.apache.hadoop.hdfs.tools.CryptoAdmin", "-createZone", "-keyName", "k", "-path", folder)


@pytest.fixture(scope="module")
def namenode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedNameNode]:
    server = KeyedNameNode(tmp_path_factory.mktemp("namenode"), durable=False)
    server.start()
    yield server
    server.stop()


def test_a_log_in_the_clear_beside_an_encrypted_table_is_refused(
    namenode: KeyedNameNode, spark: SparkSession, metastore: EmbeddedMetastore
) -> None:
    at = namenode.filesystem
    namenode.make_zone("/secret")
    client = _client(at)
    client.mkdirs("/open", 0o777, True)

    # Neither folder of the first pair is there yet: what counts is where they will be.
    check_encryption(spark, (f"{at}/secret/db/t",), f"{at}/secret/logs/a/b")
    check_encryption(spark, (f"{at}/secret/t",), f"{at}/secret/.hivesink/t/w")
    check_encryption(spark, (f"{at}/open/t", "file:/tmp/t"), f"{at}/open/log")
    for log in (f"{at}/open/log", "file:/tmp/log"):
        with pytest.raises(EncryptionDiffers, match=f"{at}/secret/t is in an encryption zone, but the log {log}"):
            check_encryption(spark, (f"{at}/open/t", f"{at}/secret/t"), log)

    spark.sql("CREATE DATABASE IF NOT EXISTS zoned")
    spark.sql(
        f"CREATE EXTERNAL TABLE zoned.t (id INT) PARTITIONED BY (dt STRING) STORED AS PARQUET LOCATION '{at}/secret/t'"
    )
    spark.sql(f"ALTER TABLE zoned.t SET TBLPROPERTIES ('sink.log-location'='{at}/open/log')")
    with pytest.raises(EncryptionDiffers, match=r"sink\.log-location"):
        HiveSink.for_table(spark, "zoned.t", writer="w", metastore=metastore.uri)
    written = [entry.path for entry in client.list_status("/", True) if not entry.isdir]
    assert written == []


def test_a_namenode_that_is_away_is_named(spark: SparkSession) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("ipc.client.connect.max.retries", "0")
    try:
        with pytest.raises(StoreUnavailable, match=r"hdfs://127\.0\.0\.1:1/t: .*[Cc]onnect"):
            check_encryption(spark, ("hdfs://127.0.0.1:1/t",), "hdfs://127.0.0.1:1/log")
    finally:
        conf.unset("ipc.client.connect.max.retries")


def test_a_checkpoints_place_is_what_spark_makes_of_it(spark: SparkSession, tmp_path: Path) -> None:
    assert resolved_checkpoint(spark, str(tmp_path)) == f"file:{tmp_path}"
    assert resolved_checkpoint(spark, "a/b") == f"file:{Path.cwd()}/a/b"
    assert resolved_checkpoint(spark, "hdfs://127.0.0.1:1/c") == "hdfs://127.0.0.1:1/c"


def test_the_sessions_own_settings_win_over_the_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "<property><name>{}</name><value>{}</value></property>"
    entries = entry.format("ipc.ping.interval", "5"), entry.format("fs.defaultFS", "hdfs://by-the-files")
    (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(entries)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("ipc.ping.interval", "7")
    try:
        site = site_of(spark)
    finally:
        conf.unset("ipc.ping.interval")
    # Hadoop's own default for fs.defaultFS, file:///, is not a setting of the session.
    assert site.default_filesystem == "hdfs://by-the-files"
    assert site.hadoop["ipc.ping.interval"] == "7"
    assert site.metastore_uris == conf.get("hive.metastore.uris")
