"""Why a partition isn't committed yet, and when it will be, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.core.watermark import behind, latest

if TYPE_CHECKING:
    from datetime import datetime

    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_commit import CommitRule
    from hivesink.core.partition_time import FromPatterns
    from hivesink.core.records import OpenBucket
    from hivesink.core.roll_policy import RollingPolicy
    from hivesink.core.watermark import Watermark, WatermarkPolicy


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


def why_open(
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
        return _before(end, mark, now, policies, at=at, is_empty=not (bucket or has_record))
    if rule.is_unknown(key):
        return "no time can be read from its values by the table's partition.time-extractor settings: never committed"
    if bucket is None:
        return "it has had no rows yet" + ("" if rule.clock else "; with the trigger process-time only rows commit it")
    if has_record or not rule.holds(key):
        return _unheld(bucket, policies, now)
    due = max(bucket.first + rule.delay, now)
    return f"it is committed at {_time(due)} while a job runs: {_length(rule.delay)} after its first row"


def _unheld(bucket: OpenBucket, policies: Policies, now: datetime) -> str:
    policy = policies.rolling
    if not bucket.slices:
        return "none of its rows wait: a job commits it next"
    if policy.at_once:
        return f"{bucket.rows} rows wait since sink.rolling-policy.on-epoch was false: a job publishes them next"
    if policies.own_rolling:
        return f"{bucket.rows} rows wait to be rolled by your sink.rolling-policy.class"
    due = min(bucket.first + policy.rollover, bucket.last + policy.inactivity)
    return f"{bucket.rows} rows wait to be rolled, by {_time(max(due, now))} while a job runs"


def _before(
    end: datetime, mark: Watermark | None, now: datetime, policies: Policies, *, at: datetime, is_empty: bool
) -> str:
    if mark is None:
        return (
            f"it is over at {_time(end)}, and there is no watermark: none of the job's batches has had one yet "
            "(Spark's begins once each source with withWatermark has had rows)"
        )
    if mark.at is not None and mark.has_passed(end):
        return f"the watermark ({_time(mark.at)}) has passed its end: the job commits it next"
    told = f"it is over at {_time(end)}, the watermark is " + ("not known yet" if mark.at is None else _time(mark.at))
    return "; ".join([told, *_reasons(mark, end, now, policies, at=at, is_empty=is_empty)])


def _reasons(
    mark: Watermark, end: datetime, now: datetime, policies: Policies, *, at: datetime, is_empty: bool
) -> list[str]:
    reasons, policy, rule = [], policies.watermark, policies.rule
    times = {name: time for name, time in mark.newest.items() if time is not None}
    if mark.newest and not times:
        return ["no row has had an event time yet, and without one it doesn't advance"]
    heard = {name: mark.quiet.get(name, at) for name in mark.newest}
    silent = sorted(name for name in mark.newest.keys() - times.keys() if now - heard[name] < policy.idle)
    # One that is behind has been idle.
    led = sorted(name for name, time in times.items() if mark.at is not None and time - mark.at == policy.delay)
    if silent:
        reasons.append(
            f"{', '.join(silent)} has had no event time yet, and holds it back for {_length(policy.idle)} at most"
        )
    elif len(mark.newest) > 1 and led:
        reasons.append(f"it follows {led[0]}, whose newest time is {_time(times[led[0]])}")
    if end > now:
        zone = rule.clock.zone.key if rule.clock else "UTC"
        reasons.append(f"by the clock that is still to come; its time is read in the zone {zone}")
    elif not mark.goes_on:
        reasons.append("only the stream's batches advance it: the query keeps rows for later")
    elif is_empty:
        # Nothing tells an outage from a silent hour.
        reasons.append("it has had no rows: the next batch shows whether it is over")
    else:
        start = latest(behind(max(times.values()), policy) if times else mark.at, mark.clock) or end
        # Of a time beyond its end only the silence is missing.
        wait = policy.idle + max(timedelta(0), end - max(start, mark.at or start))
        due = max(heard.values(), default=at) + policy.idle + max(timedelta(0), end - start)
        moment = f"at {_time(due)}" if due > now else f"once a job has waited for input for {_length(wait)} at most"
        reasons.append(f"if no records come while a job runs, it is over by the clock {moment}")
    return reasons


def _length(length: timedelta) -> str:
    """Rounded up to seconds: `2 min 44 s`."""
    seconds = -(-length // timedelta(seconds=1))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    bounds = (seconds + 1, *(size for _, size in units))
    counts = ((seconds % bound // size, unit) for bound, (unit, size) in zip(bounds, units, strict=False))
    return " ".join(f"{count} {unit}" for count, unit in counts if count) or "0 s"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
