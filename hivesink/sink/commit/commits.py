"""What the driver knows of partition commits: the watermark, which partitions are over, and their last records."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
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

logger = logging.getLogger("hivesink")

_ALL = ""
"""The name of all input, where no partitions are told apart."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(slots=True)
class PartitionCommits:
    """How long each partition of the source has been silent, and the commits in the log.

    Silence is told by a monotonic clock, between two runs by the manifests' times: `_heard` is the time of the last
    batch that brought rows of a source partition, `_asked` that of the last question that Spark has put to the source.
    """

    context: CommitContext
    rule: CommitRule
    policy: WatermarkPolicy
    _heard: dict[str, float] = field(default_factory=dict)
    _asked: float | None = None
    _ended: float = 0.0
    """When the last batch ended: Spark has asked nothing while it ran."""
    goes_on: bool = True
    """Whether silence means anything: not where the query's operators keep rows for later."""
    _base: datetime | None = None
    """Spark's own watermark of the last batch."""
    _known: dict[PartitionKey, Commit] | None = None
    _warned: bool = False

    def asked(self, ago: timedelta) -> None:
        """Spark has asked the source for new rows that long `ago` at most, and got none."""
        tick = self.context.tick() - ago.total_seconds()
        if tick >= self._ended:
            self._asked = max(tick, self._asked or tick)

    def mark(self, head: Manifest | None) -> Watermark | None:
        """The watermark as it is now, while no batch comes."""
        before = head.watermark if head else None
        if head is None or before is None:
            return before
        self._recall(head, before)
        if before.newest:
            return before.reached(self._idle(before.newest), self.policy)
        return before.at_least(Watermark(self._base).stopped(self._idle([_ALL])[_ALL], self.policy).at)

    def mark_after(
        self, head: Manifest | None, batch: BatchRef, shape: InputShape, reports: Iterable[TaskReport], began: float
    ) -> Watermark | None:
        """The watermark once `batch` has been read, which began then; None where nothing says what it is."""
        before = (head.watermark if head else None) or Watermark()
        if head is not None:
            self._recall(head, before)
        now, tick = self.context.now(), self.context.tick()
        if self.goes_on and before.newest and self._has_stopped(before.newest):
            # Input that comes again after a pause may do so one partition after the other.
            self._heard |= dict.fromkeys(before.newest, began)
        if self._asked is None or not shape.ends_early:
            self._asked = began
        self._ended = tick
        if shape.event_time is None:
            self._heard[_ALL] = began
            # The sink's own of earlier settings would go on by the clock, since its sources are silent.
            mark = Watermark(before.at).at_least(shape.watermark)
            self._base = mark.at
            return mark if mark.at else None
        sources = dict.fromkeys(_sources(batch, shape))
        seen = before.only(sources).saw(sources, now)
        for newest_times in (report.newest for report in reports):
            # Rows without times say nothing: else a source that has only such rows would hold all for ever.
            times = {name: _EPOCH + timedelta(microseconds=at) for name, at in newest_times.items() if at is not None}
            self._heard |= dict.fromkeys(times, began)
            seen = seen.saw(dict.fromkeys(newest_times) | times, now)
        idle = self._idle(seen.newest)
        quiet = {name: now - timedelta(seconds=tick - at) for name, at in self._heard.items() if at < began}
        quiet = {name: at for name, at in quiet.items() if name in seen.newest}
        return replace(seen.reached(idle, self.policy), quiet=quiet)

    def is_awaited(self, head: Manifest, mark: Watermark | None) -> bool:
        """Whether no manifest says yet that the end of a partition has passed that other settings have committed."""
        before = head.watermark or Watermark()
        if mark is None or mark.at == before.at:
            return False
        ends = (self.rule.end(key) for key in self.read())
        return any(end is not None and mark.has_passed(end) and not before.has_passed(end) for end in ends)

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
            if self.rule.is_unknown(key):
                self._warn(key)
                continue
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

    def _warn(self, key: PartitionKey) -> None:
        if not self._warned:
            logger.warning("%s %s is never committed: no time can be read from its values", *key)
        self._warned = True

    def _recall(self, head: Manifest, mark: Watermark) -> None:
        """Take up the silence of before this run, as the manifest's times show it.

        No more of it than makes a partition idle: a clock that was set must not carry the watermark along.
        """
        tick, now = self.context.tick(), self.context.now()
        if self._base is None:
            self._base = mark.at
        for name in (mark.newest or [_ALL]) if mark.at or mark.newest else ():
            if name not in self._heard:
                silence = min(max(now - mark.quiet.get(name, head.at), timedelta(0)), self.policy.idle)
                self._heard[name] = tick - silence.total_seconds()

    def _has_stopped(self, names: Iterable[str]) -> bool:
        return all(idle >= self.policy.idle for idle in self._idle(names).values())

    def _idle(self, names: Iterable[str]) -> dict[str, timedelta]:
        asked = self._asked if self.goes_on else None
        heard = {name: self._heard.setdefault(name, self.context.tick() if asked is None else asked) for name in names}
        return {name: timedelta(seconds=0.0 if asked is None else max(asked - at, 0.0)) for name, at in heard.items()}


def _sources(batch: BatchRef, shape: InputShape) -> list[str]:
    """The partitions of the source, if rows say which they come from."""
    if shape.partition is None:
        return [_ALL]
    ends = (end for end in batch.end if isinstance(end, KafkaOffset))
    return [f"{topic}-{number}" for end in ends for (topic, number), _ in end.next]
