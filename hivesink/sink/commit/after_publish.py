"""What follows a publish: commits are announced, and Hive's planner gets estimates.

Hive itself counts rows: the accurate flag is only ever cleared.

The metastore has no compare-and-set, so whoever sets the flag can't know whether it is still true a moment later. An
epoch clears it before its publish and after it (`core.plan`). A user's ANALYZE may set it in between, so it is cleared
once more where a partition is at rest.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.partition import Estimate, PartitionKey, by_table
from hivesink.core.partition_commit import PolicyKind
from hivesink.core.progress import count
from hivesink.errors import HiveSinkError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hivesink.core.partition import LivePartition
    from hivesink.core.partition_commit import CommittedPartition
    from hivesink.core.plan import Policy
    from hivesink.ports import Measure
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")


def announce(
    context: CommitContext, policy: Policy, kind: PolicyKind, partitions: Sequence[CommittedPartition]
) -> None:
    """Make known that `partitions` are committed. May be repeated: a process may die right after it.

    Raises StoreUnavailable, NotWritable; the metastore's errors; whatever the user's own policy raises.
    """
    match kind:
        case PolicyKind.SUCCESS_FILE:
            paths = [f"{partition.location}/{policy.success_file}" for partition in partitions]
            context.store.run_parallel(partial(context.store.mark, path) for path in paths)
        case PolicyKind.INSERT_EVENT:
            for table in sorted({partition.table for partition in partitions}):
                files = {partition.partition: partition.files for partition in partitions if partition.table == table}
                context.registrar.announce(context.table(table), files)
        case PolicyKind.CUSTOM:
            if policy.own is not None:
                for partition in partitions:
                    policy.own(partition)


def write_estimates(context: CommitContext, places: Iterable[PartitionKey], measure: Measure) -> None:
    """Clear the flag of `places`, then write what their files hold, as far as these can be read.

    Raises the metastore's errors.
    """
    live = context.lookup(places)
    for table, partitions in by_table(key for key, home in live.items() if home.accurate).items():
        context.registrar.clear_accurate(context.table(table), partitions)
    counted = context.store.run_parallel(partial(_estimate, context, home, measure) for home in live.values())
    estimates = {key: estimate for key, estimate in zip(live, counted, strict=True) if estimate}
    for table, partitions in by_table(estimates).items():
        context.registrar.estimate(context.table(table), [estimates[table, name] for name in partitions])


def try_estimates(context: CommitContext, places: Collection[PartitionKey], measure: Measure) -> None:
    """As `write_estimates`, but log errors: an epoch clears the flag itself, and the query's end repeats all this."""
    try:
        write_estimates(context, places, measure)
    except HiveSinkError as error:
        logger.warning("no estimates of %s: %s", count(len(places), "partition"), error)


def _estimate(context: CommitContext, home: LivePartition, measure: Measure) -> Estimate | None:
    rows = raw_bytes = 0
    try:
        files = context.store.visible(home.location)
        for file in files:
            with context.store.open(file.path) as stream:
                content = measure(stream)
            rows, raw_bytes = rows + content.rows, raw_bytes + content.raw_bytes
    except (HiveSinkError, ValueError) as error:
        logger.warning("no estimate of the rows in %s: %s", home.location, error)
        return None
    return Estimate(home.partition, len(files), sum(file.length for file in files), rows, raw_bytes)
