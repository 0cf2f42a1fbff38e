"""The commit log, the checkpoint, and who else writes."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError

_NAMED = 5
"""How many files an error names."""


def _named(files: tuple[str, ...]) -> str:
    more = len(files) - _NAMED
    return ", ".join(files[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _appending(epoch: int, *, resumable: bool, read: tuple[str, ...] = ()) -> str:
    """The way on that `append` is; without `resumable` offsets the source begins anew with all that it has."""
    if resumable:
        return f"append={epoch} (your decision: what the query reads is written after what is there)"
    count = "1 file" if len(read) == 1 else f"{len(read)} files"
    what = f"the {count} that epoch {epoch} has read already: {_named(read)}" if read else "what was read already"
    return f"append={epoch} (your decision: whatever the query reads is written, so move away first {what})"


class EpochTaken(HiveSinkError):
    """Another run of the same writer has committed this epoch."""

    def __init__(self, log: str, epoch: int) -> None:
        self.log = log
        self.epoch = epoch
        super().__init__(
            f"epoch {epoch} in {log} was committed by another run of this writer; this run stops and has published "
            "nothing of it: let one run of a writer go on, or give the second one its own writer name"
        )


class LogDamaged(HiveSinkError):
    """A file of the log can't be read."""

    def __init__(self, file: str, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(f"{file} is damaged ({reason}); it is left as it is: restore it from a snapshot or a backup")


class LogCopied(HiveSinkError):
    """An epoch that isn't finished belongs to a log in another folder: this one is a copy of it, or was moved."""

    def __init__(self, log: str, epoch: int, own: str) -> None:
        self.log = log
        self.epoch = epoch
        self.own = own
        super().__init__(
            f"epoch {epoch} in {log} is not finished, and belongs to the log {own}: its files are that log's table's. "
            f"If the log was moved here, move it back to {own}, run `hivesink recover TABLE`, then move it again. If "
            "this is a copy, finish the original the same way and copy again, or begin anew here with "
            "`hivesink reset TABLE`"
        )


class NewerFormat(HiveSinkError):
    """A file of the log was written in a format that this version doesn't know."""

    def __init__(self, file: str, found: int, known: int) -> None:
        self.file = file
        self.found = found
        self.known = known
        super().__init__(
            f"{file} has format version {found}, this hivesink knows {known}; it is left as it is: "
            "use the hivesink that wrote it, or a newer one"
        )


class LogMissing(HiveSinkError):
    """A checkpoint that has committed batches meets a log that holds none."""

    def __init__(self, log: str, batch: int, head: int) -> None:
        self.log = log
        self.batch = batch
        super().__init__(
            f"the checkpoint is at batch {batch}, but the log {log} holds no batch: it was deleted, or the checkpoint "
            f"belongs to another table or writer; restore the log, or, if the batches before {batch} are in the "
            f"table or not wanted, start with append={head}"
        )


class ForeignHistory(HiveSinkError):
    """A new query over a writer that has history: a deleted or a foreign checkpoint."""

    def __init__(
        self,
        log: str,
        epoch: int,
        end: tuple[object, ...],
        query: str | None,
        *,
        resumable: bool,
        left_over: str | None = None,
    ) -> None:
        self.log = log
        self.epoch = epoch
        self.query = query
        self.left_over = left_over
        ends = ", ".join(str(offset) for offset in end) or "no offsets"
        resume = (
            f"resume=True (continue at the log's own offsets, startingOffsets = {ends}, new partitions as -2; "
            "hivesink.spark.sources.kafka fills it in), or "
        )
        who = f"query {query}" if query else "this query"
        super().__init__(
            f"the log {log} holds history up to epoch {epoch}, ending at {ends}, but {who} has a new checkpoint; "
            f"ways on: {resume if resumable else ''}{_appending(epoch, resumable=resumable)}, or restore the old "
            f"checkpoint{_delete_first(left_over)}"
        )


def _delete_first(left_over: str | None) -> str:
    if left_over is None:
        return ""
    return (
        f"; whichever it is, first delete the new checkpoint {left_over}: its first batch is planned from elsewhere "
        "and not committed, so nothing of it is in the table"
    )


class CheckpointLeftOver(HiveSinkError):
    """`resume` over a checkpoint whose first batch was planned from elsewhere, as by a start that was refused."""

    def __init__(self, log: str, epoch: int, checkpoint: str, gap: str) -> None:
        self.log = log
        self.epoch = epoch
        self.checkpoint = checkpoint
        self.gap = gap
        super().__init__(
            f"the checkpoint {checkpoint} has its first batch planned from elsewhere than the end of {log} (epoch "
            f"{epoch}): {gap}; Spark keeps to that plan, and has committed no batch of this checkpoint, so nothing of "
            f"it is in the table: delete {checkpoint}, then start again with resume=True and with the source at the "
            "log's end (hivesink.spark.sources.kafka(…, resume=sink) sees to that)"
        )


class ReplayDiffers(HiveSinkError):
    """A batch id that the log holds comes again with other rows."""

    def __init__(
        self,
        log: str,
        epoch: int,
        batch: int,
        logged: tuple[object, ...],
        found: tuple[object, ...],
        *,
        resumable: bool,
        read: tuple[str, ...] = (),
    ) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        self.read = read
        was, now = (", ".join(str(offset) for offset in offsets) for offsets in (logged, found))
        resume = "a new checkpoint with resume=True, or " if resumable else ""
        super().__init__(
            f"batch {batch} was committed as epoch {epoch} in {log} up to {was}, and now comes again up to {now}: the "
            f"checkpoint lost its offsets file; ways on: {resume}"
            f"{_appending(epoch, resumable=resumable, read=read)}, or restore the checkpoint"
        )


class BatchBehindLog(HiveSinkError):
    """The checkpoint is older than the log."""

    def __init__(
        self, log: str, epoch: int, logged: int, batch: int, end: tuple[object, ...], *, resumable: bool
    ) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        ends = ", ".join(str(offset) for offset in end)
        resume = "resume=True, or " if resumable else ""
        super().__init__(
            f"the checkpoint is at batch {batch}, but {log} holds batch {logged} as epoch {epoch}, ending at {ends}: "
            "the checkpoint is older than the table; restore the newest checkpoint, or start a new one with "
            f"{resume}{_appending(epoch, resumable=resumable)}"
        )


class BatchesMissing(HiveSinkError):
    """The checkpoint is newer than the log."""

    def __init__(self, log: str, epoch: int, logged: int, batch: int) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        super().__init__(
            f"the checkpoint is at batch {batch}, but the last batch in {log} is {logged} (epoch {epoch}): manifests "
            f"are missing; restore the log, or start with append={epoch} if the batches between are not wanted"
        )


class OffsetsDontChain(HiveSinkError):
    """A batch doesn't start where the log ends."""

    def __init__(self, log: str, epoch: int, gap: str) -> None:
        self.log = log
        self.epoch = epoch
        self.gap = gap
        super().__init__(
            f"the batch doesn't follow from epoch {epoch} in {log}: {gap}; rows would be lost or doubled. Start with a "
            "new checkpoint where the log ends (resume=True, and hivesink.spark.sources.kafka(…, resume=sink)), or "
            f"start with append={epoch} (your decision)"
        )


class ResumeImpossible(HiveSinkError):
    """`resume` was asked for with a source whose offsets mean nothing to a new query."""

    def __init__(self, log: str, epoch: int, end: tuple[object, ...], left_over: str | None = None) -> None:
        self.log = log
        self.epoch = epoch
        self.left_over = left_over
        ends = ", ".join(str(offset) for offset in end)
        super().__init__(
            f"resume works for Kafka only, but {log} ends at {ends}: a file source's new checkpoint reads all files "
            f"again; restore the old checkpoint, or move away the files that were read and start with append={epoch}"
            f"{_delete_first(left_over)}"
        )


class FencedOut(HiveSinkError):
    """This run is no longer the head of its log: another run has gone on."""

    def __init__(self, log: str, own: int, head: int) -> None:
        self.log = log
        self.own = own
        self.head = head
        super().__init__(
            f"another run of this writer has taken {log} to epoch {head} while this one was at {own}; this run stops. "
            "Nothing is lost or doubled: epoch "
            f"{own} is finished by the other run"
        )


class CheckpointUnreadable(HiveSinkError):
    """The query's checkpoint doesn't say what the batch covers."""

    def __init__(self, file: str, reason: str) -> None:
        self.file = file
        super().__init__(f"{file} does not say what the batch covers ({reason}); is this the query's checkpoint?")


class SourceFilesMissing(HiveSinkError):
    """Files that Spark planned for a batch were gone when it listed them, which it passes over in silence."""

    def __init__(self, query: str, batch: int, planned: int, missing: tuple[str, ...]) -> None:
        self.query = query
        self.batch = batch
        self.planned = planned
        self.missing = missing
        super().__init__(
            f"{len(missing)} of the files that are planned for batch {batch} of query {query} ({planned}) are gone: "
            f"{_named(missing)}; put them back, or, if their rows are not wanted in the table, start once with "
            "the option sink.on-missing-file=ignore"
        )


class LogTwice(HiveSinkError):
    """Two writers of one table have logs of one uid: one log is a copy of the other."""

    def __init__(self, log: str, other: str, uid: str) -> None:
        self.log = log
        self.other = other
        self.uid = uid
        super().__init__(
            f"the logs {log} and {other} both have the uid {uid}: one is a copy of the other, and each would take the "
            "other's files for its own. Move the copy out of the way, with its .pointer file if it has one, then start "
            "again: a writer without a log begins anew"
        )


class ForeignParts(HiveSinkError):
    """A writer without history finds parts in its table that no log here answers for.

    `found` is the log of that uid, where it was seen beside the table. `own`: it is this writer's own log, which has
    lost its manifests.
    """

    def __init__(
        self, table: str, writer: str, uid: str, *, path: str, count: int, found: str | None, own: bool
    ) -> None:
        self.table = table
        self.writer = writer
        self.uid = uid
        self.path = path
        self.found = found
        if own:
            missing, restore = f"the log {found} of its uid {uid} holds no manifest", "restore the log"
            accept = f"`hivesink reset {table} --writer {writer}`"
        else:
            missing, restore = f"no log of its uid {uid} belongs to this table", _way_to(found)
            accept = f"`hivesink reset {table} --uid {uid}`"
        more = f" (and {count - 1} more in its folder)" if count > 1 else ""
        super().__init__(
            f"{path}{more} was written by hivesink, but {missing}: writer {writer} has no history here and might write "
            f"the same rows again. Was {table} renamed, moved or copied, or its log deleted? Ways on: {restore}; or, "
            f"to keep these rows and begin anew beside them, {accept}"
        )


def _way_to(log: str | None) -> str:
    if log is None:
        return "restore its log, or set sink.log-location to the folder that the log's folder is in"
    folder, _, name = log.rpartition("/")
    return f"go on with its log {log}, as writer {name} with sink.log-location = {folder}"


class TableRemade(HiveSinkError):
    """The table is not the one that the log knows, and the newest rows that the log counts are not in it."""

    def __init__(self, table: str, writer: str, log: str, epoch: int) -> None:
        self.table = table
        self.writer = writer
        self.log = log
        self.epoch = epoch
        super().__init__(
            f"{table} was dropped and created again: the log {log} is at epoch {epoch}, and the files of its newest "
            "rows are not in this table. Ways on: restore the files; or begin anew with "
            f"`hivesink reset {table} --writer {writer}`, which keeps the log aside, then start with a new "
            "checkpoint (it reads its source from the beginning) or with the old one and append=0 (it goes on where "
            "that stands)"
        )


class PointerTaken(HiveSinkError):
    """A writer's log of a table is known to be elsewhere."""

    def __init__(self, pointer: str, writer: str, table: str, found: str, own: str) -> None:
        self.pointer = pointer
        self.found = found
        self.own = own
        super().__init__(
            f"{pointer} says that the log of writer {writer} of {table} is in {found}, not in {own}: set "
            "sink.log-location back, take another writer name, or, if that log was moved, delete the pointer"
        )


class CalledTwice(HiveSinkError):
    """The sink, or another one of the same writer, was called again in a batch that is committed."""

    def __init__(self, log: str, batch: int, epoch: int) -> None:
        self.log = log
        self.batch = batch
        self.epoch = epoch
        super().__init__(
            f"the sink was called twice in batch {batch}: {log} holds the first call's rows as epoch {epoch}, and the "
            "second call's are not written; give the second call a sink with its own writer, which writes this batch's "
            "rows too, or, for the batches to come, union the frames into one call"
        )
