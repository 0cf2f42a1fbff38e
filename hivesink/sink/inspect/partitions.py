"""The partitions of a writer: which are committed, by which record, and what the others wait for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hivesink.core import offsets
from hivesink.core.epoch import Epoch
from hivesink.core.log import Mark, missing
from hivesink.core.manifest import live_parts
from hivesink.core.partition_commit import newest, recorded
from hivesink.core.rolling import OpenRows, open_rows
from hivesink.core.why_open import why_open
from hivesink.errors import LogDamaged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from hivesink.core.log import LogView
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey
    from hivesink.core.partition_commit import Recorded
    from hivesink.core.records import OpenBucket
    from hivesink.core.why_open import Policies
    from hivesink.ports import CommitLog


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as one writer has it. `record` is its newest commit that readers see, if there is one.

    `open_rows` wait; `decided_rows` are in files that aren't published yet; `published_rows` are readable though
    `record` doesn't cover them. `waits_for` says in words why it isn't committed as it is; None if it is.
    """

    writer: str
    table: str
    partition: str
    record: Recorded | None
    open_rows: int
    decided_rows: int
    published_rows: int
    waits_for: str | None

    @property
    def key(self) -> PartitionKey:
        return self.table, self.partition

    @property
    def has_rows(self) -> bool:
        """Whether the writer has had rows of it, as far as its log still knows."""
        return self.record is not None or bool(self.open_rows or self.decided_rows or self.published_rows)

    @property
    def is_complete(self) -> bool:
        """A commit covers all rows that the writer has read."""
        return self.waits_for is None

    @property
    def data(self) -> dict[str, Any]:
        """All of it as values that JSON has: times as ISO 8601. `commit` is None without a record."""
        return {
            "writer": self.writer,
            "table": self.table,
            "partition": self.partition,
            "complete": self.is_complete,
            "commit": None if self.record is None else _commit(self.record),
            "open_rows": self.open_rows,
            "decided_rows": self.decided_rows,
            "published_rows": self.published_rows,
            "waits_for": self.waits_for,
        }


def _commit(record: Recorded) -> dict[str, Any]:
    return {
        "revision": record.commit.revision,
        "rows": record.commit.rows,
        "files": record.commit.files,
        "epoch": record.epoch,
        "at": record.at.isoformat(),
        "watermark": record.watermark.isoformat() if record.watermark else None,
        "offsets": [offsets.to_json(offset) for offset in record.end],
    }


@dataclass(slots=True)
class LogFollower:
    """A log, read again and again: each manifest once."""

    writer: str
    log: CommitLog
    policies_of: Callable[[Manifest | None], Policies]
    """By what the run goes that wrote this newest manifest: another run may go by other settings."""
    policies: Policies = field(init=False)
    """Known after `read`."""
    _manifests: dict[Epoch, Manifest] = field(default_factory=dict)
    _ledger: tuple[Epoch, dict[PartitionKey, Recorded]] | None = None
    _settled: Epoch = field(default=Epoch(0))
    _published: frozenset[Epoch] = frozenset()
    """Those after `_settled` whose parts are all visible."""

    def read(self) -> None:
        """Take in what is new. Raises LogDamaged, NewerFormat, StoreUnavailable, and what `policies_of` raises."""
        view = self.log.view()
        while not self._has_all(view):
            # A running job may have trimmed what the listing showed, or created what it didn't: look again.
            now = self.log.view()
            if (now.floor, now.head, missing(now)) == (view.floor, view.head, missing(view)):
                self._require_open(view)
                break
            view = now
        self._manifests = {epoch: manifest for epoch, manifest in self._manifests.items() if epoch > view.floor}
        if self._ledger is None or self._ledger[0] != view.floor:
            self._ledger = view.floor, newest(self.log.records())
        head = self._manifests.get(view.head)
        self._settled = view.settled(head.settled if head else Epoch(0))
        self._published = frozenset(epoch for epoch in view.marks if view.has(epoch, Mark.PUBLISHED))
        self.policies = self.policies_of(self.head)

    def _has_all(self, view: LogView) -> bool:
        """Read the manifests in `view`. False if one above its floor is missing."""
        for epoch in view.manifests:
            if epoch not in self._manifests:
                with suppress(LogDamaged):
                    self._manifests[epoch] = self.log.manifest(epoch)
        return all(epoch in self._manifests for epoch in range(view.floor + 1, max((view.head, *view.marks)) + 1))

    def _require_open(self, view: LogView) -> None:
        """Raise LogDamaged if a manifest is missing without which nobody knows what is open."""
        snapshot = max((epoch for epoch, one in self._manifests.items() if one.waiting is not None), default=view.floor)
        for number in range(max(snapshot, view.floor) + 1, max((view.head, *view.marks)) + 1):
            if number not in self._manifests:
                self.log.manifest(Epoch(number))

    @property
    def head(self) -> Manifest | None:
        return self._manifests[max(self._manifests)] if self._manifests else None

    @property
    def open(self) -> OpenRows:
        """The partitions that no commit covers."""
        rows = open_rows(self._manifests[epoch] for epoch in sorted(self._manifests, reverse=True))
        return rows.renamed(self._table)

    @property
    def _table(self) -> str:
        return self.policies.rule.table.removesuffix("__rejected")

    def records(self) -> dict[PartitionKey, Recorded]:
        """The newest decided commit of each partition."""
        old = [] if self._ledger is None else self._ledger[1].values()
        new = (one for manifest in self._manifests.values() for one in recorded(manifest))
        return newest([*old, *new], self._table)

    def states(self, now: datetime) -> list[PartitionState]:
        """All partitions that have rows, sorted."""
        records, buckets = self.records(), self.open.buckets
        keys = sorted(records.keys() | buckets.keys())
        decided = self._decided()
        return [self._state(key, records.get(key), buckets.get(key), decided, now) for key in keys]

    @property
    def places(self) -> set[PartitionKey]:
        """The partitions that have rows, as far as the log still knows."""
        return self.records().keys() | self.open.buckets.keys()

    def state(self, key: PartitionKey, now: datetime) -> PartitionState:
        """One partition, also one without rows."""
        return self._state(key, self.records().get(key), self.open.buckets.get(key), self._decided(), now)

    def _state(
        self,
        key: PartitionKey,
        record: Recorded | None,
        bucket: OpenBucket | None,
        decided: Mapping[PartitionKey, Mapping[Epoch, int]],
        now: datetime,
    ) -> PartitionState:
        mark = self.head.watermark if self.head else None
        end = self.policies.rule.end(key)
        is_over = end is not None and mark is not None and mark.has_passed(end)
        hidden = decided.get(key, {})
        waits_for = [
            f"{rows} rows are decided as epoch {epoch}, which isn't published as a whole yet: the job, or its next "
            "start, goes on with it; the job's log says what it waits for"
            for epoch, rows in hidden.items()
        ]
        # One whose end nobody knows any more, as its pattern was changed, stays committed.
        if bucket is not None or not (is_over or (record and end is None)):
            at = self.head.at if self.head else now
            waits_for.append(why_open(key, bucket, mark, now, self.policies, at=at, has_record=record is not None))
        elif not hidden and (unsettled := self._unsettled(key)):
            what = f"committed as epoch {unsettled}, which isn't finished: the job's log says why"
            waits_for.append(f"its rows are readable, and {what}")
        # Without a record it is over, and has no rows at all.
        is_known = record is not None and not self._unsettled(key, commits=True)
        published = (bucket.published if bucket else 0) + (record.commit.rows if record and not is_known else 0)
        waiting, decided_rows = bucket.rows if bucket else 0, sum(hidden.values())
        return PartitionState(
            self.writer,
            *key,
            record if is_known else None,
            waiting,
            decided_rows,
            max(0, published - decided_rows),
            "; ".join(waits_for) or None,
        )

    def _decided(self) -> dict[PartitionKey, dict[Epoch, int]]:
        """The rows in parts that their epochs must still publish."""
        open_epochs = (self._manifests[epoch] for epoch in sorted(self._manifests) if epoch > self._settled)
        found: dict[PartitionKey, dict[Epoch, int]] = {}
        for manifest, part in live_parts(open_epochs):
            if manifest.epoch not in self._published:
                epochs = found.setdefault(part.key, {})
                epochs[manifest.epoch] = epochs.get(manifest.epoch, 0) + part.rows
        return found

    def _unsettled(self, key: PartitionKey, *, commits: bool = False) -> Epoch | None:
        """The newest epoch that commits the partition, or else publishes rows of it, and isn't settled."""
        for epoch in sorted((one for one in self._manifests if one > self._settled), reverse=True):
            manifest = self._manifests[epoch]
            published = set() if commits else {part.key for part in manifest.add}
            if key in published | {commit.key for commit in manifest.commits}:
                return epoch
        return None
