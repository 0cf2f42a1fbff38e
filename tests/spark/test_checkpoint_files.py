"""A checkpoint's files, read on this machine's disk and through Hadoop's file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.errors import CheckpointUnreadable, NotWritable, StoreUnavailable
from hivesink.spark.checkpoint_files import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hivesink.core.offsets import TopicIds

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


@pytest.mark.parametrize("scheme", ["file:", ""], ids=["direct", "hadoop"])
def test_the_ids_of_the_topics_that_a_query_began_with(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    # A new checkpoint has no folder yet.
    files = Checkpoint(spark, f"{scheme}{tmp_path}/new")
    assert files.topics() is None
    known: list[TopicIds] = [({"t": "1"}, {}), ({"t": "2"},)]
    for ids in known:
        files.put_topics(ids)
        assert files.topics() == ids
    (tmp_path / "new" / "hivesink-topics").write_bytes(b"")
    (tmp_path / "new" / ".hivesink-topics.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointUnreadable, match="new/hivesink-topics"):
        files.topics()
    (tmp_path / "file").touch()
    with pytest.raises((StoreUnavailable, NotWritable), match="/file"):
        Checkpoint(spark, f"{scheme}{tmp_path}/file").put_topics(({},))
