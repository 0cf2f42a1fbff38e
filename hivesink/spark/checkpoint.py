"""The format of Spark's checkpoint: what a micro-batch covers, and which batch a query runs first.

`metadata` holds the query's id. `offsets/<batch id>` is written before the batch runs (Spark's OffsetSeqLog, version
`v1`, which all of 3.5 to 4.3 write: a metadata line, then a line a source, `-` for none), `commits/<batch id>` after
it. `sources/<n>/0` of a Kafka source holds where the query began (KafkaSourceInitialOffsetWriter). `sources/<n>/<i>` of
a file source lists the files of its log offset i, in `<i>.compact` with all earlier ones (CompactibleFileStreamLog).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from hivesink.core.epoch import BatchId, BatchRef, NextBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset, SourceOffset, TopicIds, canonical
from hivesink.errors import CheckpointUnreadable
from hivesink.storage.fs import Files, delete, join, put_once

VERSION = "v1"
_COMMITS = (VERSION, "v2")
"""Of `commits/`: Spark 4 writes v2 with `spark.sql.streaming.stateStore.checkpointFormatVersion` = 2."""
METADATA = "metadata"
TOPICS = "hivesink-topics"
"""The sink's own file: for each source, Kafka's topic ids by name, before Spark planned the query's first batch."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's files, by their names below `location`.

    Methods raise NotWritable, StoreUnavailable, and CheckpointUnreadable for what Spark would fail on, or misread.
    """

    fs: Files
    location: str

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        return self.fs.read(join(self.location, name))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder."""
        return [entry.name for entry in self.fs.list(join(self.location, folder))]

    def lines(self, name: str) -> list[str] | None:
        """A file's lines after the version; None if there is no such file."""
        data = self.read(name)
        if data is None:
            return None
        known = _COMMITS if name.startswith("commits/") else (VERSION,)
        try:
            version, *lines = data.decode().strip("\n").split("\n")
        except UnicodeDecodeError as error:
            raise self.unreadable(name, error) from error
        # Spark writes a leading zero byte before a Kafka source's, for the sake of Spark 2.1.0.
        if version.strip("\0 ") not in known:
            said = f"its version is {version[:20]!r}, known is {' or '.join(map(repr, known))}"
            raise self.unreadable(name, said if data else "it is empty")
        return lines

    def needed(self, name: str) -> list[str]:
        """As `lines`, of a file that must be there."""
        if (lines := self.lines(name)) is None:
            raise self.unreadable(name, "it is missing")
        return lines

    def parsed(self, name: str, line: str | bytes) -> dict[str, Any]:
        """A line of the file, or all of it, which holds a JSON object."""
        try:
            fields: dict[str, Any] = {**json.loads(line)}
        except (ValueError, TypeError) as error:
            raise self.unreadable(name, f"its line {line[:20]!r}…: {error}") from error
        return fields

    def unreadable(self, name: str, why: object) -> CheckpointUnreadable:
        return CheckpointUnreadable(self.location, name, str(why))

    def remove_left_over(self) -> None:
        """Remove what a kill has left of a query's first plan: with it in `offsets`, Spark begins no state."""
        names = self.names("offsets")
        if not any(name.isdigit() for name in names):
            for name in names:
                if name.endswith((".tmp", ".tmp.crc")):
                    delete(self.fs, join(self.location, f"offsets/{name}"))

    def topics(self) -> TopicIds | None:
        """The ids of the topics that the query began with; None if there are none."""
        data = self.read(TOPICS)
        try:
            return None if data is None else tuple(dict(ids) for ids in json.loads(data))
        except (ValueError, TypeError) as error:
            raise self.unreadable(TOPICS, error) from error

    def put_topics(self, ids: TopicIds) -> None:
        """Write them, whole or not at all, in the place of those that may be there."""
        place = join(self.location, TOPICS)
        delete(self.fs, place)
        put_once(self.fs, place, json.dumps(ids).encode())


# What follows raises what `Checkpoint` raises.


def batch_watermark(batch: BatchRef) -> datetime | None:
    """The watermark (UTC) with which Spark runs a batch; None if it has none yet."""
    return _moment(watermark_millis(batch))


def watermark_millis(batch: BatchRef) -> int:
    """As Spark writes it at the head of the batch's file (OffsetSeqMetadata)."""
    return int(json.loads(batch.head.partition("\n")[2] or "{}").get("batchWatermarkMs", 0))


def next_watermark(batch: BatchId, files: Checkpoint) -> datetime | None:
    """The watermark (UTC) of the batch after this (CommitMetadata); None if nobody knows yet."""
    name = f"commits/{batch}"
    lines = files.lines(name)
    return None if lines is None else _moment(files.parsed(name, "".join(lines[:1])).get("nextBatchWatermarkMs"))


def _moment(millis: int | None) -> datetime | None:
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=millis) if millis else None


def batch_ref(query: str, batch: BatchId, files: Checkpoint) -> BatchRef:
    """What batch `batch` of `query` covers."""
    name = f"offsets/{batch}"
    head, ends = _offsets(batch, files)
    starts = _offsets(BatchId(batch - 1), files)[1] if batch else list[SourceOffset]([NoOffset()] * len(ends))
    if len(starts) != len(ends):
        reason = f"it has {len(ends)} sources, the batch before it {len(starts)}"
        raise files.unreadable(name, reason)
    for source, log in enumerate(_logs(len(ends), files)):
        start, end = starts[source], ends[source]
        if isinstance(end, FilesOffset):
            since = start.counter if isinstance(start, FilesOffset) else -1
            paths = [(number, path) for number in range(since + 1, end.counter + 1) for path in log.paths(number)]
            starts[source] = start if since >= 0 else NoOffset()
            ends[source] = FilesOffset.of(end.counter, tuple(paths))
        elif isinstance(end, KafkaOffset) and isinstance(start, NoOffset) and batch == 0:
            began = f"{log.folder}/0"
            starts[source] = _offset("\n".join(files.lines(began) or ["-"]).strip(), began, files)
    return BatchRef(query, batch, tuple(starts), tuple(ends), head=f"{VERSION}\n{head}")


def _offsets(batch: BatchId, files: Checkpoint) -> tuple[str, list[SourceOffset]]:
    """What an `offsets/<batch id>` holds: the metadata, and each source's offset."""
    name = f"offsets/{batch}"
    head, *lines = files.needed(name) or [""]
    files.parsed(name, head)
    return head, [_offset(line, name, files) for line in lines]


def _offset(text: str, name: str, files: Checkpoint) -> SourceOffset:
    """A source's in the file of that name. Each of Spark's own sources writes an object, or a number."""
    if text == "-":
        return NoOffset()
    offset = files.parsed(name, text) if text.startswith("{") else {}
    if set(offset) == {"logOffset"}:
        return FilesOffset(int(offset["logOffset"]), "", 0)
    is_kafka = all(
        isinstance(partitions, dict)
        and all(key.isdigit() and isinstance(value, int) for key, value in partitions.items())
        for partitions in offset.values()
    )
    return KafkaOffset.of(offset) if is_kafka and offset else OtherOffset(canonical(text))


def next_batch(files: Checkpoint, sources: tuple[str, ...] = ()) -> NextBatch:
    """The batch that a query over a checkpoint runs first; `sources` as of `BatchRef`."""
    data = files.read(METADATA)
    query = None if data is None else files.parsed(METADATA, data).get("id")
    planned = max((int(name) for name in files.names("offsets") if name.isdigit()), default=None)
    if planned is None:
        return NextBatch(query, BatchId(0), sources=sources)
    if query is None:
        raise files.unreadable(METADATA, "it is missing, or has no id")
    ref, commit = batch_ref(query, BatchId(planned), files), f"commits/{planned}"
    start, logs = list(ref.end), _logs(len(ref.end), files)
    for index, (end, log) in enumerate(zip(ref.end, logs, strict=True)):
        if isinstance(end, FilesOffset) and log.own:
            log.require_whole(end.counter)
        elif isinstance(end, FilesOffset):
            start[index] = replace(end, digest="")
    lines = files.lines(commit)
    if lines is None:
        return NextBatch(query, ref.batch, ref.start, ref.end, sources)
    if lines:  # Spark needs none.
        files.parsed(commit, lines[0])
    return NextBatch(query, BatchId(planned + 1), tuple(start), sources=sources)


def _logs(count: int, files: Checkpoint) -> list[_SourceLog]:
    """The log of each of `count` sources, if it is a file source."""
    own = count == 1 or bool(files.names(f"sources/{count - 1}"))
    return [_SourceLog(f"sources/{index}", files, own) for index in range(count)]


@dataclass(frozen=True, slots=True)
class _SourceLog:
    """A file source's log in the checkpoint.

    If a plan has the source twice, there is one log for two offsets: what it lacks says nothing, it isn't `own`.
    """

    folder: str
    files: Checkpoint
    own: bool

    def require_whole(self, until: int) -> None:
        """Spark reads the log from its last compacted offset on, and takes a file that it lacks for new."""
        since = max(self._compacted(), default=0)
        last = max((int(name) for name in self.files.names(self.folder) if name.isdigit()), default=until)
        for number in range(since, max(until, last) + 1):
            self.paths(number)

    def paths(self, number: int) -> list[str]:
        """The paths of a log offset. Later compacted ones hold it too, once its own file was cleaned up."""
        name = f"{self.folder}/{number}"
        lines = self.files.lines(name)
        if lines is None:
            later = [compacted for compacted in self._compacted() if compacted >= number]
            name = f"{self.folder}/{min(later)}.compact" if later else name
            lines = self.files.needed(name) if later or self.own else []
        paths = list[str]()
        try:
            # In order, and those of the last offsets are wanted.
            for entry in map(json.loads, reversed(lines)):
                if entry["batchId"] < number:
                    break
                paths += [str(entry["path"])] if entry["batchId"] == number else []
        except (ValueError, KeyError, TypeError) as error:
            raise self.files.unreadable(name, f"{type(error).__name__}: {error}") from error
        if self.own and not paths:
            raise self.files.unreadable(name, f"it lists no file of log offset {number}")
        return paths[::-1]

    def _compacted(self) -> list[int]:
        names = self.files.names(self.folder)
        return [int(match[1]) for name in names if (match := re.fullmatch(r"(\d+)\.compact", name))]
