"""A writer's log, and whose it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError, appending

if TYPE_CHECKING:
    from collections.abc import Sequence


class LogDamaged(HiveSinkError):
    """A file of the log can't be read."""

    def __init__(self, file: str, reason: str, way: str | None = None) -> None:
        super().__init__(f"{file} is damaged ({reason}); {way or _restore(file)}")


def _restore(file: str) -> str:
    own = re.search(r"/([^/]+)/(?:uid|manifests/[^/]+)$", file)
    reset = f"start over with `hivesink reset TABLE --writer {own[1] if own else 'NAME'}`"
    if "/manifests/floor-" in file:
        return (
            "no row depends on it: a job that runs goes on, and only clean-up of old manifests waits. Restore that "
            "file from a snapshot or backup, and don't delete it. If there is none, the job may run on while the log "
            f"grows by a manifest an epoch, until you {reset} (see 'A floor is damaged' in docs/operations.md)"
        )
    return f"hivesink leaves it alone: restore it from a snapshot or backup, or {reset}"


class NewerFormat(HiveSinkError):
    """A file of the log was written in a format that this version doesn't know."""

    def __init__(self, file: str, found: int, known: int, way: str | None = None) -> None:
        """`way` is what to do about a damaged file, as for LogDamaged."""
        super().__init__(
            f"{file} has format version {found}, this hivesink knows {known}: use the version that wrote it, or a "
            f"newer one. If no newer one has run here, the file is damaged: {way or _restore(file)}"
        )


class LogMissing(HiveSinkError):
    """A checkpoint that has committed batches meets a log that holds none."""

    def __init__(self, log: str, batch: int) -> None:
        super().__init__(
            f"the checkpoint is at batch {batch}, but the log {log} holds no batch: it was deleted or reset, or the "
            "checkpoint belongs to another table, or to another writer's name; to go on: restore the log, or give the "
            'writer its old name (see "Renaming a writer" and "Renaming a table" in docs/operations.md), or, if the '
            "checkpoint is another job's, give this one a checkpoint and a writer's name of its own, or, if the "
            f"batches before {batch} are in the table or not wanted, start with {appending(0)}, or, to read everything "
            "again, move the checkpoint away"
        )


class LogGone(HiveSinkError):
    """The log was put aside or deleted under a run, which would have begun it anew without its history."""

    def __init__(self, log: str) -> None:
        super().__init__(
            f"the history in {log} is gone: the log was deleted, or `hivesink reset` put it aside while this run used "
            "it. This run stops, and has written nothing to the log; restore the log, or start over as the reset said"
        )


class SegmentLost(HiveSinkError):
    """A segment whose rows wait is gone, cut short, or damaged."""

    def __init__(self, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{path} holds committed rows that aren't in the table yet, but {reason}; restore it from a snapshot or a "
            "backup, or give its rows up with `hivesink recover TABLE --forget PARTITION` (see 'A segment is lost' in "
            "docs/operations.md)"
        )


class RowsUnfit(HiveSinkError):
    """Rows that wait have values that their column can't hold any more. `kinds`: its types, then and now."""

    def __init__(self, table: str, partition: str, column: str, kinds: tuple[str, str], reason: str) -> None:
        where, (before, now) = f"{table}, partition {partition}" if partition else table, kinds
        super().__init__(
            f"rows that wait for {where} don't fit column {column}: it was {before} when they came and is {now} today "
            f"({reason}). They stay where they are: change the column back, run `hivesink recover "
            f"{table.removesuffix('__rejected')}`, which publishes them, then change the column again"
        )


class RowsHeldBack(HiveSinkError):
    """Rows that wait can't be made into files: `reasons` says why, once for each slice."""

    def __init__(self, reasons: Sequence[str], *, retryable: bool) -> None:
        self.retryable = retryable
        more = len(set(reasons)) - 1
        super().__init__(reasons[0] + (f" (and {more} more: see `hivesink status`)" if more else ""))


class LogOfAnotherTable(HiveSinkError):
    """A table names, or is about to use, the log of another one: as a copy of it, or by the same sink.log-location."""

    def __init__(self, table: str, root: str, owner: str, location: str) -> None:
        super().__init__(
            f"the log {root} belongs to {owner} at {location}, and {table} is another table. Give {table} a "
            f"sink.log-location of its own and run: ALTER TABLE {table} UNSET TBLPROPERTIES ('hivesink_log')"
        )


class TableMadeAgain(HiveSinkError):
    """The table doesn't name its log, and the log's newest files are not in it."""

    def __init__(self, table: str, root: str, statement: str) -> None:
        super().__init__(
            f"{table} was dropped and created again: it doesn't name the log {root}, whose newest files are not in it. "
            f"Restore them, or begin anew with `hivesink reset {table}`; if it is the same table, run: {statement}"
        )


class PropertyRefused(HiveSinkError):
    """The metastore doesn't let this user set the property by which a table names its log."""

    def __init__(self, table: str, reason: str, statement: str) -> None:
        super().__init__(
            f"{table} must name its log, and this user can't set that ({reason}). Let its owner run: {statement}"
        )


class FilesUnknown(HiveSinkError):
    """A writer without history finds files in its table that no log in the root answers for."""

    def __init__(self, table: str, writer: str, root: str, path: str, uid: str) -> None:
        self.uid = uid
        super().__init__(
            f"{path} is of uid {uid}, of which no log is in {root}: writer {writer} begins anew and might write its "
            f"rows again. Restore that log to a folder there, or keep the files as they are: `hivesink reset {table}`"
        )


class RowsAtStake(HiveSinkError):
    """A reset would give up rows that can't be read yet."""

    def __init__(self, table: str, rows: int) -> None:
        super().__init__(
            f"{rows} rows of {table} are in its log alone, or not known to be published. Make them readable with "
            f"`hivesink recover {table}`, or add --discard {rows} to give them up"
        )
