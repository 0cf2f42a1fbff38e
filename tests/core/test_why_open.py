"""Each sentence says what is true in the state in which it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from hivesink.core.partition_commit import CommitRule
from hivesink.core.partition_time import FromTemplate, PartitionClock
from hivesink.core.records import OpenBucket, Slice
from hivesink.core.roll_policy import RollingPolicy
from hivesink.core.watermark import Watermark, WatermarkPolicy
from hivesink.core.why_open import Policies, why_open

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
PUBLISHED = replace(WAITS.rolled(), published=7, files=2)


def told(
    rule: CommitRule,
    bucket: OpenBucket | None,
    mark: Watermark | None = None,
    *,
    rolling: RollingPolicy = ROLLING,
    now: datetime = NOW,
    has_record: bool = False,
    late: timedelta = timedelta(0),
    at: datetime | None = None,
    own: bool = False,
) -> str:
    policies = Policies(rule, rolling, WatermarkPolicy(late, timedelta(minutes=5)), own_rolling=own)
    return why_open(KEY, bucket, mark, now, policies, at=at or now, has_record=has_record)


def test_without_rows_or_an_end_nothing_else_is_known() -> None:
    assert told(FREE, None) == "it has had no rows yet; with the trigger process-time only rows commit it"


@pytest.mark.parametrize(("rule", "has_record"), [(FREE, False), (DELAYED, True), (FREE, True)])
def test_rows_that_nothing_holds_are_rolled_by_the_policys_times(rule: CommitRule, *, has_record: bool) -> None:
    early = told(rule, WAITS, now=FIRST, has_record=has_record)
    assert early == "5 rows wait to be rolled, by 2024-01-02 03:20:00 UTC while a job runs"
    # A time that has passed is no promise.
    assert "by 2024-01-02 05:30:00 UTC while a job runs" in told(rule, WAITS, has_record=has_record)


def test_late_rows_are_rolled_too() -> None:
    assert told(HELD, WAITS, Watermark(END), has_record=True).startswith("5 rows wait to be rolled")


def test_a_policy_of_the_users_own_has_no_time() -> None:
    assert told(FREE, WAITS, own=True) == "5 rows wait to be rolled by your sink.rolling-policy.class"


def test_rows_of_before_on_epoch_are_next() -> None:
    said = told(FREE, WAITS, rolling=replace(ROLLING, at_once=True))
    assert said == "5 rows wait since sink.rolling-policy.on-epoch was false: a job publishes them next"


def test_published_rows_that_nothing_holds_any_more_are_committed_next() -> None:
    assert told(FREE, PUBLISHED) == "none of its rows wait: a job commits it next"


def test_a_delay_ends_after_the_first_row_or_now() -> None:
    assert told(DELAYED, WAITS, now=FIRST) == (
        "it is committed at 2024-01-02 03:40:00 UTC while a job runs: 30 min after its first row"
    )
    assert told(DELAYED, WAITS).startswith("it is committed at 2024-01-02 05:30:00 UTC")


def test_no_watermark_at_all() -> None:
    assert "there is no watermark: none of the job's batches has had one yet" in told(HELD, WAITS)


def test_a_watermark_that_has_passed() -> None:
    said = "the watermark (2024-01-02 04:00:00 UTC) has passed its end: the job commits it next"
    assert told(HELD, WAITS, Watermark(END)) == said


@pytest.mark.parametrize("names", [{"": None}, {"t-0": None, "t-1": None}])
def test_rows_without_times_advance_nothing(names: dict[str, None]) -> None:
    said = told(HELD, WAITS, Watermark(None, names))
    assert said.endswith("is not known yet; no row has had an event time yet, and without one it doesn't advance")
    assert "if no records come" not in said


def test_a_source_without_times_holds_it_back_until_it_is_idle() -> None:
    said = told(HELD, WAITS, Watermark(None, {"t-0": FIRST, "t-1": None}))
    assert "t-1 has had no event time yet, and holds it back for 5 min at most" in said
    quiet = Watermark(FIRST, {"t-0": FIRST, "t-1": None}, {"t-1": NOW - timedelta(minutes=6)})
    assert "t-1" not in told(HELD, WAITS, quiet)


def test_only_the_source_that_the_watermark_follows_is_named() -> None:
    newest = {"t-0": END + HOUR, "t-1": FIRST, "t-2": FIRST - HOUR}
    late = timedelta(minutes=1)
    said = told(HELD, WAITS, Watermark(FIRST - late, newest), late=late)
    assert "it follows t-1, whose newest time is 2024-01-02 03:10:00 UTC" in said
    idle = told(HELD, WAITS, Watermark(FIRST + late, newest), late=late)
    assert "it follows" not in idle


def test_an_end_that_is_still_to_come_is_no_fault_of_the_sources() -> None:
    said = told(HELD, WAITS, Watermark(FIRST, {"": FIRST}), now=FIRST)
    assert said.endswith("by the clock that is still to come; its time is read in the zone UTC")
    assert told(HELD, None, Watermark(FIRST, {"": FIRST}), now=FIRST) == said
    empty = told(HELD, None, Watermark(FIRST, {"": FIRST}))
    assert empty.endswith("it has had no rows: the next batch shows whether it is over")
    held = told(HELD, WAITS, Watermark(FIRST, goes_on=False))
    assert held.endswith("only the stream's batches advance it: the query keeps rows for later")
    past = told(HELD, WAITS, Watermark(FIRST, {"": FIRST}))
    by_clock = "if no records come while a job runs, it is over by the clock "
    assert past.endswith(f"{by_clock}at 2024-01-02 06:25:00 UTC")
    went_on = told(HELD, WAITS, Watermark(FIRST, {"": FIRST}, clock=END - timedelta(minutes=10)))
    assert went_on.endswith(f"{by_clock}at 2024-01-02 05:45:00 UTC")
    ended = told(HELD, WAITS, Watermark(FIRST, {"": FIRST}), at=FIRST)
    assert ended.endswith(f"{by_clock}once a job has waited for input for 55 min at most")
    delayed = told(HELD, WAITS, Watermark(FIRST, {"": FIRST}), late=timedelta(minutes=3))
    assert delayed.endswith(f"{by_clock}at 2024-01-02 06:28:00 UTC")


def test_a_newest_time_beyond_the_end_leaves_the_silence_alone_to_wait_for() -> None:
    """t-1 holds the watermark back; once no input comes any more, t-0 has shown that the partition is over."""
    ahead = Watermark(FIRST, {"t-0": END + 3 * HOUR + timedelta(seconds=7.2), "t-1": FIRST})
    by_clock = "if no records come while a job runs, it is over by the clock "
    assert told(HELD, WAITS, ahead, at=FIRST).endswith(f"{by_clock}once a job has waited for input for 5 min at most")
    assert told(HELD, WAITS, ahead).endswith(f"{by_clock}at 2024-01-02 05:35:00 UTC")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(163.6, "2 min 44 s"), (3599.5, "1 h"), (90_061, "1 d 1 h 1 min 1 s"), (0.2, "1 s"), (86_400, "1 d")],
)
def test_lengths_are_rounded_up_to_seconds(seconds: float, text: str) -> None:
    delayed = replace(DELAYED, delay=timedelta(seconds=seconds))
    assert told(delayed, WAITS).endswith(f" while a job runs: {text} after its first row")


def test_a_record_of_other_settings_is_of_before_its_end() -> None:
    for bucket in (WAITS, PUBLISHED, None):
        said = told(HELD, bucket, Watermark(FIRST, {"": FIRST}), has_record=True)
        assert said.startswith("it is over at 2024-01-02 04:00:00 UTC, the watermark is 2024-01-02 03:10:00 UTC")
