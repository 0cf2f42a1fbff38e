"""A checkpoint's files, read on this machine's disk and through Hadoop's file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from hivesink.core.table import Column, Primitive, TableName, TableSpec
from hivesink.spark.input import Checkpoint, input_shape

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


@pytest.mark.parametrize(
    ("stream", "is_raw"),
    [
        ("value binary, topic string, timestamp timestamp", True),
        ("value string, _path string", True),
        ("value string, id bigint", False),
        ("value string, name string", False),
        ("value bigint", False),
    ],
)
def test_a_table_with_a_column_named_value_takes_raw_records_too(stream: str, *, is_raw: bool) -> None:
    columns = (Column("id", Primitive.BIGINT), Column("value", Primitive.STRING))
    spec = TableSpec(TableName("demo", "t"), columns, (Column("site", Primitive.STRING),))
    kinds = {"binary": BinaryType(), "string": StringType(), "bigint": LongType(), "timestamp": TimestampType()}
    pairs = (field.split() for field in stream.split(", "))
    shape = input_shape(StructType([StructField(name, kinds[kind]) for name, kind in pairs]), spec, ())
    assert (shape.value is not None) is is_raw
