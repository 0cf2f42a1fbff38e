"""How far readers are: three offsets for each Kafka partition, by the log alone, and never ahead of the truth.

The log knows of which batch the rows are that wait, and not of which Kafka partition. So a visible offset is where the
oldest batch began that has read of the Kafka partition and has rows, of any, that wait; a complete offset where the
first began since the oldest row, of any, that is in no commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hivesink.core.offsets import Partition, ends
from hivesink.core.reads import still_open, waiting_reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.epoch import LastBatch
    from hivesink.core.manifest import Read
    from hivesink.core.rolling import OpenRows


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


def lag(newest: LastBatch | None, settled: LastBatch | None, rows: OpenRows) -> Lag:
    """`newest` is the newest batch; `settled` and `rows` are as before the oldest epoch that isn't settled."""
    read, done = (ends(batch.ref.end) if batch else {} for batch in (newest, settled))
    buckets = rows.buckets.values()
    visible = _below(waiting_reads(rows.reads, buckets), done)
    # Where nobody knows where the batch of the oldest rows began, nothing is certain.
    oldest = min((bucket.first for bucket in buckets), default=None)
    is_known = oldest is None or any(known.at <= oldest <= known.until for known in rows.reads)
    complete = _below(still_open(rows.reads, buckets) if is_known else None, visible)
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
