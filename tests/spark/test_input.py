"""A checkpoint's files, read on this machine's disk and through Hadoop's file systems."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.core.topics import keep, kept
from hivesink.errors import MissingColumns, StoreUnavailable
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.spark.input import Checkpoint, input_shape, needed_input
from hivesink.wiring import row_reader

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


@pytest.mark.parametrize("scheme", ["file:", ""], ids=["direct", "hadoop"])
def test_the_ids_of_topics_are_kept_beside_sparks_files(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    # A new checkpoint has no folder yet.
    files = Checkpoint(spark, f"{scheme}{tmp_path}/new")
    assert kept(files) == {}
    for number, known in enumerate(({"t": frozenset({"one"})}, {"é": frozenset({"two", "three"})}), start=1):
        keep(known, files)
        assert kept(files) == known
        assert [name for name in files.names("hivesink") if not name.startswith(".")] == [f"topics.{number}"]
    files.remove("hivesink/topics.9")
    blocked = Checkpoint(spark, f"{scheme}{tmp_path}/file")
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"^could not write the checkpoint's .*/file/hivesink/topics.1: "):
        blocked.put("hivesink/topics.1", b"{}")


KAFKA = "key binary, value binary, topic string, timestamp timestamp"
KINDS = {"binary": BinaryType(), "string": StringType(), "bigint": LongType(), "timestamp": TimestampType()}


@pytest.mark.parametrize(
    ("table", "stream", "is_raw"),
    [
        ("id, name", KAFKA, True),
        ("id, name", "value string, _path string", True),
        ("id, name", "value string, source string", True),
        ("id, name", "value bigint", False),
        # The table's columns are there: one more is dropped, whatever its name.
        ("id, name", "id bigint, name string, dt string, value string", False),
        ("id, name", "Id bigint, name string, value binary", False),
        ("id, name", "id bigint, value string", False),
        ("id, name", "value string, dt string", False),
        ("key, timestamp", KAFKA, True),
        ("key, timestamp", f"{KAFKA}, dt string", False),
        ("id, timestamp", KAFKA, True),
        ("id, value", KAFKA, True),
        ("id, value", "value string, _path string", True),
        ("id, value", "value string, id bigint", False),
        ("id, value", "value bigint", False),
        ("value, timestamp", KAFKA, False),
        ("value, timestamp", "value binary", True),
        ("value", "value string, _path string", True),
        ("value", "value string, dt string", False),
        ("value, id, _path, _block", "value string, _path string, _block bigint", True),
        ("value, timestamp", "value string, timestamp timestamp", False),
        ("value, topic, unit", "value string, topic string", False),
        ("value, topic, unit", KAFKA, False),
    ],
)
def test_a_stream_is_raw_or_has_the_tables_columns(table: str, stream: str, *, is_raw: bool) -> None:
    assert reads_raw(table, stream, (Column("dt", Primitive.STRING),)) is is_raw


@pytest.mark.parametrize(
    ("table", "stream"),
    [("key, value", "key binary, value binary"), ("key, timestamp", KAFKA), ("value", "value string")],
)
def test_a_stream_with_all_of_the_tables_columns_is_not_raw(table: str, stream: str) -> None:
    assert not reads_raw(table, stream)


@pytest.mark.parametrize(
    ("table", "sources", "is_raw"),
    [
        ("id, k", {"k": "kafka.key"}, True),
        ("id, key", {"key": "kafka.key"}, True),
        ("key, topic", {"key": "kafka.key", "topic": "$.topic"}, True),
        ("value, topic", {"topic": "kafka.topic", "value": "$.v"}, True),
        ("k, t", {"k": "kafka.key", "t": "kafka.topic"}, False),
        ("value, k", {"k": "kafka.key"}, False),
    ],
)
def test_columns_with_a_source_are_looked_for_by_no_name(table: str, sources: dict[str, str], *, is_raw: bool) -> None:
    assert reads_raw(table, KAFKA, (), **{f"sink.column.{name}.from": text for name, text in sources.items()}) is is_raw


def test_decoded_rows_may_lack_a_partition_that_an_own_class_makes() -> None:
    spec = TableSpec(TableName("demo", "t"), (Column("id", Primitive.BIGINT),), (Column("dt", Primitive.STRING),))
    config = SinkConfig.parse({"sink.bucket.assigner": "own:ByFirstDigit"})

    def plan(schema: StructType, config: SinkConfig) -> TaskPlan:
        shape = input_shape(schema, spec, config, ())
        return TaskPlan(TablePlan(spec, "/t"), None, config, shape, "uid", Epoch(0), "try", datetime.now(timezone.utc))

    bare = StructType([StructField("ID", LongType())])
    with_it = StructType([*bare, StructField("dt", StringType())])
    assert needed_input(bare, plan(bare, config)) == ["ID"]
    read = row_reader(plan(bare, config)).read(pa.RecordBatch.from_pydict({"ID": [7]}))
    assert read.table.column_names == ["id"]
    assert needed_input(with_it, plan(with_it, config)) == ["ID", "dt"]
    with pytest.raises(MissingColumns, match="for each of dt"):
        needed_input(bare, plan(bare, SinkConfig.parse({})))


def reads_raw(table: str, stream: str, partitions: tuple[Column, ...] = (), **options: str) -> bool:
    columns = tuple(Column(name, Primitive.STRING) for name in table.split(", "))
    fields = [StructField(name, KINDS[kind]) for name, kind in (field.split() for field in stream.split(", "))]
    spec = TableSpec(TableName("demo", "t"), columns, partitions)
    return input_shape(StructType(fields), spec, SinkConfig.parse(options), ()).value is not None
