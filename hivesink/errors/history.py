"""The commit log, the checkpoint, and who else writes."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError, appending, few

_RESUME = "resume=True and hivesink.sources.kafka(…, resume=sink)"
_NAMED = 5
"""How many files an error names."""


def _texts(offsets: tuple[object, ...]) -> str:
    return ", ".join(map(str, offsets)) or "no offsets"


def _append(epoch: int, *, resumable: bool, read: tuple[str, ...] = ()) -> str:
    """How to start with `append`. A source that isn't `resumable` begins anew with all that it has."""
    if resumable:
        return f"start with {appending(epoch)} (your decision: what the query reads is added to the table as it is)"
    count = "1 file" if len(read) == 1 else f"{len(read)} files"
    what = f"the {count} that epoch {epoch} has read already: {few(read, _NAMED)}" if read else "what was read already"
    way = "your decision: whatever the query reads is written, so move away first, and for good,"
    return f"start with {appending(epoch)} ({way} {what})"


def _delete_first(left_over: str | None) -> str:
    if left_over is None:
        return ""
    return (
        f"; in each case first delete the new checkpoint {left_over}: Spark has planned its first batch from elsewhere "
        "and not committed it, so nothing of it is in the table"
    )


class _NewCheckpoint(HiveSinkError):
    """An error from which a new checkpoint is a way on. `is_first`: the query has no batch yet, and no state."""

    def __init__(self, text: str, *, is_first: bool = False) -> None:
        state = (
            ". If the query keeps state (dropDuplicates, a window, a join): a new checkpoint has none, so that open "
            "windows lose rows, and duplicates get in"
        )
        super().__init__(text if is_first else text + state)


class EpochTaken(HiveSinkError):
    """Another run of the same writer has committed this epoch."""

    def __init__(self, log: str, epoch: int) -> None:
        super().__init__(
            f"epoch {epoch} in {log} was committed by another run of this writer; this run stops, and has published "
            "nothing of that epoch: run this writer only once; a second run for another source needs a writer name and "
            "a checkpoint of its own (of the same source it would write each row again)"
        )


class CheckpointShared(HiveSinkError):
    """Spark has found another run of the query at its checkpoint."""

    def __init__(self, checkpoint: str | None, reason: str) -> None:
        super().__init__(
            f"another run of this query works with its checkpoint{f' {checkpoint}' if checkpoint else ''} ({reason}); "
            "this run stops. No row is lost or doubled: the other one goes on. Run this job only once, or give the "
            "second run a writer's name and a checkpoint of its own"
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


class ForeignHistory(_NewCheckpoint):
    """A new query over a writer that has history: a deleted or a foreign checkpoint."""

    def __init__(
        self,
        log: str,
        epoch: int,
        end: tuple[object, ...],
        query: str | None,
        *,
        checkpoint: str | None = None,
        resumable: bool,
        left_over: str | None = None,
    ) -> None:
        ends = _texts(end)
        whose = f"query {query}'s" if query else "this query's"
        where = f" {checkpoint} (a relative path is looked for in the folder where the job runs)" if checkpoint else ""
        resume = (
            f"start with {_RESUME} (reads on where the log ends: startingOffsets = {ends}, new partitions as -2), or "
            if len(end) == 1
            else f"start with resume=True and, for each source, startingOffsets = {ends} (new partitions as -2), or "
        )
        super().__init__(
            f"the log {log} holds batches up to epoch {epoch} (`hivesink status`: last batch), ending at {ends}, but "
            f"{whose} checkpoint{where} isn't the one that its newest batch came from; to go on: start the job with "
            f"that one, in the folder where it ran before, or restore it, or "
            f"{resume if resumable else ''}"
            f"{_append(epoch, resumable=resumable)}{_delete_first(left_over)}"
        )


class CheckpointLeftOver(HiveSinkError):
    """`resume` over a checkpoint whose first batch was planned from elsewhere, as by a start that was refused."""

    def __init__(self, log: str, epoch: int, checkpoint: str, gap: str) -> None:
        super().__init__(
            f"the checkpoint {checkpoint} has its first batch planned from elsewhere than the end of {log} (epoch "
            f"{epoch}): {gap}; Spark keeps to that plan, but has committed no batch, so nothing of this checkpoint is "
            f"in the table: delete {checkpoint}, then start again with {_RESUME}, which reads from the log's end"
        )


class QueryChanged(HiveSinkError):
    """Spark refuses to go on at a checkpoint that is of another query: other sources, or other operators with state."""

    def __init__(self, checkpoint: str | None, reason: str) -> None:
        super().__init__(
            f"the query's sources, or its operators with state, are no longer those of its checkpoint ({reason}). "
            "Nothing was written. To go on as before, undo the change of the job. If you want it, move "
            f"{checkpoint or 'the checkpoint'} away and start again, which says how to go on where the log ends (see "
            "'The query was changed' in docs/operations.md)"
        )


class RecordUnreadable(HiveSinkError):
    """A record of Kafka has a timestamp that Spark can't hold, and Spark reads no batch with such a record."""

    def __init__(self, topic: str, partition: int, offset: int, milliseconds: int) -> None:
        super().__init__(
            f"the record at offset {offset} of partition {partition} of topic {topic} has Kafka's timestamp "
            f"{milliseconds}, which is no time in milliseconds that Spark can hold, and Spark reads no batch that has "
            "it. Nothing of the batch is in the table. Its producer has to write milliseconds; to pass over this "
            "record alone, see 'A record that Spark can't read' in docs/operations.md"
        )


class CheckpointUnreadable(HiveSinkError):
    """A file of the query's checkpoint is missing or damaged. `name` is its path below `checkpoint`, where known."""

    def __init__(self, checkpoint: str | None, name: str | None, reason: str) -> None:
        folder = checkpoint or "the checkpoint"
        file = f"{checkpoint}/{name}" if checkpoint and name else name or checkpoint or "a file"
        if name and name.startswith("hivesink/"):
            way = "remove it, if none of the query's topics was deleted and created again since its last run"
        elif name and name.startswith("commits/"):
            way = (
                "remove it, and the hidden .crc file of its name if there is one, and start again: Spark runs that "
                "batch once more, and the sink knows from its log whether the batch is in the table"
            )
        else:
            top = name.partition("/")[0] if name else None
            state = " (the query's state is only there)" if top == "state" else ""
            if top == "sources":
                reason += "; or the job's sources have changed, or their order, which undoing mends"
            way = (
                f"restore {folder}{state} from a backup of the newest batch, or treat it as a lost checkpoint: move "
                f"{folder} away and start again, which says how to go on (see 'The checkpoint is lost' in "
                "docs/operations.md)"
            )
        super().__init__(f"{file} of the query's checkpoint is missing or damaged ({reason}); {way}")


class ReplayDiffers(_NewCheckpoint):
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
        resume = f"start with a new checkpoint, {_RESUME}, or " if resumable else ""
        super().__init__(
            f"batch {batch} was committed as epoch {epoch} in {log} up to {_texts(logged)}, and now comes again up to "
            f"{_texts(found)}: the checkpoint lost its offsets file; to go on: restore the checkpoint, or {resume}"
            f"{_append(epoch, resumable=resumable, read=read)}"
        )


class BatchBehindLog(_NewCheckpoint):
    """The checkpoint is older than the log."""

    def __init__(
        self, log: str, epoch: int, logged: int, batch: int, end: tuple[object, ...], *, resumable: bool
    ) -> None:
        resume = f"start with {_RESUME}, or " if resumable else ""
        super().__init__(
            f"the checkpoint is at batch {batch}, but {log} holds batch {logged} as epoch {epoch}, ending at "
            f"{_texts(end)}: the checkpoint is older than the table; to go on: restore the newest checkpoint; or take "
            f"a new one, and with it {resume}{_append(epoch, resumable=resumable)}"
        )


class BatchesMissing(HiveSinkError):
    """The checkpoint is newer than the log."""

    def __init__(self, log: str, epoch: int, logged: int, batch: int) -> None:
        super().__init__(
            f"the checkpoint is at batch {batch}, but the last batch in {log} is {logged} (epoch {epoch}): manifests "
            f"are missing; to go on: restore the log, or, if the batches between are not wanted, start with "
            f"{appending(epoch)}"
        )


class OffsetsDontChain(_NewCheckpoint):
    """A batch doesn't start where the log ends."""

    def __init__(self, log: str, epoch: int, gap: str) -> None:
        super().__init__(
            f"the batch doesn't follow from epoch {epoch} in {log}: {gap}; rows would be lost or doubled; to go on: "
            f"start with a new checkpoint where the log ends ({_RESUME}), or with {appending(epoch)} (your decision; "
            "without `resume` if a topic was made again)"
        )


class OffsetsRunBack(_NewCheckpoint):
    """A batch ends before it starts, or leaves a topic out that it starts with."""

    def __init__(self, log: str, epoch: int, batch: int, back: tuple[str, ...]) -> None:
        if batch == 0:
            super().__init__(
                f"the query's first batch runs back ({few(back, _NAMED)}): the topic was created again since it was "
                "planned, or startingOffsets were beyond its end, and Spark keeps to that plan, whatever they are now. "
                f"{log} is at epoch {epoch}; nothing of this checkpoint was written here. To go on: delete the "
                "checkpoint, and start again with startingOffsets that the topic has",
                is_first=True,
            )
            return
        super().__init__(
            f"batch {batch} runs back or leaves out a topic ({few(back, _NAMED)}): the topic was created again or is "
            f"no longer subscribed, and Spark passes over that. {log} is at epoch {epoch}; nothing was written here. "
            "To go on, if the topic was created again: start with a new checkpoint, startingOffsets (-2 for its "
            f"partitions, the others as the log ends) and {appending(epoch)}. If the job left it out by mistake: name "
            f"it again, and delete offsets/{batch} and, if it is there, offsets/.{batch}.crc in the query's checkpoint "
            "(unless another sink of the query has committed it). If it is gone for good: start with "
            f"{appending(epoch)} (your decision: named again, it is read from its beginning)"
        )


class TopicRemade(_NewCheckpoint):
    """A topic was deleted and created again: `end`, to which the query has come, is an offset of the old one.

    `anew`: the same of each source of Kafka, but for the beginning of the new one. `alone`: the query reads nothing
    beside it. `follows`: `end` is where its log ends. `again`: what it reads beside topics begins anew with a new
    checkpoint.
    """

    def __init__(
        self,
        log: str,
        epoch: int,
        end: tuple[object, ...],
        topics: tuple[str, ...],
        *,
        anew: tuple[object, ...],
        alone: bool,
        follows: bool,
        again: bool = False,
    ) -> None:
        names = few(topics, _NAMED)
        were = f"topics {names} were" if len(topics) > 1 else f"topic {names} was"
        way = (
            f"{appending(epoch)}, without `resume`, and with a source that begins where the topic does (sources.kafka "
            "without startingOffsets; a readStream of your own with startingOffsets = earliest; your decision: all "
            "that the new topic has is added to the table)"
        )
        if again:
            way = (
                f"{appending(epoch)}, without `resume`, and with startingOffsets for each source of Kafka: "
                f"{_texts(anew)} (-2, the beginning, for each new partition too; your decision: all that the query "
                "reads is added to the table, so move away first the files that were read: a new checkpoint reads all "
                "again)"
            )
        elif not alone and follows and len(anew) == 1:
            way = (
                f"HiveSink.for_table(…, resume=True, append={epoch}) and hivesink.sources.kafka(…, resume=sink), which "
                f"reads {names} from the beginning and all else from where the log ends; a readStream of your own, "
                f"without `resume`, gets startingOffsets = {_texts(anew)} (-2, the beginning, for a new partition too)"
            )
        elif not alone:
            way = (
                f"{appending(epoch)}, without `resume`, and with startingOffsets for each source: {_texts(anew)} (-2, "
                "the beginning, for each new partition too; your decision: all that the new topic has is added to the "
                "table)"
            )
        where = f"{log} is at epoch {epoch} and ends at" if follows else f"{log} is at epoch {epoch}, the query at"
        super().__init__(
            f"{were} deleted and created again, or the job reads another cluster now: {where} {_texts(end)}, and a "
            "query that went on there would skip the first records of the new topic. Nothing of it was written. To go "
            "on: if the servers are others by mistake, name the old ones; if they have the same records, see 'The same "
            "records on another cluster' in docs/operations.md; if it was created again, start once with a new "
            f"checkpoint and {way}"
        )


class CheckpointOutdated(_NewCheckpoint):
    """A checkpoint is of topics that were created again since, and the log has gone on with the new ones to `end`.

    `resumable`: a query can begin there by `resume`.
    """

    def __init__(
        self, log: str, epoch: int, end: tuple[object, ...], topics: tuple[str, ...], *, resumable: bool
    ) -> None:
        names = few(topics, _NAMED)
        way = f"{appending(epoch)} and startingOffsets of your own, where the log ends"
        if resumable:
            way = "HiveSink.for_table(…, resume=True) and hivesink.sources.kafka(…, resume=sink)"
        super().__init__(
            f"this checkpoint is older than {names}, which {'were' if len(topics) > 1 else 'was'} deleted and created "
            f"again: {log} has gone on with the new records, to epoch {epoch}, and ends at {_texts(end)}. This start "
            "wrote nothing. To go on: use the query's newest checkpoint, or, if that is lost, start with a new one and "
            f"{way}"
        )


class InputChanged(HiveSinkError):
    """The stream's records were raw until now, and would be taken for columns; or the other way round."""

    def __init__(self, log: str, epoch: int, *, was_raw: bool) -> None:
        kinds = ("raw records, from `value`", "columns")
        was, now = kinds if was_raw else kinds[::-1]
        before = "select a column of the stream for each of the table's"
        if was_raw:
            before = "if the table has more columns than `value`, leave these out of the stream"
        super().__init__(
            f"up to epoch {epoch} in {log} the stream's rows came as {was}, and now they would be taken as {now}: the "
            "columns of the table or of the stream have changed. Nothing was written. To go on as before, change "
            f"them back, or {before}. If you want the change, start once with {appending(epoch)}"
        )


class StateLost(HiveSinkError):
    """`resume` was asked for by a query that keeps state, which was in the checkpoint that is lost."""

    def __init__(self, log: str, epoch: int, end: tuple[object, ...]) -> None:
        super().__init__(
            f"this query keeps state (dropDuplicates, a window, a join), and a new checkpoint has none: resumed after "
            f"epoch {epoch} of {log}, open windows would lose rows, and duplicates get in. Restore the checkpoint in "
            "place of the one that this start made. Or go on with empty state (your decision): delete that one, and "
            f"start with HiveSink.for_table(…, resume=True, append={epoch}) and each source where the log ends: one of "
            f"Kafka as hivesink.sources.kafka(…, resume=sink), several with startingOffsets = {_texts(end)}; a folder "
            "without the files that were read"
        )


class OtherWriter(HiveSinkError):
    """Another writer of the table has committed the batch that a writer without history is to write."""

    def __init__(self, table: str, writer: str, batch: int, *, other: str, epoch: int, log: str) -> None:
        super().__init__(
            f"batch {batch} of this checkpoint is in the log {log} already: writer {other} of {table} committed it as "
            f"epoch {epoch}, and writer {writer} might write its rows again. If the writer was renamed, or {other} has "
            f"written the rows of {writer} until now: run the job as it was, with all of its old writers, until it has "
            f'stopped well, then see "Renaming a writer" in docs/operations.md. If both are sinks of one query: call '
            f"{other} first, in the same function"
        )


class ResumeImpossible(_NewCheckpoint):
    """`resume` was asked for with a source whose offsets mean nothing to a new query, or with `several` of Kafka."""

    def __init__(
        self, log: str, epoch: int, end: tuple[object, ...], left_over: str | None = None, *, several: bool = False
    ) -> None:
        way = (
            "give each source such startingOffsets, and leave resume=True to the sink alone"
            if several
            else "move away the files that were read, give Kafka sources startingOffsets of your own, and start with "
            f"{appending(epoch)}"
        )
        super().__init__(
            f"resume works for one Kafka source (with a new checkpoint a file source reads all files again), but {log} "
            f"ends at {_texts(end)}. To go on: if the query has its checkpoint, leave resume out of sources.kafka; if "
            f"not, restore the one of its newest batch, or {way}{_delete_first(left_over)}"
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


class SourceFileDamaged(HiveSinkError):
    """A file of a batch can't be read to its end: it is damaged, or has other types than the schema."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} can't be read ({reason}), and nothing of its batch is in the table: write the whole file again "
            "under the same name; or, if its rows are not wanted, move it away and start once with "
            "'sink.on-missing-file' = 'ignore'"
        )


class ForeignParts(HiveSinkError):
    """A writer without history finds parts in its table that no log here answers for.

    `found` is the log of that uid, if there is one beside the table. `own`: it is this writer's own log, which has
    lost its manifests.
    """

    def __init__(
        self, table: str, writer: str, uid: str, *, path: str, count: int, found: str | None, own: bool
    ) -> None:
        self.uid = uid
        if own:
            missing, restore = f"the log {found} of its uid {uid} holds no manifest", "restore the log"
            accept = f"`hivesink reset {table} --writer {writer}`"
        else:
            missing, restore = f"no log of its uid {uid} belongs to this table", _way_to(found, table)
            accept = f"`hivesink reset {table} --uid {uid}`"
        more = f" (and {count - 1} more in its folder)" if count > 1 else ""
        super().__init__(
            f"{path}{more} was written by hivesink, but {missing}: writer {writer} has no history here and might write "
            f"the same rows again. Was {table} renamed, moved or copied, or its log deleted? To go on: {restore}; or, "
            f"to keep these rows and begin anew beside them, {accept}"
        )


def _way_to(log: str | None, table: str) -> str:
    if log is None:
        return "restore its log, or set sink.log-location to the folder that the log's folder is in"
    folder, _, name = log.rpartition("/")
    other = f"if {name} is another job's writer or that of replays, set that and run `hivesink recover {table}`"
    return f"use its log {log}, as writer {name} with sink.log-location = {folder} ({other})"


class CalledTwice(HiveSinkError):
    """The sink, or another one of the same writer, was called again in a batch that is committed."""

    def __init__(self, log: str, batch: int, epoch: int) -> None:
        super().__init__(
            f"the sink was called twice in batch {batch}: {log} holds the first call's rows as epoch {epoch}, and the "
            "second call's are not written; give the second call a sink with its own writer, which writes this "
            "batch's rows too, or, in later batches, union the frames into one call"
        )
