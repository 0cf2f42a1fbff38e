"""Spark, the metastore, the Thrift server and Kafka see each other's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from pyhive import hive

from jobs.cluster.kafka import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from hivesink.embedded.metastore import EmbeddedMetastore

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


def test_arrow_tasks_run_in_this_pythons_environment(spark: SparkSession) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], ["id"])

    assert spark.range(1000).mapInArrow(double, "id long").groupBy().sum("id").first() == (999_000,)


def test_a_table_of_spark_is_one_of_the_metastore_and_of_pyhive(
    spark: SparkSession, metastore: EmbeddedMetastore, thrift_server: tuple[str, int]
) -> None:
    spark.sql("CREATE DATABASE seen")
    spark.sql("CREATE TABLE seen.t (id INT) PARTITIONED BY (dt STRING) STORED AS PARQUET")
    spark.sql("INSERT INTO seen.t PARTITION (dt='2026-11-21') VALUES (1), (2)")
    assert list((metastore.warehouse / "seen.db" / "t" / "dt=2026-11-21").glob("part-*"))

    host, port = thrift_server
    connection = hive.connect(host, port, auth="NOSASL")
    try:
        cursor = connection.cursor()
        cursor.execute("SHOW PARTITIONS seen.t")
        assert cursor.fetchall() == [("dt=2026-11-21",)]
        cursor.execute("SELECT sum(id) FROM seen.t")
        assert cursor.fetchall() == [(3,)]
        cursor.execute("ALTER TABLE seen.t ADD PARTITION (dt='2026-11-22')")
    finally:
        connection.close()
    assert spark.sql("SHOW PARTITIONS seen.t").count() == 2


@pytest.mark.kafka
def test_spark_reads_a_topic(spark: SparkSession, kafka: str) -> None:
    assert create_topic(kafka, "read", 2)
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(100):
        producer.produce("read", str(n), partition=n % 2)
    assert producer.flush(60) == 0
    topic = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka).option("subscribe", "read")
    assert {int(row.value) for row in topic.load().select("value").collect()} == set(range(100))
