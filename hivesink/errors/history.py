"""The history of a writer: its log, the checkpoint, and who else writes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hivesink.errors.base import HiveSinkError, appending, few

_NAMED = 5
"""How many files or topics an error names."""
_DECISION = "(your decision: all that the query reads is added to the table as it is)"
_ONCE = "Run this writer only once, or give another source's run its own writer name and checkpoint"


def _rebuild(table: str, checkpoint: str) -> str:
    return f"`hivesink recover {table} --checkpoint {checkpoint}`"


class EpochTaken(HiveSinkError, code="HS020"):
    """Another run of the same writer has committed this epoch."""

    def __init__(self, log: str, epoch: int) -> None:
        super().__init__(
            f"epoch {epoch} in {log} was committed by another run of this writer; this run has published nothing of "
            f"it. {_ONCE}"
        )


class FencedOut(HiveSinkError, code="HS021"):
    """This run is no longer the head of its log: another run has gone on."""

    def __init__(self, log: str, epoch: int, head: int) -> None:
        super().__init__(
            f"another run of this writer has taken {log} to epoch {head}, and finishes epoch {epoch} of this run: no "
            f"row is lost or doubled. {_ONCE}"
        )


class ReplayOvertaken(HiveSinkError, code="HS022", retryable=True):
    """Another replay of a table's dead letters, or a `recover`, has gone on meanwhile. No record is lost or doubled."""

    def __init__(self, table: str) -> None:
        super().__init__(f"another replay of {table} has just run; run this one again if records are left")


class ForeignHistory(HiveSinkError, code="HS024"):
    """A new query over a writer that has history: the checkpoint is lost, or another query's."""

    def __init__(self, place: tuple[str, str, str], epoch: int, logged: str, query: str | None) -> None:
        table, log, checkpoint = place
        whose = f"that of query {query}" if query else "new"
        super().__init__(
            f"the log {log} ends with a batch of query {logged} (epoch {epoch}), and the checkpoint {checkpoint} is "
            f"{whose}. Start with the query's own checkpoint, which {_rebuild(table, checkpoint)} rebuilds if it is "
            f"lost, or let this query follow with {appending(epoch)} {_DECISION}"
        )


class CheckpointUnreadable(HiveSinkError, code="HS025"):
    """A file of the query's checkpoint is missing or damaged. `name` is its path below `checkpoint`, where known."""

    def __init__(self, checkpoint: str | None, name: str | None, reason: str) -> None:
        folder = checkpoint or "the checkpoint"
        file = f"{checkpoint}/{name}" if checkpoint and name else name or checkpoint or "a file"
        advice = (
            f"Restore {folder} from a backup of the newest batch, or move it away and rebuild it with "
            f"`hivesink recover TABLE --checkpoint {folder}`"
        )
        if name and name.startswith("commits/"):
            advice = "Remove it and its hidden .crc file: Spark runs that batch again, and the sink knows its rows"
        super().__init__(f"{file} of the query's checkpoint is missing or damaged ({reason}). {advice}")


class CheckpointDiffers(HiveSinkError, code="HS026"):
    """A batch doesn't follow from the log: the checkpoint is older, or has lost its newest offsets file.

    `files` were read before; with `append` they would be read again.
    """

    def __init__(
        self, place: tuple[str, str, str], epoch: int, gap: str, files: tuple[str, ...] = (), advice: str | None = None
    ) -> None:
        table, log, checkpoint = place
        advice = advice or f"restore its newest state, or move it away and run {_rebuild(table, checkpoint)}"
        if not epoch:
            advice = "nothing of it is in the table, so delete it and start again"
        first = f", once the files that were read are moved away for good: {few(files, _NAMED)}" if files else ""
        super().__init__(
            f"{gap} (epoch {epoch} in {log}): the checkpoint {checkpoint} doesn't fit the log. Rows would be lost or "
            f"doubled: {advice}, or start with {appending(epoch)} {_DECISION}{first}"
        )


class SourceChanged(HiveSinkError, code="HS027"):
    """What the query reads has changed: its sources, a topic behind its name, or what its columns mean."""

    def __init__(self, log: str, epoch: int, before: str, now: str, *, keeps_checkpoint: bool = False) -> None:
        checkpoint = "" if keeps_checkpoint else "a new checkpoint and "
        super().__init__(
            f"until epoch {epoch} of {log} the query read {before}, and now {now}; nothing was written. Change it "
            f"back, or start once with {checkpoint}{appending(epoch)} {_DECISION}"
        )

    @classmethod
    def topics(cls, log: str, epoch: int, topics: tuple[str, ...]) -> SourceChanged:
        """A topic was deleted and created again, or the job reads another cluster."""
        names = few(topics, _NAMED)
        return cls(log, epoch, f"topic {names}", "another one of that name (created again, or on another cluster)")


class SourceFilesMissing(HiveSinkError, code="HS028"):
    """Files that Spark planned for a batch were gone when it listed them, which it passes over in silence."""

    def __init__(self, query: str, batch: int, planned: int, missing: tuple[str, ...]) -> None:
        super().__init__(
            f"{len(missing)} of the {planned} files planned for batch {batch} of query {query} are gone: "
            f"{few(missing, _NAMED)}. Put them back, or give their rows up by starting once with "
            "'sink.on-missing-file' = 'ignore'"
        )


class SourceFilesChanged(HiveSinkError, code="HS029", retryable=True):
    """Files were written to, or replaced, while their batch was read: their rows may be a mixture."""

    def __init__(self, batch: int, changed: tuple[str, ...]) -> None:
        super().__init__(
            f"{few(changed, _NAMED)} changed while batch {batch} read them: nothing of the batch is in the table. "
            "Start again once nobody writes there; write files elsewhere, and move them into the source's folder"
        )


class CalledTwice(HiveSinkError, code="HS030"):
    """The sink, or another sink of the same writer, was called again in a batch that is committed."""

    def __init__(self, log: str, batch: int, epoch: int) -> None:
        super().__init__(
            f"the sink was called twice in batch {batch}: {log} holds the first call's rows as epoch {epoch}, and the "
            "second call's are not written. Give the second call a sink with its own writer, or union the frames"
        )


class LogDamaged(HiveSinkError, code="HS040"):
    """A file of the log can't be read."""

    def __init__(self, file: str, reason: str, advice: str | None = None) -> None:
        super().__init__(f"{file} is damaged ({reason}); {advice or _restore(file)}")

    @classmethod
    def other_format(cls, file: str, version: int, newest: int, advice: str | None = None) -> LogDamaged:
        """Perhaps a newer hivesink has written it."""
        way = "use the version that wrote it, or a newer one. If no newer one has run here: "
        return cls(file, f"format version {version}, this hivesink knows {newest}", way + (advice or _restore(file)))


def _restore(file: str) -> str:
    writer = re.search(r"/([^/]+)/(?:uid|manifests/[^/]+)$", file)
    reset = f"start over with `hivesink reset TABLE --writer {writer[1] if writer else 'NAME'}`"
    if "/manifests/floor-" in file:
        return f"no row depends on it, and a job runs on: restore it from a backup, don't delete it, or {reset}"
    return f"restore it from a snapshot or backup, or {reset}"


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
            f"({reason}). They stay where they are: change it back, run `hivesink recover "
            f"{table.removesuffix('__rejected')}`, which publishes them, then change it again"
        )


class RowsHeldBack(HiveSinkError, code="HS045"):
    """Rows that wait can't be made into files: `reasons` says why, once for each slice."""

    def __init__(self, reasons: Sequence[str], *, retryable: bool) -> None:
        self.retryable = retryable
        more = len(set(reasons)) - 1
        super().__init__(reasons[0] + (f" (and {more} more: see `hivesink partitions`)" if more else ""))


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
