"""The history of a writer: its log, the checkpoint, and who else writes."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError, appending, few

_NAMED = 5
"""How many files or topics an error names."""
_DECISION = "(your decision: all that the query reads is added to the table as it is)"
_ONCE = "Run this writer only once, or give another source's run its own writer name and checkpoint"


def _texts(offsets: tuple[object, ...]) -> str:
    return ", ".join(map(str, offsets)) or "no offsets"


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

    @classmethod
    def older(cls, place: tuple[str, str, str], epoch: int, batch: int, logged: int) -> CheckpointDiffers:
        """It is at a batch before the log's last."""
        return cls(place, epoch, f"batch {batch} comes after {logged}")

    @classmethod
    def again(
        cls,
        place: tuple[str, str, str],
        epoch: int,
        batch: int,
        *,
        logged: tuple[object, ...],
        now: tuple[object, ...],
        files: tuple[str, ...],
    ) -> CheckpointDiffers:
        """The log's last batch comes with other rows, up to `now`."""
        return cls(place, epoch, f"batch {batch} comes again up to {_texts(now)} instead of {_texts(logged)}", files)

    @classmethod
    def runs_back(cls, place: tuple[str, str, str], epoch: int, batch: int, back: tuple[str, ...]) -> CheckpointDiffers:
        """The batch ends before it starts, or leaves a topic out. A rebuilt checkpoint would do the same."""
        gap = f"batch {batch} runs back ({few(back, _NAMED)})"
        return cls(place, epoch, gap, advice="name the topics again that the job leaves out")


class SourceChanged(HiveSinkError, code="HS027"):
    """What the query reads has changed: its sources, a topic behind its name, or what its columns mean."""

    def __init__(self, log: str, epoch: int, before: str, now: str, *, keeps_checkpoint: bool = False) -> None:
        checkpoint = "" if keeps_checkpoint else "a new checkpoint and "
        super().__init__(
            f"until epoch {epoch} of {log} the query read {before}, and now {now}; nothing was written. Change it "
            f"back, or start once with {checkpoint}{appending(epoch)} {_DECISION}"
        )

    @classmethod
    def sources(cls, log: str, epoch: int, before: tuple[str, ...], now: tuple[str, ...]) -> SourceChanged:
        """Two sources were changed round: Spark knows them by their order alone."""
        return cls(log, epoch, _texts(before), f"reads {_texts(now)} in their places")

    @classmethod
    def topics(cls, log: str, epoch: int, topics: tuple[str, ...]) -> SourceChanged:
        """A topic was deleted and created again, or the job reads another cluster."""
        names = few(topics, _NAMED)
        return cls(log, epoch, f"topic {names}", "another one of that name (created again, or on another cluster)")

    @classmethod
    def columns(cls, log: str, epoch: int, *, was_raw: bool) -> SourceChanged:
        """The stream's records were raw until now, and would be taken for columns; or the other way round."""
        kinds = ("raw records, from `value`", "columns")
        was, now = kinds if was_raw else kinds[::-1]
        return cls(log, epoch, was, f"would take its rows as {now}", keeps_checkpoint=True)


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
