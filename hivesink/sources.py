"""Streams for the sink: a Kafka topic, or a folder of JSON lines, as raw records that the tasks decode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hivesink.core.offsets import KafkaOffset
from hivesink.errors import ResumeImpossible, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hivesink.spark import HiveSink

FETCH = {
    # Measured (docs/performance.md): larger fetches halve the consumer's share of a drain.
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}


def kafka(
    spark: SparkSession,
    servers: str,
    topics: str,
    *,
    resume: HiveSink | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A stream of Kafka records (`topics` is comma-separated), read from their beginning.

    With `resume`, a query with a new checkpoint begins where that sink's log ends; a partition that the log
    doesn't know begins at its first record. A query that has a checkpoint goes on from there in any case.
    `options` are Spark's own and go before these. Raises ResumeImpossible, SourceUnreachable.
    """
    settings = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topics,
        "startingOffsets": _starting_offsets(spark, servers, topics, resume),
        **FETCH,
        **(options or {}),
    }
    return spark.readStream.format("kafka").options(**settings).load()


def lines(spark: SparkSession, folder: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of the lines of text files that arrive in `folder`, one JSON object a line, as `value`.

    `_path` holds each line's file, for errors and dead letters. `options` are Spark's own, such as
    `maxFilesPerTrigger`.
    """
    files = spark.readStream.format("text").options(**(options or {})).load(folder)
    return files.selectExpr("value", "_metadata.file_path AS _path")


def _starting_offsets(spark: SparkSession, servers: str, topics: str, resume: HiveSink | None) -> str:
    last = resume.setup.last_batch() if resume is not None else None
    if resume is None or last is None:
        return "earliest"
    if len(last.ref.end) != 1 or not isinstance(last.ref.end[0], KafkaOffset):
        raise ResumeImpossible(resume.setup.world.log.location, last.epoch, last.ref.end)
    known = last.ref.end[0].topics()
    # Spark wants every partition of the topics named: -2 is the first record.
    wanted = {
        topic: {partition: known.get(topic, {}).get(partition, -2) for partition in partitions}
        for topic, partitions in _partitions(spark, servers, topics).items()
    }
    return json.dumps(wanted, sort_keys=True)


def _partitions(spark: SparkSession, servers: str, topics: str) -> dict[str, list[str]]:
    """The partitions that each topic has now, asked with the client that Spark's connector brings."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  PySpark offers no other way
    properties = jvm.java.util.Properties()
    properties.put("bootstrap.servers", servers)
    properties.put("default.api.timeout.ms", "15000")
    properties.put("request.timeout.ms", "10000")
    names = [topic.strip() for topic in topics.split(",")]
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        described = admin.describeTopics(jvm.java.util.Arrays.asList(names)).allTopicNames().get()
        return {topic: [str(found.partition()) for found in described[topic].partitions()] for topic in names}
    except Py4JJavaError as error:
        reason = str(error.java_exception.getCause() or error.java_exception)
        msg = f"Kafka at {servers}"
        raise SourceUnreachable(msg, reason) from error
    finally:
        admin.close()
