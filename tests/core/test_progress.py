"""A query's progress as a line, and why a partition is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hivesink.core.manifest import OpenBucket, Slice
from hivesink.core.partition_commit import CommitRule, FromTemplate, PartitionClock, Watermark, WatermarkPolicy
from hivesink.core.progress import Policies, Progress, why_open
from hivesink.core.rolling import RollingPolicy

ALL = Progress(
    rows=27004,
    rows_per_second=4511.6,
    epochs=3,
    partitions=1,
    rejected=2,
    waiting_rows=9000,
    behind_records=1200,
)


def test_a_line_has_all_that_is_known() -> None:
    assert str(ALL) == (
        "27,004 rows (4,512/s) · 3 epochs · 1 partition · 2 rejected · 9,000 waiting · behind 1,200 records"
    )


def test_what_nobody_knows_is_left_out() -> None:
    assert str(Progress()) == "0 rows · 0 epochs · 0 partitions · 0 rejected"
    assert "behind" not in str(Progress(behind_records=0))


KEY = ("demo.events", "dt=2024-01-02 03")
HOUR = timedelta(hours=1)
FIRST = datetime(2024, 1, 2, 3, 10, tzinfo=timezone.utc)
NOW = datetime(2024, 1, 2, 5, 30, tzinfo=timezone.utc)
END = datetime(2024, 1, 2, 4, tzinfo=timezone.utc)
HELD = CommitRule("demo.events", PartitionClock(FromTemplate("$dt:00:00"), HOUR, ZoneInfo("UTC")))
DELAYED = CommitRule("demo.events", None, timedelta(minutes=30))
FREE = CommitRule("demo.events")
ROLLING = RollingPolicy(2**27, HOUR, timedelta(minutes=10), 2**30)
WAITS = OpenBucket.of((Slice("1-00112233aat0-0.arrow", 0, 9, 5),), FIRST, FIRST)
PUBLISHED = replace(WAITS.only(), published=7, files=2)


BEHIND = Watermark(FIRST, {"": FIRST})
LATE = timedelta(minutes=3)
IDLE = Watermark(FIRST, {"t-0": FIRST, "t-1": None}, {"t-1": NOW - timedelta(minutes=6)})
FOLLOWS = {"t-0": END + HOUR, "t-1": FIRST}
OVER = "it is over at 2024-01-02 04:00:00 UTC, the watermark is {}; {}"
UNKNOWN, KNOWN = "not known yet", "2024-01-02 03:10:00 UTC"
NO_TIME = OVER.format(UNKNOWN, "no row has had an event time yet, so the watermark doesn't advance")
BY_CLOCK = "if no records come, it goes on by the clock once a job has waited for input for 0:05:00"
TO_COME = "by the clock that is still to come; its time is read in the zone UTC"
NEXT_BATCH = "only the next batch shows whether it is over"
ROLLED = "5 rows wait to be rolled, by 2024-01-02 {} UTC while a job runs"
NEXT = "a job publishes and commits it next"
HOLDS = OVER.format(UNKNOWN, "t-1 has had no event time yet, and holds it back for 0:05:00 at most")
NO_MARK = "no batch has had a watermark (Spark's begins once each source with withWatermark has had rows)"


def delayed(seconds: float) -> CommitRule:
    return replace(DELAYED, delay=timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("rule", "bucket", "mark", "more", "wanted"),
    [
        # Nothing holds it, or its end has been.
        (FREE, None, None, {}, "it has had no rows yet; with the trigger process-time only rows commit it"),
        (FREE, WAITS, None, {"now": FIRST}, ROLLED.format("03:20:10")),
        (DELAYED, WAITS, None, {"now": FIRST, "has_record": True}, ROLLED.format("03:20:10")),
        (FREE, WAITS, None, {"has_record": True}, ROLLED.format("05:30:10")),  # a time that has passed is no promise
        (HELD, WAITS, Watermark(END), {"has_record": True}, "5 rows wait to be rolled, by "),
        (FREE, WAITS, None, {"own": True}, "5 rows wait to be rolled by your sink.rolling-policy.class"),
        (FREE, WAITS, None, {"at_once": True}, NEXT),
        (FREE, PUBLISHED, None, {}, NEXT),
        # It waits for its delay.
        (delayed(1800), WAITS, None, {}, " UTC while a job runs: 0:30:00 after its first row"),
        (delayed(163.6), WAITS, None, {}, " while a job runs: 0:02:44 after its first row"),
        (delayed(86_400), WAITS, None, {}, " while a job runs: 1 day, 0:00:00 after its first row"),
        (DELAYED, WAITS, None, {}, "it is committed by 2024-01-02 05:30:10 UTC"),
        # It waits for the watermark.
        (
            HELD,
            WAITS,
            Watermark(END),
            {},
            "the watermark (2024-01-02 04:00:00 UTC) has passed its end: the job commits",
        ),
        (HELD, WAITS, None, {}, OVER.format(UNKNOWN, NO_MARK)),
        (HELD, WAITS, Watermark(None, {"": None}), {}, NO_TIME),
        (HELD, WAITS, Watermark(None, {"t-0": None, "t-1": None}), {}, NO_TIME),
        (HELD, WAITS, Watermark(None, {"t-0": FIRST, "t-1": None}), {}, HOLDS),
        (
            HELD,
            WAITS,
            Watermark(FIRST, {"t-0": END, "t-1": FIRST, "t-2": FIRST - HOUR}),
            {},
            f"t-1, whose newest time is {KNOWN}",
        ),
        (HELD, WAITS, BEHIND, {}, OVER.format(KNOWN, BY_CLOCK)),
        # Once no input comes any more, t-0 has shown that the partition is over.
        (HELD, WAITS, Watermark(FIRST - HOUR, FOLLOWS), {}, BY_CLOCK),
        (HELD, WAITS, IDLE, {}, OVER.format(KNOWN, "it follows t-0")),
        (HELD, WAITS, Watermark(FIRST - LATE, FOLLOWS), {"late": LATE}, "it follows t-1"),
        (HELD, WAITS, Watermark(FIRST - LATE, {"": FIRST}), {"late": LATE}, BY_CLOCK),
        # An end that is still to come is no fault of the source's.
        (HELD, WAITS, BEHIND, {"now": FIRST}, OVER.format(KNOWN, TO_COME)),
        (HELD, None, BEHIND, {"now": FIRST}, OVER.format(KNOWN, TO_COME)),
        # Nothing tells an outage from a silent hour.
        (HELD, None, BEHIND, {}, OVER.format(KNOWN, NEXT_BATCH)),
        # A record of other settings is of before its end.
        *((HELD, bucket, BEHIND, {"has_record": True}, OVER.format(KNOWN, "")) for bucket in (WAITS, PUBLISHED, None)),
    ],
)
def test_why_a_partition_is_open(
    rule: CommitRule, bucket: OpenBucket | None, mark: Watermark | None, more: dict[str, Any], wanted: str
) -> None:
    now = more.get("now", NOW)
    watermark = WatermarkPolicy(more.get("late", timedelta(0)), timedelta(minutes=5))
    rolling = replace(ROLLING, at_once="at_once" in more)
    # What is due is seen at the next look.
    policies = Policies(rule, rolling, watermark, own_rolling="own" in more, check=timedelta(seconds=10))
    assert wanted in why_open(KEY, bucket, mark, now, policies, at=now, has_record="has_record" in more)
