"""What a file batch has read already, and whose batch it is where a writer was renamed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hivesink import errors
from hivesink.core.epoch import (
    BatchId,
    BatchRef,
    Epoch,
    KnownTopics,
    LastBatch,
    New,
    NextBatch,
    Place,
    Replay,
    judge,
    read_before,
)
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset, SourceOffset
from tests.core.tables import cases


def files(counter: int, paths: str = "") -> tuple[FilesOffset]:
    return (FilesOffset.of(counter, tuple((counter, path) for path in paths)),)


FILES = LastBatch(Epoch(8), BatchRef("q", BatchId(4), files(0), files(1, "ab")))


@pytest.mark.parametrize(
    ("query", "number", "end", "read"),
    [
        ("q", 4, (FilesOffset.of(2, ((1, "b"), (1, "a"), (2, "c"))),), ("b", "a")),
        # Planned anew by an older checkpoint: the oldest files first, or the newest (latestFirst).
        ("q", 4, files(1, "abc"), ("a", "b")),
        ("q", 4, files(1, "cab"), ("a", "b")),
        # Not just the logged ones.
        ("q", 4, (FilesOffset.of(2, ((1, "a"), (1, "c"))),), ()),
        # Of a later batch, or of another query, the same names are new files.
        ("q", 5, files(1, "abc"), ()),
        ("p", 4, files(1, "abc"), ()),
    ],
)
def test_the_files_of_a_batch_that_were_read_before(
    query: str, number: int, end: tuple[FilesOffset], read: tuple[str, ...]
) -> None:
    again = BatchRef(query, BatchId(number), files(0), end)
    assert read_before(FILES, again) == read
    assert read_before(None, again) == ()


NEW = {"t": "new"}


def at(offset: int, ids: Mapping[str, str] | None = None) -> tuple[SourceOffset, ...]:
    return (KafkaOffset.of({"t": {"0": offset}}, ids),)


LAST = LastBatch(Epoch(8), BatchRef("q", BatchId(4), at(40), at(50, {"t": "old"})))


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (NextBatch("q", BatchId(5), at(50)), ("t",)),
        (NextBatch("q", BatchId(5), at(50), at(60)), ("t",)),
        # Where the log's last batch comes again, as with a rebuilt checkpoint.
        (NextBatch("q", BatchId(4), at(40), at(50)), ("t",)),
        # With `append`: planned from elsewhere, another query's, or not planned yet.
        (NextBatch("p", BatchId(0), at(50), at(60)), ()),
        (NextBatch("q", BatchId(7), at(70)), ()),
        (NextBatch(None, BatchId(0)), ()),
    ],
)
def test_a_topic_that_is_read_on_has_the_id_that_the_log_knows(first: NextBatch, again: tuple[str, ...]) -> None:
    for now, found in (({"t": "old"}, ()), (NEW, again), ({}, ())):
        topics = KnownTopics()
        topics.begin(LAST, first, ())
        assert topics.learn((now,)) == found
        # A checkpoint's own ids count whatever the log knows.
        topics = KnownTopics()
        topics.begin(None, first, ({"t": "old"},))
        assert topics.learn((now,)) == (("t",) if now == NEW else ())


def test_a_topic_of_which_nothing_was_read_skips_no_record() -> None:
    topics = KnownTopics()
    last = LastBatch(Epoch(1), BatchRef("q", BatchId(0), at(0), at(0, {"t": "old"})))
    topics.begin(last, NextBatch("q", BatchId(1), at(0)), ())
    assert topics.learn((NEW,)) == ()


def test_a_run_notices_another_id_whenever_it_asks_and_keeps_those_of_topics_that_are_gone() -> None:
    topics = KnownTopics()
    both = (*at(5), KafkaOffset.of({"t": {"0": 1}, "u": {"0": 1}}))
    assert topics.lacks(both)
    # Two clusters may have a topic of the same name.
    assert topics.learn(({"t": "1"}, {"t": "2"})) == ()
    assert topics.lacks(both)
    assert topics.learn(({}, {"u": "3"})) == ()
    assert not topics.lacks(both)
    assert topics.ids == ({"t": "1"}, {"t": "2", "u": "3"})
    assert topics.learn(({"t": "2"}, {"t": "2", "u": "4"})) == ("t", "u")
    assert topics.ids == ({"t": "1"}, {"t": "2", "u": "3"})


BATCH = re.compile(r"(?P<query>\w+) (?P<number>\d+) (?P<columns>columns )?(?:\((?P<read>[^)]*)\) )?(?P<sources>.+)")
PLACE = r'\?|-|"[^"]*"|#\d+(?: \w+)*?|[\w:/,]+'
SOURCE = re.compile(rf"({PLACE})\.\.({PLACE})(?= \S+\.\.| #\d+(?: \w+)*\.\.|$)")


def place(text: str) -> SourceOffset | None:
    """None where it isn't planned."""
    if text == "?":
        return None
    if text == "-":
        return NoOffset()
    if text.startswith('"'):
        return OtherOffset(text.strip('"'))
    if text.startswith("#"):
        counter, *names = text[1:].split(" ")
        if not names:
            return FilesOffset(int(counter), "", 0)
        return FilesOffset.of(int(counter), tuple((int(counter), name) for name in names))
    topics = dict(topic.split(":") for topic in text.split(","))
    return KafkaOffset.of(
        {topic: dict(zip("012", map(int, at.split("/")), strict=False)) for topic, at in topics.items()}
    )


@dataclass(frozen=True)
class Batch:
    query: str | None
    number: BatchId
    start: tuple[SourceOffset, ...] | None
    end: tuple[SourceOffset, ...] | None
    raw: bool
    sources: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Batch:
        parts = BATCH.fullmatch(text)
        assert parts, text
        sources = SOURCE.findall(parts["sources"])
        assert " ".join("..".join(pair) for pair in sources) == parts["sources"], text
        starts, ends = ([place(at) for at in side] for side in zip(*sources, strict=True))
        start, end = (tuple(at for at in side if at) if None not in side else None for side in (starts, ends))
        query = None if parts["query"] == "new" else parts["query"]
        return cls(
            query,
            BatchId(int(parts["number"])),
            start,
            end,
            raw=not parts["columns"],
            sources=tuple((parts["read"] or "").split()),
        )

    def asked(self) -> Iterator[BatchRef | NextBatch]:
        yield NextBatch(self.query, self.number, self.start, self.end, self.sources)
        if self.query and self.start is not None and self.end is not None:
            yield BatchRef(self.query, self.number, self.start, self.end, self.sources)

    def logged(self, epoch: str) -> LastBatch:
        assert self.query
        assert self.start is not None
        assert self.end is not None
        ref = BatchRef(self.query, self.number, self.start, self.end, self.sources)
        return LastBatch(Epoch(int(epoch)), ref, raw=self.raw)


@pytest.mark.parametrize(("log", "batch", "append", "verdict"), cases("judge.txt"))
def test_what_judge_says(log: str, batch: str, append: str, verdict: str) -> None:
    epoch, _, known = log.partition(" ")
    last = None if log == "none" else Batch.parse(known).logged(epoch)
    coming = Batch.parse(batch)
    policy = Epoch(int(append)) if append else None
    for asked in coming.asked():
        if verdict[0].isupper():
            with pytest.raises(getattr(errors, verdict), match="/log"):
                judge(last, asked, policy, Place("d.t", "/log"), raw=coming.raw)
        else:
            assert words(judge(last, asked, policy, Place("d.t", "/log"), raw=coming.raw)) == verdict


def words(said: New | Replay) -> str:
    return "new" + ", appended" * said.appended if isinstance(said, New) else f"replay of {said.epoch}"


def test_the_table_has_every_verdict_that_judge_gives() -> None:
    said = {case.values[-1] for case in cases("judge.txt")}
    assert set(re.findall(r"raise errors\.(\w+)", Path(judge.__code__.co_filename).read_text())) <= said
