"""A writer's log, and whose it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hivesink.errors.base import HiveSinkError, appending

if TYPE_CHECKING:
    from collections.abc import Sequence


class LogDamaged(HiveSinkError, code="HS040"):
    """A file of the log can't be read."""

    def __init__(self, file: str, reason: str, advice: str | None = None) -> None:
        super().__init__(f"{file} is damaged ({reason}); {advice or _restore(file)}")


def _restore(file: str) -> str:
    writer = re.search(r"/([^/]+)/(?:uid|manifests/[^/]+)$", file)
    reset = f"start over with `hivesink reset TABLE --writer {writer[1] if writer else 'NAME'}`"
    if "/manifests/floor-" in file:
        return f"no row depends on it, and a job runs on: restore it from a backup, don't delete it, or {reset}"
    return f"restore it from a snapshot or backup, or {reset}"


class NewerFormat(HiveSinkError, code="HS041"):
    """A file of the log was written in a format that this version doesn't know."""

    def __init__(self, file: str, version: int, newest: int, advice: str | None = None) -> None:
        """`advice` is what to do about a damaged file, as for LogDamaged."""
        super().__init__(
            f"{file} has format version {version}, this hivesink knows {newest}: use the version that wrote it, or a "
            f"newer one. If no newer one has run here, the file is damaged: {advice or _restore(file)}"
        )


class LogMissing(HiveSinkError, code="HS042"):
    """The log lacks batches that the checkpoint has, or was put aside or deleted under a run."""

    def __init__(self, log: str, problem: str, epoch: int = 0) -> None:
        super().__init__(
            f"{problem} {log}. Restore the log, or give the writer its old name; only if the batches between are in "
            f"the table or not wanted, start with {appending(epoch)}"
        )

    @classmethod
    def behind(cls, log: str, batch: int, epoch: int = 0, logged: int | None = None) -> LogMissing:
        """The checkpoint is newer."""
        last = "no batch is" if logged is None else f"batch {logged} (epoch {epoch}) is the last"
        return cls(log, f"the checkpoint is at batch {batch}, but {last} in the log", epoch)

    @classmethod
    def gone(cls, log: str) -> LogMissing:
        """This run would have begun it anew without its history."""
        return cls(log, "the log was deleted, or put aside by `hivesink reset`, under this run:")


class SegmentLost(HiveSinkError, code="HS043"):
    """A segment whose rows wait is gone, cut short, or damaged."""

    def __init__(self, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{path} holds committed rows that aren't in the table yet, but {reason}. Restore it from a snapshot or a "
            "backup, or give its rows up with `hivesink recover TABLE --forget PARTITION`"
        )


class RowsUnfit(HiveSinkError, code="HS044"):
    """Rows that wait have values that their column can't hold any more. `kinds`: its types, then and now."""

    def __init__(self, table: str, partition: str, column: str, kinds: tuple[str, str], reason: str) -> None:
        where, (before, now) = f"{table}, partition {partition}" if partition else table, kinds
        super().__init__(
            f"rows that wait for {where} don't fit column {column}: it was {before} when they came and is {now} today "
            f"({reason}). They stay where they are: change the column back, run `hivesink recover "
            f"{table.removesuffix('__rejected')}`, which publishes them, then change the column again"
        )


class RowsHeldBack(HiveSinkError, code="HS045"):
    """Rows that wait can't be made into files: `reasons` says why, once for each slice."""

    def __init__(self, reasons: Sequence[str], *, retryable: bool) -> None:
        self.retryable = retryable
        more = len(set(reasons)) - 1
        super().__init__(reasons[0] + (f" (and {more} more: see `hivesink status`)" if more else ""))


class LogOfAnotherTable(HiveSinkError, code="HS046"):
    """A table names, or is about to use, another table's log: as a copy of it, or by the same sink.log-location."""

    def __init__(self, table: str, root: str, owner: str, location: str) -> None:
        super().__init__(
            f"the log {root} belongs to {owner} at {location}, and {table} is another table. Give {table} a "
            f"sink.log-location of its own and run: ALTER TABLE {table} UNSET TBLPROPERTIES ('hivesink_log')"
        )


class TableMadeAgain(HiveSinkError, code="HS047"):
    """The table doesn't name its log, and the log's newest files are not in it."""

    def __init__(self, table: str, root: str, statement: str) -> None:
        super().__init__(
            f"{table} was dropped and created again: it doesn't name the log {root}, whose newest files are not in it. "
            f"Restore them, or begin anew with `hivesink reset {table}`; if it is the same table, run: {statement}"
        )


class FilesUnknown(HiveSinkError, code="HS048"):
    """A writer without history finds files in its table that no log in the root answers for."""

    def __init__(self, table: str, writer: str, root: str, path: str, uid: str) -> None:
        self.uid = uid
        super().__init__(
            f"{path} is of uid {uid}, of which no log is in {root}: writer {writer} begins anew and might write its "
            f"rows again. Restore that log to a folder there, or keep the files as they are: `hivesink reset {table}`"
        )
