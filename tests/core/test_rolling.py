from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Commit, Manifest, OpenBucket, Opened, PartEntry, Slice
from hivesink.core.partition import PartitionKey
from hivesink.core.reads import segment_epoch, segment_name
from hivesink.core.rolling import (
    SNAPSHOT_EVERY,
    Ages,
    OpenRows,
    RollingPolicy,
    due,
    open_rows,
    spread,
)
from tests.contracts.manifests import AT, small

TABLE = "demo.events"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def opening(epoch: int, day: str, length: int = 10, rows: int = 1) -> Opened:
    return Opened(TABLE, day, Slice(segment_name(Epoch(epoch), "00ff00ff00", 0, 0), 0, length, rows))


def epoch(number: int, days: str = "", rolled: str = "") -> Manifest:
    """One that opens a slice for each of `days`, and rolls and commits the buckets of `rolled`."""
    at = AT + timedelta(seconds=number)
    own = tuple(opening(number, day) for day in days)
    keys, commits = tuple((TABLE, day) for day in rolled), tuple(map(commit, rolled))
    return replace(small(number), at=at, opened=own, rolled=keys, commits=commits)


def decided(steps: list[tuple[str, str]]) -> list[Manifest]:
    """The manifests of a log: each step opens and rolls days."""
    rows, manifests = OpenRows(), []
    for number, (days, rolled) in enumerate(steps, 1):
        manifests.append(rows.complete(epoch(number, days, rolled)))
        rows = rows.after(manifests[-1])
    return manifests


def part(day: str, rows: int) -> PartEntry:
    return PartEntry(TABLE, day, f"/t/{day}/.p", f"/t/{day}/p", 1, rows)


def days_of(rows: OpenRows) -> dict[str, int]:
    return {day: len(bucket.slices) for (_, day), bucket in rows.buckets.items()}


def test_rows_wait_until_their_bucket_is_rolled() -> None:
    manifests = decided([("ab", ""), ("b", ""), ("", "b"), ("ac", "a")])
    states = [days_of(open_rows(reversed(manifests[:end]))) for end in range(1, 5)]
    assert states == [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1, "c": 1}]


def test_a_bucket_knows_its_rows_its_bytes_and_its_time() -> None:
    rows = OpenRows()
    for number in (1, 3):
        rows = rows.after(epoch(number, "a"))
    (bucket,) = rows.buckets.values()
    assert (bucket.rows, bucket.bytes) == (2, 20)
    assert (bucket.first, bucket.last) == (AT + timedelta(seconds=1), AT + timedelta(seconds=3))
    assert (rows.rows, rows.bytes) == (2, 20)


STEPS = st.lists(st.tuples(st.text("abc", max_size=2), st.text("abc", max_size=2)), max_size=3 * SNAPSHOT_EVERY)


@given(STEPS)
def test_a_start_knows_what_waits_from_few_manifests(steps: list[tuple[str, str]]) -> None:
    manifests = decided(steps)
    whole = OpenRows()
    for manifest in manifests:
        whole = whole.after(replace(manifest, waiting=None))
    newest_first = iter(reversed(manifests))
    assert open_rows(newest_first).buckets == whole.buckets
    assert len(manifests) - len(list(newest_first)) <= SNAPSHOT_EVERY
    # Where nothing waits, the newest manifest says so.
    assert not manifests or whole.buckets or manifests[-1].waiting == ()


def commit(day: str, revision: int = 1) -> Commit:
    return Commit(TABLE, day, revision, 1, 1)


def test_a_partition_stays_open_until_it_is_committed() -> None:
    rolled = replace(small(2), opened=(), rolled=((TABLE, "a"),), add=(part("a", 7),), commits=())
    state = OpenRows().after(replace(small(1), opened=(opening(1, "a"),))).after(rolled)
    assert state.buckets[TABLE, "a"].slices == ()
    assert (state.buckets[TABLE, "a"].published, state.buckets[TABLE, "a"].files) == (7, 1)
    assert state.rows == 0
    later = state.after(replace(small(3), opened=(opening(3, "a"),)))
    assert (later.buckets[TABLE, "a"].published, later.buckets[TABLE, "a"].files) == (7, 1)
    done = replace(small(4), opened=(), commits=(commit("a"),))
    assert later.after(done).buckets == later.buckets, "a commit closes no rows that wait"
    assert later.after(replace(done, rolled=((TABLE, "a"),))).buckets == {}


def test_what_an_epoch_publishes_without_a_commit_is_open() -> None:
    batch = replace(small(1), opened=(), add=(part("a", 7), part("b", 1), part("a", 2)), commits=(commit("b"),))
    state = OpenRows().after(batch)
    assert {key: (one.published, one.files) for key, one in state.buckets.items()} == {(TABLE, "a"): (9, 2)}


def test_the_name_of_a_segment_says_its_epoch() -> None:
    assert segment_epoch(segment_name(Epoch(12), "00ff00ff00", 3, 4)) == 12
    assert segment_epoch("12.json") is None
    assert segment_epoch(".12-00ff00ff00t0-0.arrow.tmp") is None


POLICY = RollingPolicy(file_size=1000, rollover=HOUR, inactivity=MINUTE, open_bytes=5000)
YOUNG = Ages(timedelta(seconds=1), timedelta(seconds=1))


OLD = Ages(2 * HOUR, HOUR)
NINE, TEN = (10, 9), (10, 10)


class Fullest:
    """A custom policy: ten rows, whatever else."""

    def should_roll(self, partition: str, rows: int, size: int, open_for: timedelta, idle_for: timedelta) -> bool:
        return partition == "a" and rows >= 10 and size == 5 and (open_for, idle_for) == (HOUR, MINUTE)


@pytest.mark.parametrize(
    ("waiting", "ages", "policy", "held", "wanted"),
    [
        # By size, age or silence.
        ({"a": (10, 1)}, {}, {}, "", ""),
        ({"a": (2000, 1)}, {}, {}, "", "a"),
        ({"a": (1999, 1)}, {}, {}, "", ""),
        ({"a": (10, 1)}, {"a": Ages(HOUR, timedelta(0))}, {}, "", "a"),
        ({"a": (10, 1)}, {"a": Ages(MINUTE, MINUTE)}, {}, "", "a"),
        # Where every epoch publishes, whatever still waits.
        ({"a": (10, 1), "b": (10, 1)}, {}, {"at_once": True}, "", "ab"),
        ({}, {}, {"at_once": True}, "", ""),
        # The oldest ones beyond the limit, though they are held.
        (
            dict.fromkeys("abcd", (1900, 1)),
            {"a": OLD, "c": OLD},
            {"rollover": 9 * HOUR, "inactivity": 9 * HOUR},
            "",
            "ac",
        ),
        (dict.fromkeys("abcd", (1900, 1)), {}, {"open_bytes": 7600}, "", ""),
        ({"a": (1900, 1), "b": (1900, 1)}, {"a": OLD}, {}, "a", ""),
        ({"a": (1900, 1), "b": (1900, 1)}, {"a": OLD}, {"open_bytes": 1900}, "a", "a"),
        # The user's own class decides alone.
        ({"a": NINE}, {"a": Ages(HOUR, MINUTE)}, {"own": Fullest()}, "", ""),
        ({"a": TEN}, {"a": Ages(HOUR, MINUTE)}, {"own": Fullest()}, "", "a"),
    ],
)
def test_what_is_due(
    waiting: dict[str, tuple[int, int]], ages: dict[str, Ages], policy: dict[str, Any], held: str, wanted: str
) -> None:
    state = OpenRows().after(replace(small(1), opened=tuple(opening(1, day, *size) for day, size in waiting.items())))
    now = {(TABLE, day): ages.get(day, YOUNG) for day in waiting}
    found = due(state, now, replace(POLICY, **policy), 0.5, held={(TABLE, day) for day in held})
    assert {day for _, day in found} == set(wanted)


def test_of_a_bucket_without_rows_that_wait_nothing_is_due() -> None:
    state = OpenRows({(TABLE, "a"): OpenBucket((), AT, AT, 0, 0, published=7, files=1)})
    assert due(state, {(TABLE, "a"): OLD}, POLICY, 0.5) == set()


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
    for opened in (opened for load in loads for opened in load):
        found.setdefault(opened.key, []).append(opened.slice)
    assert {key: sorted(slices, key=lambda one: int(one.segment.strip("abcdef"))) for key, slices in found.items()} == {
        key: list(bucket.slices) for key, bucket in state.buckets.items()
    }
    # A bucket is cut into no more pieces than it would fill files.
    for key, bucket in state.buckets.items():
        pieces = [load for load in loads if any(opened.key == key for opened in load)]
        assert len(pieces) <= max(1, round(bucket.bytes / size))
    # No task has more than the others could take from it: a piece.
    weights = [sum(opened.slice.length for opened in load) for load in loads]
    assert max(weights) - min(weights) <= 1.5 * size + 400
