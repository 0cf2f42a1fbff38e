"""Epochs and batches, and the judgement on a batch: new, a replay, or of another history than the log's.

An epoch is one commit of one writer, numbered 1, 2, 3… by the writer's own log. A Spark batch id is never an epoch:
it starts again at 0 with every new checkpoint, which is how other sinks lose or double rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType

from hivesink import errors
from hivesink.core.column_source import named_file
from hivesink.core.offsets import FilesOffset, SourceOffset, chain, runs_back

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

Epoch = NewType("Epoch", int)
BatchId = NewType("BatchId", int)


@dataclass(frozen=True, slots=True)
class BatchRef:
    """One micro-batch: who ran it, its number there, and what it covers (one offset for each source)."""

    query: str
    batch: BatchId
    start: tuple[SourceOffset, ...]
    end: tuple[SourceOffset, ...]


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch that a query will run first, by its checkpoint.

    `query` is None if the query has no id yet; `start` and `end` are None if Spark has yet to plan them.
    """

    checkpoint: str
    query: str | None
    batch: BatchId
    start: tuple[SourceOffset, ...] | None = None
    end: tuple[SourceOffset, ...] | None = None


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The newest batch that the log holds, and the epoch that committed it.

    `appended`: a person has allowed, with `append`, that it doesn't follow from the batch before it.
    `raw`: its rows were raw records, not columns.
    """

    epoch: Epoch
    ref: BatchRef
    appended: bool = False
    raw: bool = True


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """What one log of a table holds of a query: its writer, the newest batch, and `batches`, which reads the whole log.

    `trimmed`: it may have held older ones.
    """

    writer: str
    log: str
    newest: LastBatch
    batches: Callable[[], frozenset[BatchId]]
    trimmed: bool = False


@dataclass(frozen=True, slots=True)
class HistoryPolicy:
    """What the user allows if a batch does not follow from the log.

    `resume`: a new checkpoint may continue if its offsets are those where the log ends.
    `append`: any history may continue, as long as this is the epoch of the last batch.
    """

    resume: bool = False
    append: Epoch | None = None


STRICT = HistoryPolicy()


@dataclass(frozen=True, slots=True)
class New:
    """The batch must be written; `appended` as in `LastBatch`."""

    appended: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """The batch was committed by `epoch`: write nothing."""

    epoch: Epoch


def judge(
    last: LastBatch | None,
    batch: BatchRef | NextBatch,
    history_policy: HistoryPolicy,
    log: str,
    *,
    raw: bool,
    checkpoint: str | None = None,
) -> New | Replay:
    """Whether `batch` is new or a proven replay; `raw` is as in `LastBatch`.

    `log` and `checkpoint` name them in errors; a NextBatch knows its own checkpoint.

    Raises LogMissing, ForeignHistory, CheckpointLeftOver, ReplayDiffers, BatchBehindLog, BatchesMissing,
    OffsetsDontChain, OffsetsRunBack, ResumeImpossible or InputChanged if it is neither: a batch is never dropped in
    silence and never written twice. What isn't planned yet of a NextBatch is taken to fit: the verdict only means that
    nothing speaks against the query.
    """
    verdict = _judge(last, batch, history_policy, log, batch.checkpoint if isinstance(batch, NextBatch) else checkpoint)
    if isinstance(verdict, New) and last and last.raw == (not raw) and history_policy.append != last.epoch:
        raise errors.InputChanged(log, last.epoch, was_raw=not raw)
    back = runs_back(batch.start, batch.end) if batch.start and batch.end and isinstance(verdict, New) else ()
    if back:
        epoch = last.epoch if last else Epoch(0)
        if history_policy.append != epoch:
            raise errors.OffsetsRunBack(log, epoch, batch.batch, back)
        verdict = New(appended=True)
    return verdict


def _judge(
    last: LastBatch | None,
    batch: BatchRef | NextBatch,
    history_policy: HistoryPolicy,
    log: str,
    checkpoint: str | None,
) -> New | Replay:
    if last is None:
        return _first(batch, history_policy, log)
    if batch.query != last.ref.query:
        return _other_query(last, batch, history_policy, log, checkpoint)
    if batch.batch == last.ref.batch:
        return _same_batch(last, batch, history_policy, log)
    resumable = _resumable(last.ref.end)
    if batch.batch < last.ref.batch:
        raise errors.BatchBehindLog(log, last.epoch, last.ref.batch, batch.batch, last.ref.end, resumable=resumable)
    if batch.batch > last.ref.batch + 1:
        if history_policy.append == last.epoch:
            return New(appended=True)
        raise errors.BatchesMissing(log, last.epoch, last.ref.batch, batch.batch)
    gap = _gap(last, batch)
    if gap is not None and history_policy.append != last.epoch:
        raise errors.OffsetsDontChain(log, last.epoch, gap)
    return New(appended=gap is not None)


def wrote_instead(
    writer: str, histories: Iterable[QueryHistory], batch: BatchId, *, beside: Container[str] = ()
) -> QueryHistory | None:
    """What shows that another writer of the table wrote `batch` in the place of `writer`, which was renamed.

    Two sinks of one query share its batches, but of a writer that was renamed, one name ends where the other begins.
    `beside` are writers that this run of the query has too.
    """
    known = tuple(histories)
    own = max((one.newest.ref.batch for one in known if one.writer == writer), default=None)
    for one in known:
        if one.writer == writer or one.writer in beside or one.newest.ref.batch < batch:
            continue
        if own is None or own + 1 < batch:
            return one
        held = one.batches()
        if own not in held and (own > min(held) or not one.trimmed):
            return one
    return None


def read_before(last: LastBatch | None, batch: BatchRef | NextBatch) -> tuple[str, ...]:
    """The batch's files that the log's newest batch has read already, if their digest proves it."""
    if last is None or (batch.query, batch.batch) != (last.ref.query, last.ref.batch):
        return ()
    return tuple(
        path
        for done, now in zip(last.ref.end, batch.end or (), strict=False)
        if isinstance(done, FilesOffset) and isinstance(now, FilesOffset)
        for path in done.found_in(now)
    )


def _first(batch: BatchRef | NextBatch, history_policy: HistoryPolicy, log: str) -> New:
    # A query's first batch always writes a manifest, so a later batch over a log without one means that manifests
    # were deleted, and with them the knowledge of which batches are in the table.
    # `append` names the last batch's epoch, 0 if there is none: fences of recovery don't count.
    if batch.batch > 0 and history_policy.append != 0:
        raise errors.LogMissing(log, batch.batch)
    return New(appended=batch.batch > 0)


def _same_batch(last: LastBatch, batch: BatchRef | NextBatch, history_policy: HistoryPolicy, log: str) -> New | Replay:
    if batch.start is None or batch.end is None or (batch.start, batch.end) == (last.ref.start, last.ref.end):
        return Replay(last.epoch)
    if history_policy.append == last.epoch:
        return New(appended=True)
    resumable, read = _resumable(last.ref.end), tuple(map(named_file, read_before(last, batch)))
    raise errors.ReplayDiffers(log, last.epoch, batch.batch, last.ref.end, batch.end, resumable=resumable, read=read)


def _other_query(
    last: LastBatch, batch: BatchRef | NextBatch, history_policy: HistoryPolicy, log: str, checkpoint: str | None
) -> New:
    if history_policy.append == last.epoch:
        return New(appended=True)
    gap = _gap(last, batch)
    left_over = batch.checkpoint if gap and isinstance(batch, NextBatch) and batch.batch == 0 else None
    resumable = _resumable(last.ref.end + (batch.start or ()))
    if not history_policy.resume:
        raise errors.ForeignHistory(
            log,
            last.epoch,
            last.ref.end,
            batch.query,
            checkpoint=checkpoint,
            resumable=resumable,
            left_over=left_over,
        )
    if not resumable:
        raise errors.ResumeImpossible(log, last.epoch, last.ref.end, left_over)
    if gap is None:
        return New()
    if left_over is not None:
        raise errors.CheckpointLeftOver(log, last.epoch, left_over, gap)
    raise errors.OffsetsDontChain(log, last.epoch, gap)


def _gap(last: LastBatch, batch: BatchRef | NextBatch) -> str | None:
    return None if batch.start is None else chain(last.ref.end, batch.start)


def _resumable(offsets: tuple[SourceOffset, ...]) -> bool:
    return all(offset.resumable for offset in offsets)
