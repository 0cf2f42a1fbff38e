"""A job to be killed: run by test_kills.py in a process of its own.

At the step that `die_at` names, in the epoch that it names, the job says so in the file `reached` and stands still,
so that the kill falls just there. The steps are the protocol's own; the sink is what users run.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink import HiveSink, sources
from hivesink.spark.batchjobs import BatchJobs
from hivesink.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


class Halting:
    """Passes everything on to `inner`; stands still before or after one call of the method `name`.

    With `of_roll`, of one whose manifest is a roll's.
    """

    def __init__(self, inner: Any, name: str, *, after: bool, reached: Path, of_roll: bool = False) -> None:
        self._inner = inner
        self._name = name
        self._after = after
        self._reached = reached
        self._of_roll = of_roll

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._name:
            return found

        def halting(*args: Any, **kwargs: Any) -> Any:
            passes = self._of_roll and not args[0].rolled
            if not self._after and not passes:
                halt(self._reached)
            result = found(*args, **kwargs)
            if self._after and not passes:
                halt(self._reached)
            return result

        return halting


def halt(reached: Path) -> None:
    reached.touch()
    time.sleep(600)


def halt_in_task(batches: Iterator[pa.RecordBatch], reached: Path) -> Iterator[pa.RecordBatch]:
    """For mapInArrow, before the sink: the sink has some of the rows, and has written them for want of memory."""
    for number, batch in enumerate(batches):
        # Spark's buffers hold back the last one or two.
        if number >= HELD_BACK:
            halt(reached)
        yield batch


def halt_at_encoding(step: str, reached: Path) -> None:
    """Before or after the tasks that make part files of rows that wait."""
    encode = BatchJobs.encode

    def halting(self: BatchJobs, *args: Any) -> Any:
        if step == "before-encoding":
            halt(reached)
        reports = encode(self, *args)
        if step == "after-encoding":
            halt(reached)
        return reports

    BatchJobs.encode = halting  # type: ignore[method-assign,assignment]


STEPS = {
    "before-manifest": ("log", "create", False),
    "after-manifest": ("log", "create", True),
    "while-publishing": ("store", "publish", True),
    "after-publish": ("log", "mark", True),
    "before-register": ("registrar", "add", False),
    "after-register": ("registrar", "add", True),
    "before-sweep": ("segments", "drop", False),
    "after-sweep": ("segments", "drop", True),
}
OF_ROLLS = {"before-roll": "before-manifest", "after-roll": "after-manifest"}
HELD_BACK = 5


def halt_at(step: str, sink: HiveSink, events: DataFrame, reached: Path) -> DataFrame:
    """Make the job stand still there; returns the events to read."""
    if step in {"before-encoding", "after-encoding"}:
        halt_at_encoding(step, reached)
    if step == "in-segment":
        return events.mapInArrow(partial(halt_in_task, reached=reached), events.schema)
    port, method, after = STEPS.get(OF_ROLLS.get(step, step), ("", "", False))
    if port:
        context = sink.setup.context
        holder = context.log if port == "segments" else context
        inner = getattr(holder, port)
        wrapped = Halting(inner, method, after=after, reached=reached, of_roll=step in OF_ROLLS)
        object.__setattr__(holder, port, wrapped)
    return events


def main() -> None:
    order = json.loads(sys.argv[1])
    reached = Path(order["reached"])
    settings = {"spark.sql.warehouse.dir": Path(order["warehouse"]).as_uri(), **order["spark"]}
    spark = session("killed job", metastore=order["metastore"], kafka="servers" in order, extra=settings)
    committed = Path(order["committed"])

    def on_commit(_: Any) -> None:
        with committed.open("a") as file:
            file.write("epoch\n")
        if order["die_at"] == "after-commit":
            halt(reached)

    sink = HiveSink.for_table(spark, order["table"], writer="killed", on_commit=on_commit, options=order["options"])
    if "servers" in order:
        events = sources.kafka(
            spark, order["servers"], order["topic"], options={"maxOffsetsPerTrigger": str(order["batch"])}
        )
    else:
        events = sources.lines(spark, order["source"], options={"maxFilesPerTrigger": "1"})
    if order["distinct"]:
        events = events.dropDuplicates(["value"])
    events = halt_at(order["die_at"], sink, events, reached)
    query = sink.start(events, checkpoint=order["checkpoint"], trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
