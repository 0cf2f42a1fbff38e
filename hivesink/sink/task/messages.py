"""A task's orders, its tools and its report. Orders and reports cross process borders: plain values only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec

from hivesink.config.options import SinkConfig
from hivesink.core.epoch import Epoch
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Opened, PartEntry, Rows
from hivesink.core.partition import PartitionKey, folder
from hivesink.core.table import SortKey, TableSpec
from hivesink.ports import FileStore, SegmentStore
from hivesink.ports.rows import FileFormat, Refit, Routed, RowReader

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table to write. `location` is the metastore's; `moved` are folders of any table's partitions elsewhere."""

    spec: TableSpec
    location: str
    moved: Mapping[PartitionKey, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.spec.name)

    def folder(self, partition: str) -> str:
        return self.moved.get((self.name, partition)) or folder(self.location, partition)


@dataclass(frozen=True, slots=True)
class InputShape:
    """Which columns of the stream mean what; None where the stream has no such column.

    `value` holds raw bytes to decode; None: rows come decoded. `path` is the file that a row came from. Where
    lines can be counted, `block` is where the row's block begins (bytes). The others are a Kafka record's position and
    time. `topic_name` replaces `topic` if a whole batch comes from the same topic.
    """

    value: str | None = None
    timestamp: str | None = None
    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    path: str | None = None
    block: str | None = None
    topic_name: str | None = None
    event_time: str | None = None
    """The column of the sink's own watermark, in lower case."""
    watermark: datetime | None = None
    """Spark's own for this batch (UTC), where it decides."""
    absent: frozenset[str] = frozenset()
    """Partition columns that decoded rows lack, where a class of the user's own makes them."""

    @property
    def is_raw(self) -> bool:
        return self.value is not None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A try at an epoch, as each of its tasks sees it. `arrival` is UTC, fixed once per try.

    `late` is the watermark (UTC) before the batch: rows of partitions that were over by then are late. `places`:
    whether raw records come with the columns that say where they are from. `schema`: as dead letters have it.
    """

    target: TablePlan
    rejected: TablePlan | None
    config: SinkConfig
    shape: InputShape
    uid: str
    epoch: Epoch
    attempt: str
    arrival: datetime
    late: datetime | None = None
    places: bool = True
    schema: str | None = None

    def order(self, table: TablePlan) -> tuple[SortKey, ...]:
        """How the rows of `table`, the target or the dead letters, are sorted in its files."""
        return (self.config["sink.sort-by"] or ()) if table.name == self.target.name else ()

    @property
    def tables(self) -> tuple[TablePlan, ...]:
        return tuple(table for table in (self.target, self.rejected) if table)

    def dead_letters(self, partition: str, rows: pa.Table) -> Routed:
        """`rows` for the target of dead letters, in the columns that it has."""
        # Where there may be any, there is a table for them.
        letters = cast("TablePlan", self.rejected)
        return Routed(letters.name, partition, rows.select([column.name for column in letters.spec.columns]))


@dataclass(frozen=True, slots=True)
class TaskTools:
    """The adapters that a task works with, made in its own process."""

    store: FileStore
    reader: RowReader
    format: Callable[[TablePlan], FileFormat]
    touch: Callable[[StagingIntent], None]
    segments: SegmentStore
    refit: Refit
    open_source: Callable[[str], BinaryIO]
    """Opens a file of the source, to read. Raises StoreUnavailable, Unsupported."""


@dataclass(frozen=True, slots=True)
class BadReport:
    """The first record that doesn't fit, if that stops the query."""

    position: str
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error that another try of the task can't help, or that its last try ended with."""

    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class LeftSlice:
    """Rows that wait and were not encoded, with the reason. `retryable` as of errors."""

    opened: Opened
    reason: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task attempt did: its files are whole and its counts complete, unless any of the last three is set."""

    task: int
    task_attempt: int
    rows: Rows
    parts: tuple[PartEntry, ...] = ()
    replaces: tuple[PartEntry, ...] = ()
    """Dead letters' files whose records are all in `parts`."""
    opened: tuple[Opened, ...] = ()
    left: tuple[LeftSlice, ...] = ()
    newest: dict[str, int | None] = field(default_factory=dict)
    """Where the sink has its own watermark: the newest event time of each source partition, in µs since 1970."""
    largest: int = 0
    """Bytes of the largest raw record."""
    bad: BadReport | None = None
    failure: TaskFailure | None = None
    unplaced: bool = False
    """It found a record that has to be named, and its plan had no `places`."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> TaskReport:
        # Not by `msgspec.json`, which refuses lone surrogates: a path in an error may have some.
        return msgspec.convert(json.loads(text), cls)
