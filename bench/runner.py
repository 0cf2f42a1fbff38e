"""A contenders' process: a Spark session that drains when it is told to.

One line of JSON on standard input is a `Drain`; the answer on standard output is a `Drained`. The first answer, to
nothing, is the application's id.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING

import psutil

from bench import contenders
from bench.contenders import ARROW, NOOP, Drain, Drained
from bench.ground import Ground
from bench.processes import cpu_seconds
from hivesink.sink.commit.committed import Committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(ground: Ground) -> None:
    # Spark and its workers inherit standard output; answers go where nothing else is written.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as scratch:
        spark = ground.session(scratch)
        print(spark.sparkContext.applicationId, file=answers, flush=True)
        for line in sys.stdin:
            drained = run(spark, Drain(**json.loads(line)), ground)
            print(json.dumps(asdict(drained)), file=answers, flush=True)
        spark.stop()


def run(spark: SparkSession, drain: Drain, ground: Ground) -> Drained:
    process, epochs, ends = psutil.Process(), list[Committed](), list[tuple[float, float, int]]()

    def spent() -> tuple[float, float, int]:
        return 1000 * perf_counter(), cpu_seconds(process), ground.requests()

    def on_commit(epoch: Committed) -> None:
        epochs.append(epoch)
        # A look takes some milliseconds: only after the last batch.
        if len(epochs) * drain.per_batch >= drain.rows:
            ends.append(spent())

    begun, before = perf_counter(), ground.requests()
    query = contenders.started(spark, drain, ground, on_commit)
    query.awaitTermination()
    seconds, end = perf_counter() - begun, spent()
    batches = [found for found in query.recentProgress if found.numInputRows]
    steps: Counter[str] = Counter()
    for epoch in epochs:
        steps.update(epoch.milliseconds)
    return Drained(
        seconds,
        batch_ms=[int(found.durationMs["triggerExecution"]) for found in batches],
        step_ms=dict(steps),
        requests=end[2] - before,
        roll=(end[0] - ends[-1][0], end[1] - ends[-1][1], end[2] - ends[-1][2]) if ends else None,
        rows=sum(int(found.numInputRows) for found in batches) if drain.contender in {NOOP, ARROW} else None,
    )


if __name__ == "__main__":
    main(Ground(**json.loads(sys.argv[1])))
