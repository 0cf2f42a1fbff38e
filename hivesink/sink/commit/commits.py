"""What the driver knows of partition commits: the watermark, which partitions are over, and their last records."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.offsets import KafkaOffset
from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import commit_after, due_commits, newest, recorded
from hivesink.core.watermark import Watermark
from hivesink.errors import LogDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from hivesink.core.epoch import BatchRef, Epoch
    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition_commit import Commit, CommitRule, Recorded, Waits
    from hivesink.core.rolling import Ages, OpenRows
    from hivesink.core.watermark import WatermarkPolicy
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.task.messages import InputShape, TaskReport

_ALL = ""
"""The name of all input, where no partitions are told apart."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(slots=True)
class PartitionCommits:
    """How long each partition of the source has been silent, by a monotonic clock, and the commits in the log."""

    context: CommitContext
    rule: CommitRule
    policy: WatermarkPolicy
    _heard: dict[str, float] = field(default_factory=dict)
    _known: dict[PartitionKey, Commit] | None = None

    def mark(self, head: Manifest | None) -> Watermark | None:
        """The watermark as it is now, while no batch comes."""
        before = head.watermark if head else None
        if before is None or not before.newest:
            return before and before.stopped(self._idle([_ALL])[_ALL], self.policy)
        return before.reached(self._idle(before.newest), self.policy)

    def mark_after(
        self, head: Manifest | None, batch: BatchRef, shape: InputShape, reports: Iterable[TaskReport]
    ) -> Watermark | None:
        """The watermark once `batch` has been read; None where nothing says what it is."""
        before = (head.watermark if head else None) or Watermark()
        tick = self.context.tick()
        if shape.event_time is None:
            self._heard[_ALL] = tick
            # The sink's own of earlier settings would go on by the clock, since its sources are silent.
            return Watermark(before.at).at_least(shape.watermark) if shape.watermark or before.at else None
        now = self.context.now()
        seen = before.saw(dict.fromkeys(_sources(batch, shape)), now)
        for newest_times in (report.newest for report in reports):
            # Rows without times say nothing: else a source that has only such rows would hold all for ever.
            times = {name: _EPOCH + timedelta(microseconds=at) for name, at in newest_times.items() if at is not None}
            self._heard |= dict.fromkeys(times, tick)
            seen = seen.saw(dict.fromkeys(newest_times) | times, now)
        return seen.reached(self._idle(seen.newest), self.policy)

    def waits(self, ages: Mapping[PartitionKey, Ages], head: Manifest | None) -> Waits:
        """As `due_commits`."""
        opened = {key: age.open for key, age in ages.items()}
        return due_commits(self.rule, opened, self.mark(head) or Watermark(), self)

    def final(self, keys: AbstractSet[PartitionKey]) -> set[PartitionKey]:
        """Those of `keys` whose commits have waited until no more rows are expected."""
        return {key for key in keys if self.rule.holds(key)}

    def __contains__(self, key: object) -> bool:
        """Whether the log has a commit of that partition."""
        return key in self.read()

    def records(
        self,
        keys: Iterable[PartitionKey],
        rows: OpenRows,
        parts: Iterable[PartEntry],
        ages: Mapping[PartitionKey, Ages],
        mark: Watermark | None,
    ) -> tuple[Commit, ...]:
        """The commits of those of `keys` that can be committed, once `parts` are published: no row of these waits."""
        counts, files = Counter[PartitionKey](), Counter[PartitionKey]()
        for part in parts:
            counts[part.key] += part.rows
            files[part.key] += 1
        commits = []
        for key in sorted(keys):
            is_late = key in self and self.rule.end(key) is None
            if is_late or self.rule.is_over(key, ages[key].open if key in ages else timedelta(0), mark or Watermark()):
                before_rows, before_files = rows.published(key)
                total = before_rows + counts[key], before_files + files[key]
                commits.append(commit_after(self.read().get(key), key, *total))
        return tuple(commits)

    def decided(self, manifest: Manifest) -> None:
        """Remember what `manifest` commits."""
        if self._known is not None:
            self._known |= {commit.key: commit for commit in manifest.commits or ()}

    def forget(self) -> None:
        """Another run may have written to the log."""
        self._known = None

    def read(self) -> dict[PartitionKey, Commit]:
        """The log's commits, read once.

        A start doesn't wait for that. An epoch that may commit reads them before its tasks run, since nothing may take
        time between the last look at staged files and the decision.
        """
        if self._known is None:
            log = self.context.log
            read = [partial(self._recorded, epoch) for epoch in log.view().manifests]
            records = [one for own in self.context.store.run_parallel(read) for one in own]
            self._known = {key: one.commit for key, one in newest([*log.records(), *records]).items()}
        return self._known

    def _recorded(self, epoch: Epoch) -> tuple[Recorded, ...]:
        # No row depends on a settled manifest: `verify` names one that can't be read.
        with suppress(LogDamaged):
            return recorded(self.context.log.manifest(epoch))
        return ()

    def _idle(self, names: Iterable[str]) -> dict[str, timedelta]:
        tick = self.context.tick()
        return {name: timedelta(seconds=tick - self._heard.setdefault(name, tick)) for name in names}


def _sources(batch: BatchRef, shape: InputShape) -> list[str]:
    """The partitions of the source, if rows say which they come from."""
    if shape.partition is None:
        return [_ALL]
    ends = (end for end in batch.end if isinstance(end, KafkaOffset))
    return [f"{topic}-{number}" for end in ends for (topic, number), _ in end.next]
