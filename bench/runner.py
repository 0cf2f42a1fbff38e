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

from bench import contenders
from bench.contenders import ARROW, NOOP, Drain, Drained
from bench.ground import Ground

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
    contenders.EPOCHS.clear()
    begun = perf_counter()
    query = contenders.started(spark, drain, ground)
    query.awaitTermination()
    seconds = perf_counter() - begun
    batches = [found for found in query.recentProgress if found.numInputRows]
    steps: Counter[str] = Counter()
    for epoch in contenders.EPOCHS:
        steps.update(epoch.milliseconds)
    return Drained(
        seconds,
        batch_ms=[int(found.durationMs["triggerExecution"]) for found in batches],
        step_ms=dict(steps),
        rows=sum(int(found.numInputRows) for found in batches) if drain.contender in {NOOP, ARROW} else None,
    )


if __name__ == "__main__":
    main(Ground(**json.loads(sys.argv[1])))
