"""A job whose tasks lose their shuffle: run by test_retries.py in a process of its own.

`trouble` sits before the sink in the tasks, so that the sink has written some of an attempt's rows by then.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink import HiveSink, sources
from hivesink.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def trouble(folder: str) -> Any:
    """For mapInArrow: pass the rows on in two halves.

    In between, the first attempt of task 0 deletes the shuffle's files, so that Spark runs both stages again beside it,
    and waits until its other attempt has begun.
    """

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        record = Path(folder, "attempts")
        own = f"{context.partitionId()} {context.attemptNumber()} {context.taskAttemptId()}\n"
        with record.open("a") as file:
            file.write(own)

        def begun() -> list[str]:
            return [line for line in record.read_text().splitlines() if line.startswith("0 ")]

        first = context.partitionId() == 0 and [own.strip()] == begun()
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            for path in Path(folder, "scratch").rglob("shuffle_*") if first else ():
                path.unlink(missing_ok=True)
            deadline = time.monotonic() + 60
            while first and len(begun()) == 1 and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch.slice(half)

    return pass_on


def main() -> None:
    order = json.loads(sys.argv[1])
    settings = {
        "spark.master": "local[2,4]",
        "spark.local.dir": f"{order['folder']}/scratch",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": Path(order["warehouse"]).as_uri(),
        "spark.ui.enabled": "false",
    }
    spark = session("retried job", metastore=order["metastore"], extra=settings)
    events = sources.lines(spark, order["source"]).repartition(6, "value")
    troubled = events.mapInArrow(trouble(order["folder"]), events.schema)
    sink = HiveSink.for_table(spark, order["table"], writer="stage")
    query = sink.start(troubled, checkpoint=order["checkpoint"], trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
