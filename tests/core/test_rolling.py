from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import PartEntry
from hivesink.core.records import Commit, Opened, Slice
from hivesink.core.rolling import SNAPSHOT_EVERY, OpenRows, open_rows, segment_epoch, segment_name
from tests.contracts.manifests import AT, small

if TYPE_CHECKING:
    from hivesink.core.manifest import Manifest

TABLE = "demo.events"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def opened(epoch: int, day: str, length: int = 10, rows: int = 1) -> Opened:
    return Opened(TABLE, day, Slice(segment_name(Epoch(epoch), "00ff00ff00", 0, 0), 0, length, rows))


def epoch(number: int, days: str = "", rolled: str = "") -> Manifest:
    """One that opens a slice for each of `days`, and rolls and commits the buckets of `rolled`."""
    at = AT + timedelta(seconds=number)
    own = tuple(opened(number, day) for day in days)
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
    assert rows.segments() == {one.segment for one in bucket.slices}


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
    state = OpenRows().after(replace(small(1), opened=(opened(1, "a"),))).after(rolled)
    assert state.buckets[TABLE, "a"].slices == ()
    assert state.published((TABLE, "a")) == (7, 1)
    assert (state.rows, state.segments()) == (0, frozenset())
    later = state.after(replace(small(3), opened=(opened(3, "a"),)))
    assert later.published((TABLE, "a")) == (7, 1)
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
