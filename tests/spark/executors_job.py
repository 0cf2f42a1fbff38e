"""A job on a cluster: where tasks get hivesink from, with a task that fails and one that runs twice at a time.

    python executors_job.py TABLE TOPIC SERVERS FOLDER

Prints a JSON object. FOLDER is where its tasks leave word for each other, and the checkpoint is in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink import HiveSink, session, sources
from hivesink.jvm import jars
from hivesink.jvm.jars import fetch, kafka_connector

if TYPE_CHECKING:
    import pyarrow as pa

SETTINGS = {
    # Executors start sooner with the archive of classes, which wants the connector at the front of the class path.
    "spark.executor.extraClassPath": os.pathsep.join(map(str, fetch(kafka_connector(version("pyspark"))))),
    "spark.executor.extraJavaOptions": jars.archive_options(),
    # One executor on each host.
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    # Only the task that waits for its copy runs this long: a slow one on a busy machine gets none.
    "spark.speculation.minTaskRuntime": "15s",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    # Each record is a batch of its own, so that a part is begun before the trouble.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
}
SECONDS = 120


def disturbed(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """Partition 0 waits in the middle until another attempt is there too; the first one of partition 1 fails."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    partition, attempt = context.partitionId(), context.attemptNumber()
    here = Path(folder, f"partition-{partition}-attempt-{attempt}")
    here.touch()
    for number, batch in enumerate(batches):
        yield batch
        if number == 1 and (partition, attempt) == (1, 0):
            message = "this task fails once"
            raise RuntimeError(message)
        deadline = time.monotonic() + SECONDS
        while number == 1 and partition == 0 and len(list(Path(folder).glob("partition-0-*"))) == 1:
            assert time.monotonic() < deadline, "no speculative attempt has come"
            time.sleep(0.05)


def home(_: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Where a task gets the package, and its tools' own modules, from."""
    import hivesink.spark.sink

    yield hivesink.__file__, hivesink.spark.sink.__file__


def main() -> None:
    """Stream the topic into the table."""
    table, topic, servers, folder = sys.argv[1:]
    spark = session("executors", kafka=True, extra=SETTINGS)
    sink = HiveSink.for_table(spark, table, writer="gated")
    events = (
        sources.kafka(spark, servers, topic)
        .select("value")
        .mapInArrow(partial(disturbed, folder=folder), "value binary")
    )
    query = sink.start(events, checkpoint=f"file:{folder}/checkpoint", trigger={"availableNow": True})
    query.awaitTermination()
    homes = spark.sparkContext.parallelize(range(3), 3).mapPartitions(home).collect()
    attempts = sorted(path.name for path in Path(folder).glob("partition-*"))
    print(json.dumps({"homes": sorted({file for pair in homes for file in pair}), "attempts": attempts}))
    spark.stop()


if __name__ == "__main__":
    main()
