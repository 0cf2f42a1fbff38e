"""Rows for jobs under fire: a topic of the cluster's Kafka, fed at once or steadily."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobs.cluster.kafka import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_A_DAY = 400
SCHEMA = pa.schema([("id", pa.int64()), ("pad", pa.string()), ("dt", pa.string())])


def day(number: int) -> str:
    # Rows come for the newest day and for three older ones, so that epochs go on with partitions and begin some.
    newest, row = divmod(number, ROWS_A_DAY)
    return f"d{max(0, newest - row % 4):04d}"


def record(number: int, pad: int = 0) -> dict[str, Any]:
    # The pad doesn't compress, so that a part is more than one packet.
    return {"id": number, "pad": random.Random(number).randbytes(pad // 2).hex(), "dt": day(number)}  # noqa: S311


def rows(first: int, count: int) -> pa.RecordBatch:
    """The same rows without pads, for a sink that no Spark feeds."""
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist([{"id": n, "pad": "", "dt": day(n)} for n in numbers], schema=SCHEMA)


@dataclass
class Feed:
    """A topic of three partitions that gets rows with the numbers 0, 1, 2…; `sent` is how many."""

    servers: str
    topic: str
    pad: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        from confluent_kafka import Producer

        assert create_topic(self.servers, self.topic, 3)
        # Idempotent: a broker that dies before it has answered gets nothing twice.
        settings = {"bootstrap.servers": self.servers, "linger.ms": 5, "enable.idempotence": True}
        # A broker that is down is what these tests are about.
        self._producer = Producer({**settings, "log_level": 0})
        self._ended = threading.Event()

    def put(self, count: int) -> None:
        """`count` more rows, with the broker when this returns."""
        self._send(count)
        assert self._producer.flush(60) == 0

    @contextmanager
    def steadily(self, rows_a_second: int) -> Iterator[None]:
        """Rows come while the block runs, whatever the broker does; at its end all are with the broker."""
        thread = threading.Thread(target=self._go_on, args=(rows_a_second,), name="feed")
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            assert self._producer.flush(120) == 0

    def held(self) -> Counter[int]:
        """The numbers that the broker has, as a consumer reads them."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self.servers, "group.id": "count", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        found: Counter[int] = Counter()
        for number in range(3):
            place = TopicPartition(self.topic, number, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            position = 0
            while position < end:
                for message in consumer.consume(1000, 10):
                    assert message.error() is None, message.error()
                    value, offset = message.value(), message.offset()
                    assert value is not None
                    assert offset is not None
                    found[json.loads(value)["id"]] += 1
                    position = offset + 1
        consumer.close()
        return found

    def _send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            self._producer.produce(self.topic, json.dumps(record(number, self.pad)), partition=number % 3)
            self._producer.poll(0)
        self.sent += count

    def _go_on(self, rows_a_second: int) -> None:
        while not self._ended.wait(0.25):
            self._send(rows_a_second // 4)
