"""The partitions of a writer: which are committed, by which record, and what the others wait for."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hivesink.core import offsets
from hivesink.core.log import require_whole
from hivesink.core.manifest import live_parts, recorded
from hivesink.core.progress import why_open
from hivesink.core.records import newest
from hivesink.core.table import main_table
from hivesink.errors import LogDamaged
from hivesink.sink.inspect.facts import LogFacts, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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
        record = self.record
        commit = record and {
            "revision": record.commit.revision,
            "rows": record.commit.rows,
            "files": record.commit.files,
            "epoch": record.epoch,
            "at": record.at.isoformat(),
            "watermark": record.watermark.isoformat() if record.watermark else None,
            "offsets": [offsets.to_json(offset) for offset in record.end],
        }
        data = {**asdict(replace(self, record=None)), "complete": self.is_complete, "commit": commit}
        del data["record"]
        return data


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
        self.facts = facts = read_log(self.log, self.facts.manifests if self._ledger else ())
        floor = facts.view.floor
        # Without a manifest above the newest snapshot, or of an open epoch, nobody knows what is open.
        snapshot = max((manifest.epoch for manifest in facts.manifests if manifest.waiting is not None), default=floor)
        for epoch in sorted({*facts.unreadable, *facts.missing}):
            if epoch > max(floor, min(snapshot, facts.settled)):
                missing = LogDamaged(self.log.location, f"the manifest of epoch {epoch} is missing")
                raise facts.unreadable.get(epoch, missing)
        require_whole(self.log.location, facts.view, facts.settled)
        if self._ledger is None or self._ledger[0] != floor:
            self._ledger = floor, newest(self.log.records())
        self.policies = self.policies_of(self.head)

    @property
    def head(self) -> Manifest | None:
        return self.facts.manifests[-1] if self.facts.manifests else None

    @property
    def open(self) -> OpenRows:
        """The partitions that no commit covers."""
        return self.facts.open_rows.renamed(main_table(self.policies.rule.table))

    def states(self, now: datetime, keys: Iterable[PartitionKey] | None = None) -> Iterator[PartitionState]:
        """Those of `keys`, which may have no rows; by default all partitions that have rows, sorted."""
        old = [] if self._ledger is None else self._ledger[1].values()
        new = (record for manifest in self.facts.manifests for record in recorded(manifest))
        records, buckets = newest([*old, *new], main_table(self.policies.rule.table)), self.open.buckets
        commits = {commit.key: manifest.epoch for manifest in self.facts.open for commit in manifest.commits}
        adds = {part.key: manifest.epoch for manifest in self.facts.open for part in manifest.add}
        # The rows in parts that their epochs must still publish.
        decided: dict[PartitionKey, Counter[Epoch]] = {}
        for manifest, part in live_parts(self.facts.open):
            if not self.facts.is_published(manifest.epoch):
                decided.setdefault(part.key, Counter())[manifest.epoch] += part.rows
        for key in sorted(records.keys() | buckets.keys()) if keys is None else keys:
            record, bucket, hidden = records.get(key), buckets.get(key), decided.get(key, Counter())
            waits_for = [
                f"{rows} rows are decided as epoch {epoch}, which isn't published as a whole yet: the job, or its next "
                "start, goes on with it; the job's log says what it waits for"
                for epoch, rows in hidden.items()
            ]
            if reason := self._why_open(key, record, bucket, now):
                waits_for.append(reason)
            elif not hidden and (unsettled := max(commits.get(key, 0), adds.get(key, 0))):
                what = f"committed as epoch {unsettled}, which isn't finished: the job's log says why"
                waits_for.append(f"its rows are readable, and {what}")
            published = bucket.published if bucket else 0
            if record and key in commits:
                published, record = published + record.commit.rows, None
            yield PartitionState(
                self.writer,
                *key,
                record,
                open_rows=bucket.rows if bucket else 0,
                decided_rows=hidden.total(),
                published_rows=max(0, published - hidden.total()),
                waits_for="; ".join(waits_for) or None,
            )

    def _why_open(
        self, key: PartitionKey, record: Recorded | None, bucket: OpenBucket | None, now: datetime
    ) -> str | None:
        """None where its newest commit is the last one. Without a record it is over, and has no rows at all."""
        mark, end = self.head.watermark if self.head else None, self.policies.rule.end(key)
        is_over = end is not None and mark is not None and mark.has_passed(end)
        # One whose end nobody knows any more, as its pattern was changed, stays committed.
        if bucket is None and (is_over or (record and end is None)):
            return None
        at = self.head.at if self.head else now
        return why_open(key, bucket, mark, now, self.policies, at=at, has_record=record is not None)
