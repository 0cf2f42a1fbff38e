"""Partition times: Flink's extractor, the ends of partitions where clocks are set, and where the watermark is."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition import partition_path
from hivesink.core.partition_commit import FromPatterns, FromTemplate, PartitionClock, Watermark, WatermarkPolicy
from hivesink.core.time_format import TimePattern

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
HOURS = FromPatterns((("dt", TimePattern.parse("yyyy-MM-dd--HH")),))


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("partition", "end"),
    [
        # 2024-10-27: 02:00 to 03:00 comes twice, and the partition of that hour holds both.
        ("dt=2024-10-27--01", utc(2024, 10, 27, 0)),
        ("dt=2024-10-27--02", utc(2024, 10, 27, 2)),
        ("dt=2024-10-27--03", utc(2024, 10, 27, 3)),
        # 2024-03-31: 02:00 to 03:00 doesn't exist.
        ("dt=2024-03-31--01", utc(2024, 3, 31, 1)),
        ("dt=2024-03-31--02", utc(2024, 3, 31, 1)),
        ("dt=2024-03-31--03", utc(2024, 3, 31, 2)),
    ],
)
def test_hours_around_daylight_saving(partition: str, end: datetime) -> None:
    assert PartitionClock(HOURS, "hour", BERLIN).end(partition) == end


def test_a_day_has_25_hours_and_23() -> None:
    clock = PartitionClock(FromTemplate("$dt"), timedelta(days=1), BERLIN)
    ends = [clock.end(f"dt={day}") for day in ("2024-10-26", "2024-10-27", "2024-03-30", "2024-03-31")]
    hours = [(after - before).total_seconds() / 3600 for before, after in itertools.pairwise(ends) if before and after]
    assert (hours[0], hours[2]) == (25, 23)


@given(st.integers(0, 366 * 1440), st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe"]))
def test_no_row_of_a_partition_is_later_than_its_end_and_one_is_just_before(minute: int, key: str) -> None:
    zone, pattern = ZoneInfo(key), TimePattern.parse("yyyy-MM-dd--HH")
    at = utc(2024, 1, 1) + timedelta(minutes=minute)
    partition = f"dt={pattern.format(at.astimezone(zone))}"
    end = PartitionClock(HOURS, "hour", zone).end(partition)
    assert end is not None
    assert at < end
    assert partition == f"dt={pattern.format((end - timedelta(microseconds=1)).astimezone(zone))}"


@pytest.mark.parametrize(
    ("patterns", "values", "end"),
    [
        ({"y": "yyyy", "m": "MM"}, ["2024", "12"], utc(2025, 1, 1)),
        ({"y": "yyyy"}, ["2023"], utc(2024, 1, 1)),
        ({"dt": "yyyy-MM-dd", "hour": "HH"}, ["2024-02-29", "7"], utc(2024, 2, 29, 8)),
        ({"y": "yyyy", "d": "MM-dd"}, ["2024", "02-29"], utc(2024, 3, 1)),
        ({"dt": "yyyyMMdd'T'HHmm"}, ["20240102T0304"], utc(2024, 1, 2, 3, 5)),
        ({"dt": "yyyy-MM-dd"}, [None], None),
        ({"dt": "yyyy-MM-dd"}, ["never"], None),
        ({"y": "yyyy"}, ["9999"], None),
    ],
)
def test_values_of_bucket_patterns(patterns: dict[str, str], values: list[str | None], end: datetime | None) -> None:
    extractor = FromPatterns(tuple((name, TimePattern.parse(text)) for name, text in patterns.items()))
    assert extractor.problem is None
    assert PartitionClock(extractor, extractor.unit, UTC).end(partition_path([*patterns], values)) == end


@pytest.mark.parametrize(("pattern", "problem"), [("MM-dd", "no year"), ("yyyy-MM-dd yyyy", "twice")])
def test_patterns_that_hold_no_time(pattern: str, problem: str) -> None:
    assert problem in str(FromPatterns((("dt", TimePattern.parse(pattern)),)).problem)


@pytest.mark.parametrize(
    ("template", "formatter", "partition", "start"),
    [
        ("$dt $hour:00:00", None, "dt=2024-01-02/hour=3", utc(2024, 1, 2, 3)),
        ("$DT", None, "dt=2024-01-02", utc(2024, 1, 2)),
        ("$dt", None, "dt=2024-01-02 03%3A04", utc(2024, 1, 2, 3, 4)),
        ("$y-$m-01", None, "y=2024/m=5", utc(2024, 5, 1)),
        ("$dt$hh", "yyyyMMddHH", "dt=20240102/hh=23", utc(2024, 1, 2, 23)),
        ("$dt", None, "dt=__HIVE_DEFAULT_PARTITION__", None),
        ("$dt", None, "dt=2024-13-02", None),
        ("$dt", None, "dt=0001-01-02", utc(1, 1, 2)),
        ("$dt", None, "no partition", None),
    ],
)
def test_flinks_timestamp_pattern(template: str, formatter: str | None, partition: str, start: datetime | None) -> None:
    extractor = FromTemplate(template, TimePattern.parse(formatter) if formatter else None)
    assert PartitionClock(extractor, timedelta(0), UTC).end(partition) == start


@pytest.mark.parametrize(
    ("template", "formatter", "can"),
    [
        ("$hour:00:00", None, False),
        ("$year-$month-$day", None, True),
        ("$day $hour", "yyyyMMdd HH", True),
        ("$day", "yyyyMMdd", True),
        ("$day", None, False),
    ],
)
def test_whether_numbers_can_make_a_time(template: str, formatter: str | None, can: bool) -> None:
    extractor = FromTemplate(template, TimePattern.parse(formatter) if formatter else None)
    assert extractor.reads(("1", "2024", "20240102")) is can


NOON = datetime(2024, 1, 2, 12, tzinfo=timezone.utc)
MINUTE, NONE = timedelta(minutes=1), timedelta(0)
POLICY = WatermarkPolicy(delay=MINUTE, idle=5 * MINUTE)


def seen(clock: int | None = None, **minutes: int | None) -> Watermark:
    newest = {name: None if past is None else NOON + past * MINUTE for name, past in minutes.items()}
    mark = Watermark().saw(newest, NOON + timedelta(days=1))
    return replace(mark, clock=None if clock is None else NOON + clock * MINUTE)


@pytest.mark.parametrize(
    ("mark", "silence", "reached"),
    [
        (seen(a=10, b=3), {"a": 0, "b": 0}, 2),  # the slowest decides
        (seen(a=10, b=None), {"a": 0, "b": 0}, None),  # one without rows holds it back until it is idle
        (seen(a=10, b=None), {"a": 0, "b": 5}, 9),
        (seen(a=10, b=3), {"a": 7, "b": 9}, 10 - 1 + 7 - 5),  # a stopped input goes on from its newest time
        (seen(a=10, b=10).reached({"a": NONE, "b": NONE}, POLICY).saw({"c": NOON}, NOON), {"a": 0, "b": 0, "c": 0}, 9),
        (Watermark().saw({"a": NOON + timedelta(days=9000)}, NOON), {"a": 0}, -1),  # a time in the future counts as now
        # Spark's own goes on too.
        (Watermark(NOON, clock=NOON), {"": 4}, 0),
        (Watermark(NOON, clock=NOON), {"": 8}, 3),
        (Watermark(), {"": 8}, None),
        # The clock goes on from where it was in silence only, and not while records come that are no rows.
        (seen(clock=30, a=10, b=3), {"a": 0, "b": 0}, 2),
        (seen(clock=30, a=10, b=3), {"a": 0, "b": 5}, 9),
        (seen(clock=30, a=10, b=3), {"a": 7, "b": 9}, 30 + 7 - 5),
        (seen(clock=30, a=10, b=3), {"a": 7, "b": 9, "": 1}, 9),
    ],
)
def test_where_the_watermark_is(mark: Watermark, silence: dict[str, int], reached: int | None) -> None:
    at = mark.reached({name: minutes * MINUTE for name, minutes in silence.items()}, POLICY).at
    assert at == (None if reached is None else NOON + reached * MINUTE)


Times = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 100).map(lambda past: NOON + past * MINUTE))


@given(st.lists(st.tuples(Times, st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)))))
def test_monotone_and_never_beyond_the_newest_time_while_rows_come(
    steps: list[tuple[dict[str, datetime | None], dict[str, int]]],
) -> None:
    mark = Watermark()
    for newest, ages in steps:
        before, mark = mark.at, mark.saw(newest, NOON + timedelta(days=1))
        idle = {name: ages.get(name, 0) * MINUTE for name in mark.newest}
        mark = mark.reached(idle, POLICY)
        assert before is None or (mark.at is not None and mark.at >= before)
        known = [time for time in mark.newest.values() if time]
        if mark.at is not None and mark.at != before:
            assert mark.at <= max(known) + 4 * MINUTE
