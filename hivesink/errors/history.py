"""The commit log, the checkpoint, and who else writes."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError


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

    def __init__(self, log: str, epoch: int, end: tuple[object, ...], query: str, *, resumable: bool) -> None:
        self.log = log
        self.epoch = epoch
        self.query = query
        ends = ", ".join(str(offset) for offset in end) or "no offsets"
        resume = (
            f"resume=True (continue at the log's own offsets, startingOffsets = {ends}, new partitions as -2; "
            "hivesink.sources.kafka fills it in), or "
        )
        again = "" if resumable else ": move away first what was read already"
        super().__init__(
            f"the log {log} holds history up to epoch {epoch}, ending at {ends}, but query {query} has a new "
            f"checkpoint; ways on: {resume if resumable else ''}append={epoch} (write what the query reads after what "
            f"is there, your decision{again}), or restore the old checkpoint"
        )


class ReplayDiffers(HiveSinkError):
    """A batch id that the log holds comes again with other rows."""

    def __init__(self, log: str, epoch: int, batch: int, logged: tuple[object, ...], found: tuple[object, ...]) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        was, now = (", ".join(str(offset) for offset in offsets) for offsets in (logged, found))
        super().__init__(
            f"batch {batch} was committed as epoch {epoch} in {log} up to {was}, and now comes again up to {now}: the "
            "checkpoint lost its offsets file; ways on: a new checkpoint with resume=True (Kafka only), or "
            f"append={epoch} (write these rows too, your decision), or restore the checkpoint"
        )


class BatchBehindLog(HiveSinkError):
    """The checkpoint is older than the log."""

    def __init__(self, log: str, epoch: int, logged: int, batch: int, end: tuple[object, ...]) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        ends = ", ".join(str(offset) for offset in end)
        super().__init__(
            f"the checkpoint is at batch {batch}, but {log} holds batch {logged} as epoch {epoch}, ending at {ends}: "
            "the checkpoint is older than the table; restore the newest checkpoint, or start a new one with "
            f"resume=True (Kafka only) or append={epoch} (your decision)"
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
            f"the batch doesn't follow from epoch {epoch} in {log}: {gap}; rows would be lost or doubled. Start where "
            f"the log ends (hivesink.sources.kafka fills that in), or start with append={epoch} (your decision)"
        )


class ResumeImpossible(HiveSinkError):
    """`resume` was asked for with a source whose offsets mean nothing to a new query."""

    def __init__(self, log: str, epoch: int, end: tuple[object, ...]) -> None:
        self.log = log
        self.epoch = epoch
        ends = ", ".join(str(offset) for offset in end)
        super().__init__(
            f"resume works for Kafka only, but {log} ends at {ends}: a file source's new checkpoint reads all files "
            f"again; restore the old checkpoint, or move away the files that were read and start with append={epoch}"
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
