"""Epochs and batches, and the judgement on a batch: new, a replay, or of another history than the log's.

An epoch is a commit of a writer, numbered 1, 2, 3… by the writer's own log. A Spark batch id is never an epoch:
it starts again at 0 with every new checkpoint, which is how other sinks lose or double rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, NewType

from hivesink import errors
from hivesink.core.column_source import named_file
from hivesink.core.offsets import FilesOffset, KafkaOffset, SourceOffset, TopicIds, chain, runs_back

Epoch = NewType("Epoch", int)
BatchId = NewType("BatchId", int)
_NAMED = 5
"""How many partitions an error names."""


class Place(NamedTuple):
    """What errors name of a query: its table, the writer's log, and its checkpoint, where that is known."""

    table: str
    log: str
    checkpoint: str = "DIR"


@dataclass(frozen=True, slots=True)
class BatchRef:
    """A micro-batch: who ran it, its number there, and what it covers (an offset for each source).

    `sources` says what each source reads, as text. `head` is how Spark's file of the batch begins, and `keeps_state`
    whether the query has operators with state: from these a lost checkpoint is rebuilt.
    """

    query: str
    batch: BatchId
    start: tuple[SourceOffset, ...]
    end: tuple[SourceOffset, ...]
    sources: tuple[str, ...] = field(default=(), compare=False)
    head: str = field(default="", compare=False)
    keeps_state: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch that a query will run first, by its checkpoint.

    `query` is None if the query has no id yet; `start` and `end` are None if Spark has yet to plan them. `sources` as
    of `BatchRef`.
    """

    query: str | None
    batch: BatchId
    start: tuple[SourceOffset, ...] | None = None
    end: tuple[SourceOffset, ...] | None = None
    sources: tuple[str, ...] = field(default=(), compare=False)


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
    append: Epoch | None,
    place: Place,
    *,
    raw: bool,
) -> New | Replay:
    """Whether `batch` is new or a proven replay; `raw` is as in `LastBatch`, and `place` is what errors name.

    `append`: the user allows any history to continue, as long as this is the epoch of the last batch.

    Raises LogMissing, ForeignHistory, CheckpointDiffers or SourceChanged if it is neither: a batch is never dropped in
    silence and never written twice. What isn't planned yet of a NextBatch is taken to fit: the verdict only means that
    nothing speaks against the query.
    """
    epoch = last.epoch if last else Epoch(0)
    is_allowed = append == epoch
    # A query's first batch always writes a manifest, so a later batch over a log without manifests means that manifests
    # were deleted, and with them the knowledge of which batches are in the table.
    # `append` names the last batch's epoch, 0 if there is none: fences of recovery don't count.
    if last is None and batch.batch > 0 and not is_allowed:
        raise errors.LogMissing.behind(place.log, batch.batch)
    is_foreign = last is not None and batch.query != last.ref.query
    if last and is_foreign and not is_allowed:
        raise errors.ForeignHistory(place, last.epoch, last.ref.query, batch.query)
    verdict: New | Replay = New(appended=is_foreign or batch.batch > 0)
    if last and not is_foreign:
        verdict = _judge(last, batch, place, is_allowed)
    if isinstance(verdict, Replay):
        return verdict
    if last and last.raw != raw and not is_allowed:
        kinds = "raw records, from `value`", "columns"
        was, now = kinds if last.raw else kinds[::-1]
        raise errors.SourceChanged(place.log, epoch, was, f"would take its rows as {now}", keeps_checkpoint=True)
    back = runs_back(batch.start, batch.end) if batch.start and batch.end else ()
    if back and not is_allowed:
        # A rebuilt checkpoint would do the same.
        gap, advice = errors.few(back, _NAMED), "name the topics again that the job leaves out"
        raise errors.CheckpointDiffers(place, epoch, f"batch {batch.batch} runs back ({gap})", advice=advice)
    return New(appended=verdict.appended or bool(back))


def _judge(last: LastBatch, batch: BatchRef | NextBatch, place: Place, is_allowed: bool) -> New | Replay:
    # Spark knows sources by their order alone: does one read what another read before?
    was = last.ref.sources
    swapped = (now and now != then and now in was for then, now in zip(was, batch.sources, strict=False))
    if any(swapped) and not is_allowed:
        now = f"reads {_texts(batch.sources)} in their places"
        raise errors.SourceChanged(place.log, last.epoch, _texts(last.ref.sources), now)
    if batch.batch == last.ref.batch:
        if batch.start is None or batch.end is None or (batch.start, batch.end) == (last.ref.start, last.ref.end):
            return Replay(last.epoch)
        if is_allowed:
            return New(appended=True)
        files = tuple(map(named_file, read_before(last, batch)))
        gap = f"batch {batch.batch} comes again up to {_texts(batch.end)} instead of {_texts(last.ref.end)}"
        raise errors.CheckpointDiffers(place, last.epoch, gap, files)
    if batch.batch < last.ref.batch:
        gap = f"batch {batch.batch} comes after {last.ref.batch}"
        raise errors.CheckpointDiffers(place, last.epoch, gap)
    if batch.batch > last.ref.batch + 1:
        if is_allowed:
            return New(appended=True)
        raise errors.LogMissing.behind(place.log, batch.batch, last.epoch, last.ref.batch)
    leap = None if batch.start is None else chain(last.ref.end, batch.start)
    if leap is not None and not is_allowed:
        raise errors.CheckpointDiffers(place, last.epoch, f"batch {batch.batch}: {leap}")
    return New(appended=leap is not None)


def _texts(offsets: tuple[object, ...]) -> str:
    return ", ".join(map(str, offsets)) or "no offsets"


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


class KnownTopics:
    """The ids of the topics that a run of a query reads.

    All that was planned and read between two answers of Kafka with the same id is of that topic. So the run asks before
    it plans, and again once a batch has been read, before anything of it is decided.
    """

    def __init__(self) -> None:
        self._ids: list[dict[str, str]] = []

    def begin(self, last: LastBatch | None, first: NextBatch, kept: TopicIds) -> None:
        """Learn which topics the run goes on in: `kept` are those that its checkpoint began with.

        Of the log's offsets, a topic that begins elsewhere may be new, as where a person lets another history follow.
        """
        self.learn(kept)
        if not last or last.ref.query != first.query:
            return
        for offsets in (first.start, first.end):
            read_on = list[dict[str, str]]()
            for end, start in zip(last.ref.end, offsets or (), strict=False):
                read_on.append({})
                if isinstance(end, KafkaOffset) and isinstance(start, KafkaOffset):
                    names = {topic for (topic, _), at in {*end.next} & {*start.next} if at > 0}
                    read_on[-1] = {topic: id_ for topic, id_ in end.ids.items() if topic in names}
            self.learn(tuple(read_on))

    def learn(self, now: TopicIds) -> tuple[str, ...]:
        """The topics have these ids now; a topic that isn't there keeps its id. Returns those that had another id."""
        self._ids += [{} for _ in now[len(self._ids) :]]
        both = list(zip(self._ids, now, strict=False))
        again = [name for known, ids in both for name, id_ in ids.items() if known.get(name, id_) != id_]
        for known, ids in both:
            known |= {**ids, **known}
        return tuple(dict.fromkeys(again))

    def lacks(self, end: tuple[SourceOffset, ...]) -> bool:
        """Whether a batch up to `end` reads a topic whose id nobody has asked for."""
        ids = [*self.ids, *({} for _ in end)]
        kafka = ((offset, asked) for offset, asked in zip(end, ids, strict=False) if isinstance(offset, KafkaOffset))
        return any(offset.topics().keys() - asked.keys() for offset, asked in kafka)

    @property
    def ids(self) -> TopicIds:
        return tuple(map(dict, self._ids))
