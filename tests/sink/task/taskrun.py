"""One task run as Spark would run it, without Spark: real decoding, real files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.log import StagingIntent
from hivesink.core.partfile import Pending
from hivesink.core.table import Column, TableName, TableSpec
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.formats import adapter
from hivesink.ports import FileStore
from hivesink.ports.rows import FileFormat
from hivesink.sink.task.attempt import run_task
from hivesink.sink.task.messages import InputShape, TablePlan, TaskPlan, TaskReport, TaskTools
from hivesink.sink.task.rejects import rejected_spec
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.log_layout import LogSegments
from hivesink.wiring import refit, row_reader

if TYPE_CHECKING:
    import pyarrow as pa

UID, ATTEMPT = "0123456789ab", "00ff00ff00"
ARRIVAL = datetime(2026, 11, 21, 23, 30, tzinfo=timezone.utc)
RAW = InputShape(value="value")


@dataclass
class Run:
    """A table, a store, and the settings of one task."""

    store: FileStore
    location: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    shape: InputShape = RAW
    format: str = "PARQUET"
    arrival: datetime = ARRIVAL
    places: bool = True
    touched: list[StagingIntent] = field(default_factory=list)

    @property
    def plan(self) -> TaskPlan:
        config = SinkConfig.parse({"sink.rolling-policy.on-epoch": "true", **self.options})
        name = TableName("db", "t")
        spec = TableSpec(name, self.columns, self.partitions, format=self.format)
        rejected = TablePlan(rejected_spec(name, None, external=False), f"{self.location}__rejected")
        return TaskPlan(
            TablePlan(spec, self.location),
            rejected,
            config,
            self.shape,
            UID,
            Epoch(1),
            ATTEMPT,
            self.arrival,
            places=self.places,
        )

    @property
    def segments(self) -> LogSegments:
        return LogSegments(LocalFileSystem(), f"{self.location}.segments")

    def tools(self, plan: TaskPlan) -> TaskTools:
        config = plan.config

        def form(table: TablePlan) -> FileFormat:
            return adapter(table.spec.format).of(arrow_schema(table.spec.columns), config, order=plan.order(table))

        reader = row_reader(plan)
        return TaskTools(self.store, reader, form, self.touched.append, self.segments, refit, self.store.open)

    def __call__(self, *batches: pa.RecordBatch, task: int = 0) -> TaskReport:
        plan = self.plan
        return run_task(batches, plan, self.tools(plan), task=task, task_attempt=7)


def publish(store: FileStore, report: TaskReport) -> list[str]:
    """Make the parts visible; their paths."""
    done = (store.publish(Pending(part.staged, part.target, part.length)) for part in report.parts)
    return [part.path for part in done]


def balanced(report: TaskReport) -> bool:
    rows: Any = report.rows
    written = sum(part.rows for part in report.parts)
    return bool(
        rows.read == rows.written + rows.rejected + rows.dropped + rows.skipped
        and written == rows.written + rows.rejected
    )
