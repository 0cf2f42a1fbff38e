"""Offsets of a batch's sources, in a form that can be compared.

Spark keeps a source's offset as JSON in the checkpoint's `offsets/<batch id>`. Kafka's names every partition's next
record; the log adds the ids by which Kafka tells a topic from a later topic of its name. A file source's is only a
counter, so the paths that the batch read (from the checkpoint's `sources/<n>` log) stand for it. Anything else is
compared as parsed JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Partition = tuple[str, int]
TopicIds = tuple["Mapping[str, str]", ...]
"""For each source, the ids of Kafka's topics by their names; a topic is left out where nobody knows its id."""


@dataclass(frozen=True, slots=True)
class KafkaOffset:
    """The next record to read of each (topic, partition), sorted; `ids` as in `TopicIds`, unknown to Spark."""

    next: tuple[tuple[Partition, int], ...]
    ids: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, topics: Mapping[str, Mapping[str, int]], ids: Mapping[str, str] | None = None) -> KafkaOffset:
        offsets = (
            ((topic, int(partition)), int(offset))
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        )
        return cls(tuple(sorted(offsets)), ids or {})

    def topics(self) -> dict[str, dict[str, int]]:
        """In the form of Spark's `startingOffsets` option."""
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self.next:
            topics.setdefault(topic, {})[str(partition)] = offset
        return topics

    def __str__(self) -> str:
        return json.dumps(self.topics(), sort_keys=True)


@dataclass(frozen=True, slots=True)
class FilesOffset:
    """A file source's counter, and the digest of the paths between the last counter and this.

    `paths` are these, each with its counter, if the checkpoint was read. A manifest has only the digest.
    """

    counter: int
    digest: str
    files: int
    paths: tuple[tuple[int, str], ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, counter: int, paths: tuple[tuple[int, str], ...]) -> FilesOffset:
        digest = hashlib.sha256("\n".join(sorted(path for _, path in paths)).encode()).hexdigest()
        return cls(counter, digest, len(paths), paths)

    def found_in(self, other: FilesOffset) -> tuple[str, ...]:
        """This batch's paths among those of `other`, if the digest proves them.

        They end at the same counter. Where Spark planned the batch anew, without its offsets, they come first in it, or
        last if the newest files are read first (`latestFirst`).
        """
        paths, count = other.paths, self.files
        until = tuple((counter, path) for counter, path in paths if counter <= self.counter)
        for batch in (until, paths[:count], paths[len(paths) - count :]):
            if FilesOffset.of(self.counter, batch) == self:
                return tuple(path for _, path in batch)
        return ()

    def __str__(self) -> str:
        return f"files up to log offset {self.counter} ({self.files} in this batch, digest {self.digest[:12]})"


@dataclass(frozen=True, slots=True)
class OtherOffset:
    """Any other source's offset, as canonical JSON text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NoOffset:
    """The source has no offset yet: the start of its first batch."""

    def __str__(self) -> str:
        return "the source's beginning"


SourceOffset = KafkaOffset | FilesOffset | OtherOffset | NoOffset


def canonical(text: str) -> str:
    """JSON text with sorted keys and no spaces; other text unchanged."""
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return text


def chain(end: tuple[SourceOffset, ...], start: tuple[SourceOffset, ...]) -> str | None:
    """Why a batch that starts at `start` doesn't follow a batch that ended at `end`; None if it does.

    New Kafka partitions may appear; those in `end` may not vanish or move.
    """
    if len(end) != len(start):
        return f"the log knows {len(end)} sources, the query has {len(start)}"
    return "; ".join(problem for pair in zip(end, start, strict=True) if (problem := _follows(*pair))) or None


def _follows(end: SourceOffset, start: SourceOffset) -> str | None:
    if isinstance(end, KafkaOffset) and isinstance(start, KafkaOffset):
        now = dict(start.next)
        wrong = [
            f"{topic}-{partition}: log ends at {offset}, batch starts at {now.get((topic, partition), 'nothing')}"
            for (topic, partition), offset in end.next
            if now.get((topic, partition)) != offset
        ]
        return ", ".join(wrong) or None
    if isinstance(end, FilesOffset) and isinstance(start, FilesOffset):
        if end.counter != start.counter:
            return f"log ends at file log offset {end.counter}, batch starts at {start.counter}"
        # Of a batch that is planned already, the files at its start aren't read.
        return None if start.digest in ("", end.digest) else f"log ends at {end}, batch starts at {start}"
    return None if end == start else f"log ends at {end}, batch starts at {start}"


def with_ids(offsets: tuple[SourceOffset, ...], ids: TopicIds) -> tuple[SourceOffset, ...]:
    """`offsets` with the ids of their topics, as far as they are known."""
    completed = list(offsets)
    for number, (offset, topics) in enumerate(zip(offsets, ids, strict=False)):
        if isinstance(offset, KafkaOffset):
            read = {topic: topics[topic] for topic in offset.topics() if topic in topics}
            completed[number] = replace(offset, ids=read)
    return tuple(completed)


def runs_back(start: tuple[SourceOffset, ...], end: tuple[SourceOffset, ...]) -> tuple[str, ...]:
    """The Kafka partitions that a batch leaves out or reads backwards.

    Spark plans such a batch where a topic was created again, or, with `failOnDataLoss=false`, is no longer subscribed.
    """
    problems = []
    for first, last in zip(start, end, strict=False):
        if isinstance(first, KafkaOffset) and isinstance(last, KafkaOffset):
            ends = dict(last.next)
            problems += [
                f"{topic}-{partition}: starts at {since}, ends at {ends.get((topic, partition), 'nothing')}"
                for (topic, partition), since in first.next
                if ends.get((topic, partition), -1) < since
            ]
    return tuple(problems)


def span(start: tuple[SourceOffset, ...], end: tuple[SourceOffset, ...]) -> int | None:
    """The number of Kafka offsets between; None if it isn't known for every source and partition."""
    total = 0
    for first, last in zip(start, end, strict=True):
        if not isinstance(first, KafkaOffset) or not isinstance(last, KafkaOffset):
            return None
        since = dict(first.next)
        if set(since) != set(dict(last.next)):
            return None
        total += sum(offset - since[partition] for partition, offset in last.next)
    return total


def ends(end: tuple[SourceOffset, ...]) -> dict[Partition, int]:
    """The next record to read of each Kafka partition; the first that comes, where two sources read it."""
    offsets: dict[Partition, int] = {}
    for source in end:
        if isinstance(source, KafkaOffset):
            offsets |= {place: min(at, offsets.get(place, at)) for place, at in source.next} if offsets else source.next
    return offsets


def moved(start: SourceOffset, end: SourceOffset) -> dict[Partition, int]:
    """The Kafka partitions that a batch has read of a source, each with its first offset; 0 where nobody knows it."""
    first = ends((start,))
    return {place: first.get(place, 0) for place, at in ends((end,)).items() if first.get(place, 0) != at}


def read_between(start: SourceOffset, end: SourceOffset) -> list[dict[str, Any]]:
    """What was read between, as JSON: Kafka partitions that had records, or the source; from None: the beginning."""
    if not isinstance(end, KafkaOffset):
        return [{"from": str(start), "to": str(end)}]
    first, last = ends((start,)), dict(end.next)
    return [
        {"topic": topic, "partition": number, "from": first.get((topic, number)), "to": last[topic, number]}
        for topic, number in moved(start, end)
    ]


def to_json(offset: SourceOffset) -> Any:
    """In the form that `docs/manifest.md` describes."""
    match offset:
        case KafkaOffset(ids=ids):
            return {"kafka": offset.topics(), **({"ids": dict(ids)} if ids else {})}
        case FilesOffset(counter=counter, digest=digest, files=files):
            return {"files": {"counter": counter, "digest": digest, "count": files}}
        case OtherOffset(text=text):
            return {"other": text}
        case NoOffset():
            return None


def from_json(value: Any) -> SourceOffset:
    """The inverse of `to_json`; ValueError for anything else."""
    match value:
        case None:
            return NoOffset()
        case {"kafka": dict(topics), "ids": dict(ids)}:
            return KafkaOffset.of(topics, ids)
        case {"kafka": dict(topics)}:
            return KafkaOffset.of(topics)
        case {"files": {"counter": int(counter), "digest": str(digest), "count": int(files)}}:
            return FilesOffset(counter, digest, files)
        case {"other": str(text)}:
            return OtherOffset(text)
    message = f"{value!r} is not an offset"
    raise ValueError(message)
