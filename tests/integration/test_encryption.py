"""Encryption zones, of a real KMS and a real NameNode: a log in the clear is refused, a log in a zone goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.errors import InvalidOption, StoreUnavailable, Unsupported
from hivesink.spark.sink import check_encryption
from hivesink.storage.hdfs_calls import WINDOW
from jobs.cluster.hdfs import _client
from tests.integration.keyserver import PROVIDER, ZonedHdfs, zoned_hdfs
from tests.integration.stage import Stage, table_ddl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZonedHdfs]:
    with zoned_hdfs(tmp_path_factory.mktemp("zoned")) as found:
        found.make_zone("/secret")
        _client(found.filesystem).mkdirs("/open", 0o777, True)
        yield found


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
