"""Topics that were made again, by the ids that a checkpoint and a log keep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch, HistoryPolicy, LastBatch, NextBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset
from hivesink.core.topics import (
    expected,
    identified,
    ids_due,
    keep,
    kept,
    made_again,
    named,
    require_resumed,
    require_topics,
    topic_ids,
    with_ids,
)
from hivesink.errors import CheckpointOutdated, CheckpointUnreadable, OffsetsDontChain, TopicRemade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.offsets import SourceOffset
    from hivesink.core.topics import Known


def kafka(ids: Mapping[str, str] | None = None, **offsets: int) -> KafkaOffset:
    """The same offset in each of two partitions."""
    return KafkaOffset.of({topic: {"0": at, "1": at} for topic, at in offsets.items()}, ids)


def coming(number: int, start: int | None, end: int | None = None, query: str | None = "q") -> NextBatch:
    """The first batch of a query that hasn't started: what a checkpoint tells of it."""
    first, last = (None if at is None else (kafka(t=at),) for at in (start, end))
    return NextBatch("/checkpoint", query, BatchId(number), first, last)


def seen(partitions: int = 2, **ids: str) -> KafkaOffset:
    """What Kafka says of topics: where each begins."""
    return KafkaOffset.of({name: dict.fromkeys(map(str, range(partitions)), -2) for name in ids}, ids)


def only(**ids: str) -> Known:
    return {topic: frozenset({one}) for topic, one in ids.items()}


OLD: Known = only(t="old")
LAST = LastBatch(Epoch(8), BatchRef("q", BatchId(4), (kafka(t=40),), (kafka({"t": "old"}, t=50),)))
STRICT, APPEND, STALE, RESUME = (
    HistoryPolicy(),
    HistoryPolicy(append=Epoch(8)),
    HistoryPolicy(append=Epoch(7)),
    HistoryPolicy(resume=True),
)


class Memory:
    """A checkpoint's files."""

    location = "/checkpoint"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def names(self, folder: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self.files if name.startswith(f"{folder}/")]

    def put(self, name: str, data: bytes) -> None:
        assert name not in self.files
        self.files[name] = data

    def remove(self, name: str) -> None:
        self.files.pop(name, None)


def test_a_checkpoint_keeps_the_ids_of_its_topics_at_any_kill() -> None:
    files = Memory()
    assert kept(files) == {}
    for known in (OLD, {"t": frozenset({"one", "other"}), "u": frozenset({"u"})}, {}):
        before = dict(files.files)
        keep(known, files)
        assert kept(files) == known
        assert len(files.files) == 1
        # Killed before the older file was removed, or while the new one was written.
        files.files |= {**before, "hivesink/.topics.9.draft": b""}
        assert kept(files) == known
        del files.files["hivesink/.topics.9.draft"]
    files.files["hivesink/topics.12"] = b""
    with pytest.raises(CheckpointUnreadable, match=r"^/checkpoint/hivesink/topics.12 .*remove it, if none of the"):
        kept(files)


@pytest.mark.parametrize(
    ("first", "policy", "due"),
    [
        # A checkpoint of an older version keeps nothing.
        (coming(5, 50), STRICT, OLD),
        (coming(5, 50), STALE, OLD),
        (coming(5, 50), APPEND, {}),
        (coming(0, None, query=None), RESUME, OLD),
        # A new checkpoint reads a topic from wherever its user likes, but not on in the middle of another one.
        (coming(0, None, query=None), APPEND, {}),
        (coming(0, 0, 20, query="q2"), APPEND, {}),
        (coming(0, 50, 60, query="q2"), APPEND, OLD),
        (coming(0, 50, 60, query="q2"), STALE, OLD),
    ],
)
def test_what_a_checkpoint_keeps_goes_before_what_the_log_knows(
    first: NextBatch, policy: HistoryPolicy, due: Known
) -> None:
    assert ids_due({}, LAST, first, policy) == due
    own = only(t="own")
    for last in (LAST, None):
        assert ids_due(own, last, first, policy) == own
    assert ids_due({}, None, first, policy) == {}
    # Of a topic that it keeps nothing of, the log's count.
    assert ids_due(only(u="u"), LAST, first, policy) == {**due, **only(u="u")}


def test_a_topic_of_which_nothing_was_read_skips_no_record() -> None:
    none = replace(LAST, ref=replace(LAST.ref, end=(kafka({"t": "old"}, t=0),)))
    assert ids_due({}, none, coming(0, None, query=None), RESUME) == {}
    assert ids_due({}, none, coming(0, 0, 5, query="q2"), APPEND) == {}


def test_topics_are_told_apart_by_name_whatever_source_reads_them() -> None:
    """With `append` a job may split, join or swap its sources."""
    both = replace(LAST, ref=replace(LAST.ref, end=(kafka({"t": "old", "u": "u"}, t=50, u=7),)))
    split = NextBatch("/checkpoint", "q2", BatchId(0), (kafka(u=7), kafka(t=50)))
    assert ids_due({}, both, split, APPEND) == {**OLD, **only(u="u")}
    # One that is read from two clusters has two.
    twice = replace(LAST, ref=replace(LAST.ref, end=(kafka({"t": "one"}, t=50), kafka({"t": "two"}, t=9))))
    due = ids_due({}, twice, coming(5, None), STRICT)
    assert due == {"t": frozenset({"one", "two"})}
    assert made_again(due, ({"t": "two"}, {"t": "one"})) == ()
    assert made_again(due, ({"t": "one"}, {"t": "new"})) == ("t",)


def test_a_query_over_a_topic_that_was_made_again_is_refused_before_it_reads() -> None:
    asked: list[str] = []

    def check(made: str, now: str, known: Known = OLD) -> None:
        def ask() -> KafkaOffset:
            asked.append(now)
            return seen(t=now)

        require_topics(known, LAST, coming(5, 50), APPEND, seen(t=made, u="any"), log="/log", now=ask)

    check("old", "never asked")
    # The stream may be older than the log.
    check("older", "old")
    check("new", "new", known={})
    assert asked == ["old"]
    with pytest.raises(
        TopicRemade,
        match=r"topic t was deleted .* or the job reads another cluster now: /log is at epoch 8",
    ):
        check("new", "new")


def test_a_planned_batch_of_partitions_that_are_gone_is_refused() -> None:
    """Kafka takes no partition away: the topic was made again, and Spark would wait for it at every start."""
    planned = replace(coming(0, 0, 20, "q2"), end=(KafkaOffset.of({"t": {"0": 1, "1": 1}, "gone": {"7": 1}}),))
    now = seen(1, t="new")
    for last, policy in ((None, STRICT), (LAST, APPEND)):
        require_topics({}, last, planned, policy, now, log="/log", now=lambda: seen(t="new"))
        with pytest.raises(TopicRemade, match="topic t was deleted"):
            require_topics({}, last, planned, policy, now, log="/log", now=lambda: now)
    # An older broker gives no ids.
    bare = KafkaOffset.of({"t": {"0": -2}})
    with pytest.raises(TopicRemade):
        require_topics({}, LAST, planned, APPEND, bare, log="/log", now=lambda: bare)
    # One that two sources read may be of two clusters.
    twice = replace(planned, end=planned.end and planned.end * 2)
    require_topics({}, None, twice, STRICT, now, log="/log", now=lambda: now)


@pytest.mark.parametrize(
    ("last", "number", "start", "way"),
    [
        # Where the log ends, whatever was planned beside it.
        (
            9,
            10,
            90,
            r"is at epoch 8 and ends at .*90.* resume=True, append=8.*Offsets = .*t\": .*-2.*u\": .*7",
        ),
        (9, 9, 80, "is at epoch 8 and ends at .*90.* resume=True, append=8"),
        (9, 0, 90, "is at epoch 8 and ends at .*90.* resume=True, append=8"),
        # Another writer took the checkpoint further.
        (9, 12, 110, "is at epoch 8, the query at .*110.* append=8.*, without `resume`, and with startingOffsets"),
        # No batch here: the planned batch is in the table, by a log that was put aside, or it isn't.
        (None, 9, 80, "is at epoch 0, the query at .*90.* append=0.*, without `resume`, and with startingOffsets"),
        (None, 10, 90, "is at epoch 0, the query at .*90.* append=0.*, without `resume`, and with startingOffsets"),
    ],
)
def test_the_way_on_from_one_of_several_topics_begins_where_the_query_has_come_to(
    last: int | None, number: int, start: int, way: str
) -> None:
    def place(offset: int) -> tuple[SourceOffset, ...]:
        return (kafka({"t": "old", "u": "any"}, t=offset, u=7),)

    newest = LastBatch(Epoch(8), BatchRef("q", BatchId(9), place(80), place(90))) if last else None
    planned = place(90) if number == 9 else None
    first = NextBatch("/checkpoint", "q" if number else "q2", BatchId(number), place(start), planned)
    policy, now = HistoryPolicy(append=Epoch(8 if last else 0), resume=not number), seen(t="new", u="any")
    with pytest.raises(TopicRemade, match=f"^topic t was .*{way}"):
        require_topics(OLD, newest, first, policy, now, log="/log", now=lambda: now, was_written=lambda: number == 9)


def test_an_old_checkpoint_is_told_that_the_log_has_gone_on_with_the_new_topic() -> None:
    new = replace(LAST, ref=replace(LAST.ref, query="q2", end=(kafka({"t": "new"}, t=5),)))
    for last, way in (
        (new, r"ends at .*5.* use the query's newest checkpoint, or, .* resume=True\) and hivesink.sources.kafka"),
        (replace(new, ref=replace(new.ref, end=new.ref.end * 2)), r"append=8\) and startingOffsets of your own"),
    ):
        with pytest.raises(CheckpointOutdated, match=f"^this checkpoint is older than t, which was .*{way}"):
            require_topics(OLD, last, coming(5, 50), APPEND, seen(t="new"), log="/log", now=lambda: seen(t="new"))
    # Made again once more since.
    with pytest.raises(TopicRemade):
        require_topics(OLD, new, coming(5, 50), APPEND, seen(t="newer"), log="/log", now=lambda: seen(t="newer"))


def test_files_beside_a_topic_are_read_again_by_a_new_checkpoint_so_the_way_on_names_them() -> None:
    end = (kafka({"t": "old"}, t=50), FilesOffset.of(3, ((3, "a.json"),)))
    batch = BatchRef("q", BatchId(5), end, end)
    with pytest.raises(TopicRemade, match="move away first the files that were read: a new checkpoint reads"):
        identified(replace(LAST, ref=replace(batch, batch=BatchId(4))), batch, OLD, ({"t": "new"}, {}), "/log")


def test_a_batch_has_the_ids_that_its_topics_have_once_it_was_read() -> None:
    batch = BatchRef("q", BatchId(5), (kafka(t=50, u=0),), (kafka(t=60, u=5),))
    known = expected(batch, {**OLD, "u": frozenset({"one", "other"}), "gone": frozenset({"x"})})
    assert topic_ids(known.end) == ({"t": "old"},)
    # One that is gone keeps its own.
    assert topic_ids(identified(LAST, known, OLD, ({"u": "u"},), "/log").end) == ({"t": "old", "u": "u"},)
    with pytest.raises(TopicRemade, match="topic t was deleted"):
        identified(LAST, known, OLD, ({"t": "new", "u": "u"},), "/log")


def test_what_is_known_of_topics_goes_with_them() -> None:
    ends = (NoOffset(), kafka(t=5, u=1))
    found = with_ids(ends, ({}, {"t": "one", "gone": "x"}), ({}, {"u": "two"}))
    assert topic_ids(found) == ({}, {"t": "one", "u": "two"})
    assert topic_ids(with_ids(ends, ())) == ({}, {})
    assert named(topic_ids(found)) == only(t="one", u="two")


@pytest.mark.parametrize(
    ("start", "made", "refused"), [(0, "old", True), (50, "old", False), (0, "new", False), (0, None, False)]
)
def test_with_resume_and_append_only_a_topic_that_was_made_again_begins_anew(
    start: int, made: str | None, *, refused: bool
) -> None:
    ids = {"t": made} if made else {}
    read = BatchRef("q2", BatchId(0), (kafka(ids, t=start),), (kafka(ids, t=60),))
    require_resumed(LAST, read, APPEND, "/log")
    require_resumed(LAST, replace(read, query="q"), replace(APPEND, resume=True), "/log")
    if refused:
        with pytest.raises(OffsetsDontChain, match="t-0: log ends at 50, batch starts at 0"):
            require_resumed(LAST, read, replace(APPEND, resume=True), "/log")
    else:
        require_resumed(LAST, read, replace(APPEND, resume=True), "/log")
