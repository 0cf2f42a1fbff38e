"""How far a running query is: what it has committed, what waits, and how far it is behind its source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hivesink.core.manifest import OpenBucket
from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import CommitRule, FromPatterns, Watermark, WatermarkPolicy
from hivesink.core.reads import Lag
from hivesink.core.rolling import RollingPolicy


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts since the query began; None is what nobody knows.

    `rows` are those read, rejected ones too, and `epochs` the batches and rolls that committed them. `partitions` are
    the ones that got files. `rows_per_second` is that of the last minute. `waiting_rows` wait for their
    roll, or until their partitions are over. Kafka has `behind_records` more. `offsets` are those up to which Kafka's
    records are `read`, `visible` and `complete`, by topic and partition, as far as they are known.
    """

    rows: int = 0
    rows_per_second: float | None = None
    epochs: int = 0
    partitions: int = 0
    rejected: int = 0
    waiting_rows: int = 0
    behind_records: int | None = None
    offsets: Lag | None = None

    def __str__(self) -> str:
        rate = "" if self.rows_per_second is None else f" ({self.rows_per_second:,.0f}/s)"
        parts = [f"{self.rows:,} rows{rate}", count(self.epochs, "epoch"), count(self.partitions, "partition")]
        parts.append(f"{self.rejected:,} rejected")
        if self.waiting_rows:
            parts.append(f"{self.waiting_rows:,} waiting")
        if self.behind_records:
            parts.append(f"behind {self.behind_records:,} records")
        return " · ".join(parts)


def count(number: int, noun: str) -> str:
    """`1 gap`, `2,000 gaps`: any noun that a message counts, with an s for the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Policies:
    """What decides when a partition's rows are published and committed."""

    rule: CommitRule
    rolling: RollingPolicy
    watermark: WatermarkPolicy
    own_rolling: bool = False
    """The user's own class decides when rows are rolled."""
    names: FromPatterns | None = None
    """What the table's time patterns make of a time, whatever commits its partitions."""
    check: timedelta = timedelta(0)
    """How often a job looks for what is due."""


def why_open(  # noqa: PLR0911  a sentence each
    key: PartitionKey,
    bucket: OpenBucket | None,
    mark: Watermark | None,
    now: datetime,
    policies: Policies,
    *,
    at: datetime,
    has_record: bool,
) -> str:
    """For a partition without a bucket too, which has had no rows yet. `now` is UTC, `at` the newest epoch's time."""
    rule = policies.rule
    end = rule.end(key)
    if end is not None and not (has_record and mark is not None and mark.has_passed(end)):
        if mark is None or mark.at is None or not mark.has_passed(end):
            reason = _reason(mark, end, now, policies, at=at, is_empty=not (bucket or has_record))
            reached = "not known yet" if mark is None or mark.at is None else _time(mark.at)
            return f"it is over at {_time(end)}, the watermark is {reached}; {reason}"
        return f"the watermark ({_time(mark.at)}) has passed its end: the job commits it next"
    if rule.is_unknown(key):
        return "no time can be read from its values by the table's partition.time-extractor settings: never committed"
    if bucket is None:
        return "it has had no rows yet" + ("" if rule.clock else "; with the trigger process-time only rows commit it")
    if rule.holds(key) and not has_record:
        due = max(bucket.first + rule.delay, now) + policies.check
        return f"it is committed by {_time(due)} while a job runs: {_length(rule.delay)} after its first row"
    policy = policies.rolling
    if policy.at_once or not bucket.slices:
        return "a job publishes and commits it next"
    if policies.own_rolling:
        return f"{bucket.rows} rows wait to be rolled by your sink.rolling-policy.class"
    due = max(min(bucket.first + policy.rollover, bucket.last + policy.inactivity), now) + policies.check
    return f"{bucket.rows} rows wait to be rolled, by {_time(due)} while a job runs"


def _reason(  # noqa: PLR0911  a sentence each
    mark: Watermark | None, end: datetime, now: datetime, policies: Policies, *, at: datetime, is_empty: bool
) -> str:
    """Why the watermark hasn't passed `end`."""
    if mark is None:
        return "no batch has had a watermark (Spark's begins once each source with withWatermark has had rows)"
    times = {name: time for name, time in mark.newest.items() if time is not None}
    if mark.newest and not times:
        return "no row has had an event time yet, so the watermark doesn't advance"
    policy = policies.watermark
    silent = mark.newest.keys() - times.keys()
    if names := sorted(name for name in silent if now - mark.quiet.get(name, at) < policy.idle):
        return f"{', '.join(names)} has had no event time yet, and holds it back for {_length(policy.idle)} at most"
    # A partition that is further behind has been idle.
    led = sorted(name for name, time in times.items() if mark.at is not None and time - mark.at == policy.delay)
    if len(mark.newest) > 1 and led:
        return f"it follows {led[0]}, whose newest time is {_time(times[led[0]])}"
    if end > now:
        zone = policies.rule.clock.zone.key if policies.rule.clock else "UTC"
        return f"by the clock that is still to come; its time is read in the zone {zone}"
    if is_empty:
        return "only the next batch shows whether it is over"
    goes_on = f"if no records come, it goes on by the clock once a job has waited for input for {_length(policy.idle)}"
    return f"{goes_on}, unless the query keeps rows back"


def _length(length: timedelta) -> str:
    """Rounded up to seconds: `0:02:44`."""
    return str(timedelta(seconds=-(-length // timedelta(seconds=1))))


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
