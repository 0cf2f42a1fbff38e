"""Makes known that partitions are committed. Every way may be repeated: a process may die right after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.partition_commit import PolicyKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.partition_commit import CommittedPartition
    from hivesink.core.plan import Policy
    from hivesink.sink.commit.context import CommitContext


def announce(
    context: CommitContext, policy: Policy, kind: PolicyKind, partitions: Sequence[CommittedPartition]
) -> None:
    """Raises StoreUnavailable, NotWritable; the metastore's errors; whatever the user's own policy raises."""
    match kind:
        case PolicyKind.SUCCESS_FILE:
            paths = [f"{one.location}/{policy.success_file}" for one in partitions]
            context.store.run_parallel(partial(context.store.mark, path) for path in paths)
        case PolicyKind.INSERT_EVENT:
            for table in sorted({one.table for one in partitions}):
                files = {one.partition: one.files for one in partitions if one.table == table}
                context.registrar.announce(context.table(table), files)
        case PolicyKind.CUSTOM:
            if policy.own is not None:
                for one in partitions:
                    policy.own(one)
