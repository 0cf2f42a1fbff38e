"""The watermark: the slowest partition decides, idle ones don't, and a stopped input goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition_commit import Watermark, WatermarkPolicy

NOON = datetime(2024, 1, 2, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
POLICY = WatermarkPolicy(delay=MINUTE, idle=5 * MINUTE)
FRESH = {"t-0": timedelta(0), "t-1": timedelta(0)}


def seen(**minutes: int | None) -> Watermark:
    newest = {name.replace("_", "-"): None if past is None else NOON + past * MINUTE for name, past in minutes.items()}
    return Watermark().saw(newest, NOON + timedelta(days=1))


def test_the_slowest_partition_decides() -> None:
    assert seen(t_0=10, t_1=3).reached(FRESH, POLICY).at == NOON + 2 * MINUTE


def test_a_partition_without_rows_holds_it_back_until_it_is_idle() -> None:
    mark = seen(t_0=10, t_1=None)
    assert mark.reached(FRESH, POLICY).at is None
    assert mark.reached(FRESH | {"t-1": 5 * MINUTE}, POLICY).at == NOON + 9 * MINUTE


def test_a_stopped_input_goes_on_from_its_newest_time() -> None:
    mark = seen(t_0=10, t_1=3)
    idle = {"t-0": 7 * MINUTE, "t-1": 9 * MINUTE}
    assert mark.reached(idle, POLICY).at == NOON + (10 - 1 + 7 - 5) * MINUTE


def test_it_never_goes_back() -> None:
    mark = seen(t_0=10, t_1=10).reached(FRESH, POLICY)
    assert mark.saw({"t-2": NOON}, NOON).reached(FRESH | {"t-2": timedelta(0)}, POLICY).at == NOON + 9 * MINUTE


def test_a_time_in_the_future_counts_as_now() -> None:
    mark = Watermark().saw({"t-0": NOON + timedelta(days=9000)}, NOON)
    assert mark.reached({"t-0": timedelta(0)}, POLICY).at == NOON - MINUTE


def test_sparks_own_goes_on_too() -> None:
    mark = Watermark().at_least(NOON)
    mark = replace(mark, clock=mark.at)
    assert mark.reached({"": 4 * MINUTE}, POLICY).at == NOON
    assert mark.reached({"": 8 * MINUTE}, POLICY).at == NOON + 3 * MINUTE
    assert Watermark().reached({"": 8 * MINUTE}, POLICY).at is None


def test_the_clock_goes_on_from_where_it_was_in_silence_only() -> None:
    mark = replace(seen(t_0=10, t_1=3), clock=NOON + 30 * MINUTE)
    assert mark.reached(FRESH, POLICY).at == NOON + 2 * MINUTE
    assert mark.reached(FRESH | {"t-1": 5 * MINUTE}, POLICY).at == NOON + 9 * MINUTE
    silent = {"t-0": 7 * MINUTE, "t-1": 9 * MINUTE}
    assert mark.reached(silent, POLICY).at == NOON + (30 + 7 - 5) * MINUTE
    # Records still come, though none of them is a row.
    assert mark.reached(silent | {"": MINUTE}, POLICY).at == NOON + 9 * MINUTE


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
