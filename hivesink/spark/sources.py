"""Streams for the sink: a Kafka topic, or a folder of JSON lines, as raw records that the tasks decode.

And what Kafka says of topics, asked with the client that Spark uses: their partitions, and the ids that tell a topic
from a later topic of its name (brokers from 2.8 on).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from hivesink.core.column_source import BLOCK, PATH
from hivesink.core.offsets import KafkaOffset, Partition, SourceOffset, TopicIds
from hivesink.errors import InvalidOption, LoginFailed, SourceUnreachable
from hivesink.kerberos import failure
from hivesink.kerberos.tickets import trouble_of_java
from hivesink.spark.running import driver_jvm, short_java_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


logger = logging.getLogger("hivesink")

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
ASK = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "10000"}
"""Timeouts of the request for a topic's partitions."""
ANY_AGE = {"maxFileAge": "365000d"}
"""Spark's own default silently passes over files a week older than the newest: `mv`, `cp -p` and `rsync` keep times."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What stands for no id: Kafka's Uuid.ZERO_UUID, as text."""


def kafka(spark: SparkSession, servers: str, topics: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of Kafka records, read from their beginning, with the columns of Spark's own source.

    The record is the bytes in `value`. `servers` is host:port, several with commas; so are several `topics`. A query
    that has a checkpoint goes on from there. `options` are Spark's own and win over these, and over `client_of`.

    Raises SourceUnreachable if no broker answers within 15 s, InvalidOption if a topic doesn't exist: Spark itself
    would silently wait for either. Raises LoginFailed if the brokers take no login of these.
    """
    client = client_of(spark, servers) | dict(options or {})
    stream = spark.readStream.format("kafka").option("startingOffsets", "earliest").options(**client)
    records = stream.option("subscribe", topics).load()
    names = [topic.strip() for topic in topics.split(",")]
    with _admin(spark, client, names) as asked:
        _present(asked, client, names)
    return records


def client_of(spark: SparkSession, servers: str) -> dict[str, str]:
    """A client's options: those that we set, then those of the file `$HIVESINK_KAFKA_CONFIG`.

    It is one for Kafka's own tools (`--command-config`): `security.protocol=SASL_SSL`, and so on.
    """
    jvm = driver_jvm(spark)
    properties = jvm.java.util.Properties()
    if file := os.environ.get("HIVESINK_KAFKA_CONFIG"):
        with closing(jvm.java.io.FileReader(file)) as reader:
            properties.load(reader)
    of_file = {f"kafka.{name}": text for name, text in properties.items()}
    return {**FETCH, **of_file, "kafka.bootstrap.servers": servers}


def lines(spark: SparkSession, folder: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of the lines of text files that arrive in `folder`: `value` is a line's text, a JSON object.

    `_path` holds each line's file, and `_block` the byte at which its block begins, from which the sink counts lines;
    there is no `_block` with the option `lineSep`. `options` are Spark's own, such as `maxFilesPerTrigger`. Spark reads
    a file once, as it first sees it: write it elsewhere, then rename it into `folder`, which is on `fs.defaultFS` if it
    has no scheme.
    """
    files = spark.readStream.format("text").options(**{**ANY_AGE, **(options or {})}).load(folder)
    columns = ["value", f"_metadata.file_path AS {PATH}"]
    # Only Hadoop's own ends of lines can be counted again.
    if "linesep" not in {name.lower() for name in options or {}}:
        columns.append(f"_metadata.file_block_start AS {BLOCK}")
    return files.selectExpr(*columns)


def offsets(spark: SparkSession, servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """The first offset of each partition of `topic`, and that past its last record. Raises what `kafka` raises."""
    jvm = driver_jvm(spark)
    client = client_of(spark, servers)
    with _admin(spark, client, [topic]) as asked:
        numbers = sorted(place.partition() for place in _present(asked, client, [topic])[topic].partitions())
        places = [jvm.org.apache.kafka.common.TopicPartition(topic, number) for number in numbers]

        def ask(kind: str) -> list[int]:
            wanted = jvm.java.util.HashMap()
            for place in places:
                wanted.put(place, getattr(jvm.org.apache.kafka.clients.admin.OffsetSpec, kind)())
            answers = asked.listOffsets(wanted).all().get()
            return [int(answers[place].offset()) for place in places]

        return dict(zip(numbers, zip(ask("earliest"), ask("latest"), strict=True), strict=True))


def ids_at_start(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """The ids of the topics that a stream's `options` name; where those name none, the first batch tells."""
    if "subscribe" not in options or "kafka.bootstrap.servers" not in options:
        return {}
    names = [topic.strip() for topic in options["subscribe"].split(",")]
    try:
        with _admin(spark, options, names) as client:
            return _ids_of(client, names)
    except (SourceUnreachable, LoginFailed) as error:
        logger.warning("whether topics were created again isn't known at this start: %s", error)
        return {}


def ids_now(execution: Any, ends: tuple[SourceOffset, ...]) -> TopicIds:
    """The ids that the topics of a batch's `ends` have now; `execution` as in `Running`.

    Asks with the client of Spark's own source, so with all of its settings. Says nothing of a topic that isn't there,
    and nothing at all where the broker gives no ids or the source has no such client. Raises SourceUnreachable.
    """
    from py4j.protocol import Py4JJavaError

    sources, ids = execution.sources(), list[dict[str, str]]()
    for number, end in enumerate(ends):
        names = sorted(end.topics()) if isinstance(end, KafkaOffset) else []
        source: Any = sources.apply(number) if names else None
        # Neither Spark's older source nor its deprecated reader of offsets has a client.
        reader: Any = source.kafkaOffsetReader() if "kafkaOffsetReader" in dir(source) else None
        try:
            ids.append(_ids_of(reader.admin(), names) if "admin" in dir(reader) else {})
        except Py4JJavaError as error:
            if "InterruptedException" in str(error):
                raise  # The query is stopped, and tells so itself.
            _refuse(error, f"the id of topic {', '.join(names)} of Kafka")
    return tuple(ids)


def _present(asked: Any, client: Mapping[str, str], topics: Sequence[str]) -> dict[str, Any]:
    """As `_described`. Raises InvalidOption where a topic is missing."""
    described = _described(asked, topics)
    if missing := [topic for topic in topics if topic not in described]:
        raise InvalidOption((f"{_text(client, missing)}: no such topic: create it, or correct its name",))
    return described


def brokers(spark: SparkSession, servers: str) -> str:
    """How they answer, their `metadata.version` (0: none, with ZooKeeper), and all of their cluster, as host:port.

    By that level, as `kafka-features.sh` shows it, Kafka tells its releases apart. Raises what `_admin` raises.
    """
    client = client_of(spark, servers)
    names = ("kafka.security.protocol", "kafka.sasl.mechanism")
    how = ", ".join(client[name] for name in names if name in client) or "PLAINTEXT"
    with _admin(spark, client, ()) as asked:
        # Python sees the elements of Java's lists only.
        nodes = driver_jvm(spark).java.util.ArrayList(asked.describeCluster().nodes().get())
        version = asked.describeFeatures().featureMetadata().get().finalizedFeatures().get("metadata.version")
        places = sorted(f"{node.host()}:{node.port()}" for node in nodes)
        level = version.maxVersionLevel() if version else 0
    return f"answers by {how}, with metadata.version {level} and the brokers {', '.join(places)}"


def commit(
    spark: SparkSession, client: Mapping[str, str], group: str, offsets: Iterable[Mapping[Partition, int]]
) -> None:
    """Commit each of `offsets` to a consumer group without members, as it comes. Raises SourceUnreachable."""
    jvm = driver_jvm(spark)
    with _admin(spark, client, ()) as asked:
        for each in offsets:
            wanted = jvm.java.util.HashMap()
            for (topic, number), at in each.items():
                place = jvm.org.apache.kafka.common.TopicPartition(topic, number)
                wanted.put(place, jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(at))
            asked.alterConsumerGroupOffsets(group, wanted).all().get()


def _described(client: Any, names: Sequence[str]) -> dict[str, Any]:
    """What Kafka's AdminClient says of each topic that there is."""
    from py4j.protocol import Py4JJavaError

    answers, descriptions = client.describeTopics(names).topicNameValues(), dict[str, Any]()
    for name in names:
        try:
            descriptions[name] = answers.get(name).get()
        except Py4JJavaError as error:  # noqa: PERF203  each topic may be missing by itself
            if "UnknownTopicOrPartition" not in str(error.java_exception):
                raise
    return descriptions


def _ids_of(client: Any, names: Sequence[str]) -> dict[str, str]:
    """The id of each topic that is there and has an id."""
    ids = {name: str(topic.topicId().toString()) for name, topic in _described(client, names).items()}
    return {name: id_ for name, id_ in ids.items() if id_ != _NO_ID}


@contextmanager
def _admin(spark: SparkSession, client: Mapping[str, str], topics: Sequence[str]) -> Iterator[Any]:
    """Kafka's own AdminClient, with the settings in `client`, and the token, that Spark will use; errors name `topics`.

    Raises what `_refuse` raises.
    """
    from py4j.protocol import Py4JJavaError

    jvm = driver_jvm(spark)
    wanted = {name[6:]: value for name, value in {**ASK, **client}.items() if name.startswith("kafka.")}
    settings = jvm.org.apache.spark.kafka010.KafkaConfigUpdater("hivesink", jvm.PythonUtils.toScalaMap(wanted))
    try:
        java = settings.setAuthenticationConfigIfNeeded().build()
        with closing(jvm.org.apache.kafka.clients.admin.AdminClient.create(java)) as asked:
            yield asked
    except Py4JJavaError as error:
        _refuse(error, _text(client, topics))


def _refuse(error: Any, where: str) -> NoReturn:
    """Raises what an error of Kafka's client means: SourceUnreachable, LoginFailed or InvalidOption."""
    text, kinds = str(error), set[str]()
    kind = (error.java_exception.getCause() or error.java_exception).getClass()
    while kind:
        kinds.add(kind.getSimpleName())
        kind = kind.getSuperclass()
    reason, user = short_java_error(text), "the user of kafka.sasl.jaas.config"
    if why := trouble_of_java(text):
        raise failure(where, reason, why, user) from error
    if "AuthenticationException" in kinds:
        raise LoginFailed(where, user, reason, "mend kafka.security.protocol, kafka.sasl.*, kafka.ssl.*") from error
    if "RetriableException" in kinds or "resolvable" in text:
        advice = "do its brokers run, and is kafka.security.protocol theirs?"
        raise SourceUnreachable(where, f"{reason}; {advice}") from error
    raise InvalidOption((f"{where}: {reason}; mend the kafka.* options, or this user's rights",)) from error


def _text(client: Mapping[str, str], topics: Sequence[str]) -> str:
    named = f"topic{'s' * (len(topics) > 1)} {', '.join(topics)} of " if topics else ""
    return f"{named}Kafka at {client['kafka.bootstrap.servers']}"
