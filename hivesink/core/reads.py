"""Of which epochs the rows that wait are, and where the batches of these began: as exactly as it is worth keeping."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest, OpenBucket, Read
from hivesink.core.offsets import KafkaOffset, Partition, ends, moved

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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
