"""A writer's status: its last epoch, its totals and what is still open. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.partfile import Stage
from hivesink.core.rolling import segment_epoch
from hivesink.sink.inspect.verify import gather

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hivesink.core.epoch import LastBatch
    from hivesink.core.manifest import Rows
    from hivesink.core.rolling import OpenRows
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.inspect.facts import FileFacts, LogFacts, Unregistered


@dataclass(frozen=True, slots=True)
class FileCounts:
    """A writer's files by state, in the tables' folders now. Sizes are bytes."""

    in_progress: int
    pending: int
    finished: int
    finished_bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rows that wait until their buckets are rolled; `since` is the oldest one's epoch's time (UTC)."""

    rows: int
    bytes: int
    buckets: int
    since: datetime | None

    @classmethod
    def of(cls, rows: OpenRows, times: Mapping[Epoch, datetime]) -> Waiting:
        """`times` are those of the epochs that the log still has; a bucket's own also counts its published rows."""
        waiting = [bucket for bucket in rows.buckets.values() if bucket.slices]
        since = (
            times.get(segment_epoch(part.segment) or Epoch(0), bucket.first)
            for bucket in waiting
            for part in bucket.slices
        )
        return cls(rows.rows, rows.bytes, len(waiting), min(since, default=None))


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """One writer. `rows` are totals since its first epoch; `lost_rows` those that were accepted as lost.

    `at` is the last epoch's time (UTC). Epoch 0: nothing was committed yet. `unsettled` are decided epochs that wait to
    be published, or for the look at the metastore after that. Without `files` only the log was read.
    """

    writer: str
    uid: str | None
    log: str
    tables: tuple[str, ...]
    epoch: Epoch
    at: datetime | None
    kind: str | None
    floor: Epoch
    rows: Rows
    lost_rows: int
    waiting: Waiting
    unsettled: tuple[Epoch, ...]
    last_batch: LastBatch | None
    files: FileCounts | None = None
    unregistered: tuple[Unregistered, ...] = ()


def writer_status(context: CommitContext, writer: str, table: str) -> WriterStatus:
    """One of those that write `table`. Raises LogDamaged, NewerFormat, StoreUnavailable, MetastoreUnreachable."""
    evidence = gather(context, table, None)
    log, files = evidence.log, evidence.files
    # Rows wait for a registered partition too, until the metastore was looked at.
    gaps = tuple(gap for gap in log.unregistered(files) if (gap.table, gap.partition) not in evidence.live)
    return replace(log_status(log, writer, table), files=_count(log, files), unregistered=gaps)


def log_status(log: LogFacts, writer: str, table: str) -> WriterStatus:
    """What its log alone says. Raises LogDamaged, NewerFormat."""
    log.require_readable()
    head = log.head
    return WriterStatus(
        writer=writer,
        uid=log.uid,
        log=log.location,
        tables=log.tables or (table,),
        epoch=log.view.head,
        at=head.at if head else None,
        kind=head.kind if head else None,
        floor=log.view.floor,
        rows=log.totals,
        lost_rows=log.forgotten_rows,
        waiting=Waiting.of(log.open_rows, {manifest.epoch: manifest.at for manifest in log.manifests}),
        # An epoch without parts has nothing to publish.
        unsettled=tuple(manifest.epoch for manifest in log.open if not manifest.is_bare),
        last_batch=head.last_batch if head else None,
    )


def _count(log: LogFacts, files: FileFacts) -> FileCounts:
    finished = list(files.parts(log.uid))
    names = {part.name for part, _ in finished}
    # On local disks a part has both names for a moment, and after a kill in it until the next start.
    staged = (part for part in files.staged if part.name.uid == log.uid and part.name not in names)
    stages = Counter(part.stage for part in staged)
    return FileCounts(
        in_progress=stages[Stage.IN_PROGRESS],
        pending=stages[Stage.PENDING],
        finished=len(finished),
        finished_bytes=sum(length for _, length in finished),
    )
