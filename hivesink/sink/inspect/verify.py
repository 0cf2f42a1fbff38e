"""What `verify` and `status` say of a writer. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.partfile import Stage
from hivesink.core.rolling import segment_epoch
from hivesink.errors import HiveSinkError, UnknownTable
from hivesink.sink.inspect.facts import Evidence, list_files, outside, read_log
from hivesink.sink.inspect.findings import CHECKS, Finding, Level
from hivesink.sink.task.segments import lost_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.epoch import LastBatch
    from hivesink.core.manifest import PartEntry, Rows
    from hivesink.core.rolling import OpenRows
    from hivesink.ports import Measure
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.inspect.facts import FileFacts, LogFacts, Unregistered


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
    evidence = replace(gather(context, table, measure), replaced=replaced)
    log, findings = evidence.log, [finding for check in CHECKS for finding in check(evidence)]
    epochs = tuple(_results(evidence, findings))
    if require_same and not log.unreadable:
        try:
            require_same(writer)
        except HiveSinkError as error:
            if error.retryable:
                raise
            findings.append(Finding(Level.ERROR, None, str(error)))
    return Verdict(
        writer=writer,
        log=log.location,
        floor=log.view.floor,
        head=log.view.head,
        totals=log.totals,
        epochs=epochs,
        findings=tuple(findings),
    )


def gather(context: CommitContext, table: str, measure: Measure | None) -> Evidence:
    """Look at everything once: log, metastore, files, log again, footers."""
    log = read_log(context.log)
    tables = {}
    for name in dict.fromkeys((*log.tables, table)):
        # A dropped table has no files to look at; its epochs are still in the log.
        with suppress(UnknownTable):
            tables[name] = context.table(name).location
    live = {
        (name, partition): home
        for name in tables
        for partition, home in context.registrar.lookup(context.table(name), None).items()
    }
    homes = outside(context.store, {home.location for home in live.values()}, tables.values())
    reachable = {home for home in homes if context.unreachable(home) is None}
    parts = [part for _, part in log.effective()]
    files = list_files(context.store, tables.values(), reachable | {part.folder for part in parts})
    lengths = {part.hidden: part.length for part in log.waiting()}
    hidden = (path for name in lengths for path in files.by_name.get(name, ()))
    listed = context.store.run_parallel(partial(context.find, path) for path in hidden)
    # A file that is missing by now was published meanwhile.
    torn = {file.path for file in listed if file and file.length != lengths[file.path.rpartition("/")[2]]}
    files = replace(files, staged=tuple(part for part in files.staged if part.path not in torn))
    lost = {} if measure is None else lost_slices(log.open_rows, context.log.segments)
    damaged = {waiting.slice.segment: error.reason for waiting, error in lost.items()}
    head_after = context.log.view().head
    evidence = Evidence(log, head_after, tables, files, {}, live, context.log.segments.lengths(), damaged)
    if measure is None:
        return evidence
    wanted = {part.name: part.length for part in parts}
    whole = (path for name, path in evidence.places.items() if files.visible[path] == wanted[name])
    return replace(evidence, read={path: _read(context, path, measure) for path in whole})


def _read(context: CommitContext, path: str, measure: Measure) -> int | str:
    try:
        with context.store.open(path) as stream:
            return measure(stream).rows
    except Exception as error:  # noqa: BLE001  whatever the format's reader raises is the finding
        return str(error).partition("\n")[0]


def _results(evidence: Evidence, findings: Sequence[Finding]) -> Iterator[EpochResult]:
    by_epoch: dict[Epoch, list[PartEntry]] = {}
    for manifest, part in evidence.log.effective():
        if part.name not in evidence.replaced:
            by_epoch.setdefault(manifest.epoch, []).append(part)
    for manifest in evidence.log.manifests:
        parts = by_epoch.get(manifest.epoch, [])
        yield EpochResult(
            epoch=manifest.epoch,
            kind=manifest.kind,
            at=manifest.at,
            rows=manifest.rows,
            files=len(parts),
            present=sum(map(evidence.files.has, parts)),
            published=manifest.is_bare or evidence.log.is_published(manifest.epoch),
            errors=sum(finding.epoch == manifest.epoch and finding.level is Level.ERROR for finding in findings),
        )


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
