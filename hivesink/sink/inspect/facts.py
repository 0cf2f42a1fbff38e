"""What a log and a table's folders hold, for `status` and `verify` to judge. Nothing here changes anything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from posixpath import dirname
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.log import LogView, Mark, missing
from hivesink.core.manifest import Floor, Manifest, PartEntry, Rows, live_parts, replaced_parts
from hivesink.core.partfile import PartName, Stage, parse_staged
from hivesink.core.partition import is_aside, is_hidden
from hivesink.core.rolling import OpenRows, open_rows
from hivesink.errors import HiveSinkError, LogDamaged, NewerFormat, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from hivesink.core.partition import LivePartition, PartitionKey
    from hivesink.ports import CommitLog, FileStore

_READS = 10
"""Attempts to read a log that is being trimmed at the same time."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A partition whose rows wait for its registration; `since` is the epoch that wrote the first of them."""

    table: str
    partition: str
    location: str
    since: Epoch


@dataclass(frozen=True, slots=True)
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

    @property
    def settled(self) -> Epoch:
        """Epochs up to this one are settled."""
        return self.view.settled(self.head.settled if self.head else Epoch(0))

    def is_published(self, epoch: Epoch) -> bool:
        """Whether all parts of `epoch` were made visible. From then on they are the users' own."""
        return epoch <= self.settled or self.view.has(epoch, Mark.PUBLISHED)

    @property
    def open(self) -> tuple[Manifest, ...]:
        """The epochs that are not settled."""
        return tuple(manifest for manifest in self.manifests if self.head and manifest.epoch > self.settled)

    def unregistered(self, files: FileFacts) -> tuple[Unregistered, ...]:
        """Partitions whose parts wait among the hidden `files` until they are registered."""
        staged = {part.path.rpartition("/")[2] for part in files.staged}
        gaps: dict[PartitionKey, Unregistered] = {}
        for manifest, part in live_parts(self.open):
            folder, _, name = part.staged.rpartition("/")
            if part.partition and is_aside(folder) and name in staged:
                # A part's name says who wrote it; a move may have taken it on.
                wrote = PartName.parse(part.name)
                since = Epoch(wrote.epoch) if wrote else manifest.epoch
                gaps.setdefault(part.key, Unregistered(*part.key, part.folder, since))
        return tuple(gaps[place] for place in sorted(gaps))

    @property
    def totals(self) -> Rows:
        """Row counts from the writer's first epoch on: the floor's, and those of the manifests."""
        return sum((manifest.rows for manifest in self.manifests), self.floor.totals if self.floor else Rows())

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that a manifest names, the newest manifest's first."""
        return tuple(dict.fromkeys(table for manifest in reversed(self.manifests) for table in manifest.tables))

    def effective(self) -> Iterator[tuple[Manifest, PartEntry]]:
        """Each part with its epoch, unless a later epoch has removed it."""
        return live_parts(self.manifests)

    def waiting(self) -> Iterator[PartEntry]:
        """The parts that aren't published yet."""
        return (part for manifest, part in self.effective() if not self.is_published(manifest.epoch))

    @property
    def open_rows(self) -> OpenRows:
        """The rows that wait after the newest manifest."""
        return open_rows(reversed(self.manifests))

    @property
    def replaced(self) -> Mapping[str, PartEntry]:
        """By name, the dead letters' parts that its epochs have replaced: a file that is still there is no letter."""
        return replaced_parts(self.floor, self.manifests)

    def settled_parts(self) -> Callable[[str, int], bool]:
        """Says whether the visible file of a name and length is a settled part: without its manifest by name alone."""
        settled = {part.name: part.length for manifest, part in self.effective() if manifest.epoch <= self.settled}
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
        kept = {part.name for _, part in self.effective()}
        removed = (target for manifest in self.manifests for target in manifest.remove)
        return frozenset(target for target in removed if target.rpartition("/")[2] not in kept)

    @property
    def forgotten_rows(self) -> int:
        """All rows whose loss a person has accepted, from the writer's first epoch on."""
        rows = sum(manifest.forgotten for manifest in self.manifests)
        return (self.floor.forgotten if self.floor else 0) + rows


def read_log(log: CommitLog, known: Iterable[Manifest] = ()) -> LogFacts:
    """Everything in `log` at one moment; its `known` manifests aren't read again. Raises StoreUnavailable."""
    manifests = {manifest.epoch: manifest for manifest in known}
    for _ in range(_READS):
        facts = _read(log, log.view(), manifests)
        floor = facts.floor.epoch if facts.floor else Epoch(0)
        if facts.view.floor == floor == log.view().floor and _lasts(log, facts.missing):
            return facts
    raise StoreUnavailable(
        action="read", path=log.location, reason=f"its floor rose during each of {_READS} reads; try again"
    )


def _lasts(log: CommitLog, gaps: tuple[Epoch, ...]) -> bool:
    """Whether the manifests that a listing lacks are really missing.

    A listing may miss one that is created meanwhile, and another may miss one that is trimmed meanwhile: so ask twice.
    """
    return not gaps or all(set(gaps) <= set(missing(log.view())) for _ in range(2))


def _read(log: CommitLog, view: LogView, known: Mapping[Epoch, Manifest]) -> LogFacts:
    manifests: list[Manifest] = []
    unreadable: dict[Epoch, HiveSinkError] = {}
    for epoch in view.manifests:
        try:
            manifests.append(known.get(epoch) or log.manifest(epoch))
        except (LogDamaged, NewerFormat) as error:  # noqa: PERF203  each has its own
            unreadable[epoch] = error
    floor = None
    try:
        floor = log.floor() if view.floor else None
    except (LogDamaged, NewerFormat) as error:
        floor, unreadable = Floor(view.floor, Rows()), {view.floor: error, **unreadable}
    uid = None
    # A uid that can't be read is in `unreadable` already, by the manifest that hides it.
    with suppress(LogDamaged):
        uid = log.uid(None)
    return LogFacts(log.location, uid, view, floor, tuple(manifests), unreadable)


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A file that is named as a part; `stage` is None for a finished one, which readers see."""

    path: str
    name: PartName
    stage: Stage | None

    @classmethod
    def among(cls, paths: Iterable[str]) -> Iterator[FoundPart]:
        """Those of `paths` that are named as parts."""
        for path in paths:
            text = path.rpartition("/")[2]
            if name := PartName.parse(text):
                yield cls(path, name, None)
            elif staged := parse_staged(text):
                yield cls(path, *staged)


@dataclass(frozen=True)
class FileFacts:
    """The files in some folders, by paths that `canonical` (`FileStore.canonical`) spells; `visible` are lengths."""

    staged: tuple[FoundPart, ...]
    visible: Mapping[str, int]
    canonical: Callable[[str], str]

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        """The paths of all files by their names."""
        by_name: dict[str, list[str]] = {}
        for path in (*self.visible, *(part.path for part in self.staged)):
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        return by_name

    def has(self, part: PartEntry) -> bool:
        """Whether `part` is at its target with its length."""
        return self.visible.get(self.canonical(part.target)) == part.length

    def of(self, part: PartEntry) -> list[str]:
        """Where the file of `part` is, under either of its names; the hidden ones may have another length."""
        paths = (path for name in dict.fromkeys((part.hidden, part.name)) for path in self.by_name.get(name, ()))
        return [path for path in paths if self.visible.get(path, part.length) == part.length]

    def parts(self, uid: str | None) -> Iterator[tuple[FoundPart, int]]:
        """The visible parts of writer `uid`, with their lengths."""
        for part in FoundPart.among(self.visible):
            if part.name.uid == uid:
                yield part, self.visible[part.path]


@dataclass(frozen=True)
class Evidence:
    """What was found for one writer. `read` are row counts by path, or why the file can't be read.

    `live` are all partitions of the writer's tables, `segments` the lengths of its segments. `damaged` says what is
    wrong with segments that were read. `head_after` is the log's head after that: a job may be running meanwhile.
    `replaced` are names of dead letters' parts that a replay has replaced, by any log of the table.
    """

    log: LogFacts
    head_after: Epoch
    tables: Mapping[str, str]
    files: FileFacts
    read: Mapping[str, int | str]
    live: Mapping[PartitionKey, LivePartition]
    segments: Mapping[str, int] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)
    replaced: Collection[str] = ()

    @cached_property
    def homes(self) -> Mapping[PartitionKey, str]:
        """Where readers find each partition, spelled as in `files`."""
        return {place: self.files.canonical(live.location) for place, live in self.live.items()}

    @cached_property
    def shown(self) -> frozenset[str]:
        """The folders that readers look into."""
        return frozenset(self.homes.values())

    @cached_property
    def places(self) -> Mapping[str, str]:
        """The visible file of each effective part, by its name, which is unique; none of one that is gone.

        Of a part's copies it is one that readers find, best a whole one, best where it was.
        """
        by_name = ((part, self.files.by_name.get(part.name)) for _, part in self.log.effective())
        return {part.name: min(paths, key=partial(self._rank, part)) for part, paths in by_name if paths}

    def _rank(self, part: PartEntry, path: str) -> tuple[bool, bool, bool, bool, str]:
        folder, is_torn = dirname(path), self.files.visible[path] != part.length
        is_home = folder == self.homes.get(part.key)
        return folder not in self.shown, is_torn, path != self.files.canonical(part.target), not is_home, path


def list_files(store: FileStore, locations: Collection[str], folders: Iterable[str]) -> FileFacts:
    """Files below the tables' `locations`, and in `folders`, which may lie elsewhere. Raises StoreUnavailable."""
    by_canonical: dict[str, str] = {}
    for location in locations:
        base = store.canonical(location)
        for folder in store.walk(location):
            canonical = store.canonical(folder)
            if is_aside(canonical) or not is_hidden(canonical[len(base) :]):
                by_canonical.setdefault(canonical, folder)
    for folder in folders:
        by_canonical[store.canonical(folder)] = folder
    # Staged files first, those that are set aside last: a part that is moved meanwhile is then seen twice, not missed.
    ordered = sorted(by_canonical.values(), key=lambda folder: (is_aside(folder), folder))
    hidden = store.run_parallel(partial(store.staged, folder) for folder in ordered)
    staged = tuple(FoundPart.among(store.canonical(path) for paths in hidden for path in paths))
    listed = store.run_parallel(partial(store.visible, folder) for folder in ordered)
    visible = {store.canonical(file.path): file.length for files in listed for file in files}
    return FileFacts(staged, visible, store.canonical)


def outside(store: FileStore, homes: Iterable[str], locations: Iterable[str]) -> set[str]:
    """Those of the partitions' `homes` that are in none of the tables' `locations`, or in a hidden folder there."""
    bases = [f"{store.canonical(location)}/" for location in locations]

    def is_inside(home: str) -> bool:
        path = f"{store.canonical(home)}/"
        return any(path.startswith(base) and not is_hidden(path[len(base) :]) for base in bases)

    return {home for home in homes if not is_inside(home)}
