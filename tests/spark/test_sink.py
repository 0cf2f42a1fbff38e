"""What the driver's JVM says of a site: its settings, a checkpoint's place, a NameNode that is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.errors import StoreUnavailable
from hivesink.spark.sink import check_encryption, site_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_namenode_that_is_away_is_named(spark: SparkSession) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("ipc.client.connect.max.retries", "0")
    try:
        with pytest.raises(StoreUnavailable, match=r"hdfs://127\.0\.0\.1:1/t: .*[Cc]onnect"):
            check_encryption(spark, "hdfs://127.0.0.1:1/t", "hdfs://127.0.0.1:1/log")
    finally:
        conf.unset("ipc.client.connect.max.retries")


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
