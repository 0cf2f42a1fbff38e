"""A contenders' process: a warm Spark session that drains when it is told to.

One line of JSON on standard input is what to do and its `Drain`; the answer on standard output is a `Drained` or a
`Landed`. The first answer, to nothing, is the application's id.
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

from tests.bench import contenders
from tests.bench.contenders import CONTENDERS, Drain, Drained, Landed
from tests.bench.ground import Ground, remove, visible_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession


def main(ground: Ground) -> None:
    # Spark and its workers inherit standard output; answers go where nothing else is written.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as scratch:
        spark = ground.session(scratch)
        spark.sql(f"CREATE DATABASE IF NOT EXISTS bench LOCATION '{ground.tables}/bench.db'")
        print(spark.sparkContext.applicationId, file=answers, flush=True)
        for line in sys.stdin:
            step, told = json.loads(line)
            done = STEPS[step](spark, Drain(**told), ground)
            print(json.dumps(asdict(done)), file=answers, flush=True)
        spark.stop()


def run(spark: SparkSession, drain: Drain, ground: Ground) -> Drained:
    contenders.EPOCHS.clear()
    begun = perf_counter()
    query = CONTENDERS[drain.contender](spark, drain, f"{ground.checkpoints}/{drain.name}")
    query.awaitTermination()
    return Drained(
        seconds=perf_counter() - begun,
        batch_ms=[int(found.durationMs["triggerExecution"]) for found in query.recentProgress if found.numInputRows],
        step_ms=steps(),
    )


def check(spark: SparkSession, drain: Drain, ground: Ground) -> Landed:
    """What readers find in the table, which then goes."""
    folder = contenders.table_folder(spark, drain.name)
    files, size = visible_files(spark, folder)
    rows, users, digest = contenders.sums(spark, drain, folder)
    spark.sql(f"DROP TABLE bench.{drain.name}")
    remove(spark, folder)
    remove(spark, f"{ground.checkpoints}/{drain.name}")
    return Landed(files, size, rows, users, digest)


STEPS: Mapping[str, Callable[[SparkSession, Drain, Ground], Drained | Landed]] = {"run": run, "check": check}


def steps() -> dict[str, int]:
    total: Counter[str] = Counter()
    for epoch in contenders.EPOCHS:
        total.update(epoch.milliseconds)
    return dict(total)


if __name__ == "__main__":
    main(Ground(**json.loads(sys.argv[1])))
