"""How a writer stands: its last epoch, its totals, and what is still open. By looking alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.partfile import Stage
from hivesink.errors import UnknownTable
from hivesink.sink.inspect.facts import list_files, read_log

if TYPE_CHECKING:
    from datetime import datetime

    from hivesink.core.epoch import Epoch, LastBatch
    from hivesink.core.manifest import Rows
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.inspect.facts import FileFacts, LogFacts, Unregistered


@dataclass(frozen=True, slots=True)
class FileCounts:
    """A writer's files by state, as they stand in the tables' folders now. Sizes are bytes."""

    in_progress: int
    pending: int
    finished: int
    finished_bytes: int


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """One writer. `rows` are totals since its first epoch; `lost_rows` those of parts accepted as lost.

    `at` is the last epoch's time (UTC); epoch 0 means that nothing was committed yet. `unsettled` are epochs
    that are decided and not published yet.
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
    files: FileCounts
    unsettled: tuple[Epoch, ...]
    unregistered: tuple[Unregistered, ...]
    last_batch: LastBatch | None


def writer_status(context: CommitContext, writer: str, table: str) -> WriterStatus:
    """The status of `writer`, one of those that write `table`.

    Raises LogDamaged, NewerFormat, StoreUnavailable, MetastoreUnreachable.
    """
    log = read_log(context.log)
    log.require_readable()
    head = log.head
    tables = log.tables or (table,)
    files = _files(context, log, tables)
    staged = {found.path.rpartition("/")[2] for found in files.staged}
    return WriterStatus(
        writer=writer,
        uid=log.uid,
        log=log.location,
        tables=tables,
        epoch=log.view.head,
        at=head.at if head else None,
        kind=head.kind if head else None,
        floor=log.view.floor,
        rows=log.totals,
        lost_rows=log.lost_rows,
        files=_count(log, files),
        unsettled=tuple(manifest.epoch for manifest in log.unpublished),
        unregistered=log.unregistered(staged),
        last_batch=head.last_batch if head else None,
    )


def locations_of(context: CommitContext, tables: tuple[str, ...]) -> dict[str, str]:
    """Where those of `tables` live that the metastore still has."""
    found = {name: _location(context, name) for name in tables}
    return {name: location for name, location in found.items() if location is not None}


def _location(context: CommitContext, table: str) -> str | None:
    try:
        return context.table(table).location
    except UnknownTable:
        return None  # A table that was dropped has no files to count; its epochs are still in the log.


def _files(context: CommitContext, log: LogFacts, tables: tuple[str, ...]) -> FileFacts:
    folders = {part.folder for _, part in log.effective()}
    return list_files(context.store, locations_of(context, tables).values(), folders)


def _count(log: LogFacts, files: FileFacts) -> FileCounts:
    stages = Counter(found.stage for found in files.staged if found.name.uid == log.uid)
    finished = [length for _, name, length in files.parts() if name.uid == log.uid]
    return FileCounts(
        in_progress=stages[Stage.IN_PROGRESS],
        pending=stages[Stage.PENDING],
        finished=len(finished),
        finished_bytes=sum(finished),
    )
