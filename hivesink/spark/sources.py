"""Streams for the sink: a Kafka topic, or a folder of JSON lines, as raw records that the tasks decode."""

from __future__ import annotations

import json
import logging
import re
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink.core.column_source import BLOCK, PATH
from hivesink.core.epoch import BatchId, NextBatch
from hivesink.core.offsets import BEGINNING, KafkaOffset, to_json
from hivesink.core.topics import made_again, named, require_topics, topic_ids
from hivesink.errors import InvalidOption, ResumeImpossible, SourceUnreachable, TopicMissing, Unsupported, few
from hivesink.spark.filenames import is_pattern, require_seen
from hivesink.spark.site import driver_jvm, hadoop_configuration, local_folder
from hivesink.spark.topicids import OPTION, described, ids_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from hivesink.spark.sink import HiveSink

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

_SAID = {
    "waiting for a node assignment": "no broker answers; is one running there, and open to this machine?",
    "No resolvable bootstrap urls": "none of these hosts is known; correct the address",
}
"""What Kafka's client reports in its own terms, and what it means."""

_CHOICES = ("subscribe", "subscribepattern", "assign")
"""Spark's options that say what to read."""

ANY_AGE = {"maxFileAge": "365000d"}
"""Spark's own default silently passes over files a week older than the newest: `mv`, `cp -p` and `rsync` keep times."""


def kafka(
    spark: SparkSession,
    servers: str,
    topics: str,
    *,
    resume: HiveSink | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A stream of Kafka records, read from their beginning, with the columns of Spark's own source.

    The record is the bytes in `value`; beside it are `key`, `topic`, `partition`, `offset`, `timestamp` and
    `timestampType`, and with the option `includeHeaders` also `headers`. `servers` is host:port, several with commas;
    so are several `topics`. With `resume`, a query with a new checkpoint begins where that sink's log ends; a partition
    that the log doesn't know begins at its first record, and so does, with `append`, a topic that was made again. A
    query that has a checkpoint always goes on from there. `options` are Spark's own and win over these.

    Raises SourceUnreachable if no broker answers within 15 s, TopicMissing if a topic doesn't exist: Spark itself
    would silently wait for either; TopicRemade if one was made again since it was read; ResumeImpossible if the log
    doesn't end in one Kafka source; InvalidOption if `options` say which topics, or where to start beside `resume`,
    or a topic of the log is left out; Unsupported without the connector.
    """
    if others := [name for name in options or () if name.lower() in _CHOICES]:
        problem = (
            f"{', '.join(others)} in options of sources.kafka, which has the topics as an argument: leave it out, "
        )
        problem += "or, for a pattern or for some partitions alone, use spark.readStream as in docs/python.md"
        raise InvalidOption((problem,))
    starts = [name for name in options or () if name.lower().startswith("starting")]
    if resume is not None and starts:
        problem = f"{', '.join(starts)} beside resume: leave it out of options, since resume starts where the log ends"
        raise InvalidOption((problem,))
    require_known_options(topics, options or {})
    client = {"kafka.bootstrap.servers": servers, **FETCH, **(options or {})}
    beginning = topics_now(spark, client, topics)
    told = {"startingOffsets": _starting_offsets(beginning, resume), OPTION: json.dumps(to_json(beginning))}
    settings = {"subscribe": topics, **told, **client}
    return spark.readStream.format("kafka").options(**settings).load()


def require_known_options(topics: object, options: Mapping[str, str]) -> None:
    """Raise InvalidOption for what Spark or Kafka would take, and then end with in words of their own, or never."""
    if not isinstance(topics, str) or not all(name.strip() for name in topics.split(",")):
        raise InvalidOption((f"topics is {topics!r}: write their names, with commas between",))
    wrong = []
    for name, value in options.items():
        fits, what = _VALUES.get(name.lower(), (lambda _: True, ""))
        if not fits(str(value)):
            wrong.append(f"{name} is {value!r}: write {what}")
    if wrong:
        raise InvalidOption(tuple(wrong))


def _are_offsets(text: str) -> bool:
    if text.lower() in {"earliest", "latest"}:
        return True
    try:
        topics = json.loads(text)
        return all(at >= BEGINNING for partitions in topics.values() for at in partitions.values())
    except (ValueError, AttributeError, TypeError):
        return False


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


_VALUES: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "startingoffsets": (
        _are_offsets,
        'earliest, latest, or JSON such as {"topic": {"0": 23, "1": -2}} (-2 is the first record, -1 the end)',
    ),
    **dict.fromkeys(
        ("maxoffsetspertrigger", "minoffsetspertrigger", "minpartitions", "maxrecordsperpartition"),
        (_is_count, "a whole number above 0"),
    ),
    "startingtimestamp": (str.isdecimal, "milliseconds since 1970"),
    "failondataloss": (lambda text: text.lower() in {"true", "false"}, "true or false"),
    "kafka.isolation.level": (
        lambda text: text in {"read_committed", "read_uncommitted"},
        "read_committed or read_uncommitted",
    ),
}
"""Options of Spark's source, in lower case: whether a value fits, and what would."""


def _unreadable(said: str) -> str:
    why = said.partition("\n")[0]
    if "PATH_NOT_FOUND" in why:
        return "doesn't exist: create it, or fix the path"
    places = re.findall(r"(?m)^\s+((?:\w+:)?/.+)$", said.partition("Suspicious paths")[2])
    # The folder itself is among them, as that of the partitions.
    if odd := sorted(place for place in places if not all(other.startswith(place) for other in places)):
        way = "move what is no input, or the link to it, out of the source"
        return f"has folders beside those that are named as partitions are ({few(odd, _NAMED)}): {way}"
    return f"can't be read: {why}"


_NAMED = 3
_NO_STREAMS = ("modifiedafter", "modifiedbefore")


def lines(spark: SparkSession, folder: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of the lines of text files that arrive in `folder`: `value` is a line's text, one JSON object.

    `_path` holds each line's file, and `_block` the byte at which its block begins, from which the sink counts lines,
    for errors, dead letters and `sink.column.<name>.from`; there is no `_block` with the option `lineSep`. `options`
    are Spark's own, such as `maxFilesPerTrigger`. Spark reads a file once, as it first sees it: write it elsewhere,
    then rename it into `folder`. A `folder` without a scheme is on `fs.defaultFS`: HDFS, where HADOOP_CONF_DIR is set.

    Raises InvalidOption if the folder doesn't exist, can't be read, is a file, or has a name that Spark takes for a
    pattern; for files that Spark would pass over in silence; and for options that it takes for no stream.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if wrong := [name for name in options or () if name.lower() in _NO_STREAMS]:
        raise InvalidOption((f"{', '.join(wrong)} in options of sources.lines: Spark takes it for no stream",))
    try:
        files = spark.readStream.format("text").options(**{**ANY_AGE, **(options or {})}).load(folder)
    except (PySparkException, Py4JJavaError) as error:
        # Spark 3.5 leaves what is no error of its own, such as an AssertionError, as Py4J's.
        problem = _unreadable(str(getattr(error, "java_exception", error)))
        raise InvalidOption((f"the folder {folder!r} {problem}",)) from error
    _look_at(spark, folder, options or {})
    columns = ["value", f"_metadata.file_path AS {PATH}"]
    # Only Hadoop's own ends of lines can be counted again.
    if "linesep" not in {name.lower() for name in options or {}}:
        columns.append(f"_metadata.file_block_start AS {BLOCK}")
    return files.selectExpr(*columns)


def _look_at(spark: SparkSession, folder: str, options: Mapping[str, str]) -> None:
    """Log a line where `folder` holds no file that Spark reads now: it passes over the folders in it in silence.

    Raises InvalidOption for a file, of which Spark makes no stream.
    """
    jvm = driver_jvm(spark)
    path = jvm.org.apache.hadoop.fs.Path(folder)
    files = path.getFileSystem(hadoop_configuration(spark))
    lower = {name.lower(): str(value) for name, value in options.items()}
    is_deep = lower.get("recursivefilelookup", "").lower() == "true"
    if local := local_folder(spark, folder):
        if is_pattern(local) and Path(local).exists():
            raise InvalidOption((f"Spark takes the name of the folder {local} for a pattern: rename it",))
        is_utf8 = str(jvm.java.lang.System.getProperty("sun.jnu.encoding")) == "UTF-8"
        names = lower.get("pathglobfilter", "*")
        require_seen(local, deep=is_deep, names=names, is_utf8=is_utf8)
    if is_pattern(folder):
        return
    if files.getFileStatus(path).isFile():
        problem = f"{folder} is a file, of which Spark makes no stream: name its folder, whose files the job reads"
        raise InvalidOption((problem,))
    found = files.listFiles(path, True) if is_deep else files.listStatusIterator(path)
    folders = []
    while found.hasNext():
        status = found.next()
        name = str(status.getPath().getName())
        if name.startswith((".", "_")):
            continue
        # Spark looks into folders that are named as partitions are.
        if status.isFile() or "=" in name:
            return
        folders.append(name)
    way = ', but folders, such as %s: to read what is in those, add options={"recursiveFileLookup": "true"}'
    logger.warning("the folder %s holds no files yet%s", folder, way % min(folders) if folders else "")


def _starting_offsets(beginning: KafkaOffset, resume: HiveSink | None) -> str:
    last = resume.setup.last_batch() if resume is not None else None
    if resume is None or last is None:
        return "earliest"
    log, end = resume.setup.context.log.location, last.ref.end
    if len(end) != 1 or not isinstance(end[0], KafkaOffset):
        several = len(end) > 1 and all(isinstance(one, KafkaOffset) for one in end)
        raise ResumeImpossible(log, last.epoch, end, several=several)
    policy, known, wanted = resume.setup.spec.history_policy, end[0].topics(), beginning.topics()
    given_up = sorted(known.keys() - wanted.keys())
    if given_up and policy.append != last.epoch:
        problem = f"resume without {', '.join(given_up)}, of which {log} holds records: name it too, or, to give it up "
        problem += f"for good, start the sink with append={last.epoch} beside resume; named again, it is read from its "
        problem += "beginning"
        raise InvalidOption((problem,))
    # After the topics that are left out: `append` would give those up, too.
    require_topics({}, last, NextBatch("", None, BatchId(0)), policy, beginning, log=log, now=lambda: beginning)
    # Spark wants every partition of the topics named.
    for topic in wanted.keys() - set(made_again(named(topic_ids(end)), (beginning.ids,))):
        wanted[topic] |= {name: at for name, at in known.get(topic, {}).items() if name in wanted[topic]}
    return json.dumps(wanted, sort_keys=True)


def offsets(spark: SparkSession, servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """The first offset of each partition of `topic`, and the one after its last record.

    Raises InvalidOption; SourceUnreachable if no broker answers, TopicMissing; Unsupported.
    """
    jvm = driver_jvm(spark)
    client = {"kafka.bootstrap.servers": servers, **FETCH}
    names = topics_now(spark, client, topic).topics()[topic]
    partitions = {int(name): jvm.org.apache.kafka.common.TopicPartition(topic, int(name)) for name in names}

    def ask(admin: Any, kind: str) -> dict[int, int]:
        asked = jvm.java.util.HashMap()
        for partition in partitions.values():
            asked.put(partition, getattr(jvm.org.apache.kafka.clients.admin.OffsetSpec, kind)())
        found = admin.listOffsets(asked).all().get()
        return {number: int(found[partition].offset()) for number, partition in partitions.items()}

    with _admin(spark, client, topic) as admin:
        first, end = ask(admin, "earliest"), ask(admin, "latest")
    return {number: (first[number], end[number]) for number in sorted(partitions)}


def topics_now(spark: SparkSession, client: Mapping[str, str], topics: str) -> KafkaOffset:
    """Where the topics begin, in the terms of `startingOffsets`: -2 for each partition that they have now.

    Asked with the client, and the settings for it, that Spark will use.
    """
    names = [topic.strip() for topic in topics.split(",")]
    with _admin(spark, client, topics) as admin:
        found = described(admin, names)
        if missing := [topic for topic, one in found.items() if one is None]:
            raise TopicMissing(_told(client, missing))
        offsets = {
            topic: {str(info.partition()): BEGINNING for info in one.partitions()} for topic, one in found.items()
        }
        return KafkaOffset.of(offsets, ids_of(found))


def _told(client: Mapping[str, str], topics: Sequence[str]) -> str:
    return f"topic{'s' * (len(topics) > 1)} {', '.join(topics)} of Kafka at {client['kafka.bootstrap.servers']}"


@contextmanager
def _admin(spark: SparkSession, client: Mapping[str, str], topics: str) -> Iterator[Any]:
    """Kafka's own AdminClient; its errors become those that `kafka` raises, and name `topics`."""
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
        with closing(client_class.create(properties)) as admin:
            yield admin
    except Py4JJavaError as error:
        reason = str(error.java_exception.getCause() or error.java_exception)
        msg = _told(client, [topic.strip() for topic in topics.split(",")])
        if "UnknownTopicOrPartition" in reason:
            raise TopicMissing(msg) from error
        if "ConfigException" in reason and "resolvable" not in reason:
            problem = f"{msg}: {reason}; write servers as host:port, separated by commas, or fix the option named"
            raise InvalidOption((problem,)) from error
        said = next((ours for theirs, ours in _SAID.items() if theirs in reason), reason)
        raise SourceUnreachable(msg, said) from error
