"""A lost checkpoint, rebuilt from the last batch in the query's logs.

Spark runs that batch again, which the sink proves to be a replay, and goes on behind it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal
from hivesink.core.offsets import FilesOffset, chain
from hivesink.errors import CheckpointNotRebuilt, InvalidOption
from hivesink.spark.checkpoint import files_of
from hivesink.storage.fs import retry_unknown, stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.config.site import Site
    from hivesink.core.epoch import BatchRef, LastBatch
    from hivesink.storage.fs import FileSystem

_SPARKS = {"metadata", "offsets", "commits", "sources", "state"}
"""What Spark's checkpoint has in its folder, but for hidden files."""


def batch_to_rebuild(logs: Mapping[str, LastBatch]) -> LastBatch:
    """The last batch of a query, by its `logs` and where each of them ends: a query with several sinks has several.

    Raises CheckpointNotRebuilt where a checkpoint needs more than logs hold, or where two logs contradict each other.
    """
    ends = sorted(logs.items(), key=lambda item: item[1].ref.batch)
    (low, first), (high, last) = ends[0], ends[-1]
    offsets = (*last.ref.start, *last.ref.end)
    reason = None
    if last.ref.batch > first.ref.batch + 1:
        reason = f"it ends at batch {last.ref.batch} of the query, and {low} at batch {first.ref.batch}"
    elif not all(_fits(log.ref, last.ref) for log in logs.values()):
        reason = f"{low} holds other offsets of the same query"
    elif last.ref.keeps_state:
        reason = "the query keeps state (dropDuplicates, a window, a join), which was only there"
    elif any(isinstance(offset, FilesOffset) for offset in offsets):
        reason = "of a file source, the log holds no more than a digest of the files that were read"
    elif not last.ref.head:
        reason = "its last batch wasn't run by a Spark query"
    if reason:
        raise CheckpointNotRebuilt(high, last.epoch, reason)
    return last


def _fits(batch: BatchRef, last: BatchRef) -> bool:
    """Whether a log that ends with `batch` is at `last`, or right before it."""
    if batch.batch == last.batch:
        return (batch.start, batch.end) == (last.start, last.end)
    return chain(batch.end, last.start) is None


def checkpoint_folder(text: str, site: Site) -> str:
    """The whole location of a checkpoint, as Spark resolves it. Raises InvalidOption for a relative path on HDFS."""
    if ":" in text.partition("/")[0]:
        return text
    default = site.default_filesystem or "file:///"
    if default.startswith("file:"):
        return str(Path(text).absolute())
    if not text.startswith("/"):
        raise InvalidOption((f"--checkpoint {text}: it is on {default}: name its whole path",))
    return default.rstrip("/") + text


def rebuild(last: LastBatch, fs: FileSystem, folder: str, *, dry_run: bool) -> str | None:
    """Write the checkpoint into `folder`. Returns where what a refused start has left there is put, if there is any.

    Raises InvalidOption for a folder that holds a checkpoint with committed batches, or anything else.
    """
    folder = normal(folder)
    names = {entry.name for entry in fs.list(folder)}
    if others := sorted(name for name in names - _SPARKS if not name.startswith(".")):
        raise InvalidOption((f"{folder} is no checkpoint, but holds {others[0]}: name another folder",))
    if any(entry.name.isdigit() for entry in fs.list(f"{folder}/commits")):
        raise InvalidOption((f"{folder} holds a checkpoint with committed batches: move it away first",))
    # Also for the checksums of its files, which Hadoop keeps beside them.
    aside = f"{folder}.aside-{token_hex(4)}" if names else None
    if not dry_run:
        if aside:
            retry_unknown("put aside", folder, partial(_move, fs, folder, aside))
        for name, data in files_of(last.ref).items():
            stage(fs, f"{folder}/{name}", data)
    return aside


def _move(fs: FileSystem, folder: str, aside: str) -> None:
    """One try; an earlier one may have been done."""
    if fs.is_folder(folder):
        fs.rename_folder(folder, aside)
