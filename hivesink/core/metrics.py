"""The metrics: their names, which are a public contract, and what a writer's log says of each. No client library."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import Literal

from hivesink.core.lifecycle import Floor, floor_over
from hivesink.core.manifest import KINDS, Manifest, PartEntry
from hivesink.core.partition_commit import CommitRule
from hivesink.core.reads import Lag
from hivesink.core.rolling import OpenRows

RESULTS = ("written", "rejected", "dropped", "late", "skipped")
STEPS = ("write", "lookup", "manifest", "publish", "sweep")
"""What an epoch's time goes into."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, without the prefix and the endings that its kind gives it. `labels` beside `table` and `writer`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    by_log: bool = True
    """Whether the log alone tells it; otherwise only a job that runs."""


_KAFKA = ("topic", "partition")
METRICS = (
    Metric("rows", "counter", "rows read, by what became of them", ("result",)),
    Metric("bytes", "counter", "bytes of the files made"),
    Metric("files", "counter", "files made"),
    Metric("epochs", "counter", "epochs decided", ("kind",)),
    Metric("epoch_seconds", "histogram", "time of each step of an epoch", ("step",), by_log=False),
    Metric("roll_seconds", "histogram", "time of a roll", by_log=False),
    Metric("read_offset", "gauge", "all records below are read, in a decided epoch", _KAFKA),
    Metric("visible_offset", "gauge", "all records below can be queried", _KAFKA),
    Metric("complete_offset", "gauge", "all records below are in committed partitions", _KAFKA),
    Metric("end_offset", "gauge", "the topic's end, as Spark saw it last", _KAFKA, by_log=False),
    Metric("open_rows", "gauge", "rows that wait"),
    Metric("open_bytes", "gauge", "bytes of segments that hold them"),
    Metric("oldest_waiting_seconds", "gauge", "age of the oldest of them; 0 if none waits"),
    Metric("unsettled_epochs", "gauge", "epochs decided and not settled"),
    Metric("unregistered_partitions", "gauge", "new partitions whose rows wait to be registered"),
    Metric("last_commit_timestamp_seconds", "gauge", "time of the newest epoch; 0 before the first"),
    Metric("watermark_timestamp_seconds", "gauge", "the watermark; 0 if there is none"),
    Metric("partition_commit_delay_seconds", "gauge", "from the end of the partition committed last to its commit"),
    Metric("group_commit_failures", "counter", "commits to the consumer group that failed", by_log=False),
    Metric("up", "gauge", "1 while the query runs", by_log=False),
)
"""In the order in which they are exported; `docs/metrics.md` has each."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of the metric `name`, with its ending; `labels` beside those of the writer."""

    metric: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    ending: str = ""


_BOUNDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, float("inf"))
"""Seconds."""


@dataclass(slots=True)
class Histogram:
    """Counts durations (seconds) since the run began."""

    _counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    _sum: float = 0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def samples(self, metric: str, labels: Mapping[str, str]) -> Iterator[Sample]:
        below = list(accumulate(self._counts))
        for bound, count in zip(_BOUNDS, below, strict=True):
            limit = "+Inf" if bound == _BOUNDS[-1] else f"{bound:g}"
            yield Sample(metric, count, {**labels, "le": limit}, "_bucket")
        yield Sample(metric, below[-1], labels, "_count")
        yield Sample(metric, self._sum, labels, "_sum")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a writer's log says: `total` as a floor over all of it, what isn't settled or published, what is open."""

    total: Floor
    head: Manifest | None
    lag: Lag
    rows: OpenRows
    unsettled: int
    unpublished: Collection[PartEntry]
    commit_delay: float

    def after(self, manifest: Manifest, commit_delay: float) -> Figures:
        """With what `manifest` adds to the totals."""
        return replace(self, total=floor_over(self.total, (manifest,)), head=manifest, commit_delay=commit_delay)

    def samples(self, now: datetime) -> Iterator[Sample]:
        """At the time `now` (UTC)."""
        yield from (Sample("rows", getattr(self.total.totals, kind), {"result": kind}) for kind in RESULTS)
        yield Sample("bytes", self.total.bytes)
        yield Sample("files", self.total.parts)
        kinds = {**dict.fromkeys(KINDS, 0), **self.total.kinds}
        yield from (Sample("epochs", number, {"kind": kind}) for kind, number in kinds.items())
        for each in self.lag.data:
            labels = {"topic": str(each["topic"]), "partition": str(each["partition"])}
            yield from (Sample(f"{kind}_offset", each[kind], labels) for kind in ("read", "visible", "complete"))
        yield Sample("open_rows", self.rows.rows)
        yield Sample("open_bytes", self.rows.bytes)
        since, mark = self.rows.since, self.head.watermark.at if self.head and self.head.watermark else None
        yield Sample("oldest_waiting_seconds", max(0.0, (now - since).total_seconds()) if since else 0)
        yield Sample("unsettled_epochs", self.unsettled)
        new = {part.key for part in self.unpublished if part.was_set_aside}
        yield Sample("unregistered_partitions", len(new))
        yield Sample("last_commit_timestamp_seconds", self.head.at.timestamp() if self.head else 0)
        yield Sample("watermark_timestamp_seconds", mark.timestamp() if mark else 0)
        yield Sample("partition_commit_delay_seconds", self.commit_delay)


def commit_delay(manifest: Manifest, rule: CommitRule) -> float | None:
    """The longest time (seconds) from the end of a partition to its first commit, by `manifest`; None without such."""
    ends = (rule.end(commit.key) for commit in manifest.commits if commit.revision == 1)
    return max(((manifest.at - end).total_seconds() for end in ends if end), default=None)
