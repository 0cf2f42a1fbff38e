"""The watermark: the slowest partition decides, idle ones don't, and a stopped input goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partition_commit import Watermark, WatermarkPolicy

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
