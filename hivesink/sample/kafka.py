"""A sample of a topic, read by a Spark session of this process: the job's own way to its brokers."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hivesink.errors import SourceUnreachable
from hivesink.sample.records import KafkaRecord, of_kafka
from hivesink.spark import sources
from hivesink.spark.session import session_for_kafka

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from hivesink.sample.records import Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Ranges = dict[int, tuple[int, int]]
"""Of each partition, the first offset and the one after the last."""


def sample(servers: str, topic: str, most: int) -> Sample:
    """As `sample_with`, in a session of its own. Raises JarsUnavailable and JavaNotFound as well."""
    spark = session_for_kafka("hivesink sample")
    try:
        return sample_with(spark, servers, topic, most)
    finally:
        spark.stop()


def sample_with(spark: SparkSession, servers: str, topic: str, most: int) -> Sample:
    """Up to `most` records, a like share of each partition: half of them its first ones, half its newest.

    Raises SourceUnreachable, TopicMissing, InvalidOption.
    """
    known = sources.offsets(spark, servers, topic)
    found = {
        (record.partition, record.offset): record
        for ranges in parts(known, most)
        for record in _read(spark, servers, topic, ranges, most)
    }
    if not found:
        # A compacted topic may have gaps as long as those ranges.
        found = {(record.partition, record.offset): record for record in _read(spark, servers, topic, known, most)}
    total = sum(end - first for first, end in known.values())
    return of_kafka([found[key] for key in sorted(found)], max(total, len(found)))


def parts(known: Mapping[int, tuple[int, int]], most: int) -> tuple[Ranges, Ranges]:
    """Which offsets to read of the beginning and of the end of each partition: at most `most`, none of them twice."""
    begins, ends = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    left = most
    # The shortest first: what they lack goes to the others.
    shortest = sorted(known.items(), key=lambda item: item[1][1] - item[1][0])
    for done, (partition, (first, end)) in enumerate(shortest):
        share = min(end - first, left // (len(shortest) - done))
        left -= share
        middle = first + (share + 1) // 2
        begins[partition] = (first, middle)
        ends[partition] = (end - (share - (middle - first)), end)
    return begins, ends


def _read(
    spark: SparkSession, servers: str, topic: str, ranges: Mapping[int, tuple[int, int]], most: int
) -> list[KafkaRecord]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if all(first == end for first, end in ranges.values()):
        return []
    starting, ending = (
        json.dumps({topic: {str(partition): edges[side] for partition, edges in ranges.items()}}) for side in (0, 1)
    )
    client = {"kafka.bootstrap.servers": servers, **sources.FETCH, **sources.ASK}
    # Records may expire while they are read: the sample is then smaller.
    settings = {"subscribe": topic, "startingOffsets": starting, "endingOffsets": ending, "failOnDataLoss": "false"}
    settings["includeHeaders"] = "true"
    records = spark.read.format("kafka").options(**{**client, **settings}).load()
    # As a number: Python's own times would be in this machine's zone.
    columns = ("topic", "partition", "offset", "unix_micros(timestamp) AS micros", "value", "key", "headers")
    try:
        rows = records.selectExpr(*columns).limit(most).collect()
    except (PySparkException, Py4JJavaError) as error:
        what = f"topic {topic} of Kafka at {servers}"
        raise SourceUnreachable(what, str(error).strip().partition("\n")[0]) from error
    return [
        KafkaRecord(
            row.topic,
            row.partition,
            row.offset,
            _EPOCH + timedelta(microseconds=row.micros),
            _octets(row.value),
            _octets(row.key),
            None if row.headers is None else tuple((header.key, _octets(header.value)) for header in row.headers),
        )
        for row in rows
    ]


def _octets(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
