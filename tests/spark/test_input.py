"""What a stream's columns mean to the sink."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.errors import InvalidOption
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.spark.input import input_shape, needed_input
from hivesink.wiring import row_reader

pytestmark = pytest.mark.spark


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
        ("id, k", {"k": "kafka.key.$.id"}, True),
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
    with pytest.raises(InvalidOption, match="for each of dt"):
        needed_input(bare, plan(bare, SinkConfig.parse({})))


def test_commits_by_a_watermark_that_nothing_has_are_refused() -> None:
    by_time = {"sink.partition-commit.trigger": "partition-time", "sink.partition-commit.delay": "1h"}
    with pytest.raises(InvalidOption, match="use withWatermark on the stream"):
        reads_raw("id", "value string", (), **by_time)


def reads_raw(table: str, stream: str, partitions: tuple[Column, ...] = (), **options: str) -> bool:
    columns = tuple(Column(name, Primitive.STRING) for name in table.split(", "))
    fields = [StructField(name, KINDS[kind]) for name, kind in (field.split() for field in stream.split(", "))]
    spec = TableSpec(TableName("demo", "t"), columns, partitions)
    return input_shape(StructType(fields), spec, SinkConfig.parse(options), ()).value is not None
