"""Which buckets are due, and which task encodes what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.records import OpenBucket, Slice
from hivesink.core.roll_policy import Ages, RollingPolicy, due, spread
from hivesink.core.rolling import OpenRows
from tests.contracts.manifests import AT, small
from tests.core.test_rolling import TABLE, opened

if TYPE_CHECKING:
    from hivesink.core.partition import PartitionKey

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
POLICY = RollingPolicy(file_size=1000, rollover=HOUR, inactivity=MINUTE, open_bytes=5000)
YOUNG = Ages(timedelta(seconds=1), timedelta(seconds=1))


@pytest.mark.parametrize(
    ("length", "rows", "ages", "is_due"),
    [
        (10, 1, YOUNG, False),
        (2000, 1, YOUNG, True),
        (1999, 1, YOUNG, False),
        (10, 1, Ages(HOUR, timedelta(0)), True),
        (10, 1, Ages(MINUTE, MINUTE), True),
    ],
)
def test_a_bucket_is_due_by_size_age_or_silence(length: int, rows: int, ages: Ages, is_due: bool) -> None:
    state = OpenRows().after(replace(small(1), opened=(opened(1, "a", length, rows),)))
    assert due(state, {(TABLE, "a"): ages}, POLICY, ratio=0.5) == ({(TABLE, "a")} if is_due else set())


def test_where_every_epoch_publishes_whatever_still_waits_is_due() -> None:
    state = OpenRows().after(replace(small(1), opened=(opened(1, "a"), opened(1, "b"))))
    ages = {(TABLE, "a"): YOUNG, (TABLE, "b"): YOUNG}
    assert due(state, ages, replace(POLICY, at_once=True), ratio=0.5) == {(TABLE, "a"), (TABLE, "b")}
    assert due(OpenRows(), {}, replace(POLICY, at_once=True), ratio=0.5) == set()


def test_of_a_bucket_without_rows_that_wait_nothing_is_due() -> None:
    state = OpenRows({(TABLE, "a"): OpenBucket((), AT, AT, 0, 0, published=7, files=1)})
    assert due(state, {(TABLE, "a"): Ages(HOUR, HOUR)}, POLICY, 0.5) == set()


def test_beyond_the_limit_the_oldest_buckets_are_due() -> None:
    state = OpenRows().after(replace(small(1), opened=tuple(opened(1, day, 1900) for day in "abcd")))
    ages = {(TABLE, day): replace(YOUNG, open=timedelta(seconds=n)) for n, day in enumerate("bdac")}
    assert due(state, ages, POLICY, ratio=0.5) == {(TABLE, "a"), (TABLE, "c")}
    assert due(state, ages, replace(POLICY, open_bytes=7600), ratio=0.5) == set()


def test_a_held_bucket_waits_unless_too_much_does() -> None:
    state = OpenRows().after(replace(small(1), opened=(opened(1, "a", 1900), opened(1, "b", 1900))))
    ages = {(TABLE, "a"): Ages(2 * HOUR, HOUR), (TABLE, "b"): YOUNG}
    assert due(state, ages, POLICY, 0.5, held={(TABLE, "a")}) == set()
    assert due(state, ages, replace(POLICY, open_bytes=1900), 0.5, held={(TABLE, "a")}) == {(TABLE, "a")}


class Fullest:
    """A custom policy: ten rows, whatever else."""

    def should_roll(self, partition: str, rows: int, size: int, open_for: timedelta, idle_for: timedelta) -> bool:
        return partition == "a" and rows >= 10 and size == 5 and (open_for, idle_for) == (HOUR, MINUTE)


@pytest.mark.parametrize(("rows", "is_due"), [(9, False), (10, True)])
def test_an_own_class_decides_alone(rows: int, is_due: bool) -> None:
    state = OpenRows().after(replace(small(1), opened=(opened(1, "a", 10, rows),)))
    policy = replace(POLICY, own=Fullest())
    assert due(state, {(TABLE, "a"): Ages(HOUR, MINUTE)}, policy, 0.5) == ({(TABLE, "a")} if is_due else set())


BUCKETS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2), st.lists(st.integers(1, 400), min_size=1, max_size=30), min_size=1
)


@given(BUCKETS, st.integers(1, 500), st.integers(1, 8))
def test_every_slice_is_encoded_once_in_order_by_few_tasks(
    buckets: dict[str, list[int]], size: int, tasks: int
) -> None:
    state = OpenRows(
        {
            (TABLE, day): OpenBucket.of(
                tuple(Slice(f"{day}{n}", 0, length, 1) for n, length in enumerate(lengths)), AT, AT
            )
            for day, lengths in buckets.items()
        }
    )
    loads = spread(state, state.buckets, size, tasks)
    assert 1 <= len(loads) <= tasks
    found: dict[PartitionKey, list[Slice]] = {}
    for piece in (piece for load in loads for piece in load):
        assert piece.bytes <= 1.5 * size + 400
        found.setdefault((piece.table, piece.partition), []).extend(piece.slices)
    assert {key: sorted(slices, key=lambda one: int(one.segment.strip("abcdef"))) for key, slices in found.items()} == {
        key: list(bucket.slices) for key, bucket in state.buckets.items()
    }
    # A bucket is cut into no more pieces than it would fill files.
    for key, bucket in state.buckets.items():
        pieces = [piece for load in loads for piece in load if (piece.table, piece.partition) == key]
        assert len(pieces) <= max(1, round(bucket.bytes / size))
    # No task has more than the others could take from it.
    weights = [sum(piece.bytes for piece in load) for load in loads]
    assert max(weights) - min(weights) <= max(piece.bytes for load in loads for piece in load)
