"""Streams for the sink: a Kafka topic, or a folder of JSON lines, as raw records that the tasks decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hivesink.core.column_source import BLOCK, PATH
from hivesink.errors import InvalidOption
from hivesink.spark.site import driver_jvm
from hivesink.spark.topics import admin, beginning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

FETCH = {
    # Measured (docs/performance.md): larger fetches halve the consumer's share of a drain.
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    # Spark asks for a partition's offsets after each fetch, on a connection whose next fetch the broker holds back for
    # so long at the end of the topic: half a second for each partition by Kafka's own default.
    "kafka.fetch.max.wait.ms": "10",
    # Kafka's own default reads the records of transactions that were aborted, too.
    "kafka.isolation.level": "read_committed",
}

ANY_AGE = {"maxFileAge": "365000d"}
"""Spark's own default silently passes over files a week older than the newest: `mv`, `cp -p` and `rsync` keep times."""


def kafka(spark: SparkSession, servers: str, topics: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of Kafka records, read from their beginning, with the columns of Spark's own source.

    The record is the bytes in `value`; beside it are `key`, `topic`, `partition`, `offset`, `timestamp` and
    `timestampType`, and with the option `includeHeaders` also `headers`. `servers` is host:port, several with commas;
    so are several `topics`. A query that has a checkpoint goes on from there. `options` are Spark's own and win over
    these.

    Raises SourceUnreachable if no broker answers within 15 s, TopicMissing if a topic doesn't exist: Spark itself
    would silently wait for either; Unsupported without the connector.
    """
    client = {"kafka.bootstrap.servers": servers, **FETCH, **(options or {})}
    beginning(spark, client, [topic.strip() for topic in topics.split(",")])
    stream = spark.readStream.format("kafka").option("startingOffsets", "earliest").options(**client)
    return stream.option("subscribe", topics).load()


def lines(spark: SparkSession, folder: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of the lines of text files that arrive in `folder`: `value` is a line's text, a JSON object.

    `_path` holds each line's file, and `_block` the byte at which its block begins, from which the sink counts lines,
    for errors, dead letters and `sink.column.<name>.from`; there is no `_block` with the option `lineSep`. `options`
    are Spark's own, such as `maxFilesPerTrigger`. Spark reads a file once, as it first sees it: write it elsewhere,
    then rename it into `folder`. A `folder` without a scheme is on `fs.defaultFS`: HDFS, where HADOOP_CONF_DIR is set.

    Raises InvalidOption if the folder doesn't exist or can't be read.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        files = spark.readStream.format("text").options(**{**ANY_AGE, **(options or {})}).load(folder)
    except (PySparkException, Py4JJavaError) as error:
        # Spark 3.5 leaves what is no error of its own, such as an AssertionError, as Py4J's.
        why = str(getattr(error, "java_exception", error)).partition("\n")[0]
        raise InvalidOption((f"the folder {folder!r} can't be read: {why}",)) from error
    columns = ["value", f"_metadata.file_path AS {PATH}"]
    # Only Hadoop's own ends of lines can be counted again.
    if "linesep" not in {name.lower() for name in options or {}}:
        columns.append(f"_metadata.file_block_start AS {BLOCK}")
    return files.selectExpr(*columns)


def offsets(spark: SparkSession, servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """The first offset of each partition of `topic`, and the offset after its last record.

    Raises InvalidOption; SourceUnreachable if no broker answers, TopicMissing; Unsupported.
    """
    jvm = driver_jvm(spark)
    client = {"kafka.bootstrap.servers": servers, **FETCH}
    names = beginning(spark, client, [topic]).topics()[topic]
    partitions = {int(name): jvm.org.apache.kafka.common.TopicPartition(topic, int(name)) for name in names}

    def ask(client: Any, kind: str) -> dict[int, int]:
        places = jvm.java.util.HashMap()
        for partition in partitions.values():
            places.put(partition, getattr(jvm.org.apache.kafka.clients.admin.OffsetSpec, kind)())
        answers = client.listOffsets(places).all().get()
        return {number: int(answers[partition].offset()) for number, partition in partitions.items()}

    with admin(spark, client, [topic]) as asked:
        first, end = ask(asked, "earliest"), ask(asked, "latest")
    return {number: (first[number], end[number]) for number in sorted(partitions)}
