"""The topics: each is made once, and kept for all runs and for later ones, with what must come of its records."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.content import Figures, total
from bench.records import chunks, due
from jobs.cluster.kafka import create_topic, end_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.workloads import Workload

PARTITIONS = 4
CLIENT = {"linger.ms": 50, "batch.size": 1 << 20, "queue.buffering.max.messages": 2_000_000, "log_level": 3}


@dataclass(frozen=True, slots=True)
class Topic:
    """`rows` records, of which `figures` are due in the table."""

    name: str
    rows: int
    figures: Figures

    def rejected(self) -> int:
        return self.rows - self.figures["rows"]


def topic(servers: str, folder: Path, workload: Workload, rows: int) -> Topic:
    """The topic of the workload's first `rows` records; `folder` remembers what is in it.

    One that was not filled to its end (its making was stopped) is made anew.
    """
    name = f"{workload.topic}-{rows}"
    note = folder / f"{name}.json"
    if note.exists() and not create_topic(servers, name, PARTITIONS):
        return Topic(**json.loads(note.read_text()))
    if not note.exists():
        _delete(servers, name)
        create_topic(servers, name, PARTITIONS)
    print(f"making the topic {name}", file=sys.stderr, flush=True)
    made = Topic(name, rows, total(_produce(servers, name, workload, rows)))
    found = sum(end_offsets(servers, name, PARTITIONS).values())
    if found != rows:
        message = f"the topic {name} has {found} records where {rows} were sent; see the broker's log"
        raise SystemExit(message)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(asdict(made)))
    return made


def partitions(workload: Workload, start: int, count: int) -> list[int]:
    """Which partition of the topic each of `count` records goes to, the first being number `start` of all."""
    others = PARTITIONS - 1
    if workload.skew is None:
        return [number % PARTITIONS for number in range(start, start + count)]
    every = round(1 / (1 - workload.skew))
    return [1 + number // every % others if number % every == 0 else 0 for number in range(start, start + count)]


def _produce(servers: str, name: str, workload: Workload, rows: int) -> Iterator[Figures]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, **CLIENT})
    start = 0
    for chunk in chunks(workload, rows):
        for value, partition in zip(chunk.texts, partitions(workload, start, len(chunk.texts)), strict=True):
            producer.produce(name, value, partition=partition)
        start += len(chunk.texts)
        yield due(chunk, workload)
        producer.flush()


def _delete(servers: str, name: str) -> None:
    """Delete the topic, if there is one, and wait until its name is free."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    if name in admin.list_topics(timeout=30).topics:
        admin.delete_topics([name], operation_timeout=30)[name].result()
