"""Read, visible and complete offsets by the log: cases, and any log against a simple model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hivesink.core import reads, rolling
from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch
from hivesink.core.lifecycle import EpochState
from hivesink.core.log import LogView
from hivesink.core.manifest import Commit, Manifest, OpenBucket, Opened, PartEntry, Read, Slice
from hivesink.core.offsets import KafkaOffset, NoOffset, ends
from hivesink.core.reads import Lag, segment_name
from hivesink.core.rolling import OpenRows
from hivesink.sink.inspect.facts import LogFacts
from tests.contracts.manifests import AT, small

TABLE = "demo.events"


@dataclass
class Log:
    """A log step by step: `a,b<10/5` reads t-0 up to 10, t-1 up to 5, and opens the days a and b.

    `roll a` rolls and commits the bucket; `publish a` doesn't commit it; `move a` moves its parts. After `-` nothing
    that follows is settled, up to `+`. From `~` on the clock stands still.
    """

    manifests: list[Manifest] = field(default_factory=list)
    rows: OpenRows = field(default_factory=OpenRows)
    settled: int = 0
    _settles: bool = True
    _stands: int | None = None

    def take(self, step: str) -> None:
        if step in {"-", "+"}:
            self._settles = step == "+"
        elif step == "~":
            self._stands = len(self.manifests)
        elif "<" in step:
            self._batch(*step.split("<"))
        else:
            kind, _, days = step.partition(" ")
            self._roll(kind, days.split(","))
        if self._settles:
            self.settled = len(self.manifests)

    def facts(self, trimmed: int = 0) -> LogFacts:
        kept = tuple(manifest for manifest in self.manifests if manifest.epoch > trimmed)
        marks = {Epoch(self.settled): frozenset({EpochState.SETTLED})} if self.settled > trimmed else {}
        view = LogView(Epoch(trimmed), tuple(manifest.epoch for manifest in kept), marks)
        return LogFacts("/log", "0a1b2c3d", view, None, kept)

    def _decide(self, **changes: Any) -> None:
        number = len(self.manifests) + 1
        before = self.manifests[-1].last_batch if self.manifests else None
        unsettled = (manifest.epoch for manifest in self.facts().open)
        settled = Epoch(min(unsettled, default=number) - 1)
        seconds = number if self._stands is None else self._stands
        new = replace(small(number), at=AT + timedelta(seconds=seconds), settled=settled, last_batch=before)
        self.manifests.append(self.rows.complete(replace(new, **changes)))
        self.rows = self.rows.after(self.manifests[-1])

    def _batch(self, days: str, offsets: str) -> None:
        number = Epoch(len(self.manifests) + 1)
        before = self.manifests[-1].last_batch if self.manifests else None
        end = KafkaOffset.of({"t": {str(number): int(at) for number, at in enumerate(offsets.split("/"))}})
        ref = BatchRef("q", BatchId(number), before.ref.end if before else (NoOffset(),), (end,))
        opened = [
            Opened(TABLE, day, Slice(segment_name(number, "00ff00ff00", 0, 0), 0, 1, 1)) for day in days.split(",")
        ]
        self._decide(last_batch=LastBatch(number, ref), opened=tuple(opened if days else ()))

    def _roll(self, kind: str, days: list[str]) -> None:
        number = len(self.manifests) + 1
        if kind == "move":
            old = {part.partition: part for manifest in self.manifests for part in manifest.add}
            moved = tuple(old[day] for day in days)
            self._decide(kind="move", add=moved, remove=tuple(part.target for part in moved))
            return
        keys = tuple((TABLE, day) for day in days if self.rows.waits((TABLE, day)))
        parts = tuple(_part(day, number) for _, day in keys)
        commits = tuple(Commit(*key, 1, 1, 1) for key in keys) if kind == "roll" else ()
        self._decide(kind="roll", add=parts, rolled=keys, commits=commits)


def _part(day: str, epoch: int) -> PartEntry:
    name = f"part-0a1b2c3d-{epoch}-00ff00ff00t0-0-0.parquet"
    return PartEntry(TABLE, day, f"/t/{day}/.{name}.pending", f"/t/{day}/{name}", 1, 1)


def texts(lag: Lag) -> str:
    return " ".join("/".join(map(str, at.values())) or "-" for at in (lag.read, lag.visible, lag.complete))


CASES = {
    "": "- - -",
    "a<10": "10 0 0",
    "<10": "10 10 10",  # No row of it was to be kept.
    "a<10; roll a": "10 10 10",
    "a<10; -; roll a": "10 0 0",  # Decided, while the metastore is down.
    "a<10; -; roll a; +; <10": "10 10 10",
    "a<10; publish a": "10 10 0",
    "a<10; publish a; b<20; roll b": "20 20 0",
    "a<10; b<20; roll b": "20 0 0",
    "a<10; b<20; roll a": "20 10 10",
    "a<10; publish a; a<20; roll a": "20 20 20",
    "a<10/0; b<10/5": "10/5 0/0 0/0",
    "a<10/0; b<10/5; roll a": "10/5 10/0 10/0",
    "a<10/0; b<10/5; roll b": "10/5 0/0 0/0",  # Though epoch 1 has read nothing of t-1.
    "a<10/0; ~; b<10/5; roll a": "10/5 0/0 0/0",  # Two batches of a time have read different partitions.
    "a<10/5; roll a; b<20/5; -; roll b": "20/5 10/5 10/5",
    "a<10; roll a; -; b<20; roll b; c<30": "30 10 10",
    "a<10; roll a; c<20/7": "20/7 10/0 10/0",  # A partition more.
    "a,b<10; -; roll a,b; move b": "10 0 0",
    "a,b<10; c<20; -; roll a,b; +; -; move b": "20 0 0",  # What waits of a settled roll has moved on.
    "a,b<10; -; roll a,b; move b; +; <10": "10 10 10",
}


@pytest.mark.parametrize(("steps", "expected"), CASES.items())
def test_offsets(steps: str, expected: str) -> None:
    log = Log()
    for step in filter(None, steps.split("; ")):
        log.take(step)
    assert texts(log.facts().lag) == expected


EVERY = tuple(
    Read(Epoch(number), AT + timedelta(seconds=number), KafkaOffset.of({"t": {"0": at}}))
    for number, at in enumerate((10, 1, 20, 0, 5), start=1)
)


def _bucket(since: int, waits: int) -> OpenBucket:
    """The first row in no commit, and the first that waits, are of these epochs."""
    part = Slice(segment_name(Epoch(waits), "00ff00ff00", 0, 0), 0, 1, 1)
    return OpenBucket.of((part,), EVERY[since - 1].at, EVERY[-1].at)


@pytest.mark.parametrize(
    ("since", "waits", "kept"),
    [
        (1, 1, [(1, 1), (3, 0), (5, 5)]),
        (1, 2, [(1, 10), (2, 1), (3, 0), (5, 5)]),
        (2, 3, [(2, 1), (3, 0), (5, 5)]),
        (4, 4, [(4, 0), (5, 5)]),
    ],
)
def test_neighbours_become_one_with_the_lower_offset_but_what_tells_now_stays(
    since: int, waits: int, kept: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer may begin lower, where a topic was created again."""
    monkeypatch.setattr(reads, "MOST", 1)
    left = reads.still_open(EVERY, [_bucket(since, waits)])
    assert [(read.epoch, ends((read.start,))["t", 0]) for read in left] == kept


def test_what_nobody_knows_is_0_and_the_first_of_several_batches_of_a_time_stands_for_all() -> None:
    log = Log()
    for step in ("a<10", "b<20"):
        log.take(step)
    last = log.manifests[-1]
    assert texts(reads.lag(last.last_batch, last.last_batch, EVERY[3:], [_bucket(1, 1)])) == "20 0 0"
    assert reads.with_batch(EVERY, replace(last, at=EVERY[-1].at)) == EVERY
    assert reads.with_batch(EVERY, replace(last, at=AT + timedelta(1)))[5:] == (
        replace(log.rows.reads[-1], at=AT + timedelta(1)),
    )


DAYS = st.sampled_from(("a", "b", "a,b", "c,d", "a,c"))
READS = st.tuples(st.sampled_from(("", "a", "b", "a,b", "c,d")), st.sampled_from((0, 7)), st.sampled_from((0, 7)))
STEPS = st.lists(READS | st.sampled_from("-+") | st.tuples(st.sampled_from(("roll", "publish")), DAYS), max_size=40)


def _exact(log: Log) -> Iterator[tuple[int, int]]:
    """The visible and complete offset of each Kafka partition, from all that has come since the first epoch."""
    settled = [manifest for manifest in log.manifests if manifest.epoch <= log.settled]
    batches = [m for m in log.manifests if m.last_batch and m.last_batch.epoch == m.epoch]
    for place in (("t", 0), ("t", 1)):
        firsts = {"visible": 0, "complete": 0}
        for manifest in reversed(batches):
            assert manifest.last_batch is not None
            first, last = (
                ends(side).get(place, 0) for side in (manifest.last_batch.ref.start, manifest.last_batch.ref.end)
            )
            later = [m for m in settled if m.epoch > manifest.epoch]
            done = {"visible": {key for m in later for key in m.rolled}}
            done["complete"] = {commit.key for m in later for commit in m.commits}
            for kind, keys in done.items():
                if manifest is batches[-1]:
                    firsts[kind] = last
                if first != last and {new.key for new in manifest.opened} - keys:
                    firsts[kind] = first
        yield firsts["visible"], min(firsts.values())


def _since_the_oldest_that_waits(log: Log) -> Iterator[int]:
    """The visible offset of each Kafka partition, of a log that is settled: what is told, though not a record less."""
    batches = [m for m in log.manifests if m.last_batch and m.last_batch.epoch == m.epoch]
    rolled = {m.epoch: {key for later in log.manifests[m.epoch :] for key in later.rolled} for m in batches}
    waiting = [m.epoch for m in batches if {new.key for new in m.opened} - rolled[m.epoch]]
    since = [m for m in batches if m.opened and waiting and m.epoch >= waiting[0]]
    for place in (("t", 0), ("t", 1)):
        refs = [m.last_batch.ref for m in since if m.last_batch]
        reads = [(ends(ref.start).get(place, 0), ends(ref.end)[place]) for ref in refs]
        newest = log.facts().lag.read[place]
        yield min((first for first, last in reads if first != last), default=newest)


@settings(max_examples=150, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(STEPS, st.booleans())
def test_any_log_is_never_ahead_of_the_truth_and_never_goes_back(steps: list[Any], is_small: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        if is_small:
            patched.setattr(rolling, "SNAPSHOT_EVERY", 3)
            patched.setattr(reads, "MOST", 2)
        log, at, before = Log(), (0, 0), [(0, 0), (0, 0)]
        for step in steps:
            if isinstance(step, str):
                log.take(step)
            elif len(step) == 2:
                log.take(" ".join(step))
            else:
                at = at[0] + step[1], at[1] + step[2]
                log.take(f"{step[0]}<{at[0]}/{at[1]}")
            lag = log.facts().lag
            told = list(zip(lag.visible.values(), lag.complete.values(), strict=True))
            for now, was, exact in zip(told, before, _exact(log), strict=False):
                assert all(was[kind] <= now[kind] <= exact[kind] for kind in (0, 1)), (now, was, exact)
            before = told or before
            is_settled = log.settled == len(log.manifests)
            if told and not is_small and is_settled:
                assert [visible for visible, _ in told] == [*_since_the_oldest_that_waits(log)]
            # What is left of a trimmed log says the same.
            if log.rows.snapshot > 1 and is_settled:
                assert log.facts(trimmed=log.rows.snapshot - 1).lag == lag
