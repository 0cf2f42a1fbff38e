"""What `verify` and `status` say of a writer. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch, LastBatch
from hivesink.core.partfile import Stage
from hivesink.core.rolling import OpenRows, segment_epoch
from hivesink.errors import HiveSinkError
from hivesink.sink.inspect.evidence import gather
from hivesink.sink.inspect.findings import CHECKS, Finding, Level

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from hivesink.core.manifest import PartEntry, Rows
    from hivesink.ports.rows import Measure
    from hivesink.sink.commit.context import CommitContext


@dataclass(frozen=True, slots=True)
class EpochResult:
    """One epoch's line of the report. `present` of `files` parts are where the log says."""

    epoch: Epoch
    kind: str
    at: datetime
    rows: Rows
    files: int
    present: int
    published: bool
    errors: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One writer's result. `totals` are row counts since its first epoch, by way of the floor."""

    writer: str
    log: str
    floor: Epoch
    head: Epoch
    totals: Rows
    epochs: tuple[EpochResult, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(finding.level is Level.ERROR for finding in self.findings)


def verify(
    context: CommitContext,
    writer: str,
    table: str,
    measure: Measure | None,
    require_same: Callable[[str], None] | None = None,
    *,
    replaced: Collection[str] = (),
) -> Verdict:
    """Check one writer's log against files and metastore. Without `measure` no footer and no segment is read.

    `require_same` raises what would stop the writer's start on the table; `replaced` as in `Evidence`.
    Raises StoreUnavailable, MetastoreUnreachable; a damaged log is a finding.
    """
    evidence = gather(context, table, measure, replaced)
    log, findings = evidence.log, [finding for check in CHECKS for finding in check(evidence)]
    errors = Counter(finding.epoch for finding in findings if finding.level is Level.ERROR)
    by_epoch: dict[Epoch, list[PartEntry]] = {}
    for manifest, part in log.parts:
        if part.name not in replaced:
            by_epoch.setdefault(manifest.epoch, []).append(part)
    epochs = []
    for manifest in log.manifests:
        parts = by_epoch.get(manifest.epoch, [])
        epochs.append(
            EpochResult(
                epoch=manifest.epoch,
                kind=manifest.kind,
                at=manifest.at,
                rows=manifest.rows,
                files=len(parts),
                present=sum(evidence.visible.get(evidence.canonical(part.target)) == part.length for part in parts),
                published=manifest.is_bare or log.is_published(manifest.epoch),
                errors=errors[manifest.epoch],
            )
        )
    if require_same and not log.unreadable:
        try:
            require_same(writer)
        except HiveSinkError as error:
            if error.retryable:
                raise
            findings.append(Finding(Level.ERROR, None, str(error)))
    return Verdict(writer, log.location, log.view.floor, log.view.head, log.totals, tuple(epochs), tuple(findings))


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
    be published, or for the look at the metastore after that. `files` counts them by state, in the tables' folders now,
    with the bytes of finished ones.
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
    files: Mapping[str, int]


def writer_status(context: CommitContext, writer: str, table: str) -> WriterStatus:
    """One of those that write `table`. Raises LogDamaged, NewerFormat, StoreUnavailable, MetastoreUnreachable."""
    evidence = gather(context, table)
    log, names = evidence.log, {part.name for part in evidence.finished}
    log.require_readable()
    # On local disks a part has both names for a moment, and after a kill in it until the next start.
    staged = (part for part in evidence.staged if part.name.uid == log.uid and part.name not in names)
    stages = Counter(part.stage for part in staged)
    files = {
        "in_progress": stages[Stage.IN_PROGRESS],
        "pending": stages[Stage.PENDING],
        "finished": len(evidence.finished),
        "finished_bytes": sum(evidence.visible[part.path] for part in evidence.finished),
    }
    head, forgotten = log.head, sum(manifest.forgotten for manifest in log.manifests)
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
        lost_rows=forgotten + (log.floor.forgotten if log.floor else 0),
        waiting=Waiting.of(log.open_rows, {manifest.epoch: manifest.at for manifest in log.manifests}),
        # An epoch without parts has nothing to publish.
        unsettled=tuple(manifest.epoch for manifest in log.open if not manifest.is_bare),
        last_batch=head.last_batch if head else None,
        files=files,
    )
