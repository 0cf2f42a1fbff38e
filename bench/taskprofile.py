"""Where a task's CPU goes, without Spark around it: `python -m bench.taskprofile ROWS`.

First without the profiler (CPU seconds of the whole), then with it: its overhead weighs on small calls.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench import memory
from bench.records import chunks
from bench.workloads import NARROW
from hivesink.config.options import SinkConfig
from hivesink.core.table import Column
from hivesink.core.typetext import parse_type
from hivesink.sink.task.attempt import run_task
from hivesink.sink.task.messages import InputShape, TaskPlan
from hivesink.spark.tasks import settle

if TYPE_CHECKING:
    from hivesink.wiring import ToolsSpec

BATCH = 50_000
"""As `spark.sql.execution.arrow.maxRecordsPerBatch` in the embedded session."""


def main(rows: int) -> None:
    batches = [
        pa.record_batch({"value": pa.array(chunk.texts[start : start + BATCH])})
        for chunk in chunks(NARROW, rows)
        for start in range(0, len(chunk.texts), BATCH)
    ]
    settle()
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as folder:
        plan, tools = task(Path(folder))
        run_task(batches[:1], plan, tools.open(plan), 0, 0)
        begun = time.process_time()
        run_task(batches, plan, tools.open(plan), 1, 1)
        spent = time.process_time() - begun
        print(f"{rows:,} records in {spent:.2f} CPU s: {rows / spent / 1e6:.2f} M a CPU second")
        profile = cProfile.Profile(time.process_time)
        profile.runcall(run_task, batches, plan, tools.open(plan), 2, 2)
        pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(14)


def task(folder: Path) -> tuple[TaskPlan, ToolsSpec]:
    plan, tools = memory.task(folder, "256MB")
    columns = tuple(Column(name, parse_type(kind)) for name, kind in NARROW.columns.items())
    spec = replace(plan.target.spec, columns=columns, partition_columns=(Column("dt", parse_type("string")),))
    config = SinkConfig.parse(NARROW.properties)
    target = replace(plan.target, spec=spec)
    return replace(plan, target=target, config=config, shape=InputShape(value="value")), tools


if __name__ == "__main__":
    main(int(sys.argv[1]))
