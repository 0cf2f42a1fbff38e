"""What a task holds with 1,000 open buckets: the peak of a fresh process, for a setting of `sink.task-memory`.

`python -m bench.memory 64MB ROWS` prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.core.typetext import parse_type
from hivesink.logs import commit_log
from hivesink.sink.task.attempt import run_task
from hivesink.sink.task.messages import InputShape, TablePlan, TaskPlan
from hivesink.wiring import ToolsSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKETS = 1_000
BATCH = 50_000


def measure(memory: str, rows: int) -> dict[str, object]:
    """Rows of about 110 bytes, each batch over all buckets: the hardest order there is."""
    with tempfile.TemporaryDirectory(prefix="hivesink-bench-") as folder:
        plan, tools = task(Path(folder), memory)
        # Everything is imported and allocated once before the floor is taken.
        run_task(batches(BATCH), plan, tools.open(plan), 0, 0)
        floor = peak()
        report = run_task(batches(rows), plan, tools.open(plan), 1, 1)
    return {
        "memory": memory,
        "rows": report.rows.written,
        "buckets": len({part.partition for part in report.parts}),
        "files": len(report.parts),
        "floor_mb": round(floor / 1e6),
        "peak_mb": round(peak() / 1e6),
    }


def task(folder: Path, memory: str) -> tuple[TaskPlan, ToolsSpec]:
    spec = TableSpec(
        name=TableName("bench", "memory"),
        columns=(Column("id", parse_type("bigint")), Column("name", parse_type("string"))),
        partition_columns=(Column("bucket", parse_type("int")),),
    )
    plan = TaskPlan(
        target=TablePlan(spec, str(folder / "table")),
        rejected=None,
        config=SinkConfig.parse({"sink.task-memory": memory, "sink.rolling-policy.on-epoch": "true"}),
        shape=InputShape(),
        uid="b" * 12,
        epoch=Epoch(1),
        attempt="a" * 10,
        arrival=datetime.now(timezone.utc),
    )
    log = commit_log(str(folder / "log"))
    log.uid(plan.uid)
    return plan, ToolsSpec(log.location)


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(0)
    text = pa.array([f"{n:0100}" for n in range(BATCH)])
    for start in range(0, rows, BATCH):
        yield pa.record_batch(
            {
                "id": pa.array(np.arange(start, start + BATCH)),
                "name": text,
                "bucket": pa.array(random.integers(0, BUCKETS, BATCH).astype(np.int32)),
            }
        )


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
