"""A lost checkpoint, rebuilt from the last batch in the query's logs.

Spark runs that batch again, which the sink proves to be a replay, and goes on behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex

from hivesink.config.site import Site
from hivesink.core.epoch import BatchRef, LastBatch
from hivesink.core.offsets import FilesOffset, KafkaOffset, NoOffset, SourceOffset, chain
from hivesink.core.partition import normal, scheme
from hivesink.errors import InvalidOption, Unsupported, appending
from hivesink.spark.checkpoint import METADATA, TOPICS, VERSION, watermark_millis
from hivesink.storage.fs import Files

_OF_A_CHECKPOINT = {METADATA, "offsets", "commits", "sources", "state", TOPICS}
"""What a checkpoint has in its folder, but for hidden files."""


def batch_to_rebuild(logs: Mapping[str, LastBatch]) -> LastBatch:
    """The last batch of a query, by its `logs` and where each of them ends: a query with several sinks has several.

    Raises Unsupported where a checkpoint needs more than logs hold, or where two logs contradict each other.
    """
    ends = sorted(logs.items(), key=lambda item: item[1].ref.batch)
    (low, first), (high, last) = ends[0], ends[-1]
    reads_files = any(isinstance(offset, FilesOffset) for offset in (*last.ref.start, *last.ref.end))
    reason = None
    if last.ref.batch > first.ref.batch + 1:
        reason = f"it ends at batch {last.ref.batch} of the query, and {low} at batch {first.ref.batch}"
    elif not all(
        (log.ref.start, log.ref.end) == (last.ref.start, last.ref.end)
        if log.ref.batch == last.ref.batch
        else chain(log.ref.end, last.ref.start) is None
        for log in logs.values()
    ):
        reason = f"{low} holds other offsets of the same query"
    elif last.ref.keeps_state:
        reason = "the query keeps state (dropDuplicates, a window, a join), which was only there"
    elif reads_files:
        reason = "of a file source, the log holds no more than a digest of the files that were read"
    elif not last.ref.head:
        reason = "its last batch wasn't run by a Spark query"
    if reason:
        # Such a source reads all its files again.
        before = "move away the files that were read, then " if reads_files else ""
        way = f"restore it from a backup, or {before}start with a new checkpoint and {appending(last.epoch)}"
        msg = f"the checkpoint of {high}"
        raise Unsupported(msg, f"the log can't rebuild it: {reason}", way)
    return last


def files_of(batch: BatchRef) -> dict[str, bytes]:
    """The files of a checkpoint with which Spark runs `batch` again, in the order in which to write them."""
    number, first = batch.batch, {}
    if number == 0:
        # Where a Kafka source began; Spark begins such a file with a zero byte.
        starts = enumerate(batch.start)
        first = {f"sources/{n}/0": f"\0{VERSION}\n{at}" for n, at in starts if isinstance(at, KafkaOffset)}
    ids = [dict(offset.ids) if isinstance(offset, KafkaOffset) else {} for offset in batch.end]
    own = {METADATA: json.dumps({"id": batch.query}), TOPICS: json.dumps(ids)}
    files = {**own, **first, f"offsets/{number}": _lines_of(batch.head, batch.end)}
    if number > 0:
        files[f"offsets/{number - 1}"] = _lines_of(batch.head, batch.start)
        files[f"commits/{number - 1}"] = f'{VERSION}\n{{"nextBatchWatermarkMs":{watermark_millis(batch)}}}'
    return {name: text.encode() for name, text in files.items()}


def _lines_of(head: str, offsets: tuple[SourceOffset, ...]) -> str:
    return "\n".join([head, *("-" if isinstance(offset, NoOffset) else str(offset) for offset in offsets)])


def checkpoint_folder(text: str, site: Site) -> str:
    """The whole location of a checkpoint, as Spark resolves it. Raises InvalidOption for a relative path on HDFS."""
    if ":" in text.partition("/")[0]:
        return text
    default = site.default_filesystem
    if default is None or scheme(default) == "file":
        return str(Path(text).absolute())
    if not text.startswith("/"):
        raise InvalidOption((f"--checkpoint {text}: it is on {default}: name its whole path",))
    return default.rstrip("/") + text


def rebuild(last: LastBatch, fs: Files, folder: str, *, dry_run: bool) -> str | None:
    """Write the checkpoint into `folder`. Returns where what a refused start has left there is put, if there is any.

    Raises InvalidOption for a folder that holds a checkpoint with committed batches, or anything else.
    """
    folder = normal(folder)
    names = {entry.name for entry in fs.list(folder)}
    if others := sorted(name for name in names - _OF_A_CHECKPOINT if not name.startswith(".")):
        raise InvalidOption((f"{folder} is no checkpoint, but holds {others[0]}: name another folder",))
    if any(entry.name.isdigit() for entry in fs.list(f"{folder}/commits")):
        raise InvalidOption((f"{folder} holds a checkpoint with committed batches: move it away first",))
    # Hidden ones too: Hadoop keeps the checksums of its files beside them.
    left = list(_below(fs, folder))
    aside = f"{folder}.aside-{token_hex(4)}" if left else None
    if not dry_run:
        for path in left:
            fs.put(f"{aside}{path.removeprefix(folder)}", fs.read(path) or b"")
        for path in left:
            fs.delete(path)
        for name, data in files_of(last.ref).items():
            fs.put(f"{folder}/{name}", data)
    return aside


def _below(fs: Files, folder: str) -> Iterator[str]:
    for entry in fs.list(folder):
        path = f"{folder}/{entry.name}"
        yield from _below(fs, path) if entry.is_folder else (path,)
