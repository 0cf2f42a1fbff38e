"""Of which epochs the rows that wait are, where the batches of these began, and so how far readers are.

Readers have three offsets for each Kafka partition, by the log alone, and never ahead of the truth. The log knows of
which batch the rows are that wait, and not of which Kafka partition. So a visible offset is where the oldest batch
began that has read of the Kafka partition and has rows, of any, that wait; a complete offset where the first began
since the oldest row, of any, that is in no commit.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest, OpenBucket, Read
from hivesink.core.offsets import KafkaOffset, Partition, ends, moved

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hivesink.core.epoch import LastBatch

MOST = 32
"""How many reads of a kind a snapshot holds; above that, neighbours become a single read."""
_NAME = re.compile(r"([1-9]\d*)-[0-9a-f]{8,32}t\d+-\d+\.arrow", re.ASCII)


def segment_name(epoch: Epoch, attempt: str, task_attempt: int, task: int) -> str:
    """No two tasks share a name: `attempt` is random, the task attempt is Spark's own number."""
    return f"{epoch}-{attempt}t{task_attempt}-{task}.arrow"


@lru_cache(maxsize=1 << 16)
def segment_epoch(name: str) -> Epoch | None:
    """The epoch in a segment's name; None for any other name."""
    match = _NAME.fullmatch(name)
    return Epoch(int(match[1])) if match else None


def of_batch(manifest: Manifest) -> tuple[Read, ...]:
    """Where the batch of `manifest` began, if it has rows that were to be read."""
    batch, epoch = manifest.last_batch, manifest.epoch
    if batch is None or batch.epoch != epoch or not (manifest.opened or manifest.add):
        return ()
    start: dict[Partition, int] = {}
    for first, last in zip(batch.ref.start, batch.ref.end, strict=False):
        start = _lowest(start, moved(first, last))
    return (Read(epoch, epoch, manifest.at, manifest.at, _kafka(start)),)


def waiting_reads(reads: Sequence[Read], buckets: Iterable[OpenBucket]) -> tuple[Read, ...] | None:
    """Those of which rows wait in slices of `buckets`; None if nobody knows where some of these began."""
    segments = {part.segment for bucket in buckets for part in bucket.slices}
    known = [read for read in reads if read.waits]
    firsts, waiting = [read.epoch for read in known], set[int]()
    for epoch in {segment_epoch(segment) or Epoch(0) for segment in segments}:
        place = bisect_right(firsts, epoch) - 1
        if place < 0 or epoch > known[place].last:
            return None
        waiting.add(place)
    return tuple(known[place] for place in sorted(waiting))


def still_open(reads: Sequence[Read], buckets: Collection[OpenBucket]) -> tuple[Read, ...]:
    """Those of which rows wait in `buckets`, and all since the oldest row that is in no commit."""
    known, kept = waiting_reads(reads, buckets), list[Read]()
    waiting = {read.epoch for read in (reads if known is None else known)}
    oldest = min((bucket.first for bucket in buckets), default=None)
    for read in reads:
        waits = read.waits and read.epoch in waiting
        if waits or (oldest is not None and read.until >= oldest):
            kept.append(replace(read, waits=waits))
    return tuple(kept)


def merged(reads: Iterable[Read]) -> tuple[Read, ...]:
    """Fewer reads that lead to the same offsets now, and later to lower ones at most.

    Only those of a kind merge: rows that can be read hold back no row that waits.
    """
    kept: list[Read] = []
    for waits in (True, False):
        kind = [read for read in reads if read.waits is waits]
        while len(kind) > MOST:
            pairs = zip(kind[::2], kind[1::2], strict=False)
            kind = [*map(_merge, pairs), *kind[len(kind) // 2 * 2 :]]
        kept += kind
    return tuple(sorted(kept, key=lambda read: read.epoch))


def _merge(pair: tuple[Read, Read]) -> Read:
    first, second = pair
    start = _lowest(ends((first.start,)), ends((second.start,)))
    return replace(first, last=second.last, until=second.until, start=_kafka(start))


def _lowest(offsets: dict[Partition, int], others: dict[Partition, int]) -> dict[Partition, int]:
    return offsets | {place: min(at, offsets.get(place, at)) for place, at in others.items()}


def _kafka(start: dict[Partition, int]) -> KafkaOffset:
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
    visible = _below(waiting_reads(reads, buckets), done)
    # Where nobody knows where the batch of the oldest rows began, nothing is certain.
    oldest = min((bucket.first for bucket in buckets), default=None)
    is_known = oldest is None or any(known.at <= oldest <= known.until for known in reads)
    complete = _below(still_open(reads, buckets) if is_known else None, visible)
    return Lag(done, visible, complete).of(read)


def _below(reads: Iterable[Read] | None, limit: Mapping[Partition, int]) -> dict[Partition, int]:
    """The offsets up to `limit` at which none of `reads` had begun; 0 if these aren't known."""
    if reads is None:
        return dict.fromkeys(limit, 0)
    below = dict(limit)
    for read in reads:
        for place, at in ends((read.start,)).items():
            if at <= below.get(place, at):
                below[place] = at
    return below
