"""A job whose tasks fail, straggle or lose their shuffle: run by test_retries.py in a process of its own.

`trouble` sits before the sink in the tasks, so that an attempt fails when the sink has written some of its rows.
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


def trouble(kind: str, folder: str) -> Any:
    """For mapInArrow: pass the rows on, in two halves, with trouble in between.

    `failure`: each task's first attempt fails. `straggler`: the first attempt of task 0 waits until another one has
    begun. `shuffle`: it deletes the shuffle's files first, so that Spark runs both stages again beside it.
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
            if kind == "failure" and context.attemptNumber() == 0:
                message = "this attempt fails"
                raise RuntimeError(message)
            if kind == "shuffle" and first:
                for path in Path(folder, "scratch").rglob("shuffle_*"):
                    path.unlink(missing_ok=True)
            deadline = time.monotonic() + 60
            while kind in {"straggler", "shuffle"} and first and len(begun()) == 1 and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch.slice(half)

    return pass_on


def main() -> None:
    order = json.loads(sys.argv[1])
    settings = {"spark.sql.warehouse.dir": Path(order["warehouse"]).as_uri(), **order["spark"]}
    spark = session("retried job", metastore=order["metastore"], extra={**settings, "spark.ui.enabled": "false"})
    events = sources.lines(spark, order["source"])
    if order["shuffle"]:
        events = events.repartition(6, "value")
    troubled = events.mapInArrow(trouble(order["trouble"], order["folder"]), events.schema)
    sink = HiveSink.for_table(spark, order["table"], writer="stage")
    query = sink.start(troubled, checkpoint=order["checkpoint"], trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
