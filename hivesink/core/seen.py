"""One look at files and metastore: what it shows of decided parts, and of leftovers, the files of tries that lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hivesink.core.actions import Action, Discard, DropSegments, Forget, Keep, Publish, Refuse
from hivesink.core.bucket import given_up, is_aside, is_given_up, same_location
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.partfile import parse_staged
from hivesink.core.partition import PartitionKey
from hivesink.core.rolling import OpenBucket, Opened, segment_epoch

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from hivesink.core.lifecycle import History
    from hivesink.core.log import Touched
    from hivesink.core.manifest import PartEntry
    from hivesink.core.partition import LivePartition
    from hivesink.core.partition_commit import Commit

LINGER = 16
"""Epochs for which a loser's touched-list stays: a file that the loser asked for may yet be created, late."""

Closed = Mapping[tuple[Epoch, PartitionKey], OpenBucket]
"""What waited in a bucket when that epoch rolled it."""

Winner = tuple[str, int]
"""An attempt, and a task attempt of it whose report was committed."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """What tasks have left: touched-lists, the folders of these that were looked into, their staged files; segments.

    A winner's list leads to no leftovers. A running query knows its `winners`, and only tries at the head itself are
    news to it; recovery looks into all folders of all lists.
    """

    lists: tuple[Touched, ...] = ()
    folders: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    winners: frozenset[Winner] = frozenset()
    segments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One look. `files` holds the lengths of the files among the paths that `paths_to_look` names, and of astray ones.

    `partitions` None: the metastore was not asked, or doesn't answer. `tracks` None: nobody has looked. `refused` are
    partitions that the metastore has refused to register: their epochs stay open, all others go on. `taken` are those
    of them whose folder is another partition's now. `read` are those of `files` that readers find, if somebody asked.
    `closed`: where parts are lost, and all of the table was searched for them; of `torn` ones not all rows are in
    segments any more. `hidden` are the names of parts that this run has not renamed and nobody else could, though their
    epoch's mark says that parts may be visible.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[PartitionKey, LivePartition] | None = None
    tracks: Tracks | None = None
    refused: frozenset[PartitionKey] = frozenset()
    taken: frozenset[PartitionKey] = frozenset()
    read: frozenset[str] = frozenset()
    closed: Closed = field(default_factory=dict)
    torn: frozenset[tuple[Epoch, PartitionKey]] = frozenset()
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What a person has confirmed to give up: decided parts, by their targets. `targets` go only if they are lost.

    `waiting` go with their files: what the job has decided since isn't among them. `slices` are rows that wait.
    `records` are the log's commits of their partitions. `again` are the targets of lost parts whose rows wait again,
    though somebody may have read them.
    """

    targets: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    slices: frozenset[Opened] = frozenset()
    records: Mapping[PartitionKey, Commit] = field(default_factory=dict)
    again: frozenset[str] = frozenset()


NOTHING = GivenUp()


def losses(
    history: History, files: Mapping[str, int], live: Mapping[PartitionKey, LivePartition] | None = None
) -> tuple[Refuse, ...]:
    """The decided parts that can't be published any more, and published ones that vanished before they were settled."""
    return tuple(action for action in judged(history, files, live) if isinstance(action, Refuse))


def judged(
    history: History, files: Mapping[str, int], live: Mapping[PartitionKey, LivePartition] | None = None
) -> Iterator[Publish | Keep | Refuse]:
    """What to do about each part that isn't published, and about published ones that vanished."""
    places = Places(files, history.other_paths(live))
    yield from map(places.locate, history.waiting)
    yield from () if live is None else vanished(history, live, files)


def vanished(
    history: History, live: Mapping[PartitionKey, LivePartition], files: Mapping[str, int]
) -> Iterator[Refuse]:
    """The published parts that must be at their targets and aren't."""
    places = Places(files)
    for part in unproven(history, live, files):
        # Under its hidden name, nothing would publish it again.
        yield Refuse(part, (), places.whole.get((part.name, part.length)))


def unproven(
    history: History, live: Mapping[PartitionKey, LivePartition], there: Container[str] = ()
) -> list[PartEntry]:
    """Published parts of new partitions that aren't `there`, and must be until their epoch is settled.

    An INSERT that looked for the partition before it was registered deletes the files in its folder, however late. Once
    a look has found them, they are the users' own: who deletes them then may have read them.
    """
    parts = []
    for epoch, part in history.standing:
        if epoch.state is EpochState.PUBLISHED and part.partition and part.target not in there:
            home = live.get(part.key)
            is_home = None if home is None else same_location(home.location, part.folder)
            parts += [part] if is_unproven(part, is_home=is_home) else []
    return parts


def is_unproven(part: PartEntry, *, is_home: bool | None) -> bool:
    """Whether nobody had a right to take a published part of an unsettled epoch: it was published into a new partition.

    `is_home`: whether its partition is listed in the part's folder; None if it isn't listed.
    """
    waited = part.staged.rpartition("/")[0]
    return bool(is_home) and (is_aside(waited) or is_given_up(waited))


@dataclass(frozen=True)
class Places:
    """Where the bytes of decided parts are: the lengths of `files`, and `others`, as `History.other_paths` has them."""

    files: Mapping[str, int]
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def whole(self) -> dict[tuple[str, int], str]:
        """The files by name and length."""
        return {(path.rpartition("/")[2], length): path for path, length in self.files.items()}

    def locate(self, part: PartEntry) -> Publish | Keep | Refuse:
        """What to do about a decided part, from where its bytes are: the one judgement on a rename.

        They may be where its task or its driver left them; at the target; where a person has restored them under their
        hidden name; where a `recover --give-up` that was cut short has put them; or at one of `others`,
        such as an earlier target, where a stalled run has published them in the meantime.
        """
        files = self.files
        if part.staged != part.target and files.get(part.staged) == part.length:
            return Publish(part, part.staged)
        if files.get(part.target) == part.length:
            return Keep(part)
        others = self.others.get(part.name, ())
        paths = dict.fromkeys((part.staged, part.target, part.restored, *given_up(part.target), *others))
        lengths = {path: files[path] for path in paths if path in files}
        right = [path for path, length in lengths.items() if length == part.length]
        if right and part.target not in lengths:
            return Publish(part, right[0])
        wrong = tuple((path, length) for path, length in lengths.items() if length != part.length)
        astray = self.whole.get((part.name, part.length)) or self.whole.get((part.hidden, part.length))
        return Refuse(part, wrong, astray)


def paths_to_look(history: History, live: Mapping[PartitionKey, LivePartition], *, far: bool = False) -> set[str]:
    """The paths whose lengths `plan` needs. `far`: all where a part could be, for parts not found at the usual two."""
    paths, others = {part.target for part in unproven(history, live)}, history.other_paths(live)
    for epoch, part in history.standing:
        home = live.get(part.key)
        if not epoch.is_published:
            paths |= {part.staged, part.target}
            if far:
                paths |= {part.restored, *given_up(part.target), *others.get(part.name, ())}
        elif home is None or not same_location(part.folder, home.location):
            # A user has dropped the partition, with or without its files, or has moved it.
            paths.add(part.target)
    return paths


def abandoned(history: History, seen: Seen, given_up: GivenUp) -> list[PartEntry]:
    """The parts that are given up though they are not lost, except those that readers see, or might see."""
    if not given_up.waiting:
        return []
    live = seen.partitions
    elsewhere = {loss.part.target for loss in losses(history, seen.files, live) if loss.astray and not loss.is_hidden}
    read = {(path.rpartition("/")[2], seen.files[path]) for path in seen.read}
    wanted = given_up.waiting - elsewhere
    return [
        part
        for epoch, part in history.standing
        if part.target in wanted
        and (part.name, part.length) not in read
        # Readers see it if it is at its target and its partition is listed.
        and (part.target not in seen.files or (live is not None and part.key not in live))
        and not epoch.is_published
    ]


def newest(touched: Iterable[Touched]) -> Epoch:
    """The highest epoch that any task has begun to write."""
    return max((one.epoch for one in touched), default=Epoch(0))


def followed(tracks: Tracks, head: Epoch) -> tuple[Touched, ...]:
    """The touched-lists whose folders must be looked into."""
    losers = _losers(tracks, head)
    return tuple(one for one in losers if not tracks.winners or one.epoch == head or one.epoch <= head - LINGER)


def _losers(tracks: Tracks, head: Epoch) -> list[Touched]:
    return [one for one in tracks.lists if one.epoch <= head and (one.attempt, one.task_attempt) not in tracks.winners]


def sweep(history: History, tracks: Tracks) -> Iterator[Action]:
    """Discard what nothing can commit any more, and forget the lists that no longer lead to a file."""
    head = history.epoch
    if tracks.folders:
        yield Discard(tuple(leftovers(tracks.staged, history.identity.uid, history)), tracks.folders)
    losers = set(_losers(tracks, head))
    old = (one for one in tracks.lists if one.epoch <= head)
    forgotten = tuple(one for one in old if one not in losers or one.epoch <= head - LINGER)
    if forgotten:
        yield Forget(forgotten)
    unread = tuple(_unread(history, tracks.segments))
    if unread:
        yield DropSegments(unread)


def _unread(history: History, segments: Iterable[str]) -> Iterator[str]:
    """The segments that hold no row that waits, nor one whose part could still be lost."""
    if any(epoch.manifest.rolled for epoch in history.open):
        return
    held = history.rows.segments()
    for name in segments:
        epoch = segment_epoch(name)
        if epoch is not None and epoch <= history.epoch and name not in held:
            yield name


def leftovers(staged: Iterable[str], uid: str, history: History) -> list[str]:
    """Which of these staged files of writer `uid` nothing can commit any more.

    A file of epoch e may go once a manifest at or above e exists, unless a decided part waits under its name.
    """
    # By name, which is unique: one folder may have two spellings (a NameNode's, and its nameservice's).
    kept = {part.staged.rpartition("/")[2] for part in history.waiting}
    gone = []
    for path in staged:
        name = path.rpartition("/")[2]
        parsed = parse_staged(name)
        if parsed and parsed[0].uid == uid and parsed[0].epoch <= history.epoch and name not in kept:
            gone.append(path)
    return gone
