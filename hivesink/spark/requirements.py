"""What a query's stream and checkpoint must be before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hivesink import errors
from hivesink.core.epoch import BatchId
from hivesink.spark.checkpoint import pinned_setting
from hivesink.spark.running import watermarks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hivesink.core.epoch import NextBatch
    from hivesink.sink.commit.commits import Source
    from hivesink.spark.checkpoint_files import Checkpoint
    from hivesink.wiring import OpenedWriter


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
