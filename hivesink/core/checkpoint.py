"""Reads Spark's checkpoint: what a micro-batch covers, and which one a query runs first.

`metadata` holds the query's id. `offsets/<batch id>` is written before the batch runs (Spark's OffsetSeqLog, version
`v1`: a metadata line, then one line a source, `-` for none), `commits/<batch id>` after it. `sources/<n>/0` of a Kafka
source holds where the query began (KafkaSourceInitialOffsetWriter). `sources/<n>/<i>` of a file source lists the files
of its log offset i, in `<i>.compact` together with all earlier ones (CompactibleFileStreamLog).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from hivesink.core.epoch import BatchId, BatchRef, NextBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, OtherOffset, SourceOffset, canonical
from hivesink.errors import CheckpointUnreadable

VERSION = "v1"
_COMMITS = (VERSION, "v2")
"""Of `commits/`: Spark 4 writes v2 with `spark.sql.streaming.stateStore.checkpointFormatVersion` = 2."""
METADATA = "metadata"

T = TypeVar("T")

Read = Callable[[str], bytes | None]
"""Returns a file of the checkpoint, by its path below it; None if there is none."""

Names = Callable[[str], list[str]]
"""Returns the names in a folder of the checkpoint; none if there is no such folder."""


def parse_offsets(data: bytes, file: str) -> tuple[str | None, ...]:
    """Each source's offset in an `offsets/<batch id>`. Raises CheckpointUnreadable for any other version or form."""
    metadata, *sources = _lines(data, file) or [""]
    try:
        json.loads(metadata)
    except ValueError as error:
        raise CheckpointUnreadable(file, f"its metadata line: {error}") from error
    return tuple(None if line == "-" else line for line in sources)


def batch_watermark(batch: BatchId, read: Read) -> datetime | None:
    """The watermark (UTC) with which Spark runs a batch (OffsetSeqMetadata); None if it has none yet.

    Raises CheckpointUnreadable.
    """
    name = f"offsets/{batch}"
    return _watermark(_lines(read(name) or b"", name), name, "batchWatermarkMs")


def next_watermark(batch: BatchId, read: Read) -> datetime | None:
    """The watermark (UTC) that the batch after this one will have (CommitMetadata); None if nobody knows yet.

    Raises CheckpointUnreadable.
    """
    name = f"commits/{batch}"
    data = read(name)
    return None if data is None else _watermark(_lines(data, name, _COMMITS), name, "nextBatchWatermarkMs")


def pinned_setting(batch: BatchId, setting: str, read: Read) -> str | None:
    """A setting of Spark's that binds the query from a batch on, whatever its session says (OffsetSeqMetadata).

    None if the checkpoint has no such batch, or doesn't name the setting. Raises CheckpointUnreadable.
    """
    name = f"offsets/{batch}"
    data = read(name)
    return None if data is None else _field(_lines(data, name), name, lambda found: found.get("conf", {}).get(setting))


def _watermark(lines: list[str], file: str, field: str) -> datetime | None:
    millis = _field(lines, file, lambda found: int(found.get(field, 0)))
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=millis) if millis else None


def _field(lines: list[str], file: str, of: Callable[[Any], T]) -> T:
    try:
        return of(json.loads(lines[0] if lines else ""))
    except (ValueError, AttributeError) as error:
        raise CheckpointUnreadable(file, f"its metadata line: {error}") from error


def _lines(data: bytes, file: str, known: tuple[str, ...] = (VERSION,)) -> list[str]:
    version, *lines = data.decode("utf-8", "replace").strip("\n").split("\n")
    if version.strip() not in known:
        raise CheckpointUnreadable(file, f"its version is {version[:20]!r}, known is {' or '.join(map(repr, known))}")
    return lines


def batch_ref(query: str, batch: BatchId, read: Read) -> BatchRef:
    """What batch `batch` of `query` covers. Raises CheckpointUnreadable."""
    name = f"offsets/{batch}"
    data = read(name)
    if data is None:
        raise CheckpointUnreadable(name, "it is missing")
    ends = parse_offsets(data, name)
    before = read(f"offsets/{batch - 1}") if batch else None
    starts = parse_offsets(before, f"offsets/{batch - 1}") if before else (None,) * len(ends)
    if len(starts) != len(ends):
        raise CheckpointUnreadable(name, f"it has {len(ends)} sources, the one before it {len(starts)}")
    pairs = [
        _covered(index, first, last, read, batch) for index, (first, last) in enumerate(zip(starts, ends, strict=True))
    ]
    return BatchRef(query, batch, tuple(first for first, _ in pairs), tuple(last for _, last in pairs))


def next_batch(checkpoint: str, read: Read, names: Names) -> NextBatch:
    """The batch that a query over `checkpoint` runs first. Raises CheckpointUnreadable."""
    query = _query(read)
    planned = max((int(name) for name in names("offsets") if name.isdigit()), default=None)
    if planned is None:
        return NextBatch(checkpoint, query, BatchId(0))
    ref = batch_ref(query or "", BatchId(planned), read)
    if read(f"commits/{planned}") is None:
        return NextBatch(checkpoint, query, ref.batch, ref.start, ref.end)
    return NextBatch(checkpoint, query, BatchId(planned + 1), ref.end)


def _query(read: Read) -> str | None:
    data = read(METADATA)
    if data is None:
        return None
    try:
        return str(json.loads(data)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointUnreadable(METADATA, f"{type(error).__name__}: {error}") from error


def _covered(
    index: int, start: str | None, end: str | None, read: Read, batch: BatchId
) -> tuple[SourceOffset, SourceOffset]:
    first, last = _parse(start), _parse(end)
    if isinstance(last, FilesOffset):
        since = first.counter if isinstance(first, FilesOffset) else -1
        return (first if since >= 0 else NoOffset()), _files(index, since, last.counter, read)
    if isinstance(last, KafkaOffset) and isinstance(first, NoOffset) and batch == 0:
        return _initial(index, read), last
    return first, last


def _parse(text: str | None) -> SourceOffset:
    if text is None:
        return NoOffset()
    try:
        found = json.loads(text)
    except ValueError:
        return OtherOffset(text)
    if isinstance(found, dict) and set(found) == {"logOffset"}:
        return FilesOffset(int(found["logOffset"]), "", 0)
    return KafkaOffset.of(found) if _is_kafka(found) else OtherOffset(canonical(text))


def _is_kafka(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and bool(found)
        and all(
            isinstance(partitions, dict)
            and all(key.isdigit() and isinstance(value, int) for key, value in partitions.items())
            for partitions in found.values()
        )
    )


def _initial(index: int, read: Read) -> SourceOffset:
    name = f"sources/{index}/0"
    data = read(name)
    if data is None:
        return NoOffset()
    # Spark writes a leading zero byte, for the sake of Spark 2.1.0.
    return _parse("\n".join(_lines(data.lstrip(b"\0"), name)).strip())


def _files(index: int, since: int, until: int, read: Read) -> FilesOffset:
    counters = range(since + 1, until + 1)
    return FilesOffset.of(until, tuple((number, path) for number in counters for path in _paths(index, number, read)))


def _paths(index: int, number: int, read: Read) -> list[str]:
    for name in (f"sources/{index}/{number}", f"sources/{index}/{number}.compact"):
        data = read(name)
        if data is None:
            continue
        try:
            entries = [json.loads(line) for line in _lines(data, name)]
            return [str(entry["path"]) for entry in entries if entry["batchId"] == number]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointUnreadable(name, f"{type(error).__name__}: {error}") from error
    return []
