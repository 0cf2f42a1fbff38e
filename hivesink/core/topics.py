"""Whether the topics that a query reads are still the ones that its offsets are of.

Spark's checkpoint knows a topic by its name and offsets. A topic that is deleted and created again under its name
would be read on in the middle, once it has more records than were read of the old topic. Kafka gives each topic an id
that never comes back, and the manifest has it beside the offsets (`KafkaOffset.ids`). A checkpoint keeps the ids with
which it began: they go with its offsets where the log doesn't, and before there is a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.offsets import KafkaOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.epoch import LastBatch, NextBatch
    from hivesink.core.offsets import SourceOffset, TopicIds


class KnownTopics:
    """The ids of the topics that a run of a query reads.

    All that was planned and read between two answers of Kafka with the same id is of that topic. So the run asks before
    it plans, and again once a batch has been read, before anything of it is decided.
    """

    def __init__(self) -> None:
        self._ids: list[dict[str, str]] = []

    def begin(self, last: LastBatch | None, first: NextBatch, kept: TopicIds) -> None:
        """Learn which topics the run goes on in: `kept` are those that its checkpoint began with."""
        self.learn(kept)
        if last and last.ref.query == first.query:
            for offsets in (first.start, first.end):
                self.learn(tuple(map(_read_on, last.ref.end, offsets or ())))

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
        ids = [*self._ids, *({} for _ in end)]
        return any(_topics(offset) - known.keys() for offset, known in zip(end, ids, strict=False))

    @property
    def ids(self) -> TopicIds:
        return tuple(map(dict, self._ids))


def _read_on(end: SourceOffset, start: SourceOffset) -> Mapping[str, str]:
    """The ids of the topics that a batch from `start` reads on in the middle, from a log's `end`.

    A topic that begins elsewhere may be new, as where a person lets another history follow.
    """
    if not (isinstance(end, KafkaOffset) and isinstance(start, KafkaOffset)):
        return {}
    names = {topic for (topic, _), at in {*end.next} & {*start.next} if at > 0}
    return {topic: id_ for topic, id_ in end.ids.items() if topic in names}


def _topics(offset: SourceOffset) -> set[str]:
    return set(offset.topics()) if isinstance(offset, KafkaOffset) else set()
