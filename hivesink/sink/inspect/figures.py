"""What a writer's log says for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.metrics import Figures, commit_delay

if TYPE_CHECKING:
    from hivesink.core.partition_commit import CommitRule
    from hivesink.sink.inspect.facts import LogFacts


def figures(log: LogFacts, rule: CommitRule) -> Figures:
    """Where partitions are committed by `rule`."""
    delays = (commit_delay(manifest, rule) for manifest in reversed(log.manifests))
    return Figures(
        total=log.total,
        head=log.head,
        lag=log.lag,
        rows=log.open_rows,
        unsettled=len(log.open),
        unpublished=log.waiting,
        commit_delay=next((seconds for seconds in delays if seconds is not None), 0.0),
    )
