"""Flights that arrive, month by month, while the stream runs: as files in a folder, or in a Kafka topic.

A feed that was cut off goes on where it stopped: a file is there whole or not at all, and a topic's end
offsets tell how many of its events are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink import sources
from hivesink.embedded.topics import create_topic, end_offsets
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

    def __init__(self, spark: SparkSession | None, servers: str) -> None:
        self._spark = spark
        self._servers = servers
        create_topic(servers, TOPIC, PARTITIONS)

    def events(self) -> DataFrame:
        assert self._spark is not None  # noqa: S101  for whoever reads the topic elsewhere
        return sources.kafka(self._spark, self._servers, TOPIC, options={"maxOffsetsPerTrigger": "30000"})

    def send(self, flights: Flights) -> int:
        """Send what isn't there yet; how many events that were."""
        from confluent_kafka import Producer

        there, sent = end_offsets(self._servers, TOPIC, PARTITIONS), 0
        # Errors only: a broker that has just started is asked again without a word.
        client = {"bootstrap.servers": self._servers, "log_level": 3}
        # Idempotent: in order, and once, whatever the broker does meanwhile.
        producer = Producer({**client, "enable.idempotence": True, "linger.ms": 20})
        for month in MONTHS:
            for n, event in enumerate(flights.events(month)):
                partition = n % PARTITIONS
                if there[partition]:
                    there[partition] -= 1
                    continue
                while True:
                    try:
                        producer.produce(TOPIC, event.encode(), partition=partition)
                        break
                    except BufferError:
                        producer.poll(1)
                sent += 1
        producer.flush()
        return sent
