"""Streams for the sink: a Kafka topic, or a folder of JSON lines, as raw records that the tasks decode."""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from hivesink.core.column_source import BLOCK, PATH
from hivesink.core.offsets import BEGINNING, KafkaOffset, SourceOffset
from hivesink.errors import InvalidOption, SourceUnreachable, TopicMissing, Unsupported
from hivesink.spark.site import driver_jvm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from hivesink.core.offsets import TopicIds

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


logger = logging.getLogger("hivesink")

ASK = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "10000"}
"""Timeouts of the request for a topic's partitions."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What stands for no id: Kafka's Uuid.ZERO_UUID, as text."""
_SAID = {
    "waiting for a node assignment": "no broker answers; is a broker running there, and open to this machine?",
    "No resolvable bootstrap urls": "none of these hosts is known; correct the address",
}
"""What Kafka's client reports in its own terms, and what it means."""


def ids_at_start(spark: SparkSession, streams: Sequence[Mapping[str, str]]) -> TopicIds:
    """The ids of the topics that each stream names, as far as its options alone lead to them.

    Where Spark knows more of a cluster, such as a token, its own client is asked with the first batch.
    """
    return tuple(_ids_of_stream(spark, options) for options in streams)


def _ids_of_stream(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    if "subscribe" not in options or "kafka.bootstrap.servers" not in options:
        return {}
    names = [topic.strip() for topic in options["subscribe"].split(",")]
    try:
        with admin(spark, options, names) as client:
            return _ids_of(_described(client, names))
    except SourceUnreachable as error:
        logger.warning("whether topics were created again isn't known at this start: %s", error)
        return {}


def ids_now(execution: Any, ends: tuple[SourceOffset, ...]) -> TopicIds:
    """The ids that the topics of a batch's `ends` have now; `execution` as in `Running`.

    Asks with the client of Spark's own source, so with all of its settings. Says nothing of a topic that isn't there,
    and nothing at all where the broker gives no ids or the source has no such client. Raises SourceUnreachable.
    """
    sources = execution.sources()
    return tuple(
        _asked(sources.apply(number), end.topics()) if isinstance(end, KafkaOffset) else {}
        for number, end in enumerate(ends)
    )


def _asked(source: Any, topics: Iterable[str]) -> dict[str, str]:
    from py4j.protocol import Py4JJavaError

    reader = reader_of(source)
    if reader is None:
        return {}
    names = sorted(topics)
    try:
        return _ids_of(_described(reader.admin(), names))
    except Py4JJavaError as error:
        reason = str(error.java_exception.getCause() or error.java_exception)
        if "InterruptedException" in reason:
            raise  # The query is stopped, and tells so itself.
        what = f"the id of topic {', '.join(names)} of Kafka"
        raise SourceUnreachable(what, reason) from error


def reader_of(source: Any) -> Any:
    """What reads the offsets of a Kafka source of Spark's, with a client of its own; None if it has none."""
    # Neither Spark's older source nor its deprecated reader of offsets has a client.
    reader = source.kafkaOffsetReader() if "kafkaOffsetReader" in dir(source) else None
    return reader if "admin" in dir(reader) else None


def beginning(spark: SparkSession, client: Mapping[str, str], topics: Sequence[str]) -> KafkaOffset:
    """Where the topics begin, in the terms of `startingOffsets`: -2 for each partition that they have now.

    Raises TopicMissing and what `admin` raises.
    """
    with admin(spark, client, topics) as asked:
        descriptions = _described(asked, topics)
        if missing := [topic for topic, description in descriptions.items() if description is None]:
            raise TopicMissing(_text(client, missing))
        places = {
            topic: {str(partition.partition()): BEGINNING for partition in description.partitions()}
            for topic, description in descriptions.items()
        }
        return KafkaOffset.of(places)


def _described(client: Any, names: Sequence[str]) -> dict[str, Any]:
    """What Kafka's AdminClient says of each topic; None if there is no such topic."""
    answers = client.describeTopics(names).topicNameValues()
    return {name: _awaited(answers.get(name)) for name in names}


def _awaited(answer: Any) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return answer.get()
    except Py4JJavaError as error:
        if "UnknownTopicOrPartition" in str(error.java_exception):
            return None
        raise


def _ids_of(descriptions: Mapping[str, Any]) -> dict[str, str]:
    """The id of each topic that has an id, of Kafka's TopicDescription of each."""
    ids = {name: str(topic.topicId().toString()) for name, topic in descriptions.items() if topic is not None}
    return {name: id_ for name, id_ in ids.items() if id_ != _NO_ID}


@contextmanager
def admin(spark: SparkSession, client: Mapping[str, str], topics: Sequence[str]) -> Iterator[Any]:
    """Kafka's own AdminClient, with the settings in `client` that Spark will use; errors name `topics`.

    Raises SourceUnreachable if no broker answers within 15 s, TopicMissing, InvalidOption, and Unsupported without the
    connector.
    """
    from py4j.java_gateway import JavaClass
    from py4j.protocol import Py4JJavaError

    jvm = driver_jvm(spark)
    properties, client_class = jvm.java.util.Properties(), jvm.org.apache.kafka.clients.admin.AdminClient
    if not isinstance(client_class, JavaClass):
        msg = "reading Kafka in this session"
        raise Unsupported(msg, "Spark's Kafka connector isn't loaded", "use session(…, kafka=True), or --packages")
    for name, value in {**ASK, **client}.items():
        if name.startswith("kafka."):
            properties.put(name.removeprefix("kafka."), value)
    try:
        with closing(client_class.create(properties)) as asked:
            yield asked
    except Py4JJavaError as error:
        reason = str(error.java_exception.getCause() or error.java_exception)
        msg = _text(client, topics)
        if "UnknownTopicOrPartition" in reason:
            raise TopicMissing(msg) from error
        if "ConfigException" in reason and "resolvable" not in reason:
            problem = f"{msg}: {reason}; write servers as host:port, separated by commas, or fix the option named"
            raise InvalidOption((problem,)) from error
        said = next((ours for theirs, ours in _SAID.items() if theirs in reason), reason)
        raise SourceUnreachable(msg, said) from error


def _text(client: Mapping[str, str], topics: Sequence[str]) -> str:
    return f"topic{'s' * (len(topics) > 1)} {', '.join(topics)} of Kafka at {client['kafka.bootstrap.servers']}"
