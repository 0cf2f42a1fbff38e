"""A checkpoint's files, read on this machine's disk and through Hadoop's file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.spark.checkpoint_files import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("scheme", ["file:", ""], ids=["direct", "hadoop"])
def test_files_and_folders_that_are_there_and_that_are_not(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_bytes(b"v1")
    (tmp_path / "offsets" / "10").touch()
    files = Checkpoint(spark, f"{scheme}{tmp_path}")
    assert (files.read("offsets/0"), files.read("offsets/1"), files.read("metadata")) == (b"v1", None, None)
    assert sorted(files.names("offsets")) == ["0", "10"]
    assert files.names("commits") == []
    for name in ("offsets/10", "offsets/11"):
        files.remove(name)
    assert files.names("offsets") == ["0"]
