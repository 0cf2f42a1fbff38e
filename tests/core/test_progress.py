"""A query's progress as a line and as a notebook's table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from hivesink.core.partition_commit import CommitRule, Watermark, WatermarkPolicy
from hivesink.core.partition_time import FromTemplate, PartitionClock
from hivesink.core.progress import Policies, Progress, why_open
from hivesink.core.records import OpenBucket, Slice
from hivesink.core.rolling import RollingPolicy

ALL = Progress(
    rows=27004,
    rows_per_second=4511.6,
    epochs=3,
    partitions=1,
    rejected=2,
    waiting_rows=9000,
    readable_in=timedelta(seconds=45),
    behind_records=1200,
)


def test_one_line_has_all_that_is_known() -> None:
    assert str(ALL) == (
        "27,004 rows (4,512/s) · 3 epochs · 1 partition · 2 rejected · 9,000 waiting, readable within 45 s"
        " · behind 1,200 records"
    )


def test_what_nobody_knows_is_left_out() -> None:
    assert str(Progress()) == "0 rows · 0 epochs · 0 partitions · 0 rejected"
    assert "behind" not in Progress()._repr_html_()


def test_what_is_unknown_of_the_source_is_left_out() -> None:
    assert "behind" not in str(Progress(behind_records=0))


def test_a_notebooks_table_has_a_row_for_each_field() -> None:
    html = ALL._repr_html_()
    assert html.count("<tr>") == 8
    assert "<tr><th>readable in</th><td>45 s</td></tr>" in html
    assert "<tr><th>behind records</th><td>1,200</td></tr>" in html


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


@pytest.mark.parametrize("bucket", [WAITS, PUBLISHED])
def test_what_nothing_holds_any_more_is_next(bucket: OpenBucket) -> None:
    assert told(FREE, bucket, rolling=replace(ROLLING, at_once=True)) == "a job publishes and commits it next"


@pytest.mark.parametrize(("seconds", "text"), [(1800, "0:30:00"), (163.6, "0:02:44"), (86_400, "1 day, 0:00:00")])
def test_a_delay_ends_after_the_first_row(seconds: float, text: str) -> None:
    said = told(replace(DELAYED, delay=timedelta(seconds=seconds)), WAITS)
    assert said.endswith(f" while a job runs: {text} after its first row")


def test_a_delay_that_has_passed_ends_now() -> None:
    assert told(DELAYED, WAITS).startswith("it is committed at 2024-01-02 05:30:00 UTC")


def test_a_watermark_that_has_passed() -> None:
    said = "the watermark (2024-01-02 04:00:00 UTC) has passed its end: the job commits it next"
    assert told(HELD, WAITS, Watermark(END)) == said


BEHIND = Watermark(FIRST, {"": FIRST})
NO_TIME = "no row has had an event time yet, so the watermark doesn't advance"
BY_CLOCK = "if no records come, it is over by the clock once a job has waited for input for {} at most"
TO_COME = "by the clock that is still to come; its time is read in the zone UTC"


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (
            None,
            "no batch has had a watermark (Spark's begins once each source with withWatermark has had rows)",
        ),
        (Watermark(None, {"": None}), NO_TIME),
        (Watermark(None, {"t-0": None, "t-1": None}), NO_TIME),
        (
            Watermark(None, {"t-0": FIRST, "t-1": None}),
            "t-1 has had no event time yet, and holds it back for 0:05:00 at most",
        ),
        (
            Watermark(FIRST, {"t-0": END, "t-1": FIRST, "t-2": FIRST - HOUR}),
            "it follows t-1, whose newest time is 2024-01-02 03:10:00 UTC",
        ),
        (Watermark(FIRST, goes_on=False), "only the next batch shows whether it is over"),
        (BEHIND, BY_CLOCK.format("0:55:00")),
        (replace(BEHIND, clock=END - timedelta(minutes=10)), BY_CLOCK.format("0:15:00")),
        # Once no input comes any more, t-0 has shown that the partition is over.
        (Watermark(FIRST - HOUR, {"t-0": END + HOUR, "t-1": FIRST}), BY_CLOCK.format("0:05:00")),
    ],
)
def test_what_the_watermark_waits_for(mark: Watermark | None, reason: str) -> None:
    at = "2024-01-02 03:10:00 UTC" if mark and mark.at == FIRST else ""
    said = told(HELD, WAITS, mark)
    assert said.startswith(f"it is over at 2024-01-02 04:00:00 UTC, the watermark is {at}")
    assert said.endswith(f"; {reason}")


def test_a_source_that_is_idle_holds_nothing_back() -> None:
    quiet = Watermark(FIRST, {"t-0": FIRST, "t-1": None}, {"t-1": NOW - timedelta(minutes=6)})
    assert "t-1" not in told(HELD, WAITS, quiet)


def test_a_delay_of_the_watermark_counts() -> None:
    late = timedelta(minutes=3)
    newest = {"t-0": END + HOUR, "t-1": FIRST}
    assert "it follows t-1" in told(HELD, WAITS, Watermark(FIRST - late, newest), late=late)
    assert told(HELD, WAITS, Watermark(FIRST - late, {"": FIRST}), late=late).endswith(BY_CLOCK.format("0:58:00"))


@pytest.mark.parametrize("bucket", [WAITS, None])
def test_an_end_that_is_still_to_come_is_no_fault_of_the_sources(bucket: OpenBucket | None) -> None:
    assert told(HELD, bucket, BEHIND, now=FIRST).endswith(TO_COME)


def test_nothing_tells_an_outage_from_a_silent_hour() -> None:
    assert told(HELD, None, BEHIND).endswith("only the next batch shows whether it is over")


@pytest.mark.parametrize("bucket", [WAITS, PUBLISHED, None])
def test_a_record_of_other_settings_is_of_before_its_end(bucket: OpenBucket | None) -> None:
    said = told(HELD, bucket, BEHIND, has_record=True)
    assert said.startswith("it is over at 2024-01-02 04:00:00 UTC, the watermark is 2024-01-02 03:10:00 UTC")
