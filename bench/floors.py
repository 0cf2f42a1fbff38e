"""Floors without Spark, a process each: a bare librdkafka consumer, and pyarrow writing the same rows from memory.

Told and answering as `bench.runner` does. `python -m bench.floors GROUND`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from bench.contenders import Drain, Drained
from bench.ground import DATABASE, Ground
from bench.records import chunks
from bench.workloads import WORKLOADS
from hivesink.spark.sources import FETCH
from hivesink.storage.local_files import posix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.workloads import Workload

CONSUMER, PYARROW = "consumer", "pyarrow"
FLOORS = (CONSUMER, PYARROW)
AT_ONCE = 10_000
TABLE_BYTES = 256_000_000
WAIT = 60.0
"""Seconds without a record after which a consumer gives up."""


def consume(drain: Drain) -> Drained:
    """All records of the topic, each as an object of Python's, and nothing done with them."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    begun = time.perf_counter()
    fetch = {
        "max.partition.fetch.bytes": int(FETCH["kafka.max.partition.fetch.bytes"]),
        "fetch.max.bytes": int(FETCH["kafka.fetch.max.bytes"]),
        "socket.receive.buffer.bytes": int(FETCH["kafka.receive.buffer.bytes"]),
        "isolation.level": FETCH["kafka.isolation.level"],
    }
    consumer = Consumer({"bootstrap.servers": drain.servers, "group.id": drain.name, "log_level": 3, **fetch})
    partitions = consumer.list_topics(drain.topic, timeout=WAIT).topics[drain.topic].partitions
    consumer.assign([TopicPartition(drain.topic, number, OFFSET_BEGINNING) for number in partitions])
    seen = 0
    while seen < drain.rows:
        found = consumer.consume(AT_ONCE, timeout=WAIT)
        if not found:
            break
        seen += sum(message.error() is None for message in found)
    consumer.close()
    return Drained(time.perf_counter() - begun, [], {}, rows=seen)


def write(drain: Drain, ground: Ground) -> Drained:
    """The rows in snappy Parquet, a file for each partition; the clocks stand still while a chunk of them is made."""
    workload = WORKLOADS[drain.workload]
    folder = Path(posix(ground.tables), f"{DATABASE}.db", drain.name)
    writers: dict[str, parquet.ParquetWriter] = {}
    seconds = cpu = 0.0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows in _in_memory(workload, drain.rows):
            begun, spent = time.perf_counter(), time.process_time()
            parts = dict(_parts(rows, workload.partition.column))
            for value, part in parts.items():
                if value not in writers:
                    writers[value] = _writer(folder / f"{workload.partition.column}={value}", part.schema)
            list(pool.map(lambda one: writers[one[0]].write_table(one[1]), parts.items()))
            seconds, cpu = seconds + time.perf_counter() - begun, cpu + time.process_time() - spent
        begun, spent = time.perf_counter(), time.process_time()
        list(pool.map(lambda writer: writer.close(), writers.values()))
    return Drained(
        seconds + time.perf_counter() - begun, [], {}, rows=drain.rows, cpu=cpu + time.process_time() - spent
    )


def _in_memory(workload: Workload, rows: int) -> Iterator[pa.Table]:
    """The rows in tables of `TABLE_BYTES`, so that row groups are of a sensible size."""
    waiting: list[pa.Table] = []
    for chunk in chunks(workload, rows):
        waiting.append(chunk.rows)
        if sum(table.nbytes for table in waiting) >= TABLE_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _writer(folder: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    folder.mkdir(parents=True)
    return parquet.ParquetWriter(
        folder / "part.snappy.parquet", schema, use_dictionary=False, use_deprecated_int96_timestamps=True
    )


def _parts(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each partition, without its column."""
    keys = rows[column].dictionary_encode().combine_chunks()
    order = pc.sort_indices(keys.indices)
    sorted_rows = rows.drop_columns([column]).take(order)
    ends = np.cumsum(np.bincount(keys.indices.to_numpy(), minlength=len(keys.dictionary))).tolist()
    for value, start, end in zip(keys.dictionary.to_pylist(), [0, *ends], ends, strict=False):
        yield value, sorted_rows.slice(start, end - start)


def main(ground: Ground) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        drain = Drain(**json.loads(line))
        drained = consume(drain) if drain.contender == CONSUMER else write(drain, ground)
        print(json.dumps(asdict(drained)), flush=True)


if __name__ == "__main__":
    main(Ground(**json.loads(sys.argv[1])))
