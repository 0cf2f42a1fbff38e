"""A sample of a topic, read by a Spark session of this process, as a job would read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from hivesink.sample.source import Place, Sample
from hivesink.sink.task.messages import InputShape
from hivesink.spark import sources
from hivesink.spark.session import session_for_kafka
from hivesink.spark.sources import ASK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

_SHAPE = InputShape(value="value", timestamp="timestamp", topic="topic", partition="partition", offset="offset")
_COLUMNS = {
    "key": pa.binary(),
    "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def sample(servers: str, topic: str, most: int) -> Sample:
    """Up to `most` records, a like share of each partition: half of them its first ones, half its newest.

    In a session that ends with it. Raises SourceUnreachable, TopicMissing, InvalidOption, JavaFailed, and what Spark
    raises while it reads.
    """
    spark = session_for_kafka("hivesink sample")
    try:
        return sample_with(spark, servers, topic, most)
    finally:
        spark.stop()


def sample_with(spark: SparkSession, servers: str, topic: str, most: int) -> Sample:
    """As `sample`, in the session `spark`."""
    ranges = sources.offsets(spark, servers, topic)
    half = max(1, most // len(ranges) // 2)
    begins = {number: (first, min(first + half, end)) for number, (first, end) in ranges.items()}
    ends = {number: (max(begins[number][1], end - half), end) for number, (_, end) in ranges.items()}
    reads = (_read(spark, servers, topic, part) for part in (begins, ends))
    rows = [row for read in reads for row in read.limit(most).collect()][:most]
    rows.sort(key=lambda row: (row.partition, row.offset))
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in _COLUMNS.items()}
    places = tuple[Place, ...]({"topic": topic, "partition": row.partition, "offset": row.offset} for row in rows)
    mean = sum(len(row.value or b"") for row in rows) / max(1, len(rows))
    size = round(mean * sum(end - first for first, end in ranges.values()))
    return Sample(pa.RecordBatch.from_pydict(columns), _SHAPE, places, size)


def _read(spark: SparkSession, servers: str, topic: str, ranges: Mapping[int, tuple[int, int]]) -> DataFrame:
    starting, ending = (
        json.dumps({topic: {str(partition): edges[side] for partition, edges in ranges.items()}}) for side in (0, 1)
    )
    client = {"kafka.bootstrap.servers": servers, **sources.FETCH, **ASK}
    # Records may expire while they are read: the sample is then smaller.
    settings = {"subscribe": topic, "startingOffsets": starting, "endingOffsets": ending, "failOnDataLoss": "false"}
    records = spark.read.format("kafka").options(**client, **settings, includeHeaders="true").load()
    # As a number: Python's own times would be in this machine's zone.
    names = ("topic", "partition", "offset", "unix_micros(timestamp) AS timestamp", "value", "key", "headers")
    return records.selectExpr(*names)
