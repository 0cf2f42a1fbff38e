"""The commits of partitions: which can be recorded, and what the log has recorded of each."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.core.partition import PartitionKey
from hivesink.core.partition_commit import commit_after, due_commits
from hivesink.core.watermark import Watermark
from hivesink.sink.commit.observe import load_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.manifest import Manifest, PartEntry
    from hivesink.core.partition_commit import CommitRule, Waits
    from hivesink.core.records import Commit
    from hivesink.core.roll_policy import Ages
    from hivesink.core.rolling import OpenRows
    from hivesink.sink.commit.context import CommitContext

logger = logging.getLogger("hivesink")


@dataclass(slots=True)
class PartitionCommits:
    """The commits of the log, and those that its next manifest can have."""

    context: CommitContext
    rule: CommitRule
    _known: dict[PartitionKey, Commit] | None = None
    _warned: bool = False

    def passes_an_end(self, before: Watermark | None, now: Watermark | None) -> bool:
        """Whether a committed partition ends between these watermarks, which other settings have committed early."""
        ends = [end for end in map(self.rule.end, self.read()) if end is not None]
        was, mark = before or Watermark(), now or Watermark()
        return any(mark.has_passed(end) and not was.has_passed(end) for end in ends)

    def waits(self, ages: Mapping[PartitionKey, Ages], mark: Watermark | None) -> Waits:
        """As `due_commits`."""
        return due_commits(self.rule, {key: age.open for key, age in ages.items()}, mark or Watermark(), self)

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
                if not self._warned:
                    logger.warning("%s %s is never committed: no time can be read from its values", *key)
                self._warned = True
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
            self._known |= {commit.key: commit for commit in manifest.commits}

    def forget(self) -> None:
        """Another run may have written to the log."""
        self._known = None

    def read(self) -> dict[PartitionKey, Commit]:
        """The log's commits, read once.

        A start doesn't wait for that. An epoch that may commit reads them before its tasks run, since nothing may take
        time between the last look at staged files and the decision.
        """
        if self._known is None:
            self._known = load_commits(self.context, self.rule.table)
        return self._known
