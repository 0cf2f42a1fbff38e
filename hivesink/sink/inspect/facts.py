"""What a log and a table's folders hold, read without changing anything: what `status` and `verify` judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.bucket import is_aside
from hivesink.core.epoch import Epoch
from hivesink.core.log import Mark, missing
from hivesink.core.manifest import Manifest, Rows, lost_parts, standing
from hivesink.core.partfile import PartName, parse_staged
from hivesink.errors import HiveSinkError, LogDamaged, NewerFormat, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from hivesink.core.log import LogView
    from hivesink.core.manifest import Floor, PartEntry
    from hivesink.core.partfile import Stage
    from hivesink.core.partition import PartitionKey
    from hivesink.ports import CommitLog, FileStore

_READS = 10
"""Reads of a log whose old manifests are being let go of at the same time."""


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
        """The newest manifest; None where there is none, or it can't be read."""
        newest = self.manifests[-1] if self.manifests else None
        return newest if newest and newest.epoch == self.view.head else None

    @property
    def missing(self) -> tuple[Epoch, ...]:
        """Epochs above the floor that were decided, and whose manifests are gone."""
        return missing(self.view)

    def require_readable(self) -> None:
        """Raise the first of `unreadable`: LogDamaged or NewerFormat."""
        for epoch in sorted(self.unreadable):
            raise self.unreadable[epoch]

    def is_published(self, epoch: Epoch) -> bool:
        """Whether `epoch` is settled: its parts were all made visible, and are the users' since."""
        settled = self.head.settled if self.head else Epoch(0)
        return epoch <= settled or Mark.PUBLISHED in self.view.marks.get(epoch, frozenset())

    @property
    def unpublished(self) -> tuple[Manifest, ...]:
        return tuple(manifest for manifest in self.manifests if not self.is_published(manifest.epoch))

    @property
    def open(self) -> tuple[Manifest, ...]:
        """The epochs that are not settled."""
        head = self.head
        if head is None or Mark.REGISTERED in self.view.marks.get(head.epoch, frozenset()):
            return ()
        return tuple(manifest for manifest in self.manifests if manifest.epoch > head.settled)

    def unregistered(self, staged: Collection[str]) -> tuple[Unregistered, ...]:
        """Partitions with parts that wait for them to be listed; `staged` are the names of the hidden files there."""
        found: dict[PartitionKey, Unregistered] = {}
        for manifest, part in standing(self.open):
            folder, _, name = part.staged.rpartition("/")
            # Format 1 staged these in their partition's folder, like all others.
            is_exposed = is_aside(folder) or manifest.log is None
            if part.partition and is_exposed and name in staged:
                place = (part.table, part.partition)
                found.setdefault(place, Unregistered(*place, part.folder, manifest.epoch))
        return tuple(found[place] for place in sorted(found))

    @property
    def totals(self) -> Rows:
        """Row counts from the writer's first epoch on: the floor's, and those of the manifests."""
        start = self.floor.totals if self.floor else Rows()
        return sum((manifest.rows for manifest in self.manifests), start)

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that a manifest names, the newest manifest's first."""
        found = [table for manifest in reversed(self.manifests) for table in manifest.tables]
        return tuple(dict.fromkeys(found))

    def effective(self) -> Iterator[tuple[Manifest, PartEntry]]:
        """Each part with the epoch that answers for it: no later epoch has moved it or accepted its loss."""
        return standing(self.manifests)

    @property
    def lost(self) -> frozenset[str]:
        """Targets whose loss a person has accepted."""
        return frozenset(target for manifest in self.manifests for target in manifest.lost)

    @property
    def lost_rows(self) -> int:
        """The rows of all parts whose loss a person has accepted, from the writer's first epoch on."""
        start = self.floor.lost if self.floor else 0
        return start + sum(part.rows for _, part in lost_parts(self.manifests))


def read_log(log: CommitLog) -> LogFacts:
    """Everything that `log` holds, as of one moment. Raises StoreUnavailable; LogDamaged, NewerFormat for its floor."""
    for _ in range(_READS):
        facts = _read(log, log.view())
        floor = facts.floor.epoch if facts.floor else Epoch(0)
        if facts.view.floor == floor == log.view().floor and _lasts(log, facts.missing):
            return facts
    raise StoreUnavailable(action="read", path=log.location, reason=f"its floor rose during each of {_READS} reads")


def _lasts(log: CommitLog, gaps: tuple[Epoch, ...]) -> bool:
    """Whether manifests that a listing lacks are missing indeed.

    A listing may miss one that is created meanwhile, and another one that goes below a floor meanwhile: so ask twice.
    """
    return not gaps or all(set(gaps) <= set(missing(log.view())) for _ in range(2))


def _read(log: CommitLog, view: LogView) -> LogFacts:
    floor = log.floor() if view.floor else None
    found = {epoch: _manifest(log, epoch) for epoch in view.manifests}
    manifests = tuple(manifest for manifest in found.values() if isinstance(manifest, Manifest))
    unreadable = {epoch: error for epoch, error in found.items() if isinstance(error, HiveSinkError)}
    return LogFacts(log.location, _uid(log), view, floor, manifests, unreadable)


def _uid(log: CommitLog) -> str | None:
    """The log's uid; None where it can't be told, which the manifest that can't be read shows as well."""
    try:
        return log.uid(None)
    except LogDamaged:
        return None


def _manifest(log: CommitLog, epoch: Epoch) -> Manifest | HiveSinkError:
    try:
        return log.manifest(epoch)
    except (LogDamaged, NewerFormat) as error:
        return error


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A hidden part file that was found."""

    path: str
    name: PartName
    stage: Stage


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What stands in some folders. Paths are as `place` spells them (`FileStore.canonical`); `visible` are lengths."""

    staged: tuple[StagedPart, ...]
    visible: Mapping[str, int]
    place: Callable[[str], str]
    by_name: Mapping[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, tuple[str, ...]] = {}
        for path in self.visible:
            name = path.rpartition("/")[2]
            found[name] = (*found.get(name, ()), path)
        object.__setattr__(self, "by_name", found)

    def places(self, name: str) -> tuple[str, ...]:
        """The visible files of that name."""
        return self.by_name.get(name, ())

    def parts(self) -> Iterator[tuple[str, PartName, int]]:
        """Visible files that are named as parts: path, name, length."""
        for path, length in self.visible.items():
            name = PartName.parse(path.rpartition("/")[2])
            if name is not None:
                yield path, name, length


def list_files(store: FileStore, locations: Collection[str], folders: Iterable[str]) -> FileFacts:
    """Files below the tables' `locations`, and in `folders`, which may lie elsewhere. Raises StoreUnavailable."""
    places: dict[str, str] = {}
    for location in locations:
        base = store.canonical(location)
        for folder in store.walk(location):
            place = store.canonical(folder)
            if is_aside(place) or not is_hidden(place[len(base) :]):
                places.setdefault(place, folder)
    for folder in folders:
        places.setdefault(store.canonical(folder), folder)
    # Staged files first, and where parts are set aside last: one that goes on meanwhile is then seen twice, not missed.
    ordered = sorted(places.values(), key=lambda folder: (is_aside(folder), folder))
    staged = tuple(_staged(store, ordered))
    listed = store.run_parallel(partial(store.visible, folder) for folder in ordered)
    visible = {store.canonical(file.path): file.length for inside in listed for file in inside}
    return FileFacts(staged, visible, store.canonical)


def _staged(store: FileStore, folders: Iterable[str]) -> Iterator[StagedPart]:
    for inside in store.run_parallel(partial(store.staged, folder) for folder in folders):
        for path in inside:
            parsed = parse_staged(path.rpartition("/")[2])
            if parsed is not None:
                yield StagedPart(store.canonical(path), *parsed)


def is_hidden(below: str) -> bool:
    """Whether readers pass over a folder: Hive's rule, with Spark's exception for partition folders."""
    names = [name for name in below.split("/") if name]
    return any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in names)
