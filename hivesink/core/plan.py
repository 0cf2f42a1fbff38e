"""What comes next for a writer: its history and one look at the world in, a list of actions out.

Pure: no I/O, no clock; a moment and a token come in as a `Stamp`. First commit, recovery, fences, moves, accepted
losses and clean-up all take their decisions from `plan`; `recover --dry-run` prints what it returns.

Order: nothing is published before the metastore has answered; a partition is registered, and its accurate flag
cleared, before rows come; a partition's success file comes when all its files are there. Every action may be repeated.

A partition that the metastore doesn't list is registered before anything is published into it: Hive's INSERT INTO an
unlisted partition deletes what is in its folder (HIVE-29744). Its parts wait outside of that folder (`set_aside`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from hivesink.core.actions import (
    Action,
    ClearAccurate,
    Decide,
    Discard,
    Forget,
    Keep,
    LookAgain,
    MarkPublished,
    MarkSettled,
    Publish,
    Refuse,
    Register,
    SuccessFiles,
    Trim,
)
from hivesink.core.bucket import same_location
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import History, OpenEpoch, Stamp
from hivesink.core.manifest import Manifest, Move, PartEntry
from hivesink.core.partition import LivePartition, Place
from hivesink.core.partname import parse_staged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from hivesink.core.log import Touched

LINGER = 16
"""Epochs for which a loser's touched-list stays: a file that it asked for may yet be created, late."""

Winner = tuple[str, int]
"""An attempt, and a task attempt of it whose report was committed."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """What tasks have left word of: touched-lists, the folders that were followed, and the staged files in them.

    A winner's list points at no leftovers. During a query, which says who won, only tries at the head itself are
    news; recovery looks wherever a list points.
    """

    lists: tuple[Touched, ...] = ()
    folders: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    winners: frozenset[Winner] = frozenset()


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the world. `files` are the lengths of what stands at the places that `places_to_look` names.

    `partitions` None: the metastore was not asked, or doesn't answer. `tracks` None: nobody has looked.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[Place, LivePartition] | None = None
    tracks: Tracks | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What the table's settings say. `retained` None: old manifests stay. `success_file` is its name."""

    success_file: str | None = None
    retained: int | None = None


def plan(
    history: History,
    seen: Seen,
    stamp: Stamp,
    policy: Policy = Policy(),
    *,
    batch: Manifest | None = None,
    starting: bool = False,
    given_up: Collection[str] = (),
) -> tuple[Action, ...]:
    """Everything that is to be done, as far as this look tells.

    `batch` is the manifest of a batch whose tasks have ended well. `starting`: whatever tasks have begun is an older
    run's, and is shut out. `given_up` are targets of decided parts whose
    loss a person accepts, as far as they are lost.
    """
    return tuple(_plan(history, seen, stamp, policy, batch, starting=starting, given_up=given_up))


def _plan(
    history: History,
    seen: Seen,
    stamp: Stamp,
    policy: Policy,
    batch: Manifest | None = None,
    *,
    starting: bool,
    given_up: Collection[str],
) -> Iterator[Action]:
    fence = _fence(history, seen, stamp) if starting else None
    deciding = batch or fence or _accepted(history, seen, stamp, given_up)
    if deciding is not None:
        yield Decide(deciding)
        yield from _plan(history.decided(deciding), seen, stamp, policy, starting=starting, given_up=given_up)
        return
    if seen.partitions is not None:
        yield from _finish(history, seen, seen.partitions, stamp, policy)
    if seen.tracks is not None:
        yield from _sweep(history, seen.tracks)
        yield from _trim(history, policy)


def _fence(history: History, seen: Seen, stamp: Stamp) -> Manifest | None:
    """The epoch that an older try has begun, decided without a batch: that try can't commit any more."""
    if seen.tracks is None or newest(seen.tracks.lists) <= history.epoch:
        return None
    return history.following("fence", stamp)


def newest(touched: Iterable[Touched]) -> Epoch:
    """The highest epoch that any task has begun to write."""
    return max((found.epoch for found in touched), default=Epoch(0))


def _accepted(history: History, seen: Seen, stamp: Stamp, given_up: Collection[str]) -> Manifest | None:
    """An epoch that takes lost parts out of the log's hands."""
    found = losses(history, seen.files, seen.partitions)
    lost = tuple(loss.part.target for loss in found if loss.part.target in given_up)
    return replace(history.following("accept-lost", stamp), lost=lost) if lost else None


def losses(
    history: History, files: Mapping[str, int], live: Mapping[Place, LivePartition] | None = None
) -> tuple[Refuse, ...]:
    """The decided parts that no publish can bring back, and published ones that no reader can have seen.

    Those of format 1: from format 2 on, nothing is published before its partition is listed, so what is missing
    later was taken by a user who may.
    """
    found = [locate(part, history.earlier_places(part), files) for part in history.waiting()]
    unseen = [part for part in unlisted(history, live or {}) if part.target not in files] if live is not None else []
    return (*(one for one in found if isinstance(one, Refuse)), *(Refuse(part, ()) for part in unseen))


def unlisted(history: History, live: Mapping[Place, LivePartition]) -> list[PartEntry]:
    """Parts that an older hivesink published into partitions that it hadn't registered yet."""
    return [
        part
        for epoch, part in history.standing()
        if epoch.is_published
        and epoch.manifest.log is None
        and part.partition
        and (part.table, part.partition) not in live
    ]


def locate(part: PartEntry, earlier: Iterable[str], files: Mapping[str, int]) -> Publish | Keep | Refuse:
    """Where a decided part's bytes are, and what that makes of it: the one judgement on a rename.

    They may be where its task or its driver left them; at the target; where a person has brought them by their hidden
    name; or at an earlier place, where a stalled run has published them meanwhile.
    """
    places = dict.fromkeys((part.staged, part.target, part.brought, *earlier))
    there = {path: files[path] for path in places if path in files}
    right = [path for path, length in there.items() if length == part.length]
    if part.staged != part.target and part.staged in right:
        return Publish(part, part.staged)
    if part.target in right:
        return Keep(part)
    if right and part.target not in there:
        return Publish(part, right[0])
    return Refuse(part, tuple((path, length) for path, length in there.items() if length != part.length))


def places_to_look(history: History, live: Mapping[Place, LivePartition], *, far: bool = False) -> set[str]:
    """The paths whose lengths `plan` needs. `far`: every place where a part could be, for those not found near."""
    found = {part.target for part in unlisted(history, live)}
    for epoch, part in history.standing():
        home = live.get((part.table, part.partition))
        if not epoch.is_published:
            found |= {part.staged, part.target}
            if far:
                found |= {part.brought, *history.earlier_places(part)}
        elif home is not None and not same_location(part.folder, home.location):
            found.add(part.target)
    return found


def _finish(
    history: History, seen: Seen, live: Mapping[Place, LivePartition], stamp: Stamp, policy: Policy
) -> Iterator[Action]:
    if not history.open:
        return
    moves = tuple(_moves(history, seen.files, live))
    if moves:
        manifest = replace(history.following("move", stamp), moves=moves)
        yield Decide(manifest)
        yield from _finish(history.decided(manifest), seen, live, stamp, policy)
        return
    yield from _clear(live)
    yield from (Refuse(part, ()) for part in unlisted(history, live) if part.target not in seen.files)
    if history.unpublished:
        yield from _publish(history, seen, live, stamp, policy)
    else:
        yield from _confirm(history, live, policy)


def _clear(live: Mapping[Place, LivePartition]) -> Iterator[ClearAccurate]:
    for table, partitions in by_table(place for place, found in live.items() if found.accurate).items():
        yield ClearAccurate(table, tuple(partitions))


def _publish(
    history: History, seen: Seen, live: Mapping[Place, LivePartition], stamp: Stamp, policy: Policy
) -> Iterator[Action]:
    folders = history.folders()
    behind = {place for place, found in live.items() if found.columns_behind}
    missing = {place for place in folders if place not in live}
    yield from _register({place: folders[place] for place in missing | behind if place in folders})
    parts: dict[Epoch, list[PartEntry]] = {}
    for epoch, part in history.standing():
        parts.setdefault(epoch.manifest.epoch, []).append(part)
    after = history
    for epoch in history.unpublished:
        own = parts.get(epoch.manifest.epoch, [])
        located = [locate(part, history.earlier_places(part), seen.files) for part in own]
        yield from (found for found in located if not isinstance(found, Refuse))
        refused = [found for found in located if isinstance(found, Refuse)]
        yield from refused
        if refused:
            return
        new = tuple(part for part in own if (part.table, part.partition) in missing)
        yield MarkPublished(epoch.manifest.epoch, new)
        after = after.published(epoch.manifest.epoch)
    yield LookAgain()
    # As it will be, where nobody meddles.
    then = {
        place: LivePartition(place[1], folder, accurate=False, columns_behind=False)
        for place, folder in {**folders, **{place: found.location for place, found in live.items()}}.items()
    }
    yield from _finish(after, seen, then, stamp, policy)


def _confirm(history: History, live: Mapping[Place, LivePartition], policy: Policy) -> Iterator[Action]:
    """All is published. What a user has dropped since the last look comes back, since rows have been put into it."""
    folders = history.folders()
    dropped = {place: folder for place, folder in folders.items() if place not in live}
    if dropped:
        yield from _register(dropped)
        yield LookAgain()
    if policy.success_file is not None:
        homes = {**folders, **{place: found.location for place, found in live.items()}}
        yield SuccessFiles(tuple(f"{home.rstrip('/')}/{policy.success_file}" for _, home in sorted(homes.items())))
    yield MarkSettled(history.epoch)


def _register(places: Mapping[Place, str]) -> Iterator[Register]:
    for table, partitions in by_table(places).items():
        yield Register(table, tuple((partition, places[table, partition]) for partition in partitions))


def _moves(history: History, files: Mapping[str, int], live: Mapping[Place, LivePartition]) -> Iterator[Move]:
    """The moves of parts that aren't where `live` says that their partition is.

    Before the decision a try is simply made again with the right folders. What somebody registers elsewhere later is
    mended by an epoch of its own, so that a crash in its middle is recovered like any other.
    """
    for epoch, part in history.standing():
        home = live.get((part.table, part.partition))
        if home is None or same_location(part.folder, home.location):
            continue
        is_there = part.target in files
        if not is_there and epoch.is_published:
            continue  # It was published: whoever took it away since has done so for reasons of their own.
        target = f"{home.location.rstrip('/')}/{part.target.rpartition('/')[2]}"
        staged = part.target if is_there else part.staged
        if same_location(staged, target):
            staged = target  # It is to come back, and has never left.
        yield Move(epoch.manifest.epoch, part.target, replace(part, staged=staged, target=target))


def followed(tracks: Tracks, head: Epoch) -> tuple[Touched, ...]:
    """The touched-lists whose folders are to be looked into."""
    losers = _losers(tracks, head)
    return tuple(found for found in losers if not tracks.winners or found.epoch == head or found.epoch <= head - LINGER)


def _losers(tracks: Tracks, head: Epoch) -> list[Touched]:
    return [
        found
        for found in tracks.lists
        if found.epoch <= head and (found.attempt, found.task_attempt) not in tracks.winners
    ]


def _sweep(history: History, tracks: Tracks) -> Iterator[Action]:
    head = history.epoch
    gone = leftovers(tracks.staged, history.identity.uid, history)
    if tracks.folders:
        yield Discard(tuple(gone), tracks.folders)
    losers = set(_losers(tracks, head))
    old = [found for found in tracks.lists if found.epoch <= head]
    forgotten = tuple(found for found in old if found not in losers or found.epoch <= head - LINGER)
    if forgotten:
        yield Forget(forgotten)


def leftovers(staged: Iterable[str], uid: str, history: History) -> list[str]:
    """Which of these staged files of writer `uid` nothing can commit any more.

    One of epoch e may go once a manifest at or above e exists and no decided part waits under its name.
    """
    # By name, of which there is one: one folder may have two spellings (a NameNode's, and its nameservice's).
    kept = {part.staged.rpartition("/")[2] for part in history.waiting()}
    found = []
    for path in staged:
        name = path.rpartition("/")[2]
        parsed = parse_staged(name)
        if parsed and parsed[0].uid == uid and parsed[0].epoch <= history.epoch and name not in kept:
            found.append(path)
    return found


def _trim(history: History, policy: Policy) -> Iterator[Trim]:
    """In strides, so that most epochs don't pay for it."""
    keep = policy.retained
    if keep is None or history.open or history.epoch % max(1, keep // 4):
        return
    highest = Epoch(min(history.settled, history.epoch - keep))
    if highest > history.floor:
        yield Trim(highest)


def until_look(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions that one look is good for: up to the first decision, or to where the plan asks for another look."""
    for action in takewhile(lambda found: not isinstance(found, LookAgain), actions):
        yield action
        if isinstance(action, Decide):
            return


def by_table(places: Iterable[Place]) -> dict[str, list[str]]:
    """Distinct partitions by table, both sorted."""
    found: dict[str, list[str]] = {}
    for table, partition in sorted(set(places)):
        found.setdefault(table, []).append(partition)
    return found


__all__ = ["History", "OpenEpoch", "Policy", "Seen", "Tracks", "plan"]
