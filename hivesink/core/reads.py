"""Where the batches began of which rows are open, and so how far readers are.

Readers have three offsets for each Kafka partition, by the log alone, and never ahead of the truth. The log knows of
which batch the rows are that wait, and not of which Kafka partition. So a visible offset is where the first batch began
that has read of the Kafka partition since the oldest row, of any, that waits; a complete offset the same since the
oldest row that is in no commit.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hivesink.core.epoch import Epoch, LastBatch
from hivesink.core.manifest import Manifest, OpenBucket, Read
from hivesink.core.offsets import KafkaOffset, Partition, ends, moved

MOST = 64
"""How many reads a snapshot holds, or a few more."""
_NAME = re.compile(r"([1-9]\d*)-[0-9a-f]{8,32}t\d+-\d+\.arrow", re.ASCII)


def segment_name(epoch: Epoch, attempt: str, task_attempt: int, task: int) -> str:
    """No two tasks share a name: `attempt` is random, the task attempt is Spark's own number."""
    return f"{epoch}-{attempt}t{task_attempt}-{task}.arrow"


@lru_cache(maxsize=1 << 16)
def segment_epoch(name: str) -> Epoch | None:
    """The epoch in a segment's name; None for any other name."""
    match = _NAME.fullmatch(name)
    return Epoch(int(match[1])) if match else None


def with_batch(reads: tuple[Read, ...], manifest: Manifest) -> tuple[Read, ...]:
    """`reads`, and where the batch of `manifest` began, if it has rows that were to be read.

    Batches of the same time are a single read: rows that are in no commit are known by the time of their batch.
    """
    batch, at = manifest.last_batch, manifest.at
    if batch is None or batch.epoch != manifest.epoch or not (manifest.opened or manifest.add):
        return reads
    same = [read for read in reads[-1:] if read.at == at]
    start = ends(tuple(read.start for read in same))
    for first, last in zip(batch.ref.start, batch.ref.end, strict=False):
        start = _lowest(start, moved(first, last))
    epoch = same[0].epoch if same else manifest.epoch
    return (*reads[: len(reads) - len(same)], Read(epoch, at, _kafka(start)))


def oldest(reads: Sequence[Read], buckets: Collection[OpenBucket]) -> tuple[int | None, int | None]:
    """By its place in `reads`, the batch of the oldest row that waits, and of the oldest that is in no commit.

    It may be an earlier batch. None if there is no such row, -1 if nobody knows where its batch began.
    """
    segments = {part.segment for bucket in buckets for part in bucket.slices}
    epoch = min((segment_epoch(segment) or Epoch(0) for segment in segments), default=None)
    first = min((bucket.first for bucket in buckets), default=None)
    waiting = None if epoch is None else bisect_right(reads, epoch, key=lambda read: read.epoch) - 1
    return waiting, None if first is None else bisect_right(reads, first, key=lambda read: read.at) - 1


def still_open(reads: Sequence[Read], buckets: Collection[OpenBucket]) -> tuple[Read, ...]:
    """Those that tell of `buckets`. Of many, neighbours become one, from which the same offsets follow now.

    Later they are lower at most.
    """
    needed = {place for place in oldest(reads, buckets) if place is not None}
    places, kept = range(max(0, min(needed)) if needed else len(reads), len(reads)), list[Read]()
    for place in places:
        if len(places) > MOST and kept and place % 2 and place not in needed:
            start = _lowest(ends((kept[-1].start,)), ends((reads[place].start,)))
            kept[-1] = replace(kept[-1], start=_kafka(start))
        else:
            kept.append(reads[place])
    return tuple(kept)


def _lowest(offsets: Mapping[Partition, int], others: Mapping[Partition, int]) -> dict[Partition, int]:
    return {**offsets, **{place: min(at, offsets.get(place, at)) for place, at in others.items()}}


def _kafka(start: Mapping[Partition, int]) -> KafkaOffset:
    return KafkaOffset(tuple(sorted(start.items())))


@dataclass(frozen=True, slots=True)
class Lag:
    """By Kafka partition, the offset below which all records are read, in a decided epoch; are visible; are complete.

    A record is visible once its rows are in published files of registered partitions, and complete once these
    are committed. A record without a row is both; a dead letter is, too, when it can be read.
    """

    read: Mapping[Partition, int] = field(default_factory=dict)
    visible: Mapping[Partition, int] = field(default_factory=dict)
    complete: Mapping[Partition, int] = field(default_factory=dict)

    def of(self, read: Mapping[Partition, int]) -> Lag:
        """For the partitions that are `read` so far: 0 where nothing is known of the others."""
        return Lag(read, *({place: at.get(place, 0) for place in read} for at in (self.visible, self.complete)))

    @property
    def data(self) -> list[dict[str, Any]]:
        """A row for each Kafka partition, sorted, with values that JSON has."""
        kinds = {"read": self.read, "visible": self.visible, "complete": self.complete}
        return [
            {"topic": topic, "partition": number, **{kind: at.get((topic, number), 0) for kind, at in kinds.items()}}
            for topic, number in sorted(self.read)
        ]


def lag(
    newest: LastBatch | None, settled: LastBatch | None, reads: Sequence[Read], buckets: Collection[OpenBucket]
) -> Lag:
    """`newest` is the newest batch; the others are as before the oldest epoch that isn't settled."""
    read, done = (ends(batch.ref.end) if batch else {} for batch in (newest, settled))
    waiting, uncommitted = oldest(reads, buckets)
    visible = _below(done, reads, waiting)
    return Lag(done, visible, _below(visible, reads, uncommitted)).of(read)


def _below(limit: Mapping[Partition, int], reads: Sequence[Read], place: int | None) -> Mapping[Partition, int]:
    """The offsets up to `limit` at which none of `reads` from that place on had begun; 0 if it isn't known."""
    if place == -1:
        return dict.fromkeys(limit, 0)
    below = dict(limit)
    for read in () if place is None else reads[place:]:
        start = ends((read.start,))
        below = {partition: min(at, start.get(partition, at)) for partition, at in below.items()}
    return below
