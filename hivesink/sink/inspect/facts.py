"""What one writer's log holds, damaged or not, and which files are named as parts. Nothing here changes anything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import Mark
from hivesink.core.log import LogView, missing
from hivesink.core.manifest import Floor, Manifest, PartEntry, Rows, live_parts, replaced_parts
from hivesink.core.partfile import PartName
from hivesink.core.rolling import OpenRows, open_rows
from hivesink.core.table import is_letters
from hivesink.errors import HiveSinkError, LogDamaged, NewerFormat, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hivesink.ports import CommitLog

_READS = 10
"""Attempts to read a log that is being trimmed at the same time."""


@dataclass(frozen=True)
class LogFacts:
    """One writer's log. `manifests` are the readable ones above the floor, oldest first.

    `unreadable` holds, by epoch, why the others can't be read.
    """

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

    @property
    def missing(self) -> tuple[Epoch, ...]:
        """Decided epochs above the floor whose manifests are gone."""
        return missing(self.view)

    def require_readable(self) -> None:
        """Raise the first of `unreadable`: LogDamaged or NewerFormat."""
        for epoch in sorted(self.unreadable):
            raise self.unreadable[epoch]

    @cached_property
    def settled(self) -> Epoch:
        """Epochs up to this one are settled."""
        return self.view.settled(self.head.settled if self.head else Epoch(0))

    def is_published(self, epoch: Epoch) -> bool:
        """Whether all parts of `epoch` were made visible. From then on they are the users' own."""
        return epoch <= self.settled or self.view.has(epoch, Mark.PUBLISHED)

    def may_be_visible(self, epoch: Epoch) -> bool:
        """Whether parts of `epoch` may have been made visible, of those that are marked before their first rename."""
        return self.is_published(epoch) or self.view.has(epoch, Mark.PUBLISHING)

    @property
    def open(self) -> tuple[Manifest, ...]:
        """The epochs that are not settled."""
        return tuple(manifest for manifest in self.manifests if self.head and manifest.epoch > self.settled)

    @cached_property
    def parts(self) -> tuple[tuple[Manifest, PartEntry], ...]:
        """Each part with its epoch, unless a later epoch has removed it."""
        return tuple(live_parts(self.manifests))

    @property
    def waiting(self) -> tuple[PartEntry, ...]:
        """The parts that aren't published yet."""
        return tuple(part for manifest, part in self.parts if not self.is_published(manifest.epoch))

    @property
    def newest_parts(self) -> tuple[PartEntry, ...]:
        """The table's own parts of the newest published epoch that has any."""
        published = [
            (manifest.epoch, part)
            for manifest, part in self.parts
            if self.is_published(manifest.epoch) and not is_letters(part.table)
        ]
        last = max((epoch for epoch, _ in published), default=None)
        return tuple(part for epoch, part in published if epoch == last)

    @cached_property
    def open_rows(self) -> OpenRows:
        """The rows that wait after the newest manifest."""
        return open_rows(reversed(self.manifests))

    @property
    def unpublished_rows(self) -> int:
        """Rows that wait, and those of parts that aren't published."""
        return self.open_rows.rows + sum(part.rows for part in self.waiting)

    @property
    def totals(self) -> Rows:
        """Row counts from the writer's first epoch on: the floor's, and those of the manifests."""
        return sum((manifest.rows for manifest in self.manifests), self.floor.totals if self.floor else Rows())

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that a manifest names, the newest manifest's first."""
        return tuple(dict.fromkeys(table for manifest in reversed(self.manifests) for table in manifest.tables))

    @property
    def replaced(self) -> Mapping[str, PartEntry]:
        """By name, the dead letters' parts that its epochs have replaced: a file that is still there is no letter."""
        return replaced_parts(self.floor, self.manifests)

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
    for _ in range(_READS):
        view, manifests, uid = log.view(), list[Manifest](), None
        unreadable: dict[Epoch, HiveSinkError] = {}
        for epoch in view.manifests:
            try:
                manifests.append(before.get(epoch) or log.manifest(epoch))
            except (LogDamaged, NewerFormat) as error:  # noqa: PERF203  each has its own
                unreadable[epoch] = error
        try:
            floor = log.floor() if view.floor else None
        except (LogDamaged, NewerFormat) as error:
            floor, unreadable = Floor(view.floor, Rows()), {view.floor: error, **unreadable}
        # A uid that can't be read is in `unreadable` already, by the manifest that hides it.
        with suppress(LogDamaged):
            uid = log.uid(None)
        facts = LogFacts(log.location, uid, view, floor, tuple(manifests), unreadable)
        is_at_rest = view.floor == (floor.epoch if floor else 0) == log.view().floor
        # A listing may miss a manifest that is created meanwhile, and another one that is trimmed: so ask twice.
        if is_at_rest and all(set(facts.missing) <= set(missing(log.view())) for _ in range(2 if facts.missing else 0)):
            return facts
    reason = f"its floor rose during each of {_READS} reads; try again"
    raise StoreUnavailable(action="read", path=log.location, reason=reason)
