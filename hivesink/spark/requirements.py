"""What a query's stream and checkpoint must be before it begins."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hivesink import errors
from hivesink.core.bucket import normal
from hivesink.core.epoch import BatchId
from hivesink.core.offsets import FilesOffset
from hivesink.spark.checkpoint import files_read, pinned_setting
from hivesink.spark.filenames import is_below, is_read, read_already, without_links
from hivesink.spark.running import file_sources, watermarks
from hivesink.spark.site import has_partitions, local_folder, qualified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from hivesink.core.epoch import NextBatch
    from hivesink.sink.commit.commits import Source
    from hivesink.spark.checkpoint_files import Checkpoint
    from hivesink.spark.running import FileSource
    from hivesink.wiring import OpenedWriter


def require_unread(spark: SparkSession, setup: OpenedWriter, first: NextBatch, plan: Any, files: Checkpoint) -> None:
    """Raises InvalidOption if the one source's folder has files that the query has read by other paths."""
    sources, start = file_sources(plan), first.start or ()
    is_sole = len(sources) == len(start) == 1 and isinstance(start[0], FilesOffset)
    if not is_sole or sources[0].by_name or setup.spec.history_policy.append is not None:
        return
    root = local_folder(spark, sources[0].path)
    found = next(read_already(root, files_read(files, partial(is_below, root))), None) if root else None
    if found:
        problem = (
            f"the query reads {root}, where {found[0]} is {found[1]}, which it has read: it knows files by their "
            "paths, and would read it again; name the old folder again, or move away what was read "
            '(see "The source\'s folder was moved" in docs/operations.md)'
        )
        raise errors.InvalidOption((problem,))


def require_apart(spark: SparkSession, setup: OpenedWriter, plan: Any, checkpoint: str) -> None:
    """Raises InvalidOption if a file source would read files of the checkpoint, the log or the table as its input."""
    table, log = setup.spec.target, setup.context.log.location
    part = "p=0/part-0.parquet" if table.spec.is_partitioned else "part-0.parquet"
    for source in file_sources(plan):
        root = qualified(spark, source.path)
        filtered = ", or set pathGlobFilter" if source.deep else ""
        own = [
            (f"checkpoint {checkpoint}", checkpoint, ("metadata", "offsets/0"), "choose a folder outside of it"),
            (f"{table.name}, at {table.location},", table.location, (part,), f"choose another source{filtered}"),
        ]
        way = "set sink.log-location to a folder outside of it"
        if setup.last_batch() is None:
            way += f", delete that log, which holds nothing yet, and unset 'hivesink_log' of {table.name}"
        own.append((f"the log {log}", log, ("uid", "manifests/1.json"), way))
        for what, folder, names, todo in own:
            if _would_read(spark, source, root, [f"{folder}/{name}" for name in names]):
                problem = f"{what} lies in {source.path}, from which the query reads: it would read these files, too"
                raise errors.InvalidOption((f"{problem}; {todo}",))


def _would_read(spark: SparkSession, source: FileSource, root: str, files: Sequence[str]) -> bool:
    """Whether Spark reads one of them, as it is named or where links lead to, or fails over where it is."""
    ways = [(spell(root), spell(file)) for spell in (normal, without_links) for file in files]
    if any(is_read(*way, deep=source.deep, names=source.names) for way in ways):
        return True
    # Where there are folders of partitions, any other folder fails the source, whatever the names of its files.
    below = [] if source.deep else [way for way in ways if is_read(*way, deep=True)]
    named = any("=" in file.removeprefix(top) for top, file in below)
    return named or (bool(below) and has_partitions(spark, source.path))


def require_watermark(setup: OpenedWriter, source: Source, *, has_watermark: bool) -> None:
    """Raises InvalidOption where nothing but Spark's watermark could tell which rows are still to come."""
    if not source.holds_back:
        return
    if not has_watermark:
        problem = (
            "sink.partition-commit.trigger = 'partition-time': the stream's windows or joins keep rows for later, "
            "and not each of its sources has a watermark; give them one with withWatermark"
        )
        raise errors.InvalidOption((problem,))
    if setup.spec.config["sink.partition-commit.watermark-column"] is not None:
        problem = (
            "sink.partition-commit.watermark-column: the stream's windows or joins keep rows for later, "
            "so only Spark's watermark can tell what is still to come; remove it"
        )
        raise errors.InvalidOption((problem,))


def require_least(spark: SparkSession, setup: OpenedWriter, first: NextBatch, plan: Any, files: Checkpoint) -> None:
    """Raises InvalidOption where the watermark of one source would end the partitions of the others."""
    setting, own = "spark.sql.streaming.multipleWatermarkPolicy", "sink.partition-commit.watermark-column"
    if setup.spec.config[own] is not None or watermarks(plan) < 2:  # noqa: PLR2004  of one there is no least
        return
    planned = BatchId(first.batch if first.end is not None else first.batch - 1)
    pinned = pinned_setting(planned, setting, files)
    policy = pinned or spark.conf.get(setting)
    if str(policy).lower() != "max":
        return
    where, way = "", "set it to min"
    if pinned:
        where = f" in the checkpoint {first.checkpoint}, which binds Spark whatever the session says"
        way = "set it to min and start with a new checkpoint and append"
    problem = f"{setting} = max{where}: the source that is ahead would end the partitions of the others"
    raise errors.InvalidOption((f"{problem}; {way}, or set {own}",))
