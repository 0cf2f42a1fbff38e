"""One of two Spark applications that write one table: run by test_two_writers.py in a process of its own.

It says in the file `ready` that it could begin, and begins once the file `go` is there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from hivesink import HiveSink, sources


def main() -> None:
    order = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName(order["writer"])
    for name, value in order["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    sink = HiveSink.for_table(spark, order["table"], writer=order["writer"], metastore=order["metastore"])
    events = sources.lines(spark, order["source"], options={"maxFilesPerTrigger": "1"})
    Path(order["ready"]).touch()
    while not Path(order["go"]).exists():
        time.sleep(0.01)
    query = sink.start(events, checkpoint=order["checkpoint"], trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
