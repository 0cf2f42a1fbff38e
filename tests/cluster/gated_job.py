"""A job that stands still where a test wants it to: at a step of the protocol, or in a task that has written a part.

A gate is shut while the file `halt-<step>` is in the folder `gates`; `reached-<step>` says that the job stands there.
The steps are the protocol's own; the sink is what users run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

STEPS: Mapping[tuple[str, str], tuple[str | None, str | None]] = {
    ("log", "create"): ("before-manifest", "after-manifest"),
    ("store", "publish"): (None, "while-publishing"),
    ("log", "mark"): (None, "after-publish"),
    ("registrar", "add"): ("before-register", "after-register"),
    ("registrar", "lookup"): ("before-lookup", None),
    ("log.segments", "drop"): ("before-sweep", "after-sweep"),
}
"""Port and method, and the gates before and after it."""


HELD_BACK = 5


def stand(folder: str, step: str) -> None:
    """Wait at the gate for as long as it is shut."""
    halt = Path(folder, f"halt-{step}")
    if halt.exists():
        Path(folder, f"reached-{step}").touch()
        while halt.exists():
            time.sleep(0.02)


class Gated:
    """Passes everything on to `inner`, through gates before and after some of its methods."""

    def __init__(self, inner: Any, folder: str, gates: Mapping[str, tuple[str | None, str | None]]) -> None:
        self._inner = inner
        self._folder = folder
        self._gates = gates

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._through(found, *self._gates[name]) if name in self._gates else found

    def _through(self, method: Callable[..., Any], before: str | None, after: str | None) -> Callable[..., Any]:
        def passing(*args: Any, **kwargs: Any) -> Any:
            rolls = before == "before-manifest" and args[0].rolled
            for gate in (before, "before-roll" if rolls else None):
                if gate:
                    stand(self._folder, gate)
            result = method(*args, **kwargs)
            for gate in (after, "after-roll" if rolls else None):
                if gate:
                    stand(self._folder, gate)
            return result

        return passing


def gate_ports(context: Any, folder: str) -> None:
    """Put the gates of `STEPS` into a sink's world."""
    # The log's segments first: what wraps the log hides that they can be set.
    for port in sorted({port for port, _ in STEPS}, key=len, reverse=True):
        gates = {method: gates for (other, method), gates in STEPS.items() if other == port}
        holder, name = (context.log, "segments") if port == "log.segments" else (context, port)
        object.__setattr__(holder, name, Gated(getattr(holder, name), folder, gates))


def gate_encoding(folder: str) -> None:
    """Before and after the tasks that make part files of rows that wait."""
    from hivesink.spark.batchjobs import BatchJobs

    encode = BatchJobs.encode

    def passing(self: BatchJobs, *args: Any) -> Any:
        stand(folder, "before-encoding")
        reports = encode(self, *args)
        stand(folder, "after-encoding")
        return reports

    BatchJobs.encode = passing  # type: ignore[method-assign,assignment]


def pass_slowly(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """For mapInArrow, before the sink: stand at the gate `in-task` when the sink has some of the rows."""
    for number, batch in enumerate(batches):
        # Spark's buffers hold back the last one or two.
        if number >= HELD_BACK:
            stand(folder, "in-task")
        yield batch


def trouble(folder: str) -> Any:
    """For mapInArrow, before the sink: pass the rows on in two halves.

    In between, the first attempt of task 0 deletes the shuffle's files, so that Spark runs both stages again beside it,
    and waits until its other attempt has begun.
    """

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        record = Path(folder, "attempts")
        own = f"{context.partitionId()} {context.attemptNumber()} {context.stageId()} {context.taskAttemptId()}\n"
        with record.open("a") as file:
            file.write(own)

        def begun() -> list[str]:
            return [line for line in record.read_text().splitlines() if line.startswith("0 ")]

        first = context.partitionId() == 0 and [own.strip()] == begun()
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            for path in Path(folder).with_name("scratch").rglob("shuffle_*") if first else ():
                path.unlink(missing_ok=True)
            deadline = time.monotonic() + 60
            while first and len(begun()) == 1 and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch.slice(half)

    return pass_on


def open_session(settings: Mapping[str, str]) -> SparkSession:
    """A session without Hive's catalog, which the sink doesn't need: it starts sooner."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("gated job")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    from hivesink import HiveSink, sources

    order = json.loads(sys.argv[1])
    folder = order["gates"]
    spark = open_session(order["spark"])

    def committed(done: Any) -> None:
        print("epoch", done.epoch, flush=True)
        stand(folder, "after-commit")

    if "servers" in order:
        options = {"maxOffsetsPerTrigger": str(order["batch"])}
        events = sources.kafka(spark, order["servers"], order["topic"], options=options)
    else:
        events = sources.lines(spark, order["source"], options={"maxFilesPerTrigger": "1"})
    if order.get("distinct"):
        events = events.dropDuplicates(["value"])
    if order.get("troubled"):
        events = events.repartition(6, "value")
        events = events.mapInArrow(trouble(folder), events.schema)
    if order["slow"]:
        events = events.mapInArrow(partial(pass_slowly, folder=folder), events.schema)
    sink = HiveSink.for_table(
        spark,
        order["table"],
        metastore=order["metastore"],
        options=order["options"],
        on_commit=committed,
    )
    gate_ports(sink.setup.context, folder)
    gate_encoding(folder)
    query = sink.start(events, checkpoint=order["checkpoint"], trigger=order["trigger"])
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
