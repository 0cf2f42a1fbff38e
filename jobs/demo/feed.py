"""Flights that arrive, month by month, while the stream runs: as files in a folder, or in a Kafka topic.

A feed that was cut off goes on where it stopped: a file is there whole or not at all, and a topic's end
offsets tell how many of its events are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from hivesink import sources
from jobs.demo.flights import MONTHS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from jobs.demo.flights import Flights

TOPIC = "flights"
PARTITIONS = 2


class Folder:
    """A file of JSON lines for each month, moved in when it is complete."""

    name = "12 files of JSON lines"

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def events(self) -> DataFrame:
        return sources.lines(self._spark, str(self._folder), options={"maxFilesPerTrigger": "1"})

    def send(self, flights: Flights) -> None:
        for month in MONTHS:
            file = self._folder / f"flights-2013-{month:02}.json"
            if not file.exists():
                # Spark passes over names that begin with a dot.
                fresh = file.with_name(f".{file.name}")
                fresh.write_text("\n".join(flights.events(month)) + "\n", encoding="utf-8")
                fresh.rename(file)


class Topic:
    """A Kafka topic. Each of its partitions gets its events in the order of the CSV, from one producer."""

    name = f"the Kafka topic {TOPIC}"

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self._spark = spark
        self._servers = servers
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  the client that Spark's connector brings
        self._create()

    def events(self) -> DataFrame:
        return sources.kafka(self._spark, self._servers, TOPIC, options={"maxOffsetsPerTrigger": "30000"})

    def send(self, flights: Flights) -> None:
        there = self._end_offsets()
        for month in MONTHS:
            missing = []
            for n, event in enumerate(flights.events(month)):
                partition = n % PARTITIONS
                if there[partition]:
                    there[partition] -= 1
                else:
                    missing.append((event, partition))
            if missing:
                self._produce(pd.DataFrame(missing, columns=["value", "partition"]))

    def _produce(self, batch: pd.DataFrame) -> None:
        # In one task, so that one producer keeps the order.
        rows = self._spark.createDataFrame(batch, "value string, partition int").coalesce(1)
        rows.write.format("kafka").options(
            **{"kafka.bootstrap.servers": self._servers, "topic": TOPIC, "kafka.linger.ms": "20"}
        ).save()

    def _create(self) -> None:
        from py4j.protocol import Py4JJavaError

        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._properties())
        try:
            optional = self._jvm.java.util.Optional
            topic = self._jvm.org.apache.kafka.clients.admin.NewTopic(TOPIC, optional.of(PARTITIONS), optional.empty())
            admin.createTopics(self._jvm.java.util.Collections.singleton(topic)).all().get()
        except Py4JJavaError as error:
            if "TopicExistsException" not in str(error.java_exception):
                raise
        finally:
            admin.close()

    def _end_offsets(self) -> dict[int, int]:
        bytes_ = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        properties = self._properties()
        properties.put("key.deserializer", bytes_)
        properties.put("value.deserializer", bytes_)
        consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        try:
            wanted = self._jvm.java.util.ArrayList()
            for partition in range(PARTITIONS):
                wanted.add(self._jvm.org.apache.kafka.common.TopicPartition(TOPIC, partition))
            found = consumer.endOffsets(wanted)
            return {place.partition(): int(found[place]) for place in wanted}
        finally:
            consumer.close()

    def _properties(self) -> Any:
        properties = self._jvm.java.util.Properties()
        properties.put("bootstrap.servers", self._servers)
        return properties
