"""A writer's log, its pointers, and whose it is."""

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


class LogCopied(HiveSinkError):
    """An epoch that isn't finished belongs to a log in another folder: this one is a copy of it, or was moved."""

    def __init__(self, log: str, epoch: int, own: str) -> None:
        super().__init__(
            f"epoch {epoch} in {log} is not finished, and belongs to the log {own}: its files are in that log's table. "
            f"If the log was moved here, move it back to {own}, run `hivesink recover TABLE`, then move it again. If "
            "this is a copy, finish the original the same way and copy again, or begin anew here with "
            "`hivesink reset TABLE`"
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


class LogOutdated(HiveSinkError):
    """The table holds a file that the log hasn't decided: of an epoch after its newest, or of another's number."""

    def __init__(self, table: str, writer: str, log: str, epoch: int, path: str, *, decided: bool = False) -> None:
        """`decided`: the log has gone on since, and has that file's epoch with other files."""
        after = f"was published after epoch {epoch}, where the log {log} ends: the log"
        other = f"isn't a file of its epoch in the log {log}, which is at epoch {epoch}: the log"
        found = f"{other} was" if decided else f"{after} is"
        super().__init__(
            f"{path} {found} older than {table}, such "
            "as one from a backup. Restore its newest copy; if there is none, start over: "
            f"`hivesink reset {table} --writer {writer}`, then as for a log that is lost (docs/operations.md)"
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
            "backup, or give its rows up with `hivesink recover TABLE --accept-lost` (see 'A segment is lost' in "
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


class BatchSetAside(HiveSinkError):
    """Spark runs a batch again that was committed before `hivesink reset` put `log`, of this `uid`, aside.

    `batch` is QUERY/BATCH. `doubt` says why nobody can tell whether its rows are in the table.
    """

    def __init__(self, table: str, batch: str, log: str | None, uid: str, doubt: str) -> None:
        answer = f"`hivesink reset {table} --uid {uid} --written"
        super().__init__(
            f"batch {batch.rpartition('/')[2]} may be in {table} already: Spark runs it again, and {log}, which "
            f"`hivesink reset` put aside, can't answer for it: {doubt}. Look for its rows in the table. "
            f"If there are none: {answer} none`, and it is written; if all are there: {answer} {batch}`, and it "
            'is passed over; if some are, see "Starting over" in docs/operations.md. Then start again'
        )


class LogTwice(HiveSinkError):
    """Two writers of one table have logs of one uid: one log is a copy of the other."""

    def __init__(self, log: str, other: str, uid: str) -> None:
        super().__init__(
            f"the logs {log} and {other} both have the uid {uid}: one is a copy of the other, and each would take the "
            "other's files for its own. Move the copy away, with its .pointer file if it has one, then start again: "
            "a writer without a log begins anew"
        )


class LogShared(HiveSinkError):
    """A log that serves another living table is asked to serve this one, or to be reset for it."""

    def __init__(self, log: str, writer: str, table: str, others: tuple[str, ...]) -> None:
        owner = table.removesuffix("__rejected")
        way = f"give the job of {table} another writer name, or another sink.log-location"
        if owner in others:
            way = f"{table} holds its dead letters, and `hivesink reset {owner}` resets both"
        super().__init__(
            f"the log {log} of writer {writer} serves {', '.join(others)}, so {table} can neither use it nor reset it; "
            f"{way}"
        )


class PointerTaken(HiveSinkError):
    """A writer's log of a table is known to be elsewhere."""

    def __init__(self, pointer: str, writer: str, table: str, found: str, own: str) -> None:
        super().__init__(
            f"{pointer} says that the log of writer {writer} of {table} is in {found}, not in {own}: set "
            "sink.log-location back, take another writer name, or, if that log was moved, or its table dropped, delete "
            "the pointer"
        )


class PointerCopied(HiveSinkError):
    """A pointer leads away from where it stands, as in a copy of a warehouse. `own`: the log that stands beside it."""

    def __init__(self, pointer: str, log: str, own: str | None) -> None:
        if own is None:
            what = "was written in another folder"
            copy = "delete the pointer and take a folder of its own for sink.log-location"
            other = "If the table was moved here with its pointer, delete the pointer, not the log"
        else:
            what = f"stands beside the log {own}"
            copy = f"or the log was moved here, change `log` in it to {own}"
            other = f"If {log} is the right log, move {own} away"
        super().__init__(
            f"{pointer} leads to {log}, which may serve another table, since the pointer {what}. If the table here is "
            f"a copy, {copy}. {other}"
        )
