"""What has changed since a look: histories of two logs in a table of cases, and every history of a few epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.changes import (
    LogCommits,
    Seens,
    Upto,
    changes,
    decode_receipt,
    encode_receipt,
    parse_revision,
    revision_text,
)
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Commit, Manifest, recorded
from hivesink.errors import InvalidOption, LogDamaged
from tests.contracts.manifests import AT, small

TABLE = "demo.events"


def epoch(number: int, *commits: str, kind: str = "batch", table: str = TABLE) -> Manifest:
    """`a:2:10` commits revision 2 of partition `a`, with ten rows."""
    parts = [text.split(":") for text in commits]
    made = tuple(Commit(table, name, int(revision), int(rows), int(rows) // 5) for name, revision, rows in parts)
    at = AT + timedelta(minutes=number)
    return replace(small(number), at=at, kind=kind, settled=Epoch(max(0, number - 1)), commits=made)


def commits(manifests: Sequence[Manifest], settled: int) -> LogCommits:
    records = tuple(record for manifest in manifests for record in recorded(manifest))
    return LogCommits(TABLE, records, Epoch(settled))


def told(before: Seens, now: Seens, *, knows_all: bool = True, held: str = "") -> list[str]:
    """`a 2 5>10 late rows`: its revision, rows before and after, and why."""
    found = changes(before, now, is_held=lambda name: name in held, knows_all=knows_all)
    return [f"{c.partition} {c.revision} {c.rows_before}>{c.rows} {', '.join(c.why)}" for c in found]


FIRST = epoch(1, "a:1:10", "b:1:5")
HISTORIES = {
    "new": ([FIRST], 0, 1, ["a 1 0>10 new", "b 1 0>5 new"]),
    "nothing": ([FIRST, epoch(2)], 1, 2, []),
    "late rows": ([FIRST, epoch(2, "b:2:7")], 1, 2, ["b 2 5>7 late rows"]),
    "more rows": ([FIRST, epoch(2, "a:2:15")], 1, 2, ["a 2 10>15 more rows"]),
    "twice": ([FIRST, epoch(2, "a:2:15"), epoch(3, "a:3:20")], 1, 3, ["a 3 10>20 more rows"]),
    "not settled": ([FIRST, epoch(2, "a:2:15")], 1, 1, []),
    "settled in part": ([FIRST, epoch(2, "a:2:15"), epoch(3, "a:3:20", "b:2:6")], 1, 2, ["a 2 10>15 more rows"]),
    "forgotten": ([FIRST, epoch(2, "a:2:5", kind="forget")], 1, 2, ["a 2 10>5 a forgotten loss"]),
    "as before": ([FIRST, epoch(2, "a:2:10", kind="forget")], 1, 2, ["a 2 10>10 as many rows"]),
    "moved": ([FIRST, epoch(2, "a:1:10", kind="move")], 1, 2, []),
    "withdrawn": ([epoch(1, "a:1:5"), epoch(2, "a:2:0", kind="requeue")], 0, 2, []),
    "withdrawn, and back": (
        [epoch(1, "a:1:5"), epoch(2, "a:2:0", kind="requeue"), epoch(3, "a:3:5")],
        0,
        3,
        ["a 3 0>5 new"],
    ),
    "renamed": ([epoch(1, "a:1:5", table="demo.old"), epoch(2, "a:2:10")], 1, 2, ["a 2 5>10 more rows"]),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_histories(name: str) -> None:
    manifests, was, is_, expected = HISTORIES[name]
    before = {"w/1": commits(manifests[:was], was).read()[1]}
    now = {"w/1": commits(manifests, is_).read()[1]}
    assert told(before, now, held="b") == expected


def test_what_moves_is_told_once_it_can_be_read_and_the_revision_is_without_it() -> None:
    """The files of epoch 1 wait for the move: no reader has them, though epoch 1 is settled."""
    history = [FIRST, epoch(2, "b:2:6"), epoch(3, "a:1:10", kind="move")]
    revision, seen = commits(history, 2).read()
    assert (revision, sorted(seen)) == (Upto(Epoch(2), ("a",)), ["b"])
    after = commits(history, 3).read()[1]
    assert told({"w/1": seen}, {"w/1": after}) == ["a 1 0>10 new"]
    # By the revision that was printed, too, which is what the look listed, also if the move is trimmed meanwhile.
    for later in (commits(history, 3), LogCommits(TABLE, commits(history, 3).records, Epoch(9))):
        assert later.read(revision)[1] == seen


def test_several_logs_are_summed_also_those_that_were_put_aside() -> None:
    first = commits([FIRST], 1).read()[1]
    late = commits([epoch(1, "a:1:5")], 1).read()[1]
    before = {"w/1": first}
    assert told(before, {"w/1": first, "w/2": late}) == ["a 2 10>15 more rows"]
    assert told(before, {"rejects-replay/1": late, "w/1": first}) == ["a 2 10>15 replay"]
    both = {"rejects-replay/1": late, "w/1": first, "w/2": late}
    assert told(before, both) == ["a 3 10>20 replay, more rows"]
    assert told(both, both) == []


def test_what_is_trimmed_is_not_taken_for_new() -> None:
    record = recorded(epoch(7, "a:3:20", "b:1:5"))
    trimmed = LogCommits(TABLE, record, Epoch(9))
    before, now = ({"w/1": trimmed.read(upto)[1]} for upto in (Upto(Epoch(4)), None))
    assert told(before, now, knows_all=False) == ["a 3 None>20 more rows", "b 1 0>5 new"]
    assert told(before, now) == ["a 3 0>20 new", "b 1 0>5 new"]


@pytest.mark.parametrize(("minute", "expected"), [(0, 0), (1, 0), (2, 1), (9, 2)])
def test_what_was_not_settled_at_a_time_has_changed_since(minute: int, expected: int) -> None:
    history = [FIRST, epoch(2, "a:2:15"), epoch(3)]
    log = commits(history, 3)
    assert log.at(AT + timedelta(minutes=minute), history).epoch == expected
    # Of trimmed epochs only their times are known.
    assert log.at(AT + timedelta(minutes=minute), ()).epoch == min(minute, 2)


@dataclass
class Consumer:
    """One that looks and acknowledges, and what it has computed."""

    receipt: Seens
    rows: dict[str, int]

    def look(self, log: LogCommits, upto: int | None) -> None:
        revision, seen = log.read(None if upto is None else Upto(Epoch(upto)))
        now = {"w/1": seen}
        for change in changes(self.receipt, now, is_held=lambda _: False, knows_all=True):
            self.rows[change.partition] = change.rows
        self.receipt = decode_receipt(encode_receipt({"w/1": {**self.receipt.get("w/1", {}), **seen}}), "r")
        assert revision.epoch <= log.settled


STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from("abc")), st.booleans(), st.booleans(), st.integers(0, 3)), max_size=9
)


@given(STEPS)
def test_no_change_is_missed_and_none_is_told_twice(steps: list[tuple[set[str], bool, bool, int]]) -> None:
    """Epochs commit, settle at once or later, and a consumer looks at an older revision, then at all."""
    history: list[Manifest] = []
    rows: dict[str, tuple[int, int]] = {}
    settled, consumer = 0, Consumer({}, {})
    for names, settles, looks, back in steps:
        rows |= {name: (rows.get(name, (0, 0))[0] + 1, rows.get(name, (0, 0))[1] + 5) for name in names}
        history.append(epoch(len(history) + 1, *(f"{name}:{rows[name][0]}:{rows[name][1]}" for name in sorted(names))))
        settled = len(history) if settles else settled
        log = commits(history, settled)
        if looks:
            consumer.look(log, max(0, settled - back))
            consumer.look(log, None)
            expected = {name: seen.rows for name, seen in log.read()[1].items()}
            assert consumer.rows == expected
            assert changes(consumer.receipt, {"w/1": log.read()[1]}, is_held=lambda _: False, knows_all=True) == []
    log = commits(history, len(history))
    consumer.look(log, None)
    assert consumer.rows == {name: number for name, (_, number) in rows.items()}


def test_revisions_and_receipts_as_text() -> None:
    revision = {"w/2": Upto(Epoch(7), ("dt=a,b!", "dt=c:1/e=2")), "a/1": Upto(Epoch(12))}
    assert parse_revision(revision_text(revision), revision) == revision
    assert parse_revision("12", ["a/1"]) == {"a/1": Upto(Epoch(12))}
    for text in ("12", "a/1", "a/1:x", "b/1:2", "a/1:-2", ""):
        with pytest.raises(InvalidOption, match="is no revision of this table"):
            parse_revision(text, revision)
    for damaged in (b"{", b"[]", b'{"logs": {"a/1": {"p": ["x"]}}}'):
        with pytest.raises(LogDamaged, match="it is no receipt"):
            decode_receipt(damaged, "r")
