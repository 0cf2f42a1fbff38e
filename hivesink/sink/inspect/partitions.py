"""The partitions of a writer: which are committed, by which record, and what the others wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hivesink.core import offsets
from hivesink.core.manifest import live_parts, recorded
from hivesink.core.progress import why_open
from hivesink.core.records import newest
from hivesink.errors import LogDamaged
from hivesink.sink.inspect.facts import LogFacts, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey
    from hivesink.core.progress import Policies
    from hivesink.core.records import OpenBucket, Recorded
    from hivesink.core.rolling import OpenRows
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
    """Known after `read`, as `facts` is."""
    facts: LogFacts = field(init=False)
    _ledger: tuple[Epoch, dict[PartitionKey, Recorded]] | None = None

    def read(self) -> None:
        """Take in what is new. Raises LogDamaged, NewerFormat, StoreUnavailable, and what `policies_of` raises."""
        known = self.facts.manifests if self._ledger else ()
        self.facts = read_log(self.log, known)
        self._require_open()
        floor = self.facts.view.floor
        if self._ledger is None or self._ledger[0] != floor:
            self._ledger = floor, newest(self.log.records())
        self.policies = self.policies_of(self.head)

    def _require_open(self) -> None:
        """Raise LogDamaged or NewerFormat if a manifest is missing without which nobody knows what is open."""
        floor = self.facts.view.floor
        snapshots = (manifest.epoch for manifest in self.facts.manifests if manifest.waiting is not None)
        snapshot = max(snapshots, default=floor)
        for epoch in sorted({*self.facts.unreadable, *self.facts.missing}):
            if epoch > max(snapshot, floor):
                raise self.facts.unreadable.get(epoch) or LogDamaged(
                    self.log.location, f"the manifest of epoch {epoch} is missing"
                )

    @property
    def head(self) -> Manifest | None:
        return self.facts.manifests[-1] if self.facts.manifests else None

    @property
    def open(self) -> OpenRows:
        """The partitions that no commit covers."""
        return self.facts.open_rows.renamed(self._table)

    @property
    def _table(self) -> str:
        return self.policies.rule.table.removesuffix("__rejected")

    def records(self) -> dict[PartitionKey, Recorded]:
        """The newest decided commit of each partition."""
        old = [] if self._ledger is None else self._ledger[1].values()
        new = (record for manifest in self.facts.manifests for record in recorded(manifest))
        return newest([*old, *new], self._table)

    @property
    def places(self) -> set[PartitionKey]:
        """The partitions that have rows, as far as the log still knows."""
        return self.records().keys() | self.open.buckets.keys()

    def states(self, now: datetime) -> list[PartitionState]:
        """All partitions that have rows, sorted."""
        return self._states(sorted(self.places), now)

    def state(self, key: PartitionKey, now: datetime) -> PartitionState:
        """One partition, also one without rows."""
        return self._states([key], now)[0]

    def _states(self, keys: Sequence[PartitionKey], now: datetime) -> list[PartitionState]:
        records, buckets, decided = self.records(), self.open.buckets, self._decided()
        return [self._state(key, records.get(key), buckets.get(key), decided.get(key, {}), now) for key in keys]

    def _state(
        self,
        key: PartitionKey,
        record: Recorded | None,
        bucket: OpenBucket | None,
        decided: Mapping[Epoch, int],
        now: datetime,
    ) -> PartitionState:
        mark = self.head.watermark if self.head else None
        end = self.policies.rule.end(key)
        is_over = end is not None and mark is not None and mark.has_passed(end)
        waits_for = [
            f"{rows} rows are decided as epoch {epoch}, which isn't published as a whole yet: the job, or its next "
            "start, goes on with it; the job's log says what it waits for"
            for epoch, rows in decided.items()
        ]
        # One whose end nobody knows any more, as its pattern was changed, stays committed.
        if bucket is not None or not (is_over or (record and end is None)):
            at = self.head.at if self.head else now
            waits_for.append(why_open(key, bucket, mark, now, self.policies, at=at, has_record=record is not None))
        elif not decided and (unsettled := self._unsettled(key)):
            what = f"committed as epoch {unsettled}, which isn't finished: the job's log says why"
            waits_for.append(f"its rows are readable, and {what}")
        # Without a record it is over, and has no rows at all.
        is_known = record is not None and not self._unsettled(key, commits=True)
        published = (bucket.published if bucket else 0) + (record.commit.rows if record and not is_known else 0)
        decided_rows = sum(decided.values())
        return PartitionState(
            self.writer,
            *key,
            record if is_known else None,
            bucket.rows if bucket else 0,
            decided_rows,
            max(0, published - decided_rows),
            "; ".join(waits_for) or None,
        )

    def _decided(self) -> dict[PartitionKey, dict[Epoch, int]]:
        """The rows in parts that their epochs must still publish."""
        rows: dict[PartitionKey, dict[Epoch, int]] = {}
        for manifest, part in live_parts(self.facts.open):
            if not self.facts.is_published(manifest.epoch):
                epochs = rows.setdefault(part.key, {})
                epochs[manifest.epoch] = epochs.get(manifest.epoch, 0) + part.rows
        return rows

    def _unsettled(self, key: PartitionKey, *, commits: bool = False) -> Epoch | None:
        """The newest epoch that commits the partition, or else publishes rows of it, and isn't settled."""
        for manifest in reversed(self.facts.open):
            published = set() if commits else {part.key for part in manifest.add}
            if key in published | {commit.key for commit in manifest.commits}:
                return manifest.epoch
        return None
