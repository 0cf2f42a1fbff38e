"""One contender's own process: a warm Spark session that drains when it is told to.

One line of JSON on standard input is a `Drain`; the answer on standard output is a `Drained`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from hivesink.embedded.session import local_session
from tests.bench import contenders
from tests.bench.contenders import CONTENDERS, Drain, Drained, table_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(uri: str, warehouse: str) -> None:
    # Spark and its workers inherit standard output; answers go where nothing else is written.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as scratch:
        spark = session(uri, Path(warehouse), scratch)
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            drained = run(spark, Drain(**json.loads(line)), Path(scratch))
            print(json.dumps(asdict(drained)), file=answers, flush=True)
        spark.stop()


def session(uri: str, warehouse: Path, scratch: str) -> SparkSession:
    settings = {
        "spark.driver.memory": "2g",
        "spark.local.dir": scratch,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    }
    return local_session("hivesink bench", uri, warehouse, kafka=True, extra=settings)


def run(spark: SparkSession, drain: Drain, scratch: Path) -> Drained:
    checkpoint = scratch / f"checkpoint-{drain.name}"
    contenders.EPOCHS.clear()
    begun = perf_counter()
    query = CONTENDERS[drain.contender](spark, drain, str(checkpoint))
    query.awaitTermination()
    seconds = perf_counter() - begun
    folder = table_folder(spark, drain.name)
    files = [file for file in folder.glob("dt=*/*") if file.name[0] not in "._"]
    drained = Drained(
        seconds=seconds,
        batch_ms=[int(found.durationMs["triggerExecution"]) for found in query.recentProgress if found.numInputRows],
        step_ms=steps(),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
    )
    spark.sql(f"DROP TABLE bench.{drain.name}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(checkpoint)
    return drained


def steps() -> dict[str, int]:
    total: Counter[str] = Counter()
    for epoch in contenders.EPOCHS:
        total.update(epoch.milliseconds)
    return dict(total)


if __name__ == "__main__":
    main(*sys.argv[1:])
