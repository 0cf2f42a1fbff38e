"""The benchmark's records: about 75 bytes of JSON each, spread over eight hours, the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jobs.cluster.kafka import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOURS = 8
START_MS = 1_795_132_800_000  # 2026-11-20T00:00:00Z
CHUNK = 100_000
TOPIC_PARTITIONS = 4
FILES = 20


def chunks(rows: int) -> Iterator[list[str]]:
    """The records in order, in chunks."""
    for start in range(0, rows, CHUNK):
        yield _chunk(start, min(CHUNK, rows - start))


def _chunk(start: int, rows: int) -> list[str]:
    random = np.random.default_rng(start)
    users = random.integers(0, 1 << 20, rows).tolist()
    names = random.integers(0, 1 << 31, rows).tolist()
    times = (START_MS + random.integers(0, HOURS * 3_600_000, rows)).tolist()
    return [
        f'{{"userId": {user}, "userName": "user_{user}_{name:x}", "ts": {at}}}'
        for user, name, at in zip(users, names, times, strict=True)
    ]


def write_files(folder: Path, rows: int) -> None:
    """`FILES` files of about equal length, unless they are there."""
    done = folder / ".done"
    if done.exists() and done.read_text() == str(rows):
        return
    folder.mkdir(parents=True, exist_ok=True)
    files = [(folder / f"records-{n:03}.json").open("w", encoding="utf-8") for n in range(FILES)]
    try:
        for lines in chunks(rows):
            step = -(-len(lines) // FILES)
            for n, file in enumerate(files):
                file.writelines(line + "\n" for line in lines[n * step : (n + 1) * step])
    finally:
        for file in files:
            file.close()
    done.write_text(str(rows))


def produce(servers: str, topic: str, rows: int) -> None:
    """Fill `topic`, unless it is there: then it is full, since its folder is made for one number of rows."""
    from confluent_kafka import Producer

    if not create_topic(servers, topic, TOPIC_PARTITIONS):
        return
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for lines in chunks(rows):
        for n, line in enumerate(lines):
            producer.produce(topic, line.encode(), partition=n % TOPIC_PARTITIONS)
        producer.flush()
