"""Rows that come decoded, through Spark's own Arrow batches and the whole sink."""

from __future__ import annotations

# ruff: noqa: DTZ001  wall clocks without a zone are what a Hive TIMESTAMP holds
import json
from datetime import date, datetime
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from hivesink.spark.sink import HiveSink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore

pytestmark = [pytest.mark.spark, pytest.mark.main_path]

COLUMNS = {
    "userid": "int",
    "at": "timestamp",
    "wall": "timestamp",
    "price": "decimal(9,2)",
    "day": "date",
    "tags": "map<string,array<struct<x:int,y:string>>>",
    "code": "char(4)",
    "raw": "binary",
}
QUERY = """
SELECT {user} AS `userId`, TIMESTAMP'2050-07-01 12:00:00Z' AS at, TIMESTAMP_NTZ'2024-03-31 02:30:00' AS wall,
       CAST(1.5 AS DECIMAL(20,4)) AS PRICE, DATE'1582-10-15' AS day,
       map('k', array(named_struct('Y', 'é', 'X', 7L))) AS tags, 'ab' AS code, X'00FF' AS raw, '2026-11-21' AS dt
"""


def create(spark: SparkSession, table: str, **properties: str) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS decoded")
    declared = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    settings = ", ".join(f"'sink.{name.replace('_', '-')}' = '{text}'" for name, text in properties.items())
    spark.sql(
        f"CREATE TABLE decoded.{table} ({declared}) PARTITIONED BY (dt STRING) STORED AS PARQUET "
        f"TBLPROPERTIES ({settings})"
    )


def stream(spark: SparkSession, folder: Path, *queries: str) -> DataFrame:
    for query in queries:
        spark.sql(query).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(spark.sql(queries[0]).schema).parquet(str(folder))


def run(sink: HiveSink, events: DataFrame, checkpoint: Path) -> None:
    sink.start(events, checkpoint=str(checkpoint), trigger={"availableNow": True}).awaitTermination()


def rows_of(warehouse: Path, table: str) -> list[dict[str, Any]]:
    parts = sorted((warehouse / "decoded.db" / table).glob("dt=*/part-*"))
    return [row for part in parts for row in pq.ParquetFile(part, coerce_int96_timestamp_unit="us").read().to_pylist()]


def test_decoded_rows_reach_the_table_exactly(spark: SparkSession, tmp_path: Path, warehouse: Path) -> None:
    create(spark, "exact", timestamp_zone="Europe/Berlin", on_bad_record="dead-letter")
    events = stream(spark, tmp_path / "in", QUERY.format(user="7L"), QUERY.format(user="3000000000L"))
    run(HiveSink.for_table(spark, "decoded.exact", writer="exact"), events, tmp_path / "checkpoint")
    assert rows_of(warehouse, "exact") == [
        {
            "userid": 7,
            # The instant in the table's zone, whatever the session's is; summer time also beyond 2037.
            "at": datetime(2050, 7, 1, 14),
            "wall": datetime(2024, 3, 31, 2, 30),
            "price": Number("1.50"),
            "day": date(1582, 10, 15),
            "tags": [("k", [{"x": 7, "y": "é"}])],
            "code": "ab",
            "raw": b"\x00\xff",
        }
    ]
    (letter,) = rows_of(warehouse, "exact__rejected")
    assert (letter["field"], letter["reason"]) == ("userid", "out of range for int")
    assert json.loads(letter["value"])["userId"] == 3_000_000_000


@pytest.fixture
def warehouse(metastore: EmbeddedMetastore) -> Path:
    return metastore.warehouse
