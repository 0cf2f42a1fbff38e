"""What a plan goes by, and the actions it consists of: values that say what to do. `recover --dry-run` lists them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import CommittedPartition, EpochState, History
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Manifest, OpenBucket, PartEntry
from hivesink.core.partfile import parse_staged
from hivesink.core.partition import LivePartition, PartitionKey, same_location
from hivesink.core.partition_commit import PolicyKind


@dataclass(frozen=True, slots=True)
class Decide:
    """Create the manifest if there is none: the point of no return. Nothing else is planned with it."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ClearAccurate:
    """Make Hive count the rows of these partitions itself, before rows come (HIVE-11266)."""

    table: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Register:
    """Make the metastore list these partitions, each with its folder, with the table's columns."""

    table: str
    partitions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _OfPart:
    part: PartEntry

    @property
    def key(self) -> PartitionKey:
        return self.part.key


@dataclass(frozen=True, slots=True)
class Publish(_OfPart):
    """Rename a decided part from `source`, where its bytes are, to its target."""

    source: str


@dataclass(frozen=True, slots=True)
class AlreadyPublished(_OfPart):
    """A decided part is at its target."""


@dataclass(frozen=True, slots=True)
class PartMissing(_OfPart):
    """A part is nowhere: all waits until it is restored, or a person accepts the loss."""

    wrong: tuple[tuple[str, int], ...] = ()
    """Paths where another file stands, with its length."""


@dataclass(frozen=True, slots=True)
class SetMark:
    """Record what is done about the epoch. `waited` are the folders where parts of a published epoch were set aside."""

    mark: EpochState
    epoch: Epoch
    waited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteReplaced:
    """Delete published parts that published epochs replace."""

    parts: tuple[PartEntry, ...]


@dataclass(frozen=True, slots=True)
class Announce:
    """Make known that these partitions are committed, in a way of the table's."""

    kind: PolicyKind
    partitions: tuple[CommittedPartition, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete staged files that nothing can commit any more, then those of the hidden `folders` that are empty."""

    staged: tuple[str, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete touched-lists that no longer lead to a file."""

    lists: tuple[StagingIntent, ...]


@dataclass(frozen=True, slots=True)
class DropSegments:
    """Delete segments whose rows are all in part files, or were never decided."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete the manifests up to `epoch`; the floor takes over their totals."""

    epoch: Epoch


_OnLog = Decide | SetMark | Forget | DropSegments | Trim
_OnFiles = Publish | AlreadyPublished | PartMissing | DeleteReplaced | Announce | Discard
Action = _OnLog | _OnFiles | ClearAccurate | Register


LINGER = 16
"""Epochs for which a loser's touched-list stays: a file that the loser asked for may yet be created, late."""

RolledBuckets = Mapping[tuple[Epoch, PartitionKey], OpenBucket]
"""What waited in a bucket when that epoch rolled it."""

Winner = tuple[str, int]
"""An attempt, and a task attempt of it whose report was committed."""


@dataclass(frozen=True, slots=True)
class StagingArea:
    """What tasks have left: touched-lists, the folders of these that were looked into, their staged files; segments.

    Files of committed attempts (`winners`) are never leftovers. A running query looks only at attempts on the newest
    epoch, and names its `winners`; recovery looks at all.
    """

    lists: tuple[StagingIntent, ...] = ()
    folders: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    winners: frozenset[Winner] = frozenset()
    segments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A look. `files` holds the lengths of the files among the paths that `paths_to_look` names.

    `refused` are partitions that the metastore has refused to register: their epochs stay open, all others go on.
    `taken` are those of them whose folder is another partition's now. `rolled` holds the buckets of open rolls whose
    segments are all there; it is filled only where a part is missing.
    """

    files: Mapping[str, int]
    partitions: Mapping[PartitionKey, LivePartition]
    refused: frozenset[PartitionKey] = frozenset()
    taken: frozenset[PartitionKey] = frozenset()
    rolled: RolledBuckets = field(default_factory=dict)


def missing_parts(
    history: History, files: Mapping[str, int], live: Mapping[PartitionKey, LivePartition]
) -> tuple[PartMissing, ...]:
    """The decided parts that can't be published, and published ones that vanished before they were settled."""
    locator = PartLocator(files, history.earlier_paths)
    waiting = (action for part in history.waiting if isinstance(action := locator.next_action(part), PartMissing))
    return (*waiting, *map(PartMissing, unproven(history, live, files)))


def unproven(
    history: History, live: Mapping[PartitionKey, LivePartition], files: Container[str] = ()
) -> list[PartEntry]:
    """Published parts of new partitions that aren't among `files`, and must be until their epoch is settled.

    An INSERT that looked for the partition before it was registered deletes the files in its folder, however late. Once
    a look has seen them in place, they are the users' own: who deletes them then may have read them.
    """
    published = (part for epoch, part in history.live_parts if epoch.state is EpochState.PUBLISHED)
    gone = (part for part in published if part.partition and part.was_set_aside and part.target not in files)
    homes = ((part, live.get(part.key)) for part in gone)
    return [part for part, home in homes if home and same_location(home.location, part.folder)]


@dataclass(frozen=True)
class PartLocator:
    """Where the bytes of decided parts are: the lengths of `files`, and `others`, as `History.earlier_paths`."""

    files: Mapping[str, int]
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[tuple[str, int], str]:
        return {(path.rpartition("/")[2], length): path for path, length in self.files.items()}

    def next_action(self, part: PartEntry) -> Publish | AlreadyPublished | PartMissing:
        """What to do about a decided part, from where its bytes are: the only judgement on a rename.

        They may be where its task or its driver left them, at the target, at an earlier target, where a stalled run has
        published them in the meantime, or where a search has found them.
        """
        files = self.files
        if part.staged != part.target and files.get(part.staged) == part.length:
            return Publish(part, part.staged)
        if files.get(part.target) == part.length:
            return AlreadyPublished(part)
        elsewhere = self.by_name.get((part.name, part.length)) or self.by_name.get((part.hidden, part.length))
        if elsewhere and part.target not in files:
            return Publish(part, elsewhere)
        paths = dict.fromkeys((part.staged, part.target, *self.others.get(part.name, ())))
        return PartMissing(part, tuple((path, files[path]) for path in paths if path in files))


def paths_to_look(history: History, live: Mapping[PartitionKey, LivePartition]) -> set[str]:
    """The paths whose lengths `plan` needs, also those from before parts were moved."""
    paths = {part.target for part in unproven(history, live)}
    paths |= {path for part in history.replaced for path in homes_of(part, live)}
    for epoch, part in history.live_parts:
        home = live.get(part.key)
        if not epoch.is_published:
            paths |= {part.staged, part.target, *history.earlier_paths.get(part.name, ())}
        elif home is None or not same_location(part.folder, home.location):
            # A user has dropped the partition, with or without its files, or has moved it.
            paths.add(part.target)
    return paths


def homes_of(part: PartEntry, live: Mapping[PartitionKey, LivePartition]) -> tuple[str, ...]:
    """Where a published part may be: at its target, and where its partition lives now."""
    home = live.get(part.key)
    return tuple(dict.fromkeys((part.target, f"{home.location}/{part.name}"))) if home else (part.target,)


def newest(touched: Iterable[StagingIntent]) -> Epoch:
    """The highest epoch that any task has begun to write."""
    return max((intent.epoch for intent in touched), default=Epoch(0))


def followed(staging: StagingArea, head: Epoch) -> tuple[StagingIntent, ...]:
    """The touched-lists whose folders must be looked into."""
    decided = (intent for intent in staging.lists if intent.epoch <= head)
    losers = (intent for intent in decided if (intent.attempt, intent.task_attempt) not in staging.winners)
    return tuple(lost for lost in losers if not staging.winners or lost.epoch == head or lost.epoch <= head - LINGER)


def leftovers(staged: Iterable[str], uid: str, history: History) -> list[str]:
    """Which of these staged files of writer `uid` nothing can commit any more.

    A file of epoch e may go once a manifest at or above e exists, unless a decided part waits under its name.
    """
    # By name, which is unique: a folder may have two spellings (a NameNode's, and its nameservice's).
    kept = {part.staged.rpartition("/")[2] for part in history.waiting}
    names = ((path, path.rpartition("/")[2]) for path in staged)
    parts = ((path, parsed[0]) for path, name in names if name not in kept and (parsed := parse_staged(name)))
    return [path for path, name in parts if name.uid == uid and name.epoch <= history.epoch]
