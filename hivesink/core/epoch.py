"""Epochs and batches, and whether a new batch is new, a replay, or another history than the log's.

An epoch is one commit of one writer, numbered 1, 2, 3… by the writer's own log. A Spark batch id is never
an epoch: it starts again at 0 with every new checkpoint, which is how other sinks lose or double rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from hivesink.core.offsets import SourceOffset, chain, same
from hivesink.errors import (
    BatchBehindLog,
    BatchesMissing,
    ForeignHistory,
    LogMissing,
    OffsetsDontChain,
    ReplayDiffers,
    ResumeImpossible,
)

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
class LastBatch:
    """The newest batch that the log holds, and the epoch that committed it.

    `appended`: a person said, with `append`, that it need not follow from the batch before it.
    """

    epoch: Epoch
    ref: BatchRef
    appended: bool = False


@dataclass(frozen=True, slots=True)
class Ways:
    """What the user allows where a batch does not follow from the log.

    `resume`: a new checkpoint may continue if its offsets are just those where the log ends.
    `append`: a new history is fine, but only while this is the epoch of the last batch.
    """

    resume: bool = False
    append: Epoch | None = None


NO_WAYS = Ways()


@dataclass(frozen=True, slots=True)
class New:
    """The batch is to be written; `appended` as in `LastBatch`."""

    appended: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """The batch was committed by `epoch`: nothing is to be written."""

    epoch: Epoch


def judge(last: LastBatch | None, batch: BatchRef, ways: Ways, log: str) -> New | Replay:
    """Whether `batch` is new or a proven replay; `log` names the log in errors.

    Raises LogMissing, ForeignHistory, ReplayDiffers, BatchBehindLog, BatchesMissing, OffsetsDontChain or
    ResumeImpossible where it is neither: a batch is never dropped in silence and never written twice.
    """
    if last is None:
        return _first(batch, ways, log)
    if batch.query != last.ref.query:
        return _other_query(last, batch, ways, log)
    if batch.batch == last.ref.batch:
        if same(batch.start, last.ref.start) and same(batch.end, last.ref.end):
            return Replay(last.epoch)
        if ways.append == last.epoch:
            return New(appended=True)
        raise ReplayDiffers(log, last.epoch, batch.batch, last.ref.end, batch.end)
    if batch.batch < last.ref.batch:
        raise BatchBehindLog(log, last.epoch, last.ref.batch, batch.batch, last.ref.end)
    if batch.batch > last.ref.batch + 1:
        if ways.append == last.epoch:
            return New(appended=True)
        raise BatchesMissing(log, last.epoch, last.ref.batch, batch.batch)
    gap = chain(last.ref.end, batch.start)
    if gap is not None and ways.append != last.epoch:
        raise OffsetsDontChain(log, last.epoch, gap)
    return New(appended=gap is not None)


def _first(batch: BatchRef, ways: Ways, log: str) -> New:
    # A query's first batch always writes a manifest, so a later batch over a log without one means that
    # manifests were deleted, and with them the knowledge of which batches are in the table.
    # `append` names the last batch's epoch: of none 0, however many fences recovery has put since it was said.
    if batch.batch > 0 and ways.append != 0:
        raise LogMissing(log, batch.batch, 0)
    return New(appended=batch.batch > 0)


def _other_query(last: LastBatch, batch: BatchRef, ways: Ways, log: str) -> New:
    if ways.append == last.epoch:
        return New(appended=True)
    if not ways.resume:
        resumable = all(offset.resumable for offset in last.ref.end)
        raise ForeignHistory(log, last.epoch, last.ref.end, batch.query, resumable=resumable)
    if not all(offset.resumable for offset in batch.start + last.ref.end):
        raise ResumeImpossible(log, last.epoch, last.ref.end)
    gap = chain(last.ref.end, batch.start)
    if gap is not None:
        raise OffsetsDontChain(log, last.epoch, gap)
    return New()
