"""The commit log, the checkpoint, and who else writes."""

from __future__ import annotations

from dataclasses import dataclass

from hivesink.errors.base import HiveSinkError, appending, few

_NAMED = 5
"""How many files or topics an error names."""
_DECISION = "(your decision: all that the query reads is added to the table as it is)"


@dataclass(frozen=True, slots=True)
class Place:
    """What errors name of a query: its table, the writer's log, and its checkpoint, where that is known."""

    table: str
    log: str
    checkpoint: str = "DIR"

    @property
    def rebuild(self) -> str:
        """The command that makes the query's checkpoint anew."""
        return f"`hivesink recover {self.table} --checkpoint {self.checkpoint}`"


def _texts(offsets: tuple[object, ...]) -> str:
    return ", ".join(map(str, offsets)) or "no offsets"


class EpochTaken(HiveSinkError):
    """Another run of the same writer has committed this epoch."""

    def __init__(self, log: str, epoch: int) -> None:
        super().__init__(
            f"epoch {epoch} in {log} was committed by another run of this writer; this run stops, and has published "
            "nothing of that epoch: run this writer only once; a second run for another source needs a writer name and "
            "a checkpoint of its own (of the same source it would write each row again)"
        )


class FencedOut(HiveSinkError):
    """This run is no longer the head of its log: another run has gone on."""

    def __init__(self, log: str, own: int, head: int) -> None:
        super().__init__(
            f"another run of this writer has taken {log} to epoch {head} while this one was at {own}; this run stops. "
            f"No row is lost or doubled: the other run finishes epoch {own}. Run this writer only once, or give the "
            "second run a writer's name and a checkpoint of its own"
        )


class ReplayOvertaken(HiveSinkError):
    """Another replay of a table's dead letters, or a `recover`, has gone on meanwhile. No record is lost or doubled."""

    retryable = True

    def __init__(self, table: str) -> None:
        super().__init__(f"another replay of {table} has just run; run this one again if records are left")


class MarksMissing(HiveSinkError):
    """Of records that were replayed, some have lost the rows that say so, and would be replayed again."""

    def __init__(self, table: str, partition: str, due: int, found: int) -> None:
        owner = table.removesuffix("__rejected")
        super().__init__(
            f"{partition} of {table}: by the log {due} of its records were replayed into {owner}, but only {found} are "
            "marked; was it written by INSERT OVERWRITE beside a replay, or restored, or dropped since? No record was "
            "replayed now. To go on: mark the other ones, as in docs/operations.md, or, if no unmarked one is in "
            f"{owner}, run `hivesink reset {owner} --writer rejects-replay`"
        )


class ForeignHistory(HiveSinkError):
    """A new query over a writer that has history: the checkpoint is lost, or another query's."""

    def __init__(self, place: Place, epoch: int, logged: str, query: str | None) -> None:
        whose = f"that of query {query}" if query else "new"
        super().__init__(
            f"the log {place.log} ends with a batch of query {logged} (epoch {epoch}), and the checkpoint "
            f"{place.checkpoint} is {whose}. Start with the query's own checkpoint, which {place.rebuild} rebuilds if "
            f"it is lost, or let this query follow with {appending(epoch)} {_DECISION}"
        )


class CheckpointUnreadable(HiveSinkError):
    """A file of the query's checkpoint is missing or damaged. `name` is its path below `checkpoint`, where known."""

    def __init__(self, checkpoint: str | None, name: str | None, reason: str) -> None:
        folder = checkpoint or "the checkpoint"
        file = f"{checkpoint}/{name}" if checkpoint and name else name or checkpoint or "a file"
        way = (
            f"Restore {folder} from a backup of the newest batch, or move it away and rebuild it with "
            f"`hivesink recover TABLE --checkpoint {folder}`"
        )
        if name and name.startswith("commits/"):
            way = (
                "Remove it and its hidden .crc file: Spark runs that batch again, and the sink knows whether it has it"
            )
        super().__init__(f"{file} of the query's checkpoint is missing or damaged ({reason}). {way}")


class ReplayDiffers(HiveSinkError):
    """A batch id that the log holds comes again with other rows. `read`: the files of it that were read already."""

    def __init__(
        self,
        place: Place,
        epoch: int,
        batch: int,
        *,
        logged: tuple[object, ...],
        now: tuple[object, ...],
        read: tuple[str, ...] = (),
    ) -> None:
        first = f", once the files that were read are moved away for good: {few(read, _NAMED)}" if read else ""
        super().__init__(
            f"batch {batch} comes again up to {_texts(now)}, but {place.log} holds it up to {_texts(logged)} (epoch "
            f"{epoch}): the checkpoint has lost its offsets file. Restore it, or move it away and run {place.rebuild}, "
            f"or start with {appending(epoch)} {_DECISION}{first}"
        )


class BatchBehindLog(HiveSinkError):
    """The checkpoint is older than the log."""

    def __init__(self, place: Place, epoch: int, logged: int, batch: int) -> None:
        super().__init__(
            f"the checkpoint {place.checkpoint} is at batch {batch}, but {place.log} holds batch {logged} (epoch "
            f"{epoch}): it is older than the table. Restore the newest one, or move this one away and run "
            f"{place.rebuild}"
        )


class BatchesMissing(HiveSinkError):
    """The checkpoint is newer than the log."""

    def __init__(self, log: str, epoch: int, logged: int, batch: int) -> None:
        super().__init__(
            f"the checkpoint is at batch {batch}, but the last batch in {log} is {logged} (epoch {epoch}): manifests "
            f"are missing; to go on: restore the log, or, if the batches between are not wanted, start with "
            f"{appending(epoch)}"
        )


class OffsetsDontChain(HiveSinkError):
    """A batch doesn't start where the log ends."""

    def __init__(self, place: Place, epoch: int, gap: str) -> None:
        super().__init__(
            f"the batch doesn't follow from epoch {epoch} in {place.log}: {gap}. Rows would be lost or doubled: move "
            f"the checkpoint away and run {place.rebuild}, or start with {appending(epoch)} {_DECISION}"
        )


class OffsetsRunBack(HiveSinkError):
    """A batch ends before it starts, or leaves a topic out that it starts with."""

    def __init__(self, place: Place, epoch: int, batch: int, back: tuple[str, ...]) -> None:
        way = f"delete the checkpoint {place.checkpoint}, of which nothing is in the table, and start again"
        if batch:
            way = (
                f"if the job no longer names a topic, name it again, move the checkpoint away and run {place.rebuild}; "
                f"if one was created again or is given up, start with a new checkpoint and {appending(epoch)}"
            )
        super().__init__(
            f"batch {batch} after epoch {epoch} of {place.log} runs back or leaves out a topic ({few(back, _NAMED)}), "
            f"and nothing of it was written. To go on: {way}"
        )


class SourcesSwapped(HiveSinkError):
    """A source of the query now reads what another one read before."""

    def __init__(self, log: str, epoch: int, before: tuple[str, ...], now: tuple[str, ...]) -> None:
        super().__init__(
            f"the query's sources read {_texts(now)}, but until epoch {epoch} of {log} they read {_texts(before)}: "
            "Spark knows them by their order alone, and would read each on where another one was. Put them back in "
            f"their order, or start with a new checkpoint and {appending(epoch)} {_DECISION}"
        )


class TopicRemade(HiveSinkError):
    """A topic was deleted and created again under its name, so the offsets are of another one."""

    def __init__(self, log: str, epoch: int, topics: tuple[str, ...]) -> None:
        super().__init__(
            f"topic {few(topics, _NAMED)} was deleted and created again, or the job reads another cluster: the query "
            f"would go on at the old one's offsets (epoch {epoch} of {log}), so nothing was written. Correct the "
            f"servers, or start once with a new checkpoint and {appending(epoch)}, which reads the topic from its "
            "beginning"
        )


class InputChanged(HiveSinkError):
    """The stream's records were raw until now, and would be taken for columns; or the other way round."""

    def __init__(self, log: str, epoch: int, *, was_raw: bool) -> None:
        kinds = ("raw records, from `value`", "columns")
        was, now = kinds if was_raw else kinds[::-1]
        super().__init__(
            f"up to epoch {epoch} in {log} the stream's rows came as {was}, and now they would be taken as {now}, so "
            "nothing was written. Change the columns of the table or of the stream back, or, if you want the change, "
            f"start once with {appending(epoch)}"
        )


class CheckpointNotRebuilt(HiveSinkError):
    """The log can't rebuild the checkpoint of its newest batch."""

    def __init__(self, log: str, epoch: int, reason: str) -> None:
        super().__init__(
            f"the checkpoint can't be rebuilt from {log}: {reason}. Restore it from a backup, or start with a new one "
            f"and {appending(epoch)} {_DECISION}"
        )


class SourceFilesMissing(HiveSinkError):
    """Files that Spark planned for a batch were gone when it listed them, which it passes over in silence."""

    def __init__(self, query: str, batch: int, planned: int, missing: tuple[str, ...]) -> None:
        super().__init__(
            f"{len(missing)} of the {planned} files planned for batch {batch} of query {query} are gone: "
            f"{few(missing, _NAMED)}; put them back, or, if their rows are in the table already, or not wanted there, "
            'start once with HiveSink.for_table(…, options={"sink.on-missing-file": "ignore"}) in the job, or set '
            "'sink.on-missing-file' = 'ignore' in the table's TBLPROPERTIES until it has started"
        )


class SourceFilesChanged(HiveSinkError):
    """Files were written to, or replaced, while their batch was read: their rows may be a mixture."""

    retryable = True

    def __init__(self, batch: int, changed: tuple[str, ...]) -> None:
        names = few(changed, _NAMED)
        super().__init__(
            f"{names} changed while batch {batch} read {'it' if len(changed) == 1 else 'them'}: nothing of the batch "
            "is in the table. Start again once nobody writes there: the batch is read again, with all that these files "
            "have then. Write a file elsewhere, then move it into the source's folder, under a name of its own"
        )


class CalledTwice(HiveSinkError):
    """The sink, or another one of the same writer, was called again in a batch that is committed."""

    def __init__(self, log: str, batch: int, epoch: int) -> None:
        super().__init__(
            f"the sink was called twice in batch {batch}: {log} holds the first call's rows as epoch {epoch}, and the "
            "second call's are not written; give the second call a sink with its own writer, which writes this "
            "batch's rows too, or, in later batches, union the frames into one call"
        )
