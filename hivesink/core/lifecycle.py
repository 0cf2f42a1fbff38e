"""The life of an epoch, a writer's history, and the floor below it. The states of a part are types of `partfile`.

   BEGUN ──decide──▶ DECIDED ─(begin──▶ PUBLISHING)─publish──▶ PUBLISHED ─(verify──▶ VERIFIED)─settle──▶ SETTLED

`decide` is the point of no return: `log.create` writes the manifest, if there is none. Before it everything of the
epoch may be thrown away; after it everything must be finished, by this run or the next. `plan` decides what comes next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cached_property

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import REQUEUE, Commit, Manifest, PartEntry, Rows, live_parts
from hivesink.core.partition import PartitionKey
from hivesink.core.rolling import OpenRows


class EpochState(Enum):
    """The state of an epoch. Every start looks at the epochs that aren't settled."""

    BEGUN = "begun"
    """Tasks write: there are touched-lists above the head."""
    SHUT_OUT = "shut out"
    """Another manifest has its number: what its tasks wrote is left over."""
    DECIDED = "decided"
    """Its manifest exists."""
    PUBLISHING = "publishing"
    """Some of its parts may be visible: from here on their rows can't be requeued."""
    PUBLISHED = "published"
    """Every part is visible: from here on the files are the users' own."""
    VERIFIED = "verified"
    """A look has found the parts in place after that: no INSERT that came first can take them."""
    SETTLED = "settled"
    """The metastore was looked at after that; `settled` in every later manifest says so too."""


NEXT: Mapping[EpochState, Mapping[str, EpochState]] = {
    EpochState.BEGUN: {"decide": EpochState.DECIDED, "shut out": EpochState.SHUT_OUT},
    EpochState.SHUT_OUT: {},
    # The point of no return: no step leads back from here.
    EpochState.DECIDED: {"begin": EpochState.PUBLISHING, "publish": EpochState.PUBLISHED},
    EpochState.PUBLISHING: {"publish": EpochState.PUBLISHED},
    EpochState.PUBLISHED: {"verify": EpochState.VERIFIED, "settle": EpochState.SETTLED},
    EpochState.VERIFIED: {"settle": EpochState.SETTLED},
    EpochState.SETTLED: {},
}
"""Every legal step; `docs/architecture.md` draws it, and a test holds the drawing to this table."""


MARKS = (EpochState.PUBLISHING, EpochState.PUBLISHED, EpochState.VERIFIED, EpochState.SETTLED)
"""The states that a mark in the log says; its name ends with the value. Only epochs that publish rows which waited, or
move parts, have the first. The last two are of this epoch and of those before it."""


class IllegalStepError(AssertionError):
    """A step that `NEXT` doesn't have: always a bug."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A writer's name and uid, its tables with their bucket zones, and the folder of its log.

    `options`, `settings` and `columns` are those of this run, as its manifests have them.
    """

    writer: str
    uid: str
    tables: tuple[str, ...]
    zones: tuple[tuple[str, str], ...]
    log: str
    options: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """A partition whose commit is made known.

    `table` is `database.name`, `partition` its escaped path (`dt=2024-01-02`, `""` for a table without partitions),
    `location` its folder. `files` are the paths of those that were published now.
    """

    table: str
    partition: str
    location: str
    files: tuple[str, ...]
    commit: Commit


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment (UTC) and a random token for an epoch that is decided then."""

    at: datetime
    attempt: str


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """A decided epoch that isn't settled."""

    manifest: Manifest
    state: EpochState = EpochState.DECIDED

    @property
    def is_published(self) -> bool:
        return self.state is EpochState.PUBLISHED or self.state is EpochState.VERIFIED

    @property
    def may_go_back(self) -> bool:
        """Whether rows that waited, or were dead letters, may be in its parts: without its mark, lost ones go back."""
        return bool(self.manifest.rolled or self.manifest.remove or self.manifest.replaces)


@dataclass(frozen=True)
class History:
    """A writer's epochs as its log holds them: the newest manifest, open epochs (oldest first), rows that wait."""

    identity: Identity
    head: Manifest | None = None
    open: tuple[OpenEpoch, ...] = ()
    floor: Epoch = field(default=Epoch(0))
    rows: OpenRows = field(default_factory=OpenRows)

    @property
    def epoch(self) -> Epoch:
        """The newest decided epoch, 0 where there is none."""
        return self.head.epoch if self.head else Epoch(0)

    @property
    def settled(self) -> Epoch:
        """Epochs up to this are settled."""
        return Epoch(self.open[0].manifest.epoch - 1) if self.open else self.epoch

    @property
    def settleable(self) -> Epoch:
        """Epochs up to this are published: a look at the metastore settles them."""
        return Epoch(self.unpublished[0].manifest.epoch - 1) if self.unpublished else self.epoch

    @cached_property
    def unpublished(self) -> tuple[OpenEpoch, ...]:
        return tuple(epoch for epoch in self.open if not epoch.is_published)

    @cached_property
    def live_parts(self) -> tuple[tuple[OpenEpoch, PartEntry], ...]:
        """Each part of an open epoch that no later epoch has removed."""
        by_epoch = {epoch.manifest.epoch: epoch for epoch in self.open}
        parts = live_parts(epoch.manifest for epoch in self.open)
        return tuple((by_epoch[manifest.epoch], part) for manifest, part in parts)

    @cached_property
    def waiting(self) -> tuple[PartEntry, ...]:
        """The decided parts that aren't published yet."""
        return tuple(part for epoch, part in self.live_parts if not epoch.is_published)

    def committed(self, upto: Epoch | None = None) -> dict[PartitionKey, Commit]:
        """The partitions that open epochs (up to `upto`) commit, each with its newest record.

        A requeue withdraws its partitions until an epoch commits them anew, or none of their rows waits any more.
        Partitions without files are left out.
        """
        records: dict[PartitionKey, Commit] = {}
        withdrawn: set[PartitionKey] = set()
        for manifest in (epoch.manifest for epoch in self.open if upto is None or epoch.manifest.epoch <= upto):
            keys = {commit.key for commit in manifest.commits}
            if manifest.kind == REQUEUE:
                withdrawn |= keys
            elif not manifest.remove:
                withdrawn -= keys
            if manifest.waiting is not None:
                withdrawn &= {key for key, bucket in manifest.waiting if bucket.slices}
            records |= {commit.key: commit for commit in manifest.commits}
        has_files = {key for key, commit in records.items() if key in self.keys or commit.files}
        return {key: records[key] for key in has_files - withdrawn}

    @cached_property
    def replaced(self) -> tuple[PartEntry, ...]:
        """What open epochs replace: to be deleted once all is published."""
        return tuple(replaced_parts(None, (epoch.manifest for epoch in self.open)).values())

    @property
    def places(self) -> frozenset[PartitionKey]:
        """The partitions that the metastore must be asked about."""
        return self.keys | self.committed().keys() | {part.key for part in self.replaced}

    @cached_property
    def keys(self) -> frozenset[PartitionKey]:
        """The partitions of live parts."""
        return frozenset(part.key for _, part in self.live_parts)

    @cached_property
    def earlier_paths(self) -> dict[str, tuple[str, ...]]:
        """Where parts may be from before open epochs moved them, by the parts' names, which never change."""
        paths: dict[str, tuple[str, ...]] = {}
        for removed in (target for epoch in self.open for target in epoch.manifest.remove):
            name = removed.rpartition("/")[2]
            paths[name] = (*paths.get(name, ()), removed)
        return paths

    def following(self, kind: str, stamp: Stamp) -> Manifest:
        """The next epoch's manifest, with what is carried forward and nothing of its own yet."""
        own, head = self.identity, self.head
        return Manifest(
            own.writer,
            own.uid,
            Epoch(self.epoch + 1),
            stamp.attempt,
            kind,
            max(stamp.at, head.at) if head else stamp.at,
            self.settled,
            last_batch=head.last_batch if head else None,
            tables=own.tables,
            zones=own.zones,
            log=own.log,
            options=own.options,
            settings=own.settings,
            watermark=head.watermark if head else None,
            columns=own.columns,
        )

    def decided(self, manifest: Manifest) -> History:
        # A bare epoch has nothing to publish, and nothing to confirm.
        new = () if manifest.is_bare else (OpenEpoch(manifest),)
        return replace(self, head=manifest, open=(*self.open, *new), rows=self.rows.after(manifest))

    def marked(self, epoch: Epoch, state: EpochState) -> History:
        """The history once `epoch` has that mark. Raises IllegalStepError."""
        opened = list[OpenEpoch]()
        for each in self.open:
            number = each.manifest.epoch
            if state in {EpochState.VERIFIED, EpochState.SETTLED}:
                takes = number <= epoch and each.state is not state
            else:
                takes = number == epoch
            if takes and state not in NEXT[each.state].values():
                message = f"no step leads from {each.state.value!r} to {state.value!r}"
                raise IllegalStepError(message)
            new = replace(each, state=state) if takes else each
            opened += [] if new.state is EpochState.SETTLED else [new]
        return replace(self, open=tuple(opened))


@dataclass(frozen=True, slots=True)
class Floor:
    """Epochs up to `epoch` are settled and their manifests deleted; `totals` are their row counts.

    `files` counts the parts that they created, less those that they removed, `forgotten` the rows whose loss a person
    accepted. `replaced` are the dead letters' parts that they replaced: such a file may turn up again. `parts` and
    `bytes` count all that they created, `kinds` how many epochs of each kind there were.
    """

    epoch: Epoch
    totals: Rows
    files: int = 0
    forgotten: int = 0
    replaced: tuple[PartEntry, ...] = ()
    parts: int = 0
    bytes: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)


def replaced_parts(before: Floor | None, manifests: Iterable[Manifest]) -> dict[str, PartEntry]:
    """The dead letters' parts, by name, that are no dead letters any more after `before` and these epochs."""
    replaced = {part.name: part for part in (before.replaced if before else ())}
    for manifest in manifests:
        for part in manifest.replaces:
            if manifest.kind == REQUEUE:
                replaced.pop(part.name, None)
            else:
                replaced[part.name] = part
    return replaced


def floor_over(before: Floor | None, manifests: Iterable[Manifest]) -> Floor:
    """The floor that replaces `before` and `manifests`, the ones that follow it."""
    floor = before or Floor(Epoch(0), Rows())
    for manifest in manifests:
        floor = Floor(
            epoch=manifest.epoch,
            totals=floor.totals + manifest.rows,
            files=floor.files + len(manifest.add) - len(manifest.remove),
            forgotten=floor.forgotten + manifest.forgotten,
            replaced=tuple(replaced_parts(floor, (manifest,)).values()),
            parts=floor.parts + len(manifest.created),
            bytes=floor.bytes + sum(part.length for part in manifest.created),
            kinds={**floor.kinds, manifest.kind: floor.kinds.get(manifest.kind, 0) + 1},
        )
    return floor
