"""Which of Kafka's topics a query's offsets are of: an id tells a topic from a later one of its name.

Ids go where their offsets go: a manifest has those of its batch, and a checkpoint its own, in `hivesink/topics.<n>`,
whatever becomes of the logs. The sink writes them before it decides a batch, and never takes one back.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from hivesink import errors
from hivesink.core.checkpoint import Files
from hivesink.core.epoch import Epoch
from hivesink.core.offsets import BEGINNING, KafkaOffset, NoOffset, SourceOffset, TopicIds, chain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from hivesink.core.epoch import BatchRef, HistoryPolicy, LastBatch, NextBatch

    Known = Mapping[str, frozenset[str]]
    """The ids of topics by their names: one that is read from two clusters has two."""

FOLDER = "hivesink"
_PREFIX = "topics."


class WritableFiles(Files, Protocol):
    """A checkpoint's files, which the sink adds its own to."""

    def put(self, name: str, data: bytes) -> None:
        """Create a file, whole or not at all. Raises StoreUnavailable, also where it exists; NotWritable."""

    def remove(self, name: str) -> None:
        """Delete a file. Raises StoreUnavailable, NotWritable."""


def kept(files: Files) -> Known:
    """The ids of the topics that the checkpoint's offsets are of; nothing of checkpoints of older versions.

    Raises CheckpointUnreadable.
    """
    number = max(_numbers(files), default=None)
    if number is None:
        return {}
    name = f"{FOLDER}/{_PREFIX}{number}"
    try:
        found = json.loads(files.read(name) or b"")
        return {str(topic): frozenset(map(str, ids)) for topic, ids in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise errors.CheckpointUnreadable(files.location, name, f"{type(error).__name__}: {error}") from error


def keep(known: Known, files: WritableFiles) -> None:
    """Make `known` what `kept` returns. Raises what `put` and `remove` raise."""
    old = list(_numbers(files))
    text = json.dumps({topic: sorted(ids) for topic, ids in sorted(known.items())})
    files.put(f"{FOLDER}/{_PREFIX}{max(old, default=0) + 1}", text.encode())
    for number in old:
        files.remove(f"{FOLDER}/{_PREFIX}{number}")


def _numbers(files: Files) -> Iterator[int]:
    ends = (name.removeprefix(_PREFIX) for name in files.names(FOLDER) if name.startswith(_PREFIX))
    return (int(end) for end in ends if end.isdigit())


def ids_due(known: Known, last: LastBatch | None, batch: BatchRef | NextBatch, history_policy: HistoryPolicy) -> Known:
    """The ids that topics of `batch` must have: `known` are those that its checkpoint keeps.

    Of the topics that it doesn't know, the log's count where the batch reads on from the log's end: the first records
    of another topic would be skipped. If the user lets another history follow, with `append`, that is so only for a
    new checkpoint that begins there.
    """
    if last is None:
        return known
    is_allowed, start = history_policy.append == last.epoch, batch.start
    if batch.batch > 0 or start is None:
        start = () if is_allowed else last.ref.end
    log, on = named(topic_ids(last.ref.end)), read_on(last.ref.end, start)
    return {**{topic: ids for topic, ids in log.items() if topic in on}, **known}


def require_topics(
    known: Known,
    last: LastBatch | None,
    batch: NextBatch,
    history_policy: HistoryPolicy,
    seen: KafkaOffset,
    *,
    log: str,
    now: Callable[[], KafkaOffset],
    was_written: Callable[[], bool] = lambda: False,
) -> None:
    """Refuse a query over topics that were made again, before it reads them.

    Raises TopicRemade, CheckpointOutdated, what `now` raises.

    `seen` are its topics and their partitions from when its stream was made; where they don't fit, `now` asks. `known`
    as in `ids_due`; `was_written`: whether the planned batch is in the table, though not in this log.
    """
    due = ids_due(known, last, batch, history_policy)

    def found(topics: KafkaOffset) -> tuple[str, ...]:
        return tuple(dict.fromkeys(made_again(due, (topics.ids,)) + shrunk(batch.end or (), topics)))

    if found(seen) and (names := found(there := now())):
        raise _remade(last, batch, names, (there.ids,), log, was_written=was_written)


def require_resumed(last: LastBatch | None, batch: BatchRef, history_policy: HistoryPolicy, log: str) -> None:
    """Refuse a new query with `resume` that reads a topic of the log, by its id, from elsewhere than where that ends.

    With `append` beside it, only topics that were made again may begin anew. Raises OffsetsDontChain.
    """
    if last is None or not history_policy.resume or batch.query == last.ref.query:
        return
    pairs = zip(topic_ids(last.ref.end), topic_ids(batch.end), strict=False)
    same = {topic for before, after in pairs for topic, one in before.items() if after.get(topic) == one}
    end, start = (tuple(of_topics(one, same) for one in some) for some in (last.ref.end, batch.start))
    if same and (gap := chain(end, start)):
        raise errors.OffsetsDontChain(log, last.epoch, gap)


def expected(batch: BatchRef, due: Known) -> BatchRef:
    """`batch` with the ids that are due, where a topic has one alone."""
    ids = {topic: one for topic, (one, *others) in due.items() if not others}
    return replace(batch, end=with_ids(batch.end, (ids,) * len(batch.end)))


def identified(last: LastBatch | None, batch: BatchRef, due: Known, ids: TopicIds, log: str) -> BatchRef:
    """`batch`, as `expected`, with the `ids` that its topics have now; one that is gone keeps its id.

    An id never comes back. So if a topic has the same one before and after a batch was read, all was read of that
    topic. Raises TopicRemade, CheckpointOutdated.
    """
    if found := made_again(due, ids):
        raise _remade(last, batch, found, ids, log)
    return replace(batch, end=with_ids(batch.end, topic_ids(batch.end), ids))


def topics_of(offsets: Iterable[SourceOffset]) -> set[str]:
    """The names of the topics."""
    return {topic for offset in offsets if isinstance(offset, KafkaOffset) for (topic, _), _ in offset.next}


def topic_ids(offsets: Iterable[SourceOffset]) -> TopicIds:
    """What a batch's offsets know of their topics."""
    return tuple(offset.ids if isinstance(offset, KafkaOffset) else {} for offset in offsets)


def named(ids: TopicIds) -> Known:
    """The ids of all sources."""
    names = {topic for one in ids for topic in one}
    return {topic: frozenset(one[topic] for one in ids if topic in one) for topic in names}


def with_ids(offsets: tuple[SourceOffset, ...], *known: TopicIds) -> tuple[SourceOffset, ...]:
    """`offsets` with what is `known` of their topics; where two know one topic, the later counts."""

    def complete(number: int, offset: SourceOffset) -> SourceOffset:
        if not isinstance(offset, KafkaOffset):
            return offset
        found = {topic: one for ids in known if number < len(ids) for topic, one in ids[number].items()}
        return replace(offset, ids={topic: found[topic] for topic in offset.topics() if topic in found})

    return tuple(complete(number, offset) for number, offset in enumerate(offsets))


def made_again(due: Known, ids: TopicIds) -> tuple[str, ...]:
    """The topics whose ids aren't those that are due: they were deleted and created again since."""
    found = (topic for one in ids for topic, known in one.items() if known not in due.get(topic, {known}))
    return tuple(dict.fromkeys(found))


def shrunk(planned: tuple[SourceOffset, ...], now: KafkaOffset) -> tuple[str, ...]:
    """The topics of a planned batch that have fewer partitions now: they were made again, as Kafka takes none away."""
    known, there = [one.topics() for one in planned if isinstance(one, KafkaOffset)], now.topics()
    both = ((topic, partitions) for topics in known for topic, partitions in topics.items() if topic in there)
    # One that two sources read may be of two clusters.
    return tuple(
        topic
        for topic, partitions in both
        if partitions.keys() - there[topic].keys() and sum(topic in topics for topics in known) == 1
    )


def of_topics(offset: SourceOffset, topics: Collection[str]) -> SourceOffset:
    """The part of a Kafka offset that is of `topics`; of any other source nothing."""
    if not isinstance(offset, KafkaOffset):
        return NoOffset()
    return KafkaOffset(tuple(one for one in offset.next if one[0][0] in topics))


def read_on(end: tuple[SourceOffset, ...], start: tuple[SourceOffset, ...]) -> frozenset[str]:
    """The topics of which a batch that starts at `start` reads a partition on from `end`, not from its first record."""
    ends, starts = (
        {place for offset in some if isinstance(offset, KafkaOffset) for place in offset.next} for some in (end, start)
    )
    return frozenset(topic for (topic, _), at in ends & starts if at > 0)


def _resumes(end: tuple[SourceOffset, ...]) -> bool:
    return len(end) == 1 and end[0].resumable


def is_alone(offsets: tuple[SourceOffset, ...]) -> bool:
    """Whether a query reads nothing beside one topic."""
    return sum(len(offset.topics()) if isinstance(offset, KafkaOffset) else 2 for offset in offsets) == 1


def _remade(
    last: LastBatch | None,
    batch: BatchRef | NextBatch,
    topics: tuple[str, ...],
    now: TopicIds,
    log: str,
    *,
    was_written: Callable[[], bool] = lambda: False,
) -> errors.HiveSinkError:
    """Names where the query has come to, which need not be where the log ends: that may be in the new topic by now."""
    start, epoch, follows = batch.start or (), last.epoch if last else Epoch(0), False
    known, there = named(topic_ids(last.ref.end) if last else ()), named(now)
    if last and all(there.get(topic, {None}) <= known.get(topic, frozenset()) for topic in topics):
        return errors.CheckpointOutdated(log, epoch, last.ref.end, topics, resumable=_resumes(last.ref.end))
    is_behind = last and batch.query == last.ref.query and batch.batch <= last.ref.batch
    if last and (is_behind or batch.batch == 0 or not start or chain(last.ref.end, start) is None):
        end, follows = last.ref.end, True
    else:
        end = (batch.end if was_written() else None) or start
    alone = is_alone(end) or all(isinstance(one, NoOffset) for one in end)
    again = any(not one.resumable for one in end)
    anew = _anew(end, topics)
    return errors.TopicRemade(log, epoch, end, topics, anew=anew, alone=alone, follows=follows, again=again)


def _anew(offsets: tuple[SourceOffset, ...], topics: Collection[str]) -> tuple[SourceOffset, ...]:
    """The offsets of Kafka's sources, but -2, where a partition begins, for those of `topics`."""
    return tuple(
        KafkaOffset(tuple((place, BEGINNING if place[0] in topics else at) for place, at in one.next))
        for one in offsets
        if isinstance(one, KafkaOffset)
    )
