"""What comes next for a writer: its history and one look at files and metastore in, a list of actions out.

Pure: no I/O, no clock; a moment and a token come in as a `Stamp`. `recover --dry-run` prints what `plan` returns.

Order: nothing is published before the metastore has answered; a partition is registered, and its accurate flag
cleared, before rows come; a partition's success file comes after all its files. Every action may be repeated.

A partition that the metastore doesn't list is registered before anything is published into it: Hive's INSERT INTO an
unlisted partition deletes what is in its folder (HIVE-29744). Its parts wait outside that folder (`set_aside`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from hivesink.core import actions
from hivesink.core.bucket import is_aside, is_given_up, same_location
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.losing import accepted, reopened
from hivesink.core.manifest import Manifest, Move
from hivesink.core.partition import LivePartition, PartitionKey, by_table
from hivesink.core.partition_commit import CommittedPartition
from hivesink.core.seen import NOTHING, GivenUp, Places, Seen, abandoned, newest, sweep, vanished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hivesink.core.lifecycle import History, Stamp
    from hivesink.core.partition_commit import PolicyKind


Located = dict[Epoch, list[actions.Publish | actions.Keep | actions.Refuse]]


@dataclass(frozen=True, slots=True)
class Policy:
    """The table's settings. `retained` None: old manifests stay.

    `announce`: how commits are made known, in order, with the success file's name and the user's own function.
    """

    announce: tuple[PolicyKind, ...] = ()
    retained: int | None = None
    success_file: str = "_SUCCESS"
    own: Callable[[CommittedPartition], None] | None = None


def plan(
    history: History,
    seen: Seen,
    stamp: Stamp,
    policy: Policy = Policy(),
    *,
    batch: Manifest | None = None,
    starting: bool = False,
    given_up: GivenUp = NOTHING,
) -> Iterator[actions.Action]:
    """Everything to do, as far as `seen` shows. Who wants the first actions only (`until_look`) pays for no more.

    `batch` is the manifest of a batch whose tasks have succeeded. `starting`: what tasks have begun belongs to an
    older run, which is shut out. `given_up` is what a person gives up.
    """
    fence = _fence(history, seen, stamp) if starting else None
    manifest = batch or fence or reopened(history, seen, stamp, given_up) or accepted(history, seen, stamp, given_up)
    if manifest is not None:
        if manifest.accepted:
            yield from _put_away(history, seen, given_up)
        manifest = history.rows.complete(manifest)
        yield actions.Decide(manifest)  # The point of no return.
        yield from plan(history.decided(manifest), seen, stamp, policy, given_up=given_up)
        return
    if seen.partitions is not None:
        yield from _finish(history, seen, seen.partitions, stamp, policy)
    if seen.tracks is not None:
        yield from sweep(history, seen.tracks)
        yield from _trim(history, policy)


def _fence(history: History, seen: Seen, stamp: Stamp) -> Manifest | None:
    """Decide the epoch that an older try has begun, without a batch: that try can no longer commit.

    Nor may another run that publishes rows which waited: what it finds lost, this one may have made visible.
    """
    begun = seen.tracks is not None and newest(seen.tracks.lists) > history.epoch
    # Also behind another fence: the start that made it may be alive, and two runs on one head could both publish.
    rolled = any(epoch.manifest.rolled for epoch in history.open)
    if begun or (rolled and any(epoch.has_waited for epoch in history.unpublished)):
        return history.following("fence", stamp)
    return None


def _put_away(history: History, seen: Seen, given_up: GivenUp) -> Iterator[actions.PutAway]:
    """Before the decision, after which the files would be leftovers. A crash in between: give up again."""
    places = Places(seen.files, history.other_paths(seen.partitions))
    for part in abandoned(history, seen, given_up):
        match places.locate(part):
            case actions.Publish(_, source) if source != part.put_away:
                yield actions.PutAway(part, source)
            case actions.Keep():
                yield actions.PutAway(part, part.target)
            case actions.Refuse(_, _, str(source)) as found if found.is_hidden:
                yield actions.PutAway(part, source)


def _finish(
    history: History, seen: Seen, live: Mapping[PartitionKey, LivePartition], stamp: Stamp, policy: Policy
) -> Iterator[actions.Action]:
    if not history.open:
        return
    located = _located(history, seen)
    held = _held(seen, live, located) if seen.refused else seen.refused
    moves = tuple(_moves(history, seen.files, live, located))
    if held and not moves:
        moves = tuple(_carried(history, seen.taken | live.keys(), located, held))
    if moves:
        moved, done = {move.part.key for move in moves}, history.committed().values()
        commits = tuple(commit for commit in done if commit.key in moved)
        manifest = replace(history.following("move", stamp), moves=moves, commits=commits)
        manifest = history.rows.complete(manifest)
        yield actions.Decide(manifest)  # The point of no return, for the moves.
        yield from _finish(history.decided(manifest), seen, live, stamp, policy)
        return
    yield from _clear(live)
    yield from vanished(history, live, seen.files)
    owned = (located.get(epoch.manifest.epoch) for epoch in history.unpublished)
    if not all(own and all(action.key in held for action in own) for own in owned):
        yield from _publish(history, seen, live, stamp, policy, located=located, held=held)
    else:
        yield from _confirm(history, seen, live, policy)


def _held(seen: Seen, live: Mapping[PartitionKey, LivePartition], located: Located) -> frozenset[PartitionKey]:
    """The refused partitions whose parts wait."""
    # Readers find a visible part of a taken folder under its new name: it waits for nothing.
    hidden = {action.key for own in located.values() for action in own if not isinstance(action, actions.Keep)}
    return seen.refused - live.keys() - (seen.taken - hidden)


def _clear(live: Mapping[PartitionKey, LivePartition]) -> Iterator[actions.ClearAccurate]:
    for table, partitions in by_table(key for key, partition in live.items() if partition.accurate).items():
        yield actions.ClearAccurate(table, tuple(partitions))


def _publish(
    history: History,
    seen: Seen,
    live: Mapping[PartitionKey, LivePartition],
    stamp: Stamp,
    policy: Policy,
    *,
    located: Located,
    held: frozenset[PartitionKey],
) -> Iterator[actions.Action]:
    folders = history.folders()
    steps = [action for own in located.values() for action in own]
    refused = [action for action in steps if isinstance(action, actions.Refuse) and action.key not in held]
    if refused and history.is_replay:
        # As long as nobody can read any of it, all of it can be given up and done again.
        yield from refused
        return
    marked = [one for one in history.unpublished if one.has_waited or history.is_replay]
    for epoch in [one for one in marked if one.state is EpochState.DECIDED]:
        if any(isinstance(action, actions.Publish) for action in located.get(epoch.manifest.epoch, ())):
            # Its own parts only: one that moves may have been visible before.
            yield actions.BeginPublish(epoch.manifest.epoch, frozenset(part.name for part in epoch.manifest.parts))
            history = history.begun(epoch.manifest.epoch)
    waiting = {action.key for action in steps}
    behind = {key for key in waiting if key in live and live[key].columns_behind}
    # A published part's partition that a user has dropped since isn't registered again until all is published.
    missing = {key for key in waiting if key not in live}
    # Parts whose partition is listed need no registration, which may fail.
    yield from (action for action in steps if action.key in live and not isinstance(action, actions.Refuse))
    wanted = (missing | behind) - seen.refused
    yield from _register({key: folders[key] for key in wanted})
    missing -= held
    after = history
    for epoch in history.unpublished:
        own = located.get(epoch.manifest.epoch, [])
        yield from (action for action in own if action.key in missing and not isinstance(action, actions.Refuse))
        lost = [action for action in own if isinstance(action, actions.Refuse) and action.key not in held]
        yield from lost
        if lost:
            return
        if any(action.key in held for action in own):
            continue
        waited = {action.part.staged.rpartition("/")[0] for action in own}
        yield actions.MarkPublished(epoch.manifest.epoch, tuple(sorted(filter(is_aside, waited))))
        after = after.published(epoch.manifest.epoch)
    if after.unpublished:
        return
    yield actions.LookAgain()
    # What that look finds if nobody interferes.
    then = {
        key: LivePartition(key[1], home, accurate=False, columns_behind=False)
        for key, home in _homes(folders, live).items()
    }
    files = {**seen.files, **{action.part.target: action.part.length for action in steps}}
    yield from _finish(after, replace(seen, files=files), then, stamp, policy)


def _located(history: History, seen: Seen) -> Located:
    """What to do about each part that waits, by the epoch that answers for it."""
    located: Located = {}
    places = Places(seen.files, history.other_paths(seen.partitions))
    for epoch, part in history.standing:
        if not epoch.is_published:
            located.setdefault(epoch.manifest.epoch, []).append(places.locate(part))
    return located


def _homes(folders: Mapping[PartitionKey, str], live: Mapping[PartitionKey, LivePartition]) -> dict[PartitionKey, str]:
    return {**folders, **{key: partition.location for key, partition in live.items()}}


def _confirm(
    history: History, seen: Seen, live: Mapping[PartitionKey, LivePartition], policy: Policy
) -> Iterator[actions.Action]:
    """All is published that isn't refused. What was dropped since the last look is registered again if it has rows.

    A DROP of a managed table's partition takes its files too. Those that went with it are what the user wanted gone,
    also where others came after the DROP.

    What has another partition's folder now was renamed by a user: readers find its published rows there.
    """
    if history.confirmable < history.open[0].manifest.epoch:
        return
    # Once they were found in place, a partition that is dropped stays so.
    published = [part for epoch, part in history.standing if epoch.state is EpochState.PUBLISHED]
    there = [part for part in published if part.key in live or part.target in seen.files]
    folders = {part.key: part.folder for part in there if part.key not in seen.taken}
    dropped = {key: folder for key, folder in folders.items() if key not in live}
    if dropped:
        yield from _register(dropped)
        if any(part.key in dropped and part.target not in seen.files for part in published):
            # The next look finds the partition listed, as if an INSERT had taken them.
            yield actions.MarkFound(history.confirmable)
        yield actions.LookAgain()
    committed = tuple(_committed(history, _homes(folders, live))) if policy.announce else ()
    if committed:
        if history.found() != history:
            # The user's own code may fail for long: meanwhile the files are the users' own.
            yield actions.MarkFound(history.confirmable)
        yield from (actions.Announce(kind, committed) for kind in policy.announce)
    yield actions.MarkSettled(history.confirmable)


def _committed(history: History, homes: Mapping[PartitionKey, str]) -> Iterator[CommittedPartition]:
    files: dict[PartitionKey, list[str]] = {}
    for epoch, part in history.standing:
        if epoch.manifest.epoch <= history.confirmable:
            files.setdefault(part.key, []).append(part.target)
    for key, commit in sorted(history.committed(history.confirmable).items(), key=lambda item: item[0]):
        if key in homes:
            yield CommittedPartition(*key, homes[key].rstrip("/"), tuple(files.get(key, ())), commit)


def _register(folders: Mapping[PartitionKey, str]) -> Iterator[actions.Register]:
    for table, partitions in by_table(folders).items():
        yield actions.Register(table, tuple((partition, folders[table, partition]) for partition in partitions))


def _moves(
    history: History, files: Mapping[str, int], live: Mapping[PartitionKey, LivePartition], located: Located
) -> Iterator[Move]:
    """The moves of parts that aren't in the folder that `live` has for their partition.

    Before the decision, the try is repeated with the right folders. If somebody registers the partition elsewhere
    later, an epoch of its own moves the parts, so that a crash in its middle is recovered like any other.

    What a `recover --give-up` has put away comes back by such an epoch too: of the two, only one can decide next.
    """
    sources = {
        (action.part.staged, action.part.target): action.source
        for own in located.values()
        for action in own
        if isinstance(action, actions.Publish) and action.source != action.part.staged
    }
    for epoch, part in history.standing:
        home, source = live.get(part.key), sources.get((part.staged, part.target), part.staged)
        is_away = source != part.staged and is_given_up(source)
        is_home = home is None or same_location(part.folder, home.location)
        if is_home and not is_away:
            continue
        at_target = part.target in files
        if epoch.is_published and not at_target:
            continue  # Whoever deleted it after it was published had their reasons.
        target = part.target if home is None or is_home else f"{home.location.rstrip('/')}/{part.name}"
        staged = part.target if at_target else source
        if same_location(staged, target):
            staged = target  # It moves back, and has never left.
        yield Move(epoch.manifest.epoch, part.target, replace(part, staged=staged, target=target))


def _carried(
    history: History, read: frozenset[PartitionKey], located: Located, held: frozenset[PartitionKey]
) -> Iterator[Move]:
    """The parts of refused partitions go on in an epoch of their own, behind all others, so that these are settled.

    Until then a user may not touch the others' files. Only once a look shows the others where readers find them: what
    is refused is known by then, so no retry decides again.
    """
    waiting = [(epoch, action) for epoch, own in located.items() for action in own]
    refused = [(epoch, action.part) for epoch, action in waiting if action.key in held]
    others = (action for _, action in waiting if action.key not in held)
    last = max((epoch.manifest.epoch for epoch, part in history.standing if part.key not in held), default=Epoch(0))
    if all(isinstance(action, actions.Keep) and action.key in read for action in others):
        yield from (Move(epoch, part.target, part) for epoch, part in refused if refused[0][0] <= last)


def _trim(history: History, policy: Policy) -> Iterator[actions.Trim]:
    """Only every few epochs, so that most don't pay for it."""
    keep = policy.retained
    if keep is None or history.open or history.epoch % max(1, keep // 4):
        return
    # What waits is known from its newest snapshot on.
    highest = Epoch(min(history.settled, history.epoch - keep, history.rows.snapshot - 1))
    if highest > history.floor:
        yield actions.Trim(highest)


def until_look(planned: Iterable[actions.Action]) -> Iterator[actions.Action]:
    """The actions that one look is good for: up to the first decision, or until the plan asks for another look."""
    for action in takewhile(lambda action: not isinstance(action, actions.LookAgain), planned):
        yield action
        if isinstance(action, actions.Decide):
            return
