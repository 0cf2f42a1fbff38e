"""What a task is told, and what it reports back. Both cross process borders: plain values only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from hivesink.core.bucket import aside, folder
from hivesink.core.manifest import PartEntry, Rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hivesink.config.options import SinkConfig
    from hivesink.core.epoch import Epoch
    from hivesink.core.table import TableSpec


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table to write: `location` as the metastore has it; `moved` are partitions that live elsewhere."""

    spec: TableSpec
    location: str
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.spec.name)

    def folder(self, partition: str) -> str:
        return self.moved.get(partition) or folder(self.location, partition)


@dataclass(frozen=True, slots=True)
class InputShape:
    """Which columns of the stream mean what; None where the stream has no such column.

    `value` holds raw bytes to decode; None means that rows come decoded. The others are a Kafka record's
    position and time. `topic_name` stands for `topic` where a whole batch comes from one topic.
    """

    value: str | None = None
    timestamp: str | None = None
    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    path: str | None = None
    topic_name: str | None = None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One try at one epoch, as every task of it sees it. `arrival` is UTC, fixed once per batch."""

    target: TablePlan
    rejected: TablePlan | None
    config: SinkConfig
    shape: InputShape
    uid: str
    epoch: Epoch
    attempt: str
    arrival: datetime

    @property
    def asides(self) -> tuple[str, ...]:
        """Where the parts of each partitioned table may be set aside."""
        tables = [table for table in (self.target, self.rejected) if table]
        return tuple(aside(table.location, self.attempt) for table in tables if table.spec.is_partitioned)


@dataclass(frozen=True, slots=True)
class BadReport:
    """The first record that doesn't fit, where that stops the query."""

    position: str
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error that another try of the task can't help, or that its last try ended with."""

    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task attempt did: its parts are pending and its counts complete, unless `bad` or `failure` is set."""

    task: int
    task_attempt: int
    rows: Rows
    parts: tuple[PartEntry, ...] = ()
    bad: BadReport | None = None
    failure: TaskFailure | None = None
    touched: int = 0

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> TaskReport:
        found = json.loads(text)
        return cls(
            task=found["task"],
            task_attempt=found["task_attempt"],
            rows=Rows(**found["rows"]),
            parts=tuple(PartEntry(**part) for part in found["parts"]),
            bad=BadReport(**found["bad"]) if found["bad"] else None,
            failure=TaskFailure(**found["failure"]) if found["failure"] else None,
            touched=found["touched"],
        )
