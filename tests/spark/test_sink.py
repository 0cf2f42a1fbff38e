"""What the driver's JVM says of a site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.jvm.java import write_sites
from hivesink.spark.sink import site_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_sessions_own_settings_win_over_the_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sites(tmp_path, {"core-site": {"ipc.ping.interval": "5", "fs.defaultFS": "hdfs://by-the-files"}})
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
