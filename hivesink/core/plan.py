"""What comes next for a writer: its history and one look at the world in, a list of actions out.

Pure: no I/O, no clock; a moment and a token come in as a `Stamp`. First commit, recovery, fences, moves, accepted
losses and clean-up all take their decisions from `plan`; `recover --dry-run` prints what it returns.

Order: nothing is published before the metastore has answered; a partition is registered, and its accurate flag
cleared, before rows come; a partition's success file comes when all its files are there. Every action may be repeated.

A partition that the metastore doesn't list is registered before anything is published into it: Hive's INSERT INTO an
unlisted partition deletes what is in its folder (HIVE-29744). Its parts wait outside of that folder (`set_aside`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from hivesink.core.actions import (
    Action,
    ClearAccurate,
    Decide,
    Keep,
    LookAgain,
    MarkPublished,
    MarkSettled,
    Publish,
    PutAway,
    Refuse,
    Register,
    SuccessFiles,
    Trim,
)
from hivesink.core.bucket import is_aside, same_location
from hivesink.core.epoch import Epoch
from hivesink.core.leftovers import newest, sweep
from hivesink.core.manifest import Manifest, Move, PartEntry
from hivesink.core.partition import LivePartition, PartitionKey, by_table
from hivesink.core.seen import Seen, locate, losses, unproven

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hivesink.core.lifecycle import History, Stamp


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What a person gives up: decided parts, by their targets, as far as they are lost; and whole partitions."""

    targets: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()


NOTHING = GivenUp()


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
    given_up: GivenUp = NOTHING,
) -> tuple[Action, ...]:
    """Everything that is to be done, as far as this look tells.

    `batch` is the manifest of a batch whose tasks have ended well. `starting`: whatever tasks have begun is an older
    run's, and is shut out. `given_up` is what a person gives up.
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
    given_up: GivenUp,
) -> Iterator[Action]:
    fence = _fence(history, seen, stamp) if starting else None
    deciding = batch or fence or _accepted(history, seen, stamp, given_up)
    if deciding is not None:
        if deciding.lost:
            yield from _put_away(history, seen.files, given_up)
        yield Decide(deciding)
        yield from _plan(history.decided(deciding), seen, stamp, policy, starting=starting, given_up=given_up)
        return
    if seen.partitions is not None:
        yield from _finish(history, seen, seen.partitions, stamp, policy)
    if seen.tracks is not None:
        yield from sweep(history, seen.tracks)
        yield from _trim(history, policy)


def _fence(history: History, seen: Seen, stamp: Stamp) -> Manifest | None:
    """The epoch that an older try has begun, decided without a batch: that try can't commit any more."""
    if seen.tracks is None or newest(seen.tracks.lists) <= history.epoch:
        return None
    return history.following("fence", stamp)


def _accepted(history: History, seen: Seen, stamp: Stamp, given_up: GivenUp) -> Manifest | None:
    """An epoch that takes parts out of the log's hands: lost ones, and those of partitions that are given up."""
    lost = [loss.part for loss in losses(history, seen.files, seen.partitions) if loss.part.target in given_up.targets]
    parts = [*lost, *(part for part in abandoned(history, seen.files, given_up) if part not in lost)]
    if not parts:
        return None
    return replace(history.following("accept-lost", stamp), lost=tuple(part.target for part in parts))


def abandoned(history: History, files: Mapping[str, int], given_up: GivenUp) -> list[PartEntry]:
    """The parts of partitions that are given up, but those that readers see: these have their partition."""
    return [
        part
        for epoch, part in history.standing()
        if part.partition in given_up.partitions
        # Format 1 published before it registered.
        and (epoch.manifest.log is None or (not epoch.is_published and part.target not in files))
    ]


def _put_away(history: History, files: Mapping[str, int], given_up: GivenUp) -> Iterator[PutAway]:
    """Before the decision, after which the files would be leftovers. Whoever dies in between gives up again."""
    earlier = history.earlier_places()
    for part in abandoned(history, files, given_up):
        found = locate(part, earlier.get(part.name, ()), files)
        source = found.source if isinstance(found, Publish) else part.target
        if source in files and not isinstance(found, Refuse) and source != part.put_away:
            yield PutAway(part, source)


def _finish(
    history: History, seen: Seen, live: Mapping[PartitionKey, LivePartition], stamp: Stamp, policy: Policy
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
    yield from (Refuse(part, ()) for part in unproven(history, live) if part.target not in seen.files)
    if history.unpublished:
        yield from _publish(history, seen, live, stamp, policy)
    else:
        yield from _confirm(history, live, policy)


def _clear(live: Mapping[PartitionKey, LivePartition]) -> Iterator[ClearAccurate]:
    for table, partitions in by_table(place for place, found in live.items() if found.accurate).items():
        yield ClearAccurate(table, tuple(partitions))


def _publish(
    history: History, seen: Seen, live: Mapping[PartitionKey, LivePartition], stamp: Stamp, policy: Policy
) -> Iterator[Action]:
    folders, located = history.folders(), _located(history, seen)
    waiting = {found.place for own in located.values() for found in own}
    behind = {place for place in waiting if place in live and live[place].columns_behind}
    # What a user has dropped since it was published is not brought back before all is.
    missing = {place for place in waiting if place not in live}
    # What has its partition needs no registration, which may fail.
    yield from (found for own in located.values() for found in own if found.place in live and not _is_lost(found))
    wanted = (missing | behind) - seen.refused
    yield from _register({place: folders[place] for place in wanted})
    after, held = history, seen.refused & missing
    for epoch in history.unpublished:
        own = located.get(epoch.manifest.epoch, [])
        new = [found for found in own if found.place in missing - held]
        yield from (found for found in new if not _is_lost(found))
        lost = [found for found in own if _is_lost(found) and found.place not in held]
        yield from lost
        if lost:
            return
        if any(found.place in held for found in own):
            continue
        waited = {found.part.staged.rpartition("/")[0] for found in own}
        yield MarkPublished(epoch.manifest.epoch, tuple(sorted(filter(is_aside, waited))))
        after = after.published(epoch.manifest.epoch)
    if after.unpublished:
        return
    yield LookAgain()
    # As it will be, where nobody meddles.
    then = {
        place: LivePartition(place[1], folder, accurate=False, columns_behind=False)
        for place, folder in {**folders, **{place: found.location for place, found in live.items()}}.items()
    }
    files = {**seen.files, **{found.part.target: found.part.length for own in located.values() for found in own}}
    yield from _finish(after, replace(seen, files=files), then, stamp, policy)


def _located(history: History, seen: Seen) -> dict[Epoch, list[Publish | Keep | Refuse]]:
    """What is to be done about each part that waits, by the epoch that answers for it."""
    found: dict[Epoch, list[Publish | Keep | Refuse]] = {}
    earlier = history.earlier_places()
    for epoch, part in history.standing():
        if not epoch.is_published:
            one = locate(part, earlier.get(part.name, ()), seen.files)
            found.setdefault(epoch.manifest.epoch, []).append(one)
    return found


def _is_lost(found: Publish | Keep | Refuse) -> bool:
    return isinstance(found, Refuse)


def _confirm(history: History, live: Mapping[PartitionKey, LivePartition], policy: Policy) -> Iterator[Action]:
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


def _register(places: Mapping[PartitionKey, str]) -> Iterator[Register]:
    for table, partitions in by_table(places).items():
        yield Register(table, tuple((partition, places[table, partition]) for partition in partitions))


def _moves(history: History, files: Mapping[str, int], live: Mapping[PartitionKey, LivePartition]) -> Iterator[Move]:
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
        target = f"{home.location.rstrip('/')}/{part.name}"
        staged = part.target if is_there else part.staged
        if same_location(staged, target):
            staged = target  # It is to come back, and has never left.
        yield Move(epoch.manifest.epoch, part.target, replace(part, staged=staged, target=target))


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
