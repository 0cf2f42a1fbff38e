"""What one writer's log says, damaged or not: its epochs, and which partitions are complete. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from hivesink.core import offsets
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, Floor, floor_over
from hivesink.core.log import LogView, require_whole
from hivesink.core.manifest import Manifest, OpenBucket, PartEntry, Recorded, Rows, live_parts, newest, recorded
from hivesink.core.partfile import PartName
from hivesink.core.partition import PartitionKey
from hivesink.core.progress import Policies, why_open
from hivesink.core.reads import Lag, lag, segment_epoch
from hivesink.core.rolling import OpenRows, open_rows
from hivesink.core.table import is_letters, main_table
from hivesink.errors import HiveSinkError, LogDamaged, StoreUnavailable
from hivesink.ports import CommitLog


@dataclass(frozen=True)
class LogFacts:
    """One writer's log: readable `manifests` above the floor, oldest first; by epoch, why others are `unreadable`."""

    location: str
    uid: str | None
    view: LogView
    floor: Floor | None
    manifests: tuple[Manifest, ...]
    unreadable: Mapping[Epoch, HiveSinkError] = field(default_factory=dict)

    @property
    def head(self) -> Manifest | None:
        """The newest manifest; None if there is none or it can't be read."""
        newest = self.manifests[-1] if self.manifests else None
        return newest if newest and newest.epoch == self.view.head else None

    def require_readable(self) -> None:
        """Raise the first of `unreadable`."""
        for epoch in sorted(self.unreadable):
            raise self.unreadable[epoch]

    @cached_property
    def settled(self) -> Epoch:
        """Epochs up to this one are settled."""
        return self.view.settled(self.head.settled if self.head else Epoch(0))

    def is_published(self, epoch: Epoch) -> bool:
        """Whether all parts of `epoch` were made visible. From then on they are the users' own."""
        return epoch <= self.settled or self.view.has(epoch, EpochState.PUBLISHED)

    def is_readable(self, epoch: Epoch) -> bool:
        """Whether all rows of `epoch` are in published parts: none waits."""
        slices = (part for bucket in self.open_rows.buckets.values() for part in bucket.slices)
        return self.is_published(epoch) and all(segment_epoch(part.segment) != epoch for part in slices)

    @property
    def open(self) -> tuple[Manifest, ...]:
        """The epochs that are not settled. A bare epoch has nothing to publish, and nothing to confirm."""
        newer = (manifest for manifest in self.manifests if self.head and manifest.epoch > self.settled)
        return tuple(manifest for manifest in newer if not manifest.is_bare)

    @cached_property
    def parts(self) -> tuple[tuple[Manifest, PartEntry], ...]:
        """Each part with its epoch, unless a later epoch has removed it."""
        return tuple(live_parts(self.manifests))

    @property
    def waiting(self) -> tuple[PartEntry, ...]:
        return tuple(part for manifest, part in self.parts if not self.is_published(manifest.epoch))

    @property
    def newest_parts(self) -> tuple[PartEntry, ...]:
        """The table's own parts of the newest published epoch that has any."""
        own = [(m.epoch, part) for m, part in self.parts if self.is_published(m.epoch) and not is_letters(part.table)]
        return tuple(part for epoch, part in own if epoch == own[-1][0])

    @cached_property
    def open_rows(self) -> OpenRows:
        return open_rows(reversed(self.manifests))

    @cached_property
    def lag(self) -> Lag:
        """How far readers are: as before the oldest epoch with a part, moved since or not, that isn't settled."""
        names = (PartName.parse(part.name) for manifest in self.open for part in manifest.add)
        begun = [manifest.epoch for manifest in self.open] + [name.epoch for name in names if name]
        settled = [manifest for manifest in self.manifests if manifest.epoch < min(begun, default=self.view.head + 1)]
        newest, before = (manifests[-1].last_batch if manifests else None for manifests in (self.manifests, settled))
        rows = open_rows(reversed(settled))
        return lag(newest, before, rows.reads, rows.buckets.values())

    @property
    def unpublished_rows(self) -> int:
        """Rows that wait, and those of parts that aren't published."""
        return self.open_rows.rows + sum(part.rows for part in self.waiting)

    @cached_property
    def total(self) -> Floor:
        """Counts from the writer's first epoch on, as a floor over all of them would have them."""
        return floor_over(self.floor, self.manifests)

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that a manifest names, the newest manifest's first."""
        return tuple(dict.fromkeys(table for manifest in reversed(self.manifests) for table in manifest.tables))

    @property
    def replaced(self) -> Mapping[str, PartEntry]:
        """By name, the dead letters' parts that its epochs have replaced: a file that is still there is no letter."""
        return {part.name: part for part in self.total.replaced}

    def settled_parts(self) -> Callable[[str, int], bool]:
        """Says whether the visible file of a name and length is a settled part: without its manifest by name alone."""
        settled = {part.name: part.length for manifest, part in self.parts if manifest.epoch <= self.settled}
        named = {part.name for manifest in self.manifests for part in manifest.add}
        named |= {target.rpartition("/")[2] for manifest in self.manifests for target in manifest.remove}

        def is_settled(name: str, length: int) -> bool:
            part = PartName.parse(name)
            if part is None or part.uid != self.uid:
                return False
            return settled.get(name) == length or (name not in named and part.epoch <= self.view.floor)

        return is_settled

    @property
    def forgotten(self) -> frozenset[str]:
        """Targets of parts that a person gave up, or whose rows were requeued."""
        kept = {part.name for _, part in self.parts}
        removed = (target for manifest in self.manifests for target in manifest.remove)
        return frozenset(target for target in removed if target.rpartition("/")[2] not in kept)


def read_log(log: CommitLog, known: Iterable[Manifest] = ()) -> LogFacts:
    """Everything in `log` at one moment; its `known` manifests aren't read again. Raises StoreUnavailable."""
    before = {manifest.epoch: manifest for manifest in known}
    # It may be trimmed at the same time.
    for _ in range(10):
        view, manifests, uid = log.view(), list[Manifest](), None
        unreadable: dict[Epoch, HiveSinkError] = {}
        for epoch in view.manifests:
            try:
                manifests.append(before.get(epoch) or log.manifest(epoch))
            except LogDamaged as error:  # noqa: PERF203  each has its own
                unreadable[epoch] = error
        try:
            floor = log.floor() if view.floor else None
        except LogDamaged as error:
            floor, unreadable = Floor(view.floor, Rows()), {view.floor: error, **unreadable}
        # A uid that can't be read is in `unreadable` already, by the manifest that hides it.
        with suppress(LogDamaged):
            uid = log.uid(None)
        facts = LogFacts(log.location, uid, view, floor, tuple(manifests), unreadable)
        is_at_rest = view.floor == (floor.epoch if floor else 0) == log.view().floor
        # A listing may miss a manifest that is created meanwhile, and another one that is trimmed: so ask twice.
        if is_at_rest and all(set(view.missing) <= set(log.view().missing) for _ in range(2 if view.missing else 0)):
            return facts
    reason = "its floor rose during each of 10 reads; try again"
    raise StoreUnavailable(action="read", path=log.location, reason=reason)


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
    facts: LogFacts = field(init=False)
    _ledger: tuple[Epoch, dict[PartitionKey, Recorded]] | None = None

    def read(self) -> None:
        """Take in what is new. Raises LogDamaged, StoreUnavailable, and what `policies_of` raises."""
        self.facts = facts = read_log(self.log, self.facts.manifests if self._ledger else ())
        floor = facts.view.floor
        # Without a manifest above the newest snapshot, or of an open epoch, nobody knows what is open.
        snapshot = max((manifest.epoch for manifest in facts.manifests if manifest.waiting is not None), default=floor)
        for epoch in sorted({*facts.unreadable, *facts.view.missing}):
            if epoch > max(floor, min(snapshot, facts.settled)):
                missing = LogDamaged(self.log.location, f"the manifest of epoch {epoch} is missing")
                raise facts.unreadable.get(epoch, missing)
        require_whole(self.log.location, facts.view, facts.settled)
        if self._ledger is None or self._ledger[0] != floor:
            self._ledger = floor, newest(self.log.records())
        self.policies = self.policies_of(facts.head)

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
        decided: Counter[PartitionKey] = Counter()
        for part in self.facts.waiting:
            decided[part.key] += part.rows
        for key in sorted(records.keys() | buckets.keys()) if keys is None else keys:
            record, bucket, hidden = records.get(key), buckets.get(key), decided[key]
            what = f"{hidden} rows are decided and not published as a whole yet: the job, or its next start, goes on"
            waits_for = [f"{what} with them; the job's log says what it waits for"] if hidden else []
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
                decided_rows=hidden,
                published_rows=max(0, published - hidden),
                waits_for="; ".join(waits_for) or None,
            )

    def _why_open(
        self, key: PartitionKey, record: Recorded | None, bucket: OpenBucket | None, now: datetime
    ) -> str | None:
        """None where its newest commit is the last one. Without a record it is over, and has no rows at all."""
        mark, end = self.facts.head.watermark if self.facts.head else None, self.policies.rule.end(key)
        is_over = end is not None and mark is not None and mark.has_passed(end)
        # One whose end nobody knows any more, as its pattern was changed, stays committed.
        if bucket is None and (is_over or (record and end is None)):
            return None
        at = self.facts.head.at if self.facts.head else now
        return why_open(key, bucket, mark, now, self.policies, at=at, has_record=record is not None)
