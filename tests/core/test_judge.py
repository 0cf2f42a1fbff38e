"""Each verdict of `judge`, by the table in `fixtures/judge.txt`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink import errors
from hivesink.core.epoch import BatchId, BatchRef, Epoch, HistoryPolicy, LastBatch, New, NextBatch, Place, Replay, judge
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hivesink.core.offsets import SourceOffset

TABLE = Path(__file__).with_name("fixtures") / "judge.txt"
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
        yield NextBatch("/checkpoint", self.query, self.number, self.start, self.end, self.sources)
        if self.query and self.start is not None and self.end is not None:
            yield BatchRef(self.query, self.number, self.start, self.end, self.sources)

    def logged(self, epoch: str) -> LastBatch:
        assert self.query
        assert self.start is not None
        assert self.end is not None
        ref = BatchRef(self.query, self.number, self.start, self.end, self.sources)
        return LastBatch(Epoch(int(epoch)), ref, raw=self.raw)


def cases() -> list[tuple[str, str, str, str]]:
    lines = TABLE.read_text().splitlines()
    rows = [line.split("|") for line in lines if "|" in line and not line.startswith(("#", "log's"))]
    return [(log.strip(), batch.strip(), append.strip(), verdict.strip()) for log, batch, append, verdict in rows]


@pytest.mark.parametrize(("log", "batch", "append", "verdict"), cases())
def test_what_judge_says(log: str, batch: str, append: str, verdict: str) -> None:
    epoch, _, known = log.partition(" ")
    last = None if log == "none" else Batch.parse(known).logged(epoch)
    coming = Batch.parse(batch)
    policy = HistoryPolicy(append=Epoch(int(append)) if append else None)
    for asked in coming.asked():
        if verdict[0].isupper():
            with pytest.raises(getattr(errors, verdict), match="/log"):
                judge(last, asked, policy, Place("d.t", "/log"), raw=coming.raw)
        else:
            assert words(judge(last, asked, policy, Place("d.t", "/log"), raw=coming.raw)) == verdict


def words(said: New | Replay) -> str:
    return "new" + ", appended" * said.appended if isinstance(said, New) else f"replay of {said.epoch}"


def test_the_table_has_every_verdict_that_judge_gives() -> None:
    said = {verdict for *_, verdict in cases()}
    assert set(re.findall(r"raise errors\.(\w+)", Path(judge.__code__.co_filename).read_text())) <= said
