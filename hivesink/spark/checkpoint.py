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
from typing import TYPE_CHECKING, Any, TypeVar

from hivesink.core.epoch import BatchId, BatchRef, NextBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset, SourceOffset, canonical
from hivesink.errors import CheckpointUnreadable
from hivesink.storage.fs import delete, join, put_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.offsets import TopicIds
    from hivesink.storage.fs import Files

VERSION = "v1"
_COMMITS = (VERSION, "v2")
"""Of `commits/`: Spark 4 writes v2 with `spark.sql.streaming.stateStore.checkpointFormatVersion` = 2."""
METADATA = "metadata"

T = TypeVar("T")


def batch_watermark(batch: BatchId, files: Checkpoint) -> datetime | None:
    """The watermark (UTC) with which Spark runs a batch (OffsetSeqMetadata); None if it has none yet.

    Raises CheckpointUnreadable.
    """
    name = f"offsets/{batch}"
    return _watermark(_lines(name, files), name, "batchWatermarkMs", files)


def next_watermark(batch: BatchId, files: Checkpoint) -> datetime | None:
    """The watermark (UTC) of the batch after this (CommitMetadata); None if nobody knows yet.

    Raises CheckpointUnreadable.
    """
    name = f"commits/{batch}"
    lines = _lines_of(name, files)
    return None if lines is None else _watermark(lines, name, "nextBatchWatermarkMs", files)


def pinned_setting(batch: BatchId, setting: str, files: Checkpoint) -> str | None:
    """A setting of Spark's that binds the query from a batch on, whatever its session says (OffsetSeqMetadata).

    None if the checkpoint has no such batch, or doesn't name the setting. Raises CheckpointUnreadable.
    """
    name = f"offsets/{batch}"
    lines = _lines_of(name, files)
    return None if lines is None else _field(lines, name, lambda metadata: metadata.get("conf", {}).get(setting), files)


def _watermark(lines: list[str], name: str, field: str, files: Checkpoint) -> datetime | None:
    millis = _field(lines, name, lambda metadata: int(metadata.get(field, 0)), files)
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=millis) if millis else None


def _field(lines: list[str], name: str, of: Callable[[Any], T], files: Checkpoint) -> T:
    """What `of` makes of the first line, which holds JSON."""
    line = lines[0] if lines else ""
    try:
        return of(json.loads(line))
    except (ValueError, AttributeError) as error:
        raise CheckpointUnreadable(files.location, name, f"its line {line[:20]!r}…: {error}") from error


def _lines(name: str, files: Checkpoint) -> list[str]:
    lines = _lines_of(name, files)
    if lines is None:
        raise CheckpointUnreadable(files.location, name, "it is missing")
    return lines


def _lines_of(name: str, files: Checkpoint) -> list[str] | None:
    """The lines after the version; None if there is no such file."""
    data = files.read(name)
    if data is None:
        return None
    known = _COMMITS if name.startswith("commits/") else (VERSION,)
    try:
        version, *lines = data.decode().strip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointUnreadable(files.location, name, str(error)) from error
    # Spark writes a leading zero byte before a Kafka source's, for the sake of Spark 2.1.0.
    if version.strip("\0 ") not in known:
        reason = f"its version is {version[:20]!r}, known is {' or '.join(map(repr, known))}" if data else "it is empty"
        raise CheckpointUnreadable(files.location, name, reason)
    return lines


def left_over(files: Checkpoint) -> list[str]:
    """What a kill has left of the plan of a query's first batch: with it in `offsets`, Spark begins no state."""
    names = files.names("offsets")
    if any(name.isdigit() for name in names):
        return []
    return [f"offsets/{name}" for name in names if name.endswith((".tmp", ".tmp.crc"))]


def batch_ref(query: str, batch: BatchId, files: Checkpoint) -> BatchRef:
    """What batch `batch` of `query` covers. Raises CheckpointUnreadable."""
    ends = _offsets(batch, files)
    starts = _offsets(BatchId(batch - 1), files) if batch else (None,) * len(ends)
    if len(starts) != len(ends):
        reason = f"it has {len(ends)} sources, the batch before it {len(starts)}"
        raise CheckpointUnreadable(files.location, f"offsets/{batch}", reason)
    logs = zip(starts, ends, _logs(len(ends), files), strict=True)
    pairs = [_covered(log, first, last, batch) for first, last, log in logs]
    head = "\n".join([VERSION, *_lines(f"offsets/{batch}", files)[:1]])
    return BatchRef(query, batch, tuple(first for first, _ in pairs), tuple(last for _, last in pairs), head=head)


def _offsets(batch: BatchId, files: Checkpoint) -> tuple[str | None, ...]:
    """Each source's offset in an `offsets/<batch id>`."""
    name = f"offsets/{batch}"
    metadata, *sources = _lines(name, files) or [""]
    # Each of Spark's own sources writes an object, or a number.
    for line in (metadata, *(line for line in sources if line.startswith("{"))):
        _field([line], name, lambda _: None, files)
    return tuple(None if line == "-" else line for line in sources)


def next_batch(files: Checkpoint, sources: tuple[str, ...] = ()) -> NextBatch:
    """The batch that a query over a checkpoint runs first; `sources` as of `BatchRef`.

    Raises CheckpointUnreadable where a file is missing or damaged without which Spark would fail, or would plan that
    batch from elsewhere.
    """
    query = _query(files)
    planned = max((int(name) for name in files.names("offsets") if name.isdigit()), default=None)
    if planned is None:
        return NextBatch(files.location, query, BatchId(0), sources=sources)
    if query is None:
        raise CheckpointUnreadable(files.location, METADATA, "it is missing")
    ref = batch_ref(query, BatchId(planned), files)
    logs = _logs(len(ref.end), files)
    for end, log in zip(ref.end, logs, strict=True):
        if isinstance(end, FilesOffset) and log.own:
            log.require_whole(end.counter)
    commit = f"commits/{planned}"
    lines = _lines_of(commit, files)
    if lines is None:
        return NextBatch(files.location, query, ref.batch, ref.start, ref.end, sources)
    if lines:  # Spark needs none.
        _field(lines, commit, lambda _: None, files)
    known = zip(ref.end, logs, strict=True)
    start = tuple(end if log.own or not isinstance(end, FilesOffset) else replace(end, digest="") for end, log in known)
    return NextBatch(files.location, query, BatchId(planned + 1), start, sources=sources)


def _query(files: Checkpoint) -> str | None:
    data = files.read(METADATA)
    if data is None:
        return None
    try:
        return str(json.loads(data)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointUnreadable(files.location, METADATA, f"{type(error).__name__}: {error}") from error


def _covered(log: _SourceLog, start: str | None, end: str | None, batch: BatchId) -> tuple[SourceOffset, SourceOffset]:
    first, last = _parse(start), _parse(end)
    if isinstance(last, FilesOffset):
        since = first.counter if isinstance(first, FilesOffset) else -1
        return (first if since >= 0 else NoOffset()), log.between(since, last.counter)
    if isinstance(last, KafkaOffset) and isinstance(first, NoOffset) and batch == 0:
        # Where the source began.
        lines = _lines_of(f"{log.folder}/0", log.files)
        return _parse(None if lines is None else "\n".join(lines).strip()), last
    return first, last


def _parse(text: str | None) -> SourceOffset:
    if text is None:
        return NoOffset()
    try:
        offset = json.loads(text)
    except ValueError:
        return OtherOffset(text)
    if isinstance(offset, dict) and set(offset) == {"logOffset"}:
        return FilesOffset(int(offset["logOffset"]), "", 0)
    if not isinstance(offset, dict) or not offset:
        return OtherOffset(canonical(text))
    is_kafka = all(
        isinstance(partitions, dict)
        and all(key.isdigit() and isinstance(value, int) for key, value in partitions.items())
        for partitions in offset.values()
    )
    return KafkaOffset.of(offset) if is_kafka else OtherOffset(canonical(text))


def _logs(count: int, files: Checkpoint) -> list[_SourceLog]:
    """The log of each of `count` sources, if it is a file source."""
    own = count == 1 or bool(files.names(f"sources/{count - 1}"))
    return [_SourceLog(f"sources/{index}", files, own) for index in range(count)]


@dataclass(frozen=True, slots=True)
class _SourceLog:
    """A source's folder in the checkpoint: a file source's log.

    A source that a plan has twice has two offsets and a single log. Then the folders' numbers aren't the offsets', and
    nothing can be said of what a folder lacks: it isn't `own`.
    """

    folder: str
    files: Checkpoint
    own: bool

    def between(self, since: int, until: int) -> FilesOffset:
        numbers = range(since + 1, until + 1)
        return FilesOffset.of(until, tuple((number, path) for number in numbers for path in self._paths(number)))

    def lines(self) -> list[str]:
        """All that the log holds, a file in each line."""
        compacted = max(self._compacted(), default=-1)
        later = sorted(int(name) for name in self.files.names(self.folder) if name.isdigit() and int(name) > compacted)
        names = [*([f"{compacted}.compact"] if compacted >= 0 else []), *map(str, later)]
        return [line for name in names for line in _lines_of(f"{self.folder}/{name}", self.files) or ()]

    def require_whole(self, until: int) -> None:
        """Spark reads the log from its last compacted offset on, and takes a file that it lacks for new."""
        since = max(self._compacted(), default=0)
        last = max((int(name) for name in self.files.names(self.folder) if name.isdigit()), default=until)
        for number in range(since, max(until, last) + 1):
            self._paths(number)

    def _paths(self, number: int) -> list[str]:
        """The paths of a log offset. Later compacted ones hold it too, once its own file was cleaned up."""
        name = f"{self.folder}/{number}"
        lines = _lines_of(name, self.files)
        if lines is None:
            later = [compacted for compacted in self._compacted() if compacted >= number]
            name = f"{self.folder}/{min(later)}.compact" if later else name
            lines = _lines(name, self.files) if later or self.own else []
        paths = list[str]()
        try:
            # In order, and those of the last offsets are wanted.
            for entry in map(json.loads, reversed(lines)):
                if entry["batchId"] < number:
                    break
                paths += [str(entry["path"])] if entry["batchId"] == number else []
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointUnreadable(self.files.location, name, f"{type(error).__name__}: {error}") from error
        if self.own and not paths:
            raise CheckpointUnreadable(self.files.location, name, f"it lists no file of log offset {number}")
        return paths[::-1]

    def _compacted(self) -> list[int]:
        names = self.files.names(self.folder)
        return [int(match[1]) for name in names if (match := re.fullmatch(r"(\d+)\.compact", name))]


TOPICS = "hivesink-topics"
"""For each source, the ids of Kafka's topics by their names, before Spark planned the query's first batch."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's files, by their names below `location`. Methods raise NotWritable, StoreUnavailable."""

    fs: Files
    location: str

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        return self.fs.read(join(self.location, name))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder."""
        return [entry.name for entry in self.fs.list(join(self.location, folder))]

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        delete(self.fs, join(self.location, name))

    def topics(self) -> TopicIds | None:
        """The ids of the topics that the query began with; None if there are none. Raises CheckpointUnreadable too."""
        data = self.read(TOPICS)
        try:
            return None if data is None else tuple(dict(ids) for ids in json.loads(data))
        except (ValueError, TypeError) as error:
            raise CheckpointUnreadable(self.location, TOPICS, str(error)) from error

    def put_topics(self, ids: TopicIds) -> None:
        """Write them, whole or not at all, in the place of those that may be there."""
        self.remove(TOPICS)
        put_once(self.fs, join(self.location, TOPICS), json.dumps(ids).encode())
