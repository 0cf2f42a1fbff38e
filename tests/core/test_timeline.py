"""Partitions in the order of time, and what is missing between them."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.bucket import TimePattern
from hivesink.core.partition_time import FromPatterns, FromTemplate
from hivesink.core.timeline import TimeReading, timeline

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = TimeReading(FromTemplate("$dt"), None, ZoneInfo("UTC"))
HOURS = TimeReading(FromPatterns((("dt", TimePattern.parse("yyyy-MM-dd--HH")),)), "hour", BERLIN)
START = datetime(2024, 1, 1)  # noqa: DTZ001  a wall clock


def gaps(reading: TimeReading, *partitions: str) -> dict[str, str]:
    return {after: gap.text for after, gap in timeline(partitions, reading).gaps.items()}


def test_a_day_between_two_is_missing() -> None:
    found = gaps(DAYS, "dt=2024-01-05", "dt=2024-01-01", "dt=2024-01-03", "dt=2024-01-02")
    assert found == {"dt=2024-01-05": "1 day missing: 2024-01-04"}


def test_a_month_of_hours_is_one_gap() -> None:
    found = gaps(HOURS, "dt=2024-01-31--22", "dt=2024-02-01--01", "dt=2024-02-01--02")
    assert found == {"dt=2024-02-01--01": "2 hours missing: 2024-01-31 23:00 to 2024-02-01 00:00"}


def test_months_are_no_days() -> None:
    assert gaps(DAYS, "dt=2024-01-01", "dt=2024-02-01", "dt=2024-05-01") == {
        "dt=2024-05-01": "2 months missing: 2024-03 to 2024-04"
    }


def test_an_hour_that_clocks_skip_is_not_missing() -> None:
    assert gaps(HOURS, "dt=2024-03-31--01", "dt=2024-03-31--03") == {}
    assert gaps(HOURS, "dt=2024-03-31--00", "dt=2024-03-31--03") == {
        "dt=2024-03-31--03": "1 hour missing: 2024-03-31 01:00"
    }


def test_a_gap_of_centuries_is_not_counted_to_its_end() -> None:
    found = timeline(["dt=0001-01-01--00", "dt=9999-12-31--23"], HOURS).gaps["dt=9999-12-31--23"]
    assert (found.count, found.last) == (None, None)
    assert found.text == "over 10000 hours missing, from 0001-01-01 01:00"


@pytest.mark.parametrize("reading", [DAYS, None])
def test_what_has_no_time_comes_first_and_numbers_are_numbers(reading: TimeReading | None) -> None:
    names = ["n=10", "n=9", "n=__HIVE_DEFAULT_PARTITION__", "n=b", "n=a"]
    line = timeline(names, reading)
    assert line.order == ("n=__HIVE_DEFAULT_PARTITION__", "n=9", "n=10", "n=a", "n=b")
    assert not line.times
    assert not line.gaps


def test_a_table_without_partitions_and_one_without_any() -> None:
    assert timeline([""], None).order == ("",)
    assert timeline([], DAYS).order == ()


def test_several_partitions_of_a_day_make_no_gap() -> None:
    assert gaps(DAYS, "b=x/dt=2024-01-01", "b=y/dt=2024-01-01", "b=x/dt=2024-01-02") == {}


@given(st.sets(st.integers(0, 60), min_size=1))
def test_partitions_and_gaps_together_are_the_whole_time(days: set[int]) -> None:
    names = [f"dt={START + timedelta(days=day):%Y-%m-%d}" for day in days]
    line = timeline(names, TimeReading(FromTemplate("$dt"), "day", ZoneInfo("UTC")))
    assert list(line.order) == sorted(names)
    missing = sum(gap.count or 0 for gap in line.gaps.values())
    assert len(days) + missing == max(days) - min(days) + 1
