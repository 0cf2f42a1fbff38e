"""How far a batch is behind its sources, as Spark's driver knows it."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hivesink.core.offsets import FilesOffset, KafkaOffset, span
from hivesink.core.progress import Behind
from hivesink.spark.site import driver_jvm
from hivesink.spark.topics import reader_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from hivesink.core.offsets import Partition, SourceOffset

_EVERY = 10.0
"""Seconds from one look at a record's time to the next: a look takes as long as a small batch."""
_LOOK = {
    "max.partition.fetch.bytes": 1,
    "fetch.max.bytes": 1,
    "fetch.max.wait.ms": 100,
    "max.poll.records": 1,
    "default.api.timeout.ms": 1000,
    "request.timeout.ms": 1000,
}
"""Settings of a client that reads one record. The broker always sends a whole batch of its producer's."""


class Lag:
    """Asks for one run of a query. `tick` is a monotonic clock (seconds)."""

    def __init__(self, spark: SparkSession, tick: Callable[[], float]) -> None:
        self._spark, self._tick = spark, tick
        self._looked = float("-inf")
        self._oldest: float | None = None

    def behind(self, execution: Any, end: tuple[SourceOffset, ...]) -> Behind:
        """What the sources had beyond a batch's `end` when Spark last asked them; `execution` as in `Running`."""
        found = execution.sources()
        sources = [found.apply(number) for number in range(found.size())]
        if len(sources) == len(end) and all(isinstance(one, FilesOffset) for one in end):
            return Behind(files=_sum([files_behind(source) for source in sources]))
        is_kafka = len(sources) == len(end) and all(isinstance(one, KafkaOffset) for one in end)
        newest = _newest(sources) if is_kafka else None
        records = None if newest is None else span(end, newest)
        if newest is None or not records:
            return Behind(records)
        if self._tick() >= self._looked + _EVERY:
            self._looked, self._oldest = self._tick(), self._first(sources, end, newest)
        return Behind(records, self._oldest)

    def _first(
        self, sources: Sequence[Any], end: Sequence[SourceOffset], newest: Sequence[KafkaOffset]
    ) -> float | None:
        """The time of the first record beyond `end`, of the partition that has the most of them."""
        left = [
            (to - since[partition], source, partition, since[partition])
            for source, first, last in zip(sources, end, newest, strict=True)
            if isinstance(first, KafkaOffset) and (since := dict(first.next))
            for partition, to in last.next
        ]
        _, source, partition, offset = max(left, key=lambda one: one[0])
        return self._time_of(source, partition, offset)

    def _time_of(self, source: Any, partition: Partition, offset: int) -> float | None:
        """When the first record from `offset` on came into Kafka (seconds of Unix time); None if it can't be read.

        Asks with the settings of Spark's own client. The batch reads that record itself, or says why it can't.
        """
        from py4j.protocol import Py4JJavaError

        reader = reader_of(source)
        if reader is None:
            return None
        jvm = driver_jvm(self._spark)
        clients, topic_partition = jvm.org.apache.kafka.clients, jvm.org.apache.kafka.common.TopicPartition(*partition)
        settings = jvm.java.util.HashMap(reader.driverKafkaParams())
        for name, value in _LOOK.items():
            settings.put(name, value)
        try:
            with closing(clients.consumer.KafkaConsumer(settings)) as client:
                client.assign([topic_partition])
                client.seek(topic_partition, offset)
                found = client.poll(jvm.java.time.Duration.ofMillis(1000)).iterator()
                return found.next().timestamp() / 1000 if found.hasNext() else None
        except Py4JJavaError as error:
            if "InterruptException" in str(error.java_exception):
                raise  # The query is stopped, and tells so itself.
            return None


def _newest(sources: Sequence[Any]) -> tuple[KafkaOffset, ...] | None:
    """Where Kafka's topics ended when Spark last asked them; None if not all sources tell. Asks no broker."""
    from py4j.protocol import Py4JJavaError

    newest = []
    for source in sources:
        try:
            # `SupportsAdmissionControl` in Spark's API.
            offset = source.reportLatestOffset()
        except Py4JJavaError:
            # A Kafka source that hasn't asked yet, as in a batch that an earlier run has planned, fails (Spark 4.2).
            return None
        if offset is None:
            return None
        newest.append(KafkaOffset.of(json.loads(offset.json())))
    return tuple(newest)


def files_behind(source: Any) -> int | None:
    """How many files Spark's file source has listed and not read; None where it has no such lists.

    With `availableNow` it has listed all at the start. With another trigger it keeps a list only of what
    `maxFilesPerTrigger` leaves for later, without a last fifth of that number.
    """
    listed = _field(source, "allFilesForTriggerAvailableNow")
    if listed is not None:
        # Those that were read before and are no longer listed make the difference too small.
        return max(0, listed - int(source.seenFiles().size()), _field(source, "unreadFiles") or 0)
    return _field(source, "unreadFiles") or 0 if "seenFiles" in dir(source) else None


def _field(source: Any, name: str) -> int | None:
    """The size of a private list of Spark's; None if there is none now."""
    from py4j.protocol import Py4JJavaError

    try:
        field = source.getClass().getDeclaredField(name)
    except Py4JJavaError:
        return None
    field.setAccessible(True)
    found = field.get(source)
    return None if found is None else int(found.size())


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
