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
from hivesink.embedded.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def trouble(kind: str, folder: str) -> Any:
    """For mapInArrow: the rows one by one, and trouble in the middle of each first try."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with Path(folder, "attempts").open("a") as file:
            file.write(f"{context.stageId()} {context.partitionId()} {context.attemptNumber()}\n")
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if kind == "failure" and context.attemptNumber() == 0:
                message = "this attempt fails"
                raise RuntimeError(message)
            if kind == "straggler" and context.partitionId() == 0 and context.attemptNumber() == 0:
                # Until another attempt has taken over, and a moment more, so that both write.
                deadline = time.monotonic() + 60
                while " 0 1\n" not in Path(folder, "attempts").read_text() and time.monotonic() < deadline:
                    time.sleep(0.05)
            yield batch.slice(half)

    return pass_on


def main() -> None:
    order = json.loads(sys.argv[1])
    spark = local_session(
        "retried job",
        order["metastore"],
        Path(order["warehouse"]),
        extra={**order["spark"], "spark.ui.enabled": "false"},
    )
    events = sources.lines(spark, order["source"])
    if order["shuffle"]:
        events = events.repartition(3, "value")
    troubled = events.mapInArrow(trouble(order["trouble"], order["folder"]), events.schema)
    sink = HiveSink.for_table(spark, order["table"], writer="stage")
    query = sink.start(troubled, checkpoint=order["checkpoint"], trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
